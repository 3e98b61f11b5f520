// The client that OpenAPI Generator writes for Go reads values of a later revision.
// It prints what it has read, one value a line. LATER_URL and KEY are in the environment.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"example.com/you/appointments"
)

const overlap = 120

var client *openapi.APIClient
var ctx = context.WithValue(context.Background(), openapi.ContextAccessToken, os.Getenv("KEY"))

func must[T any](found T, _ any, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return found
}

func eventsSince(moment int64) []openapi.Event {
	var found []openapi.Event
	request := client.EventsAPI.ListEvents(ctx).CreatedGte(moment).Limit(3)
	for {
		page := must(request.Execute())
		found = append(found, page.Data...)
		if !page.HasMore {
			return found
		}
		request = request.StartingAfter(*page.NextCursor.Get())
	}
}

func show(event openapi.Event) (string, string) {
	switch {
	case event.AppointmentEvent != nil:
		fmt.Println("status of the event", *event.AppointmentEvent.Data.Object.Status.String)
		return event.AppointmentEvent.Id, string(event.AppointmentEvent.Type)
	case event.CustomerEvent != nil:
		return event.CustomerEvent.Id, string(event.CustomerEvent.Type)
	case event.ConversationEvent != nil:
		return event.ConversationEvent.Id, string(event.ConversationEvent.Type)
	case event.SessionEvent != nil:
		return event.SessionEvent.Id, string(event.SessionEvent.Type)
	case event.UnknownEvent != nil:
		return event.UnknownEvent.Id, event.UnknownEvent.Type
	}
	log.Fatal("an event without a kind")
	return "", ""
}

func catchUp(since int64) {
	processed, readUntil := map[string]bool{}, since
	for quiet := 0; quiet < 10; quiet++ {
		began := time.Now().Unix()
		for _, event := range eventsSince(readUntil - overlap) {
			if id, kind := show(event); !processed[id] {
				fmt.Println("event", id, kind)
				processed[id], quiet = true, 0
			}
		}
		readUntil = began
		time.Sleep(500 * time.Millisecond)
	}
}

func main() {
	config := openapi.NewConfiguration()
	config.Servers = openapi.ServerConfigurations{{URL: os.Getenv("LATER_URL")}}
	client = openapi.NewAPIClient(config)
	since := time.Now().Unix()

	person := *openapi.NewCustomerCreate("+1 500 555 0006")
	customer := must(client.CustomersAPI.CreateCustomer(ctx).CustomerCreate(person).Execute())
	visit := *openapi.NewAppointmentCreate(customer.Id, time.Date(2032, 3, 4, 15, 0, 0, 0, time.UTC))
	appointment := must(client.AppointmentsAPI.CreateAppointment(ctx).AppointmentCreate(visit).Execute())
	fmt.Println("status", *appointment.Status.String)

	question := *openapi.NewThreadMessageCreate("please confirm my appointment", customer.Id)
	question.Customer = &openapi.CustomerReference{Id: &customer.Id}
	answered := must(client.ConversationsAPI.SendMessageToThread(ctx).ThreadMessageCreate(question).Execute())
	fmt.Println("reply_status", *answered.ReplyStatus.String)
	for _, action := range answered.Reply.Actions {
		fmt.Println("action", action.UnknownAction.Type)
	}

	refused, _, err := client.CustomersAPI.CreateCustomer(ctx).CustomerCreate(*openapi.NewCustomerCreate("12345")).Execute()
	if refused != nil || err == nil {
		log.Fatal("it was not refused")
	}
	fmt.Println("error", *err.(*openapi.GenericOpenAPIError).Model().(openapi.Error).Error.Code.String)
	fmt.Println("language", *must(client.AgentAPI.RetrieveAgentSettings(ctx).Execute()).Language.String)

	call := must(client.CallsAPI.CallCustomer(ctx, customer.Id).CallCreate(*openapi.NewCallCreate()).Execute())
	fmt.Println("call_status", *must(client.CallsAPI.RetrieveSession(ctx, call.SessionId).Execute()).CallStatus.String)
	catchUp(since)
}

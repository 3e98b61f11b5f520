// The client that OpenAPI Generator writes for Java reads values of a later revision.
// It prints what it has read, one value a line. LATER_URL and KEY are in the environment.

import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

public class Future {
  static final long OVERLAP = 120;
  static EventsApi events;

  static List<Event> eventsSince(long moment) throws ApiException {
    List<Event> found = new ArrayList<>();
    String cursor = null;
    while (true) {
      EventList page = events.listEvents(3, cursor, null, null, null, moment, null, null, null);
      found.addAll(page.getData());
      if (!page.getHasMore()) return found;
      cursor = page.getNextCursor();
    }
  }

  static String show(Event event) {
    Object kind = event.getActualInstance();
    if (kind instanceof AppointmentEvent e) {
      System.out.println("status of the event " + e.getData().getObject().getStatus().getActualInstance());
      return e.getId() + " " + e.getType();
    }
    if (kind instanceof CustomerEvent e) return e.getId() + " " + e.getType();
    if (kind instanceof ConversationEvent e) return e.getId() + " " + e.getType();
    if (kind instanceof SessionEvent e) return e.getId() + " " + e.getType();
    UnknownEvent e = (UnknownEvent) kind;
    return e.getId() + " " + e.getType();
  }

  static void catchUp(long since) throws Exception {
    Set<String> processed = new HashSet<>();
    long readUntil = since;
    for (int quiet = 0; quiet < 10; quiet++) {
      long began = System.currentTimeMillis() / 1000;
      for (Event event : eventsSince(readUntil - OVERLAP)) {
        String shown = show(event);
        if (processed.add(shown.substring(0, shown.indexOf(' ')))) {
          System.out.println("event " + shown);
          quiet = 0;
        }
      }
      readUntil = began;
      Thread.sleep(500);
    }
  }

  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("LATER_URL"));
    client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + System.getenv("KEY")));
    events = new EventsApi(client);
    long since = System.currentTimeMillis() / 1000;

    CustomersApi customers = new CustomersApi(client);
    Customer customer = customers.createCustomer(new CustomerCreate().phone("+1 500 555 0006"), null, null);
    AppointmentCreate visit = new AppointmentCreate().customerId(customer.getId());
    visit.appointmentAt(OffsetDateTime.parse("2032-03-04T15:00:00Z"));
    Appointment appointment = new AppointmentsApi(client).createAppointment(visit, null, null);
    System.out.println("status " + appointment.getStatus().getActualInstance());

    ThreadMessageCreate question = new ThreadMessageCreate().externalConversationId(customer.getId());
    question.customer(new CustomerReference().id(customer.getId())).content("please confirm my appointment");
    AnsweredMessage answered = new ConversationsApi(client).sendMessageToThread(question, null, null);
    System.out.println("reply_status " + answered.getReplyStatus().getActualInstance());
    for (Action action : answered.getReply().getActions())
      System.out.println("action " + ((UnknownAction) action.getActualInstance()).getType());

    try {
      customers.createCustomer(new CustomerCreate().phone("12345"), null, null);
      throw new IllegalStateException("it was not refused");
    } catch (ApiException refused) {
      var error = client.getObjectMapper().readValue(refused.getResponseBody(), org.openapitools.client.model.Error.class);
      System.out.println("error " + error.getError().getCode().getActualInstance());
    }
    AgentSettings settings = new AgentApi(client).retrieveAgentSettings(null);
    System.out.println("language " + settings.getLanguage().getActualInstance());

    CallsApi calls = new CallsApi(client);
    Call call = calls.callCustomer(customer.getId(), null, null, new CallCreate());
    Session session = calls.retrieveSession(call.getSessionId(), null);
    System.out.println("call_status " + session.getCallStatus().getActualInstance());
    catchUp(since);
  }
}

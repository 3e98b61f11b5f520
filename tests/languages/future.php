<?php
// The client that OpenAPI Generator writes for PHP reads values of a later revision.
// It prints what it has read, one value a line. LATER_URL and KEY are in the environment.

require getenv("GUZZLE");
spl_autoload_register(function (string $class): void {
    $name = str_replace("\\", "/", preg_replace('/^OpenAPI\\\\Client\\\\/', "", $class));
    require __DIR__ . "/client-php/lib/$name.php";
});

use OpenAPI\Client\Api;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model;

const OVERLAP = 120;

$config = (new Configuration())->setHost(getenv("LATER_URL"))->setAccessToken(getenv("KEY"));
$http = new GuzzleHttp\Client();
$since = time();

$customers = new Api\CustomersApi($http, $config);
$customer = $customers->createCustomer(new Model\CustomerCreate(["phone" => "+1 500 555 0006"]));
$visit = new Model\AppointmentCreate([
    "customer_id" => $customer->getId(),
    "appointment_at" => new DateTime("2032-03-04T15:00:00Z"),
]);
$appointment = (new Api\AppointmentsApi($http, $config))->createAppointment($visit);
echo "status ", $appointment->getStatus(), "\n";

$question = new Model\ThreadMessageCreate([
    "external_conversation_id" => $customer->getId(),
    "customer" => new Model\CustomerReference(["id" => $customer->getId()]),
    "content" => "please confirm my appointment",
]);
$answered = (new Api\ConversationsApi($http, $config))->sendMessageToThread($question);
echo "reply_status ", $answered->getReplyStatus(), "\n";
foreach ($answered->getReply()->getActions() as $action) {
    echo "action ", $action->getType(), "\n";
}

try {
    $customers->createCustomer(new Model\CustomerCreate(["phone" => "12345"]));
    throw new Exception("it was not refused");
} catch (ApiException $refused) {
    echo "error ", $refused->getResponseObject()->getError()->getCode(), "\n";
}
echo "language ", (new Api\AgentApi($http, $config))->retrieveAgentSettings()->getLanguage(), "\n";

$calls = new Api\CallsApi($http, $config);
$call = $calls->callCustomer($customer->getId(), call_create: new Model\CallCreate());
echo "call_status ", $calls->retrieveSession($call->getSessionId())->getCallStatus(), "\n";

$events = new Api\EventsApi($http, $config);
$processed = [];
$read_until = $since;
for ($quiet = 0; $quiet < 10; $quiet++) {
    $began = time();
    $cursor = null;
    do {
        $page = $events->listEvents(limit: 3, starting_after: $cursor, created_gte: $read_until - OVERLAP);
        foreach ($page->getData() as $event) {
            if (isset($processed[$event->getId()])) {
                continue;
            }
            $processed[$event->getId()] = true;
            $quiet = 0;
            echo "event ", $event->getId(), " ", $event->getType(), "\n";
            if (str_starts_with($event->getType(), "appointment.")) {
                echo "status of the event ", $event->getData()->getObject()["status"], "\n";
            }
        }
        $cursor = $page->getNextCursor();
    } while ($page->getHasMore());
    $read_until = $began;
    usleep(500_000);
}

// The README's five minutes with the types that openapi-typescript generates, unmodified.
// node quick_start.js BASE_URL API_KEY RECEIVER_URL

import type { components, paths } from "./api";

declare const process: { argv: string[] };

type Schemas = components["schemas"];
type Post<P extends keyof paths> = paths[P] extends { post: { requestBody?: { content: { "application/json": infer B } } } }
  ? B
  : never;

const [baseUrl, apiKey, receiver] = process.argv.slice(2) as [string, string, string];

async function send<T>(method: string, path: string, status: number, body?: object): Promise<T> {
  const response = await fetch(baseUrl + path, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status !== status) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

function must(condition: boolean, what: string): void {
  if (!condition) throw new Error(`not so: ${what}`);
}

async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 150; tries++) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error("not within 30 seconds");
}

async function quickStart(): Promise<void> {
  const ping = await send<Schemas["Ping"]>("GET", "/v1/ping", 200);
  must(!ping.livemode, "a test key");
  const subscription: Post<"/v1/webhook_endpoints"> = { url: receiver };
  const endpoint = await send<Schemas["WebhookEndpointWithSecret"]>("POST", "/v1/webhook_endpoints", 201, subscription);
  must(endpoint.secret.startsWith(endpoint.secret_prefix), "the secret has its prefix");

  const person: Post<"/v1/customers"> = { phone: "+1 500 555 0006" };
  const customer = await send<Schemas["Customer"]>("POST", "/v1/customers", 201, person);
  const visit: Post<"/v1/appointments"> = {
    customer_id: customer.id,
    appointment_at: "2032-03-04T15:00:00Z",
  };
  const appointment = await send<Schemas["Appointment"]>("POST", "/v1/appointments", 201, visit);
  const patch: Schemas["AppointmentPatch"] = { status: "confirmed" };
  const confirmed = await send<Schemas["Appointment"]>("PATCH", `/v1/appointments/${appointment.id}`, 200, patch);
  must(confirmed.status === "confirmed", "the appointment is confirmed");

  const event = await eventually(async () => {
    const filter = `type=appointment.confirmed&object_id=${appointment.id}`;
    const page = await send<Schemas["EventList"]>("GET", `/v1/events?${filter}`, 200);
    return page.data[0];
  });
  // The type tells which resource the event has.
  must(event.type === "appointment.confirmed" && event.data.object.status === "confirmed", "the event of the change");
  const deliveries = await eventually(async () => {
    const page = await send<Schemas["DeliveryList"]>("GET", `/v1/events/${event.id}/deliveries`, 200);
    return page.data.length > 0 ? page.data : undefined;
  });
  must(deliveries.some((delivery) => delivery.webhook_endpoint_id === endpoint.id), "the event is delivered");

  const thread = `thread-${customer.id}`;
  const question: Post<"/v1/messages"> = {
    external_conversation_id: thread,
    customer: { id: customer.id }, // whose appointment it is
    content: "can we move it to next Tuesday at 3pm?",
  };
  await send<Schemas["AnsweredMessage"]>("POST", "/v1/messages", 201, question);
  const assent: Post<"/v1/messages"> = { external_conversation_id: thread, content: "yes" };
  const moved = await send<Schemas["AnsweredMessage"]>("POST", "/v1/messages", 201, assent);
  const [action] = moved.reply.actions;
  // The type tells which fields the action has.
  must(action?.type === "appointment_rescheduled" && action.appointment_id === appointment.id, "the agent has moved it");

  const call = await send<Schemas["Call"]>("POST", `/v1/customers/${customer.id}/call`, 201, {});
  const session = await eventually(async () => {
    const found = await send<Schemas["Session"]>("GET", `/v1/sessions/${call.session_id}`, 200);
    return found.transcript_status === "available" ? found : undefined;
  });
  const transcript = await send<Schemas["Transcript"]>("GET", `/v1/sessions/${session.id}/transcript`, 200);
  must(transcript.data.every((line) => line.content.length > 0), "the transcript has lines");

  const refused = await send<Schemas["Error"]>("POST", "/v1/customers", 400, { phone: "12345" });
  must(refused.error.code === "phone_invalid_format" && refused.error.param === "phone", "the phone is refused");
}

// Types allow what a later revision may add. This compiles, or it fails the test.
export const laterStatus: Schemas["Session"]["call_status"] = "of_a_later_revision";
export const laterCode: Schemas["Error"]["error"]["code"] = "of_a_later_revision";
export const laterAction: Schemas["Action"] = { type: "of_a_later_revision" };
export const laterEvent: Pick<Schemas["Event"], "type"> = { type: "robot.created" };

await quickStart();

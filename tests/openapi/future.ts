// The types that openapi-typescript generates, and narrow.ts of the documentation, with values of a later revision.
// node future.js LATER_URL API_KEY      prints what it has read, one value a line

import type { components } from "./api";
import { isAppointmentAction, isAppointmentEvent, titleOf } from "./narrow.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];
type Event = Schemas["Event"];

const [laterUrl, apiKey] = process.argv.slice(2) as [string, string];
const OVERLAP = 120;

async function send<T>(method: string, path: string, status: number, body?: object): Promise<T> {
  const response = await fetch(`${laterUrl}/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (response.status !== status) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function eventsSince(moment: number): Promise<Event[]> {
  const found: Event[] = [];
  let cursor = "";
  for (;;) {
    const page = await send<Schemas["EventList"]>("GET", `/events?limit=3&created[gte]=${moment}${cursor}`, 200);
    found.push(...page.data);
    if (!page.has_more) return found.reverse();
    cursor = `&starting_after=${page.next_cursor}`;
  }
}

async function catchUp(since: number): Promise<Map<string, Event>> {
  const processed = new Map<string, Event>();
  let readUntil = since;
  for (let quiet = 0; quiet < 10; quiet++) {
    const began = Math.floor(Date.now() / 1000);
    for (const event of await eventsSince(readUntil - OVERLAP)) {
      if (processed.has(event.id)) continue;
      processed.set(event.id, event);
      quiet = 0;
    }
    readUntil = began;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return processed;
}

const since = Math.floor(Date.now() / 1000);
const person: Schemas["CustomerCreate"] = { phone: "+1 500 555 0006" };
const customer = await send<Schemas["Customer"]>("POST", "/customers", 201, person);
const visit: Schemas["AppointmentCreate"] = { customer_id: customer.id, appointment_at: "2032-03-04T15:00:00Z" };
const appointment = await send<Schemas["Appointment"]>("POST", "/appointments", 201, visit);
console.log("status", appointment.status);

const question: Schemas["ThreadMessageCreate"] = {
  external_conversation_id: customer.id,
  customer: { id: customer.id },
  content: "please confirm my appointment",
};
const { reply, reply_status } = await send<Schemas["AnsweredMessage"]>("POST", "/messages", 201, question);
console.log("reply_status", reply_status);
for (const action of reply.actions) {
  console.log("action", action.type);
  if (isAppointmentAction(action)) console.log("appointment of the action", action.appointment_id === appointment.id);
}

const { error } = await send<Schemas["Error"]>("POST", "/customers", 400, { phone: "12345" });
console.log("error", error.code);
console.log("language", (await send<Schemas["AgentSettings"]>("GET", "/agent_settings", 200)).language);

const call = await send<Schemas["Call"]>("POST", `/customers/${customer.id}/call`, 201, {});
const session = await send<Schemas["Session"]>("GET", `/sessions/${call.session_id}`, 200);
console.log("call_status", session.call_status);

for (const event of (await catchUp(since)).values()) {
  console.log("event", event.id, event.type);
  if (isAppointmentEvent(event)) console.log("status of the event", event.data.object.status, titleOf(event));
}

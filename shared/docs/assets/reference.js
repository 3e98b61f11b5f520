// A filter for the reference, and requests from it. The page shows everything without this file.
"use strict";

// What a filter hides is hidden everywhere: entries, the headings of groups without entries, and their links in the menu.
function filter(phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = entry => words.every(word => textOf(entry).includes(word));
  for (const group of document.querySelectorAll(".group")) {
    const entries = [...group.querySelectorAll(".entry")];
    for (const entry of entries) entry.hidden = !matches(entry);
    group.hidden = entries.every(entry => entry.hidden);
  }
  for (const link of document.querySelectorAll(".on-this-page a, .contents a")) {
    const target = document.getElementById(link.hash.slice(1));
    link.parentElement.hidden = target.closest("[hidden]") !== null;
  }
  const isEmpty = document.querySelector(".group:not([hidden])") === null;
  document.querySelector(".no-match").textContent = isEmpty ? "Nothing here has all of these words." : "";
}

// An operation or object is found by its heading, its path and its name, not by what is folded in.
function textOf(entry) {
  const head = entry.matches("li") ? [entry] : entry.querySelectorAll("h3, .request");
  return [entry.dataset.words ?? "", ...[...head].map(one => one.textContent)].join(" ").toLowerCase();
}

function offerFilter() {
  const field = document.getElementById("filter");
  field.closest("[hidden]").hidden = false;
  field.addEventListener("input", () => filter(field.value));
  filter(field.value);
}

// Fields of a form, which are not sent anywhere but with the request.
function labelled(form, text, kind, value) {
  const label = document.createElement("label");
  const field = document.createElement(kind);
  label.textContent = text;
  field.value = value;
  field.autocomplete = "off";
  label.append(field);
  form.append(label);
  return field;
}

// The key is kept in this page only, until it is left.
let key = "";

function requestForm(operation) {
  const { method, path, body } = operation.dataset;
  const form = document.createElement("form");
  form.className = "send";
  const keyField = labelled(form, "API key (use a test key: the request does what it says)", "input", key);
  keyField.type = "password";
  keyField.required = true;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(match => match[1]);
  const parts = new Map(names.map(name => [name, labelled(form, name, "input", "")]));
  for (const field of parts.values()) field.required = true;
  const query = method === "GET" ? labelled(form, "Query, such as limit=10", "input", "") : null;
  const content = body ? labelled(form, "Body", "textarea", body) : null;
  if (content) content.rows = 8;
  const button = document.createElement("button");
  button.textContent = "Send";
  const output = document.createElement("div");
  output.setAttribute("role", "status");
  form.append(button, output);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    key = keyField.value.trim();
    const target = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(parts.get(name).value.trim()));
    const headers = { Authorization: `Bearer ${key}` };
    if (content) headers["Content-Type"] = "application/json";
    button.disabled = true;
    output.replaceChildren(...await shown(target + (query?.value ? `?${query.value}` : ""), { method, headers, body: content?.value }));
    button.disabled = false;
  });
  return form;
}

async function shown(target, request) {
  const caption = document.createElement("p");
  try {
    const response = await fetch(document.querySelector("[data-base]").dataset.base + target, request);
    const text = await response.text();
    caption.textContent = `${response.status} ${response.headers.get("Service-Request-Id") ?? ""}`;
    const code = document.createElement("pre");
    try { code.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { code.textContent = text; }
    return [caption, code];
  } catch (error) {
    caption.textContent = `The request was not sent: ${error.message}`;
    return [caption];
  }
}

function offerRequests() {
  for (const operation of document.querySelectorAll("[data-method]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "secondary";
    button.textContent = "Send this request";
    button.addEventListener("click", () => button.replaceWith(requestForm(operation)));
    operation.querySelector(".example").append(button);
  }
}

// Addresses of earlier versions of this page: #/Customers/create_customer.
function followFormerAddress() {
  if (location.hash.startsWith("#/")) location.replace(`#${location.hash.split("/").pop()}`);
}

offerFilter();
offerRequests();
followFormerAddress();
window.addEventListener("hashchange", followFormerAddress);

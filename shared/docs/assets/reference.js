// Shows the OpenAPI document with Swagger UI.
"use strict";

// The words of an operation: Swagger UI itself finds only tags.
function isAbout(operation, phrase) {
  const words = ["path", "method", "summary"].map(name => operation.get(name) ?? operation.getIn(["operation", name]) ?? "");
  return words.join(" ").toLowerCase().includes(phrase);
}

function opsFilter(groups, phrase) {
  const wanted = phrase.toLowerCase();
  return groups
    .map((group, tag) => tag.toLowerCase().includes(wanted)
      ? group
      : group.update("operations", operations => operations.filter(one => isAbout(one, wanted))))
    .filter(group => group.get("operations").size > 0);
}

async function show(place) {
  const response = await fetch(place.dataset.document);
  if (!response.ok) throw new Error(`The OpenAPI document was not loaded: status ${response.status}.`);
  const spec = await response.json();
  window.SwaggerUIBundle({
    spec,
    domNode: place,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    plugins: [{ fn: { opsFilter } }],
    validatorUrl: null,
  });
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

const place = document.getElementById("reference");
place.textContent = "Loading …";
show(place).catch(error => {
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.setAttribute("role", "alert");
  notice.textContent = error.message;
  place.replaceChildren(notice);
});

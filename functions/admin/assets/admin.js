// Times in the viewer's zone, and copy buttons. The pages work without this file.
"use strict";

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localize(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const utc = element.dateTime.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
    if (element.classList.contains("span")) {
      element.title = `${FORMAT.format(moment)} (${utc})`;
    } else {
      element.title = utc;
      element.textContent = (element.classList.contains("exact") ? EXACT : FORMAT).format(moment);
    }
  }
}

function offerCopies() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) {
    const text = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = text; }, 2000);
    });
  }
}

localize(document);
offerCopies();
document.addEventListener("htmx:afterSwap", () => localize(document));

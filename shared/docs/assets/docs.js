// Buttons that copy, one choice of language for all examples, and search and wide tables by keyboard. The pages work without this file.
"use strict";

const LANGUAGE = "docs-language";

function remembered() {
  try { return localStorage.getItem(LANGUAGE); } catch { return null; }
}

function remember(language) {
  try { localStorage.setItem(LANGUAGE, language); } catch { /* The browser stores nothing for this site. */ }
}

// A shell example of several languages is "sh" or "curl"; both are the choice of a shell.
function isChoice(input, language) {
  const shells = ["curl", "sh"];
  return input.value === language || (shells.includes(input.value) && shells.includes(language));
}

function choose(language) {
  for (const input of document.querySelectorAll(".tabs > input")) {
    if (isChoice(input, language)) input.checked = true;
  }
}

function followChoices() {
  const language = remembered();
  if (language) choose(language);
  for (const input of document.querySelectorAll(".tabs > input")) {
    input.addEventListener("change", () => {
      // The examples above may change their height, but the one that was clicked stays where it is.
      const before = input.getBoundingClientRect().top;
      remember(input.value);
      choose(input.value);
      window.scrollBy(0, input.getBoundingClientRect().top - before);
    });
  }
}

function offerCopies() {
  if (!navigator.clipboard) return;
  for (const pre of document.querySelectorAll(".code pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.before(button);
  }
}

// The page as Markdown can be copied, for example into a conversation with a language model.
function offerMarkdown() {
  const link = document.querySelector(".as-markdown a");
  if (!link || !navigator.clipboard) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "secondary";
  button.textContent = "Copy as Markdown";
  button.addEventListener("click", async () => {
    const response = await fetch(link.href);
    const text = response.ok ? await response.text() : null;
    if (text !== null) await navigator.clipboard.writeText(text);
    button.textContent = text === null ? "Not copied" : "Copied";
    setTimeout(() => { button.textContent = "Copy as Markdown"; }, 2000);
  });
  link.before(button);
}

// A table that is wider than the screen scrolls by itself, so the keyboard must reach it.
function reachWideTables() {
  for (const table of document.querySelectorAll(".table")) {
    if (table.scrollWidth <= table.clientWidth) continue;
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", "Table");
  }
}

// "/" leads to the search, unless the reader is writing.
function searchByKey() {
  document.addEventListener("keydown", event => {
    const isWriting = event.target.closest("input:not([type=radio]), textarea, select, [contenteditable]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isWriting) return;
    event.preventDefault();
    const input = document.querySelector(".find input");
    input.focus();
    input.select();
  });
}

followChoices();
searchByKey();
offerCopies();
offerMarkdown();
reachWideTables();

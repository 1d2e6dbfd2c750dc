// The page: tabs, news from the server, and its end.

import * as api from "./api.js";
import * as dictionary from "./dictionary.js";
import * as photos from "./photos.js";

const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  window.dispatchEvent(new Event("resize")); // what was hidden can now be measured
}

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

function lost() {
  const banner = document.getElementById("lost");
  banner.textContent = "The server has stopped or has forgotten this page. Start tecu serve and load the page again.";
  banner.hidden = false;
}

// A file dropped anywhere goes to the tab that is open; the browser must not open it instead of the page.
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  window.addEventListener(kind, (event) => {
    event.preventDefault();
    const inside = kind === "dragenter" || kind === "dragover";
    document.body.classList.toggle("dragging", inside);
    if (kind !== "drop") return;
    const files = [...event.dataTransfer.files];
    if (!files.length) return;
    if (document.getElementById("photos").hidden) dictionary.take(files[0]);
    else photos.add(files);
  });
}

window.addEventListener("pagehide", () => api.close());
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload(); // it was closed meanwhile: its photos are gone
});

try {
  const page = await api.open();
  photos.begin(page);
  dictionary.begin();
  api.events((news) => (news.subject === "photo" ? photos.hear(news) : dictionary.hear(news)), lost);
  document.body.dataset.ready = "yes";
} catch (error) {
  lost();
  document.getElementById("lost").textContent = error.message;
}

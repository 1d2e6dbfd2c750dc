// The photos tab: files in, a strip of them, the settings of each, results out.

import * as api from "./api.js";
import { showRun } from "./run.js";
import * as viewer from "./viewer.js";

const AT_ONCE = 2; // uploads at a time: twenty photos must not fill the connection
const byId = (id) => document.getElementById(id);
const photos = new Map(); // tag -> { tag, id, name, state, width, height, settings, item }; the id comes from the server
const titles = new Map([["original", "Original"], ["illumination", "Illumination"], ["reflectance", "Reflectance"]]);
const waiting = []; // photos to send
let page = null, chosen = null, sending = 0, count = 0;

export function begin(opened) {
  page = opened;
  for (const { name } of page.methods) titles.set(name, name);
  for (const id of ["left", "right"]) fill(byId(id));
  byId("headroom").min = page.headroom.least;
  byId("headroom").max = page.headroom.most;
  byId("strength").max = page.strongest;
  byId("photo-files").accept = page.kinds.join(",");
  byId("left").value = "original";
  byId("right").value = "tecu";
}

function fill(select) {
  const layers = group("The photo", [["original", "Original"], ["illumination", "Illumination"], ["reflectance", "Reflectance"]]);
  const ours = page.methods.filter(({ name }) => page.models.includes(name));
  const others = page.methods.filter(({ name }) => !page.models.includes(name));
  const label = ({ name, title }) => [name, name === title ? name : `${name}: ${title}`];
  select.replaceChildren(layers, group("Our model", ours.map(label)), group("Classical methods", others.map(label)));
}

function group(label, options) {
  const made = document.createElement("optgroup");
  made.label = label;
  made.append(...options.map(([value, text]) => new Option(text, value)));
  return made;
}

const usual = () => ({ strength: 1, denoise: true, headroom: page.headroom.usual });

// ---- files in ----

export function add(files) {
  for (const file of files) {
    if (file.size > page.limits.file_bytes) {
      fail(`${file.name} is longer than ${page.limits.file_bytes >> 20} MB, the limit for one file.`);
    } else if (photos.size >= page.limits.photos) {
      fail(`${file.name} is one too many: a page may hold ${page.limits.photos} photos.`);
    } else {
      count += 1;
      const photo = { tag: String(count), id: null, name: file.name, state: "sent", settings: usual(), item: null, file };
      photos.set(photo.tag, photo);
      drawItem(photo);
      waiting.push(photo);
    }
  }
  while (sending < AT_ONCE && waiting.length) send(waiting.shift());
  tell();
}

async function send(photo) {
  sending += 1;
  try {
    hear(await api.sendPhoto(photo.file, photo.tag));
  } catch (error) {
    forget(photo);
    fail(error.message);
  }
  photo.file = null;
  sending -= 1;
  if (waiting.length) send(waiting.shift());
  tell();
}

// What the server says about a photo: queued, ready or failed. News may come before the answer to the upload.
export function hear(news) {
  const photo = photos.get(news.tag);
  if (!photo || (photo.state !== "sent" && news.state === "queued") || photo.state === "ready") return;
  Object.assign(photo, news);
  if (photo.state === "failed") {
    forget(photo);
    fail(news.reason);
  } else {
    drawItem(photo);
    if (photo.state === "ready" && !chosen) choose(photo);
  }
  tell();
}

function forget(photo) {
  photos.delete(photo.tag);
  photo.item.remove();
  if (photo.id) api.removePhoto(photo.id).catch(() => {});
}

function fail(sentence) {
  const item = document.createElement("li");
  const text = document.createElement("span"), button = document.createElement("button");
  text.textContent = sentence;
  text.setAttribute("role", "alert");
  button.textContent = "Dismiss";
  button.setAttribute("aria-label", `Dismiss: ${sentence}`);
  button.addEventListener("click", () => item.remove());
  item.append(text, button);
  byId("failures").append(item);
}

function tell() {
  const number = (state) => [...photos.values()].filter((photo) => photo.state === state).length;
  const sent = number("sent"), reading = number("queued"), ready = number("ready"), parts = [];
  if (sent) parts.push(`${sent} on their way`);
  if (reading) parts.push(`${reading} being read`);
  if (ready && (parts.length || ready > 1)) parts.push(`${ready} ready`);
  byId("photo-status").textContent = parts.length ? `Photos: ${parts.join(", ")}.` : "";
  byId("photo-drop").classList.toggle("small", photos.size > 0);
  byId("download-all").disabled = ready === 0 || parts.length > 1;
  if (!chosen) byId("work").hidden = true;
}

// ---- the strip ----

function drawItem(photo) {
  if (!photo.item) {
    photo.item = document.createElement("li");
    photo.item.innerHTML = '<button type="button" aria-current="false"><span class="thumb"></span><span class="title"></span></button>';
    photo.item.querySelector(".title").textContent = photo.name;
    photo.item.firstChild.title = photo.name;
    photo.item.firstChild.addEventListener("click", () => choose(photo));
    byId("strip").append(photo.item);
  }
  photo.item.dataset.state = photo.state;
  photo.item.firstChild.disabled = photo.state !== "ready";
  const thumb = photo.item.querySelector(".thumb");
  if (photo.state !== "ready") {
    thumb.textContent = photo.state === "sent" ? "on its way" : "being read";
    return;
  }
  const image = new Image();
  image.alt = "";
  image.src = api.smallAddress(photo.id);
  thumb.replaceChildren(image);
}

function choose(photo) {
  chosen = photo;
  for (const { item, tag } of photos.values()) item.firstChild.setAttribute("aria-current", String(tag === photo.tag));
  byId("work").hidden = false;
  byId("photo-name").textContent = photo.name;
  const millions = ((photo.width * photo.height) / 1e6).toFixed(1);
  byId("photo-facts").textContent = [`${photo.width} × ${photo.height} pixels, ${millions} megapixels.`, ...photo.notes.map((note) => `Note: ${note}.`)].join(" ");
  drawSettings();
  look();
}

function drawSettings() {
  const { strength, headroom, denoise } = chosen.settings;
  byId("strength").value = strength;
  byId("headroom").value = headroom;
  byId("denoise").checked = denoise;
  byId("strength-value").textContent = strength.toFixed(2);
  byId("headroom-value").textContent = headroom.toFixed(2);
}

// ---- looking ----

const lookAt = (what) => ({ what, title: titles.get(what), ...chosen.settings });

function look() {
  const left = byId("left").value, right = byId("right").value;
  allow([left, right, methodOf()]);
  viewer.show(chosen, lookAt(left), lookAt(right));
  if (byId("run").open) showRun(chosen, modelOf());
}

// Headroom and denoising can be set where something that is shown or downloaded knows them; classical methods do not.
function allow(looked) {
  const model = looked.some((what) => page.models.includes(what));
  byId("denoise").disabled = !model;
  byId("headroom").disabled = !model && !looked.some((what) => ["illumination", "reflectance"].includes(what));
  const unknown = ["headroom", "denoise"].filter((id) => byId(id).disabled).map((id) => (id === "denoise" ? "denoising" : id));
  const names = unknown.join(" nor ");
  byId("unknown").textContent = names ? `${methodOf()} knows ${unknown.length > 1 ? "neither" : "no"} ${names}.` : "";
}

// The method whose result is downloaded: that on the right, or on the left if the right is no method.
function methodOf() {
  const names = page.methods.map(({ name }) => name);
  return [byId("right").value, byId("left").value].find((name) => names.includes(name)) || "tecu";
}

const modelOf = () => (page.models.includes(methodOf()) ? methodOf() : "tecu");

for (const id of ["left", "right"]) byId(id).addEventListener("change", look);
for (const id of ["strength", "headroom"]) {
  byId(id).addEventListener("input", () => {
    chosen.settings[id] = Number(byId(id).value);
    drawSettings();
    look();
  });
}
byId("denoise").addEventListener("change", () => {
  chosen.settings.denoise = byId("denoise").checked;
  look();
});
byId("reset").addEventListener("click", () => {
  chosen.settings = usual();
  drawSettings();
  look();
});
byId("for-all").addEventListener("click", () => {
  for (const photo of photos.values()) photo.settings = { ...chosen.settings };
  byId("photo-status").textContent = `The settings of ${chosen.name} now hold for all ${photos.size} photos.`;
});
for (const radio of document.querySelectorAll("[name=arrangement]")) {
  radio.addEventListener("change", () => viewer.setArrangement(radio.value));
}
byId("zoom").addEventListener("click", () => viewer.setZoom(byId("zoom").getAttribute("aria-pressed") !== "true"));
byId("run").addEventListener("toggle", () => byId("run").open && chosen && showRun(chosen, modelOf()));
byId("settings").addEventListener("submit", (event) => event.preventDefault());

// ---- choosing files and taking results home ----

byId("choose-photos").addEventListener("click", () => byId("photo-files").click());
byId("photo-files").addEventListener("change", () => {
  add([...byId("photo-files").files]);
  byId("photo-files").value = "";
});

async function during(button, sentence, work) {
  button.disabled = true;
  byId("photo-status").textContent = sentence;
  try {
    await work();
    tell();
  } catch (error) {
    fail(error.message);
    tell();
  }
  button.disabled = false;
}

byId("download").addEventListener("click", (event) =>
  during(event.currentTarget, `Making ${chosen.name} at full size ...`, () =>
    api.save(api.resultAddress(chosen.id, lookAt(methodOf())))));
byId("download-all").addEventListener("click", (event) =>
  during(event.currentTarget, "The archive is being made; the browser shows how far it is.", async () => {
    const ready = [...photos.values()].filter((photo) => photo.state === "ready");
    api.saveLong(await api.orderArchive(ready.map(({ id, settings }) => ({ id, what: methodOf(), ...settings }))));
  }));
byId("remove").addEventListener("click", () => {
  const all = [...photos.values()], place = all.indexOf(chosen);
  const next = [...all.slice(place + 1), ...all.slice(0, place).reverse()].find((photo) => photo.state === "ready");
  forget(chosen);
  chosen = null;
  if (next) choose(next);
  tell();
});

// Two pictures of one photo: under a divider or side by side, fitted or at 100 %.

import * as api from "./api.js";

const stage = document.getElementById("stage");
const divider = document.getElementById("divider");
const busy = document.getElementById("busy");
const MARGIN = 300; // pixels around what is visible that a tile shows too, so that scrolling finds them there
const LARGEST_TILE = 4000;

let photo = null; // { id, width, height }
let looks = { left: null, right: null };
let at = 50; // percent: where the divider is

// Fetches pictures for one image, one at a time: of the wishes that come meanwhile the last one counts.
class Loader {
  constructor(side, image) {
    Object.assign(this, { side, image, wish: null, latest: null, running: false, control: null, blob: null });
  }

  want(address, place, urgent) {
    if (address === this.latest) return; // it is shown already, or on its way
    this.latest = address;
    this.wish = { address, place };
    if (urgent && this.control) this.control.abort(); // what is on its way is of no use any more
    if (!this.running) this.#run();
  }

  clear() {
    this.wish = this.latest = null;
    this.control?.abort();
    this.image.removeAttribute("src");
  }

  async #run() {
    this.running = true;
    loading.add(this);
    stage.setAttribute("aria-busy", "true");
    while (this.wish) {
      const { address, place } = this.wish;
      this.wish = null;
      this.control = new AbortController();
      const slow = setTimeout(() => tell(), 250);
      try {
        const blob = URL.createObjectURL(await api.picture(address, this.control.signal));
        const decoded = new Image();
        decoded.src = blob;
        await decoded.decode();
        this.control.signal.throwIfAborted(); // another photo was chosen while this one was unpacked
        if (this.blob) URL.revokeObjectURL(this.blob);
        this.blob = blob;
        this.image.src = blob;
        place?.(this.image);
        fault = "";
      } catch (error) {
        if (error.name !== "AbortError") {
          fault = error.message;
          this.latest = this.wish?.address ?? null; // so that it can be asked for again
        }
      }
      clearTimeout(slow);
    }
    this.running = false;
    loading.delete(this);
    stage.setAttribute("aria-busy", String(loading.size > 0));
    tell();
  }
}

const loading = new Set();
let fault = "";
function tell() {
  busy.textContent = loading.size ? "Working ..." : fault;
}

function makePane(side) {
  const box = document.getElementById(`pane-${side}`);
  const canvas = box.querySelector(".canvas");
  const whole = new Loader(side, box.querySelector(".whole")), tile = new Loader(side, box.querySelector(".tile"));
  box.addEventListener("scroll", () => {
    const other = panes[side === "left" ? "right" : "left"].box;
    if (other.scrollLeft !== box.scrollLeft) other.scrollLeft = box.scrollLeft;
    if (other.scrollTop !== box.scrollTop) other.scrollTop = box.scrollTop;
    clearTimeout(scrolled);
    scrolled = setTimeout(() => loadTiles(), 120);
  });
  return { box, canvas, whole, tile };
}

let scrolled = 0;
const panes = { left: makePane("left"), right: makePane("right") };
const isFull = () => stage.dataset.zoom === "full";
const isBeside = () => stage.dataset.arrangement === "beside";

// ---- what is shown ----

export function show(next, left, right) {
  const another = photo?.id !== next.id;
  const changed = { left: another || looks.left?.what !== left.what, right: another || looks.right?.what !== right.what };
  photo = next;
  looks = { left, right };
  if (another) {
    for (const pane of Object.values(panes)) {
      pane.whole.clear();
      pane.tile.clear();
    }
    setZoom(false);
  }
  document.getElementById("name-left").textContent = left.title;
  document.getElementById("name-right").textContent = right.title;
  for (const side of ["left", "right"]) {
    const address = api.viewAddress(photo.id, looks[side]);
    panes[side].whole.image.alt = `${photo.name}: ${looks[side].title}`;
    panes[side].whole.want(address, null, changed[side]);
    if (changed[side]) panes[side].tile.clear();
  }
  layout();
  loadTiles();
  moveDivider(at);
}

export function setArrangement(name) {
  stage.dataset.arrangement = name;
  layout();
  loadTiles();
}

export function setZoom(full) {
  stage.dataset.zoom = full ? "full" : "fit";
  const button = document.getElementById("zoom");
  button.setAttribute("aria-pressed", String(full));
  for (const pane of Object.values(panes)) pane.box.tabIndex = full ? 0 : -1; // so that the keyboard can scroll
  layout();
  if (!full || !photo) return;
  for (const { box } of Object.values(panes)) {
    box.scrollLeft = Math.round((box.scrollWidth - box.clientWidth) / 2);
    box.scrollTop = Math.round((box.scrollHeight - box.clientHeight) / 2);
  }
  loadTiles();
}

function layout() {
  if (!photo) return;
  const room = stage.parentElement.clientWidth, columns = isBeside() ? 2 : 1;
  const below = innerHeight - (stage.getBoundingClientRect().top + scrollY) - 12; // what the first screen leaves
  const wide = (room - (columns - 1) * 4) / columns, high = Math.max(260, 0.6 * innerHeight, below);
  const dots = devicePixelRatio || 1;
  const own = { width: photo.width / dots, height: photo.height / dots };
  const scale = isFull() ? 1 : Math.min(wide / own.width, high / own.height, 1);
  for (const { box, canvas } of Object.values(panes)) {
    canvas.style.width = `${own.width * scale}px`;
    canvas.style.height = `${own.height * scale}px`;
    box.style.width = `${Math.min(wide, own.width * scale)}px`;
    box.style.height = `${Math.min(high, own.height * scale)}px`;
  }
}

function loadTiles() {
  if (!photo || !isFull()) return;
  const dots = devicePixelRatio || 1;
  for (const side of ["left", "right"]) {
    const { box, tile } = panes[side];
    const x = Math.max(0, Math.floor((box.scrollLeft - MARGIN) * dots));
    const y = Math.max(0, Math.floor((box.scrollTop - MARGIN) * dots));
    const width = Math.min(photo.width - x, Math.ceil((box.clientWidth + 2 * MARGIN) * dots), LARGEST_TILE);
    const height = Math.min(photo.height - y, Math.ceil((box.clientHeight + 2 * MARGIN) * dots), LARGEST_TILE);
    const address = api.tileAddress(photo.id, looks[side], { x, y, width, height });
    tile.want(address, (image) => {
      image.style.left = `${x / dots}px`;
      image.style.top = `${y / dots}px`;
      image.style.width = `${width / dots}px`;
      image.style.height = `${height / dots}px`;
    }, false);
  }
}

// ---- the divider ----

function moveDivider(percent) {
  at = Math.min(100, Math.max(0, percent));
  stage.style.setProperty("--at", `${at}%`);
  divider.setAttribute("aria-valuenow", String(Math.round(at)));
  const names = looks.left ? `${Math.round(at)} % ${looks.left.title}, the rest ${looks.right.title}` : "";
  divider.setAttribute("aria-valuetext", names);
}

divider.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: -2, ArrowDown: -2, ArrowRight: 2, ArrowUp: 2, PageDown: -10, PageUp: 10, Home: -100, End: 100 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  moveDivider(at + steps[event.key]);
});

let held = false;
function follow(event) {
  const box = stage.getBoundingClientRect();
  moveDivider((100 * (event.clientX - box.left)) / box.width);
}

stage.addEventListener("pointerdown", (event) => {
  const onHandle = divider.contains(event.target);
  if (isBeside() || event.button !== 0 || (isFull() && !onHandle)) return;
  held = true;
  stage.setPointerCapture(event.pointerId);
  follow(event);
  divider.focus({ preventScroll: true });
  event.preventDefault();
});
stage.addEventListener("pointermove", (event) => held && follow(event));
for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, () => (held = false));

window.addEventListener("resize", () => {
  layout();
  loadTiles();
});

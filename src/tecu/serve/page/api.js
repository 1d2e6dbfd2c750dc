// The server's interface. Every failure is an Error whose message is a sentence for the user.

let base = "";

async function asked(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is tecu serve still running?");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Error(told.error || `The server answered ${answer.status}.`);
  }
  return answer;
}

const json = (body) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export async function open() {
  const page = await (await asked("/api/pages", { method: "POST" })).json();
  base = `/api/pages/${page.id}`;
  return page;
}

// The last word of a page; the server removes what the page has uploaded.
export function close() {
  navigator.sendBeacon(`${base}/close`);
}

// News as long as the page is in view. A browser keeps few connections to a server: a page out of sight lets go of
// its own, and only says now and then that it is still there; what it misses it hears when it is looked at again.
export function events(hear, lost) {
  let source = null;
  const listen = () => {
    source?.close();
    source = document.hidden ? null : new EventSource(`${base}/events`);
    if (!source) return;
    source.onmessage = (event) => hear(JSON.parse(event.data));
    source.onerror = (event) => event.target.readyState === EventSource.CLOSED && lost();
  };
  document.addEventListener("visibilitychange", listen);
  setInterval(() => document.hidden && asked(`${base}/alive`, { method: "POST" }).catch(lost), 30000);
  listen();
}

const named = (name) => `name=${encodeURIComponent(name)}`;

// `tag` is the page's own name for it, which comes back in all news about it.
export async function sendPhoto(file, tag) {
  return (await asked(`${base}/photos?${named(file.name)}&tag=${tag}`, { method: "POST", body: file })).json();
}

export const removePhoto = (id) => asked(`${base}/photos/${id}`, { method: "DELETE" });

// The same address for the same picture: no setting has a say in the original, and only the headroom in the layers.
function query(look) {
  const { what, strength, denoise, headroom } = look;
  const layer = ["illumination", "reflectance"].includes(what) ? { what, headroom } : null;
  return new URLSearchParams(what === "original" ? { what } : layer || { what, strength, denoise, headroom }).toString();
}

export const viewAddress = (id, look) => `${base}/photos/${id}/view?${query(look)}`;
export const smallAddress = (id) => `${base}/photos/${id}/view?small=true`;
export const resultAddress = (id, look) => `${base}/photos/${id}/result?${query(look)}`;

export function tileAddress(id, look, box) {
  return `${base}/photos/${id}/tile?${query(look)}&x=${box.x}&y=${box.y}&width=${box.width}&height=${box.height}`;
}

export async function picture(address, signal) {
  return (await asked(address, { signal })).blob();
}

export async function run(id, method) {
  return (await asked(`${base}/photos/${id}/run?method=${encodeURIComponent(method)}`)).json();
}

export async function orderArchive(wanted) {
  const { ticket } = await (await asked(`${base}/archives`, json(wanted))).json();
  return `${base}/archives/${ticket}`;
}

export async function sendMatrix(name, body) {
  return (await asked(`${base}/matrix?${named(name)}`, { method: "POST", body })).json();
}

export const learn = (recipe) => asked(`${base}/learning`, json(recipe));
export const stopLearning = () => asked(`${base}/learning/stop`, { method: "POST" });
export const resumeLearning = (more) => asked(`${base}/learning/resume`, json({ more }));
export const atomsPicture = () => picture(`${base}/learning/atoms`);
export const modelAddress = () => `${base}/learning/model`;

function follow(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
}

// Fetch one file and save it; a failure is thrown, so that the page can tell it.
export async function save(address) {
  const answer = await asked(address);
  const header = answer.headers.get("content-disposition") || "";
  const coded = /filename\*=utf-8''([^;]+)/i.exec(header), plain = /filename="([^"]+)"/.exec(header);
  const place = URL.createObjectURL(await answer.blob());
  follow(place, coded ? decodeURIComponent(coded[1]) : plain ? plain[1] : "result");
  setTimeout(() => URL.revokeObjectURL(place), 60000);
}

// Let the browser itself fetch a long file, so that it is never in the page's memory.
export const saveLong = (address) => follow(address, "");

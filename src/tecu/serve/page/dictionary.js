// The dictionary tab: a matrix in, learning followed, stopped, resumed, the model out.

import * as api from "./api.js";
import { chart } from "./chart.js";

const byId = (id) => document.getElementById(id);
let latest = null; // the last news
let drawn = -1; // the sweep whose atoms are shown
let drawing = false;

export function begin() {
  byId("choose-matrix").addEventListener("click", () => byId("matrix-file").click());
  byId("matrix-file").addEventListener("change", () => {
    const [file] = byId("matrix-file").files;
    if (file) take(file);
    byId("matrix-file").value = "";
  });
  byId("take-paste").addEventListener("click", () => send("pasted.csv", byId("paste").value));
  byId("use-example").addEventListener("click", () => send("example.csv", example()));
  byId("recipe").addEventListener("submit", (event) => {
    event.preventDefault();
    tried(() => api.learn(recipe()));
  });
  byId("stop").addEventListener("click", () => tried(api.stopLearning));
  byId("resume").addEventListener("click", () => tried(() => api.resumeLearning(moreSweeps())));
  byId("download-model").addEventListener("click", () => tried(() => api.save(api.modelAddress())));
}

export function take(file) {
  return send(file.name, file);
}

async function send(name, body) {
  byId("learning-sentence").textContent = "";
  if (!(await tried(() => api.sendMatrix(name, body)))) return;
  drawn = -1;
  byId("atoms").hidden = true;
  byId("atoms-caption").textContent = "";
  byId("matrix-drop").classList.add("small");
}

async function tried(work) {
  byId("matrix-error").textContent = "";
  try {
    await work();
    return true;
  } catch (error) {
    byId("matrix-error").textContent = error.message;
    return false;
  }
}

function recipe() {
  const number = (id) => (byId(id).value === "" ? null : Number(byId(id).value));
  return {
    components: number("components"), nonzero: number("nonzero"), penalty: number("penalty"), solver: byId("solver").value,
    sweeps: number("sweeps") ?? 100, tolerance: number("tolerance") ?? 1e-4, seed: number("seed") ?? 0,
    positive: byId("positive").checked,
  };
}

// Sweeps beyond those already done that the form now allows, or as many again.
function moreSweeps() {
  const done = latest?.points.at(-1)?.[0] ?? 0, allowed = Number(byId("sweeps").value) || 100;
  return allowed > done ? 0 : allowed;
}

// ---- news ----

export function hear(news) {
  latest = news;
  const running = ["waiting", "running", "stopping"].includes(news.state);
  byId("learning").hidden = false;
  byId("matrix-name").textContent = `${news.name}: ${news.samples} samples, ${news.features} features`;
  byId("learn").disabled = running;
  byId("stop").disabled = !running || news.state === "stopping";
  byId("resume").disabled = !news.can_resume;
  byId("download-model").disabled = !news.has_model;
  byId("learning").dataset.state = news.state;
  byId("learning-sentence").textContent = news.sentence;
  chart(byId("objective-plot"), "Objective", "sweep", [{ name: "objective", points: news.points }]);
  drawVerdict(news);
  drawFigures(news);
  if (news.atoms) drawAtoms(news.atoms);
}

function drawVerdict(news) {
  const place = byId("learning-certificate");
  place.hidden = !news.certificate;
  if (!news.certificate) return;
  place.classList.toggle("broken", !news.holds);
  const mark = document.createElement("strong");
  mark.textContent = news.holds ? "✓ " : "✗ ";
  place.replaceChildren(mark, news.certificate);
  byId("assumed").hidden = !news.assumed;
  byId("assumed").querySelector("ul").replaceChildren(
    ...(news.assumed || []).map((sentence) => Object.assign(document.createElement("li"), { textContent: sentence })));
}

function drawFigures(news) {
  const [, value] = news.points.at(-1) || [];
  if (value === undefined) return (byId("figures").textContent = "");
  byId("figures").textContent = `Objective ${Number(value.toPrecision(6))}` +
    (news.nonzeros === undefined ? "." : `, ${news.nonzeros.toFixed(2)} non-zeros a sample, ${news.seconds} s.`);
}

// One picture at a time; while it is on its way newer atoms wait.
async function drawAtoms(sweep) {
  if (drawing || (sweep === drawn && !latest.has_model)) return;
  drawing = true;
  try {
    const image = byId("atoms"), before = image.src;
    image.src = URL.createObjectURL(await api.atomsPicture());
    await image.decode();
    if (before) URL.revokeObjectURL(before);
    image.alt = `The atoms after sweep ${sweep}`;
    image.hidden = false;
    byId("atoms-caption").textContent = `Atoms after sweep ${sweep}, each stretched to its own largest entry.`;
    drawn = sweep;
  } catch {
    // the run was begun anew meanwhile: the next news bring its atoms
  }
  drawing = false;
  if (latest.atoms > drawn) setTimeout(() => drawAtoms(latest.atoms), 300);
}

// Small patches with edges of all directions: something a dictionary can be learnt from.
function example() {
  const rows = [];
  for (let k = 0; k < 1500; k += 1) {
    const turn = Math.random() * Math.PI, shift = (Math.random() - 0.5) * 5, size = Math.random() < 0.5 ? 1 : -1;
    const row = [];
    for (let y = -3.5; y < 4; y += 1) {
      for (let x = -3.5; x < 4; x += 1) {
        const across = Math.cos(turn) * x + Math.sin(turn) * y - shift;
        row.push((size * Math.tanh(across) + 0.05 * (Math.random() - 0.5)).toFixed(4));
      }
    }
    rows.push(row.join(","));
  }
  return rows.join("\n");
}

// How the light of a photo was found: curves, and the certificate in words.

import * as api from "./api.js";
import { chart } from "./chart.js";

const plots = document.getElementById("run-plots");
const words = document.getElementById("run-words");
let shown = "";

export async function showRun(photo, method) {
  const wanted = `${photo.id} ${method}`;
  if (wanted === shown) return;
  shown = wanted;
  words.textContent = "Working ...";
  plots.replaceChildren();
  try {
    const run = await api.run(photo.id, method);
    if (wanted !== shown) return; // another photo was chosen meanwhile
    words.innerHTML = run.words; // made and escaped by our own server
    draw(run.columns);
  } catch (error) {
    words.textContent = error.message;
    shown = "";
  }
}

function draw(columns) {
  const curve = (name, title) => ({ name: title, points: columns.iteration.map((t, k) => [t, columns[name][k]]) });
  const above = curve("lyapunov", "Φ");
  const places = [0, 1].map(() => document.createElement("div"));
  plots.replaceChildren(...places);
  chart(places[0], "Objective and Lyapunov function", "iteration", [curve("value", "objective"), above]);
  if (columns.error_I) {
    chart(places[1], "Error of the light against its tolerance", "iteration", [curve("error_I", "error"), curve("tolerance_I", "tolerance")]);
  }
}

// A small line chart as SVG: readable without colour (each curve has a dash of its own), in light and dark.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#0072b2", "#d55e00"];
const DARK = ["#56b4e9", "#e69f00"];
const DASHES = ["none", "6 4"];
const BOX = { width: 420, height: 240, left: 62, right: 18, top: 26, bottom: 38 };

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function shown(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e4 || size < 1e-2 ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(3)));
}

function ticksOf(low, high, logarithmic) {
  if (logarithmic) {
    const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9), step = Math.max(1, Math.ceil((last - first) / 4));
    const whole = [];
    for (let k = first; k <= last; k += step) whole.push(k);
    return whole.length > 1 ? whole : [low, (low + high) / 2, high];
  }
  const rough = (high - low) / 4 || 1, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9 * step; tick += step) found.push(tick);
  return found;
}

// curves: [{ name, points: [[x, y], ...] }]; the chart replaces what `place` holds.
export function chart(place, title, xName, curves) {
  const points = curves.flatMap((curve) => curve.points.filter(([, y]) => y !== null && Number.isFinite(y)));
  if (!points.length) return place.replaceChildren();
  const values = points.map(([, y]) => y), lowest = Math.min(...values), highest = Math.max(...values);
  const logarithmic = lowest > 0 && highest > 30 * lowest;
  const up = logarithmic ? Math.log10 : (y) => y;
  const xs = points.map(([x]) => x), x0 = Math.min(...xs), x1 = Math.max(Math.max(...xs), x0 + 1);
  const margin = (up(highest) - up(lowest)) * 0.05 || Math.abs(up(highest)) * 0.05 || 1;
  const y0 = up(lowest) - margin, y1 = up(highest) + margin;
  const px = (x) => BOX.left + ((x - x0) / (x1 - x0)) * (BOX.width - BOX.left - BOX.right);
  const py = (y) => BOX.height - BOX.bottom - ((y - y0) / (y1 - y0)) * (BOX.height - BOX.top - BOX.bottom);

  const last = curves.map((curve) => `${curve.name} ends at ${shown(curve.points.at(-1)?.[1] ?? 0)}`).join(", ");
  const svg = element("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, class: "chart", role: "img" });
  svg.append(element("title", {}, `${title} against ${xName}: ${last}`));
  svg.append(element("text", { x: 4, y: 14, "font-weight": 600 }, title));
  for (const tick of ticksOf(y0, y1, logarithmic)) {
    const label = shown(logarithmic ? 10 ** tick : tick);
    svg.append(element("line", { x1: BOX.left, x2: BOX.width - BOX.right, y1: py(tick), y2: py(tick), class: "grid" }));
    svg.append(element("text", { x: BOX.left - 6, y: py(tick) + 4, "text-anchor": "end" }, label));
  }
  for (const tick of ticksOf(x0, x1, false).filter(Number.isInteger)) {
    svg.append(element("text", { x: px(tick), y: BOX.height - BOX.bottom + 16, "text-anchor": "middle" }, String(tick)));
  }
  svg.append(element("text", { x: (BOX.left + BOX.width) / 2, y: BOX.height - 4, "text-anchor": "middle" }, xName));
  const colours = matchMedia("(prefers-color-scheme: dark)").matches ? DARK : COLOURS;
  curves.forEach((curve, k) => {
    const kept = curve.points.filter(([, y]) => y !== null && Number.isFinite(y) && (!logarithmic || y > 0));
    const path = kept.map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(up(y)).toFixed(1)}`).join("");
    svg.append(element("path", { d: path, class: "line", stroke: colours[k], "stroke-dasharray": DASHES[k] }));
    for (const [x, y] of kept.length <= 30 ? kept : []) {
      svg.append(element("circle", { cx: px(x), cy: py(up(y)), r: 2.5, fill: colours[k] }));
    }
    if (curves.length > 1) {
      const x = BOX.width - 150, y = BOX.top + 12 + 16 * k;
      svg.append(element("line", { x1: x, x2: x + 26, y1: y - 4, y2: y - 4, class: "line", stroke: colours[k], "stroke-dasharray": DASHES[k] }));
      svg.append(element("text", { x: x + 32, y }, curve.name));
    }
  });
  place.replaceChildren(svg);
}

// What all plots share: colours, scales, axes and the pointer; and what tables and commands need.
// A kind of plot is a function (frame, values) that draws and returns what the pointer finds:
// a function (x, y) -> text, or null.
const kinds = {};
const colours = new Map();  // as the reader's scheme has them; looked up once per drawing
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}
const FONT = "12px system-ui, sans-serif";

function short(value) {
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
  return String(Number(value.toPrecision(4)));
}

// A scale maps numbers to pixels; its ticks are round numbers.
function scale(low, high, from, to, log = false) {
  if (!(low < high)) { const pad = Math.abs(low) * 0.05 || 1; low -= pad; high += pad; }
  log = log && low > 0;
  const f = log ? Math.log : x => x;
  const a = f(low), b = f(high);
  const at = value => from + (f(value) - a) / (b - a) * (to - from);
  const room = Math.max(2, Math.floor(Math.abs(to - from) / (to < from ? 40 : 64)));  // of ticks
  return { at, low, high, log, ticks: log ? logTicks(low, high, room) : ticks(low, high, room) };
}
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
function logTicks(low, high, count) {
  const all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
    for (const m of [1, 2, 5]) all.push(Number((m * 10 ** e).toPrecision(6)));
  const seen = all.filter(t => t >= low && t <= high);
  const tens = seen.filter(t => String(t.toExponential()).startsWith("1e"));
  const chosen = seen.length <= count ? seen : tens;
  return chosen.length >= 2 ? chosen : ticks(low, high, count);
}
function extent(numbers) {
  let low = Infinity, high = -Infinity;
  for (const n of numbers) if (n !== null && isFinite(n)) { if (n < low) low = n; if (n > high) high = n; }
  return [low, high];
}
const wide = (low, high) => low > 0 && high / low > 8;  // such a range needs a logarithm

// The drawing area of a figure at its present size, on the screen's own pixels.
function frameOf(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.font = FONT; g.lineJoin = "round";
  return { g, width, height };
}

// Axes with grid lines; returns the two scales.
function axes(frame, { x, y, xLabel, yLabel, entries = [], yLog = false }) {
  const { g, width, height } = frame, left = 52, right = width - 12, base = height - 40;
  const rows = legendRows(g, entries, right);
  const beside = rows.length === 1 && g.measureText(yLabel).width + rows[0].width < right;
  const top = beside ? 24 : 26 + ROW * rows.length;
  const xs = scale(x[0], x[1], left, right), ys = scale(y[0], y[1], base, top, yLog);
  g.strokeStyle = colour("line"); g.fillStyle = colour("muted"); g.lineWidth = 1;
  g.textBaseline = "middle"; g.textAlign = "right";
  for (const t of ys.ticks) { line(g, [[left, ys.at(t)], [right, ys.at(t)]]); g.fillText(short(t), left - 8, ys.at(t)); }
  g.textBaseline = "top"; g.textAlign = "center";
  for (const t of xs.ticks) g.fillText(short(t), xs.at(t), base + 7);
  g.textAlign = "right"; g.fillText(xLabel, right, base + 23);
  g.textAlign = "left"; g.textBaseline = "top"; g.fillText(yLabel, 0, 0);
  rows.forEach((row, i) => legend(frame, row.entries, (i + !beside) * ROW));
  return { xs, ys, left, right, top, base };
}
function line(g, points) {
  g.beginPath();
  points.forEach(([x, y], i) => i ? g.lineTo(x, y) : g.moveTo(x, y));
  g.stroke();
}
function dot(g, x, y, radius, filled = true) {
  g.beginPath(); g.arc(x, y, radius, 0, 2 * Math.PI);
  filled ? g.fill() : g.stroke();
}
// Labelled marks above a plot, from right to left. mark: line | dot | ring
const MARK = 16, GAP = 14, ROW = 17;
function legendRows(g, entries, room) {
  const rows = [];
  for (const entry of entries) {
    const width = g.measureText(entry.label).width + MARK + 6 + GAP;
    if (!rows.length || rows.at(-1).width + width > room) rows.push({ entries: [], width: 0 });
    rows.at(-1).entries.push(entry);
    rows.at(-1).width += width;
  }
  return rows;
}
function legend(frame, entries, y = 0) {
  const { g, width } = frame;
  let x = width - 12;
  g.textBaseline = "top"; g.textAlign = "right";
  for (const { label, ink, mark = "line" } of [...entries].reverse()) {
    g.fillStyle = colour("muted"); g.fillText(label, x, y);
    x -= g.measureText(label).width + 6;
    g.strokeStyle = g.fillStyle = ink; g.lineWidth = mark === "line" ? 2.5 : 1.2;
    if (mark === "line") line(g, [[x - MARK, y + 6], [x, y + 6]]); else dot(g, x - 5, y + 6, 3.2, mark === "dot");
    x -= MARK + GAP;
  }
}
// The nearest of some points to the pointer, within reach. The points are listed when first needed.
function nearest(list, x, y, reach = 24) {
  let best = null, least = reach * reach;
  for (const p of list.points ||= list()) {
    const d = (p[0] - x) ** 2 + (p[1] - y) ** 2;
    if (d < least) { least = d; best = p; }
  }
  return best;
}

function prepare(figure) {
  const canvas = figure.querySelector("canvas"), tip = document.getElementById("tip");
  const values = JSON.parse(figure.querySelector("script").textContent);
  let find = () => null;
  const draw = () => { colours.clear(); if (canvas.clientWidth) find = kinds[figure.dataset.kind](frameOf(canvas), values) || find; };
  canvas.addEventListener("pointermove", event => {
    const text = find(event.offsetX, event.offsetY);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const room = innerWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, room))}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", draw);
}

// Rows of a table beyond those in the page, and their order.
function prepareTable(scroll) {
  const data = scroll.nextElementSibling, table = scroll.querySelector("table");
  if (!data || !data.matches("script.rows")) return;
  const rows = JSON.parse(data.textContent), body = table.tBodies[0];
  const numeric = [...table.tHead.rows[0].cells].map(cell => cell.className);
  const more = data.nextElementSibling?.matches(".more") ? data.nextElementSibling : null;
  let count = body.rows.length;
  const fill = () => body.replaceChildren(...rows.slice(0, count).map(row => {
    const tr = document.createElement("tr");
    row.forEach((text, i) => { const td = tr.insertCell(); td.textContent = text; td.className = numeric[i]; });
    return tr;
  }));
  more?.addEventListener("click", () => { count = rows.length; more.remove(); fill(); });
  table.tHead.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
    const th = button.parentElement, down = th.ariaSort === "ascending";
    table.tHead.querySelectorAll("th").forEach(each => each.removeAttribute("aria-sort"));
    th.ariaSort = down ? "descending" : "ascending";
    const key = row => { const n = Number(row[column]); return row[column] === "" || row[column] === "-" ? null : isNaN(n) ? row[column] : n; };
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    fill();
  }));
}

function start() {
  document.querySelectorAll("figure.plot").forEach(prepare);
  document.querySelectorAll(".scroll").forEach(prepareTable);
  document.querySelectorAll(".copy").forEach(button => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
}

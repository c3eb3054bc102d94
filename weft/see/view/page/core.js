// What a model (model.py) holds, unpacked, and the questions that the page asks of it.
"use strict";

const ARRAYS = { u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
  f4: Float32Array, f8: Float64Array };
const FAILED = 1, BACKWARD = 4;

function unpack(column) {
  const text = atob(column.d), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[column.t](bytes.buffer);
}

function unpackAll(columns) {
  const out = {};
  for (const [name, column] of Object.entries(columns)) out[name] = unpack(column);
  return out;
}

class Graph {
  constructor(model) {
    this.model = model;
    this.events = unpackAll(model.events);
    this.count = this.events.kind.length;
    this.operands = unpack(model.operands);
    this.dims = unpack(model.dims);
    this.values = unpackAll(model.values);
    this.name = { texts: model.names.texts, of: unpack(model.names.of) };
    this.path = { texts: model.paths.texts, of: unpack(model.paths.of) };
    const s = unpackAll(model.statistics);
    this.statistics = s;
    this.statisticsOf = new Map();
    s.value.forEach((value, row) => this.statisticsOf.set(value, row));
    this.times = this.events.time.some((t) => t > 0);
    this._measure();
    this.tree = new Tree(model, this);
  }

  // Depth, first event after those inside, time inside of each, and where each lies on the x axis.
  _measure() {
    const { parent, time, began } = this.events, n = this.count;
    this.depth = new Uint16Array(n);
    this.after = new Uint32Array(n);
    this.insideTime = new Float64Array(n);
    this.insideCount = new Uint32Array(n);
    this.deepest = 0;
    for (let e = 0; e < n; e++) {
      this.after[e] = e + 1;
      if (parent[e] >= 0) {
        this.depth[e] = this.depth[parent[e]] + 1;
        if (this.depth[e] > this.deepest) this.deepest = this.depth[e];
        if (time[e] > 0) this.insideTime[parent[e]] += time[e];
        this.insideCount[parent[e]]++;
      }
    }
    for (let e = n - 1; e >= 0; e--)
      if (parent[e] >= 0 && this.after[e] > this.after[parent[e]]) this.after[parent[e]] = this.after[e];
    this.from = this.times ? began : Float64Array.from({ length: n }, (_, e) => e);
    this.to = this.times ? Float64Array.from(began, (b, e) => b + (time[e] || 0)) : Float64Array.from(this.after);
    this.end = this.times ? Math.max(this.model.seconds, 1e-9) : Math.max(n, 1);
  }

  kind(e) { return this.model.kinds[this.events.kind[e]]; }
  label(e) {
    const name = this.name.texts[this.name.of[e]];
    return this.kind(e) === "flush" ? `flush (${name})` : name;
  }
  pathOf(e) { return this.path.texts[this.path.of[e]]; }
  site(e) { const s = this.events.site[e]; return s < 0 ? null : this.model.sites[s]; }
  line(e) {
    const site = this.site(e);
    return site ? `${this.model.files[site[0]].split("/").pop()}:${site[1]}` : "";
  }
  own(e) { return Math.max((this.events.time[e] || 0) - this.insideTime[e], 0); }
  inputs(e) { const a = this.events.operands[e]; return Array.from(this.operands.subarray(a, a + this.events.inputs[e])); }
  outputs(e) {
    const a = this.events.operands[e] + this.events.inputs[e];
    return Array.from(this.operands.subarray(a, a + this.events.outputs[e])).filter((v) => v >= 0);
  }
  saved(e) {
    const mask = this.events.saved[e], out = [];
    this.inputs(e).forEach((v, i) => { if (i < 16 && (mask >>> i) & 1 && v >= 0) out.push(v); });
    const a = this.events.operands[e] + this.events.inputs[e];
    for (let k = 0; k < Math.min(this.events.outputs[e], 16); k++)
      if ((mask >>> (16 + k)) & 1 && this.operands[a + k] >= 0) out.push(this.operands[a + k]);
    return out;
  }
  inside(e) {
    const out = [];
    for (let c = e + 1; c < this.after[e]; c = this.after[c]) out.push(c);
    return out;
  }
  // Which events read each value, as one table: those of v from first[v] on.
  _readers() {
    if (this.readers) return this.readers;
    const { operands, inputs } = this.events, first = new Uint32Array(this.values.event.length + 1);
    for (let e = 0; e < this.count; e++)
      for (let i = operands[e]; i < operands[e] + inputs[e]; i++) if (this.operands[i] >= 0) first[this.operands[i] + 1]++;
    for (let v = 1; v < first.length; v++) first[v] += first[v - 1];
    const at = first.slice(), of = new Uint32Array(first[first.length - 1]);
    for (let e = 0; e < this.count; e++)
      for (let i = operands[e]; i < operands[e] + inputs[e]; i++) if (this.operands[i] >= 0) of[at[this.operands[i]]++] = e;
    return (this.readers = { first, of });
  }
  usedBy(v) { const r = this._readers(); return Array.from(r.of.subarray(r.first[v], r.first[v + 1])); }
  nodeOf(e) {
    if (!this.nodes) {
      this.nodes = new Map();
      this.events.forward.forEach((call, node) => { if (call >= 0) this.nodes.set(call, node); });
    }
    return this.nodes.get(e);
  }
  shape(v) { const a = this.values.dims[v]; return Array.from(this.dims.subarray(a, a + this.values.ndim[v])); }
  dtype(v) { return this.model.dtypes[this.values.dtype[v]]; }
  bytes(v) { return this.shape(v).reduce((a, b) => a * b, this.dtype(v)[1]); }
  valueName(v) { return this.model.value_names[v]; }
  stats(v) {
    const row = this.statisticsOf.get(v), s = this.statistics;
    return row === undefined ? null : { counted: s.counted[row], nans: s.nans[row], infs: s.infs[row],
      mean: s.mean[row], std: s.std[row], least: s.least[row], most: s.most[row] };
  }
}

// The rolled tree: items in their order, each with those inside up to `after`.
class Tree {
  constructor(model, graph) {
    const t = model.tree;
    this.graph = graph;
    this.level = unpack(t.level); this.low = unpack(t.low); this.high = unpack(t.high);
    this.runs = unpack(t.runs); this.time = unpack(t.time); this.oddTexts = t.odd.texts; this.oddOf = unpack(t.odd.of);
    this.labels = t.label.texts; this.labelOf = unpack(t.label.of);
    this.sizesTexts = t.sizes.texts; this.sizesOf = unpack(t.sizes.of);
    this.held = unpack(t.count); this.events = unpack(t.events);
    const n = (this.count = this.level.length);
    this.first = new Uint32Array(n + 1);
    for (let i = 0; i < n; i++) this.first[i + 1] = this.first[i] + this.held[i];
    this.after = new Uint32Array(n);
    this.around = new Int32Array(n).fill(-1);
    const open = [];
    for (let i = 0; i <= n; i++) {
      const level = i < n ? this.level[i] : 0;
      while (open.length > level) this.after[open.pop()] = i;
      if (i === n) break;
      if (open.length) this.around[i] = open[open.length - 1];
      open.push(i);
    }
    this.itemOf = new Int32Array(graph.count).fill(-1);
    for (let i = 0; i < n; i++) for (let k = this.first[i]; k < this.first[i + 1]; k++) this.itemOf[this.events[k]] = i;
    for (let e = 0; e < graph.count; e++)
      if (this.itemOf[e] < 0 && graph.events.parent[e] >= 0) this.itemOf[e] = this.itemOf[graph.events.parent[e]];
  }
  label(i) {
    const label = this.labels[this.labelOf[i]];
    return this.kind(i) === "flush" ? `flush (${label})` : label;
  }
  // What one round of a loop begins with.
  round(i) {
    const names = [];
    for (let c = i + 1; c < this.after[i] && names.length < 4; c = this.after[c]) names.push(this.label(c).split(": ").pop() || this.often(c));
    return names.length > 3 ? `${names.slice(0, 3).join(", ")} …` : names.join(", ");
  }
  odd(i) { return this.oddTexts[this.oddOf[i]]; }
  sizes(i) { return this.sizesTexts[this.sizesOf[i]]; }
  eventsOf(i) { return this.events.subarray(this.first[i], this.first[i + 1]); }
  event(i) { return this.held[i] ? this.events[this.first[i]] : -1; }
  often(i) {
    if (this.high[i] <= 1) return "";
    return this.low[i] === this.high[i] ? `×${this.low[i]}` : `×${this.low[i]}–${this.high[i]}`;
  }
  kind(i) { const e = this.event(i); return e < 0 ? "loop" : this.graph.kind(e); }
  line(i) { const e = this.event(i); return e < 0 ? "" : this.graph.line(e); }
}

// ---- the document ------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

// h("td.n", {title: "…"}, "text", element, …)
function h(what, attributes, ...inside) {
  const [tag, ...classes] = what.split("."), out = document.createElement(tag);
  if (classes.length) out.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (name === "style") out.style.cssText = value;
    else if (value !== undefined && value !== false) out.setAttribute(name, value === true ? "" : value);
  }
  out.append(...inside.filter((x) => x !== null && x !== undefined && x !== ""));
  return out;
}

function seconds(s) {
  if (!(s > 0)) return "";
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
    if (s >= scale) return `${(s / scale).toPrecision(3).replace(/e\+?(\d+)/, "e$1")} ${unit}`;
  return `${Math.round(s * 1e9)} ns`;
}
function size(b) {
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]])
    if (Math.abs(b) >= scale) return `${(b / scale).toPrecision(3)} ${unit}`;
  return `${b} B`;
}
const number = (x) => (Number.isInteger(x) && Math.abs(x) < 1e15 ? x.toLocaleString("en").replace(/,/g, " ")
  : Math.abs(x) >= 1e5 || (x && Math.abs(x) < 1e-3) ? x.toExponential(2) : String(+x.toPrecision(4)));
// What was logged is a number, or one of the names of those that JSON has not; else it is a text.
const isNumber = (v) => typeof v === "number" || v === "NaN" || v === "Infinity" || v === "-Infinity";
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const KIND_COLOUR = { call: "call", function: "call", module: "module", node: "pass", backward: "pass",
  step: "step", flush: "flush", named: "step", loop: "step" };
const kindColour = (kind) => KIND_COLOUR[kind] || "faint";

// A canvas of the size at which it shows, and its context in CSS pixels.
function paper(canvas, height) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth || canvas.parentElement.clientWidth || 600;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.clearRect(0, 0, width, height);
  return [pen, width];
}

function tip(event, text) {
  const box = $("tip");
  box.style.display = text ? "block" : "none";
  if (!text) return;
  box.textContent = text;
  box.style.left = `${Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
}

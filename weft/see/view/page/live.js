// Of a program that runs: its steps over time, what it logs, its layers, and breakpoints.
"use strict";

const SEQUENTIAL = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const DIVERGING = [[33, 71, 143], [67, 116, 190], [126, 170, 218], [190, 214, 236], [247, 247, 247], [248, 205, 184], [236, 143, 113], [205, 74, 62], [143, 16, 36]];
const LEVELS = 253, INF = 254, NAN = 255;

function shade(stops, at) {
  const x = at * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2), f = x - i;
  return stops[i].map((c, k) => c + (stops[i + 1][k] - c) * f);
}

// A picture (samples.py) as a canvas, tiles side by side, with what its colours mean.
function pictureOf(p, wide = 300) {
  const data = unpack({ t: "u1", d: p.data }), { rows, cols, tiles } = p, gap = tiles > 1 ? 1 : 0;
  const canvas = h("canvas"), across = cols * tiles + gap * (tiles - 1);
  canvas.width = Math.max(across, 1);
  canvas.height = Math.max(rows, 1);
  const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
  const signed = p.low < 0 && p.high > 0, most = Math.max(-p.low, p.high), span = p.high - p.low;
  const colours = Array.from({ length: LEVELS }, (_, k) => {
    const value = p.low + (k / (LEVELS - 1)) * span;
    return signed ? shade(DIVERGING, 0.5 + value / (2 * most)) : shade(SEQUENTIAL, span ? k / (LEVELS - 1) : 0.5);
  });
  for (let t = 0; t < tiles; t++)
    for (let y = 0; y < rows; y++)
      for (let x = 0; x < cols; x++) {
        const code = data[(t * rows + y) * cols + x], at = 4 * (y * canvas.width + t * (cols + gap) + x);
        if (code === NAN && p.blank && y === rows - 1 && x >= cols - p.blank) continue;
        const [r, g, b] = code === NAN ? [255, 0, 200] : code === INF ? [0, 0, 0] : colours[code];
        image.data[at] = r; image.data[at + 1] = g; image.data[at + 2] = b; image.data[at + 3] = 255;
      }
  pen.putImageData(image, 0, 0);
  const scale = Math.max(wide / canvas.width, Math.min(6, wide / canvas.width));
  canvas.style.width = `${Math.min(canvas.width * scale, wide)}px`;
  canvas.style.height = `${Math.max(Math.min(canvas.height * scale, 260), 12)}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `picture of [${p.shape.join(", ")}], ${number(p.low)} to ${number(p.high)}`);
  const notes = [`${number(p.low)} … ${number(p.high)}`];
  if (p.nans) notes.push(`${p.nans} nan (magenta)`);
  if (p.infs) notes.push(`${p.infs} inf (black)`);
  if (p.note) notes.push(`sampled: ${p.note}`);
  return h("div.picture", {}, canvas, h("div.dim", {}, notes.join(" · ")));
}

function bars(canvas, b, name) {
  const [pen, width] = paper(canvas, 56), most = Math.max(...b.counts, 1), w = width / b.counts.length;
  pen.fillStyle = colour(name);
  b.counts.forEach((c, k) => { const y = (c / most) * 54; pen.fillRect(k * w, 56 - y, Math.max(w - 1, 0.5), y); });
  if (b.low < 0 && b.high > 0) { pen.fillStyle = colour("dim"); pen.fillRect((-b.low / (b.high - b.low)) * width, 0, 1, 56); }
}

class LayersPanel {
  constructor(app) { this.app = app; this.box = h("div.panel"); this.kind = "result"; }
  show(g) {
    const all = g.model.layers || [], rows = all.filter((l) => l.kind === this.kind);
    const names = { result: "results of modules", parameter: "weights and gradients" };
    this.box.replaceChildren(h("h2", {}, ...Object.entries(names).flatMap(([k, text]) => [h("button", { "aria-pressed": String(k === this.kind), onclick: () => { this.kind = k; this.show(g); } }, text), " "])),
      rows.length ? h("p.dim", {}, this.kind === "result" ? "The first result of each module in this step." : "At the end of this step, before the gradients were cleared.") : h("div.note", {}, "None were seen in this step."),
      h("div.cards", {}, ...rows.map((l) => this.card(l))));
    this.box.querySelectorAll("canvas[data-bars]").forEach((c) => bars(c, c.bars, c.dataset.bars));
  }
  card(l) {
    const out = h("div.card", {}, h("h4", {}, l.name), h("div.dim.mono", {}, `${l.class || ""} [${l.shape.join(", ")}]`));
    for (const [what, name] of [["weight", "module"], ["gradient", "step"], ["result", "call"]]) {
      const b = l[what];
      if (!b) continue;
      const canvas = h("canvas", { "data-bars": name, role: "img", "aria-label": `histogram: ${what}` });
      canvas.bars = b;
      out.append(h("div", { style: "margin-top:8px" }, h("span.dim", {}, what)), canvas,
        h("div.dim", {}, `${number(b.mean)} ± ${number(b.std)} · ${number(b.low)} … ${number(b.high)}`, b.odd ? h("span.bad", {}, ` ${b.odd} nan or inf`) : "",
          b.seen < b.of ? ` · sampled: ${number(b.seen)} of ${number(b.of)}` : ""));
    }
    if (l.picture) out.append(pictureOf(l.picture, 206));
    return out;
  }
}

class StopsPanel {
  constructor(app, live) {
    this.app = app;
    this.live = live;
    const field = (name, hint) => h("label", {}, name, h("input", { name, placeholder: hint }));
    const check = (name) => h("label", {}, name, h("input", { name, type: "checkbox", style: "width:auto" }));
    this.form = h("form.form", { onsubmit: (e) => this.set(e) }, check("nan"), check("inf"), field("op", "log, *norm*"), field("line", "model.py:42"),
      field("module", "encoder.*"), field("norm_above", "1e3"), h("button", { type: "submit" }, "Set a breakpoint"));
    this.list = h("div");
    this.here = h("div");
    this.box = h("div.panel", {}, this.here, h("h2", {}, "Stop when all of it is true"), this.form,
      h("p.dim", {}, "From the end of the step under way on. While it stops, the program waits for this page; it goes on when the page is closed."), h("h2", {}, "Set"), this.list);
  }
  show() {
    const s = this.live.state;
    this.list.replaceChildren(s.stops.length ? h("table", {}, h("tr", {}, h("th", {}, "when"), h("th.n", {}, "hits"), h("th", {}, "state"), h("th")),
      ...s.stops.map((stop) => h("tr", {}, h("td.mono", {}, Object.entries(stop.when).map(([k, v]) => (v === true ? k : `${k}=${v}`)).join(", ")),
        h("td.n", {}, String(stop.hits)), h("td", {}, stop.state), h("td", {}, h("button", { onclick: () => this.live.tell({ remove: stop.id }) }, "Remove")))))
      : h("div.note", {}, "None. A breakpoint on “nan” stops at the first call that makes one."));
    const at = s.stopped;
    this.here.replaceChildren(...(at ? [h("h2", {}, `Stopped in step ${at.step}`), h("pre.source", {}, h("span", {}, at.text)),
      h("h2", {}, `Names in ${at.frame}`), h("table", {}, ...at.names.map(([n, v]) => h("tr", {}, h("td.mono", {}, n), h("td.mono.dim", {}, v))))] : []));
  }
  set(event) {
    event.preventDefault();
    const stop = {};
    for (const input of this.form.querySelectorAll("input"))
      if (input.type === "checkbox" ? input.checked : input.value.trim()) stop[input.name] = input.type === "checkbox" ? true : input.value.trim();
    this.live.tell({ stop }).then((ok) => ok && this.form.reset());
  }
}

class Live {
  constructor(app) {
    this.app = app;
    this.state = { stops: [], recorded: [], structures: [] };
    this.values = new Map();
    this.metrics = new Set();
    this.follow = true;
    this.shown = null;
    this.layers = new LayersPanel(app);
    this.stops = new StopsPanel(app, this);
    this.runs = new RunsPanel(app);
    app.live = this;
    app.add("Layers", this.layers);
    app.add("Stops", this.stops);
    app.add("Runs", this.runs);
    const button = (text, title, f) => h("button", { title, onclick: f }, text);
    this.lamp = h("span.lamp");
    this.text = h("span.state");
    this.followButton = button("Follow", "show each step as it is recorded (space)", () => this.setFollow(!this.follow));
    this.holdButton = button("Hold", "the program waits at the end of the step", () => this.tell({ hold: !this.state.holding }));
    this.every = h("select", { title: "record one step in so many", onchange: () => this.tell({ every: +this.every.value }) },
      ...[1, 5, 20, 100, 500].map((n) => h("option", { value: n }, `1 in ${n}`)));
    this.legend = h("span.legend");
    this.banner = h("span");
    this.canvas = h("canvas", { role: "img", "aria-label": "what was logged over the steps, and which were recorded" });
    this.canvas.addEventListener("click", (e) => this.pick(e));
    this.canvas.addEventListener("pointermove", (e) => this.hover(e));
    this.canvas.addEventListener("pointerleave", () => tip(null, ""));
    $("live").hidden = false;
    $("live").append(h("span", {}, this.lamp, this.text), this.followButton, button("‹", "the recorded step before ([)", () => this.go(-1)), button("›", "the next recorded step (])", () => this.go(1)),
      this.holdButton, button("Record next", "the next step, whatever is sampled", () => this.tell({ record: true })), this.every, this.legend, h("span.spacer"), this.banner, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.source = new EventSource("events");
    this.source.onmessage = (e) => this.hear(JSON.parse(e.data));
    this.source.onerror = () => { this.lost = true; this.label(); };
    app.tab("Graph");
  }

  hear(state) {
    this.lost = false;
    for (const row of state.history) {
      this.values.set(row.step, { ...this.values.get(row.step), ...row });
      for (const name of Object.keys(row)) if (name !== "step" && isNumber(row[name])) this.metrics.add(name);
    }
    const had = this.state.recorded.length ? this.state.recorded[this.state.recorded.length - 1].step : -1, was = this.state.stopped;
    this.state = state;
    if ([...this.every.options].every((o) => +o.value !== state.every)) this.every.append(h("option", { value: state.every }, `1 in ${state.every}`));
    this.every.value = state.every;
    this.holdButton.setAttribute("aria-pressed", String(state.holding));
    const last = state.recorded[state.recorded.length - 1];
    if (state.stopped && !was) this.showStop();
    else if (!state.stopped && was) { this.shown = null; if (last) this.load(last.step); }
    else if (!state.stopped && last && (this.shown === null || (this.follow && last.step !== had))) this.load(last.step);
    this.label();
    this.draw();
    if (this.app.shown === "Stops") this.stops.show();
    if (state.runs && !last && !document.body.dataset.ready) this.app.tab("Runs"); // there may be no program
    document.body.dataset.ready = "1";
  }

  label() {
    const s = this.state;
    this.lamp.className = `lamp${this.lost ? "" : s.stopped || s.holding ? " hold" : s.active ? " on" : ""}`;
    this.text.textContent = this.lost ? "the program has ended" : s.failure ? s.failure : s.stopped ? `stopped in step ${s.stopped.step}`
      : s.holding ? `held after step ${s.number - 1}` : s.active ? `step ${s.number}` : "not started";
    if (!this.lost && s.recorded.length === 0 && !s.stopped) this.app.details.box.replaceChildren(h("h2", {}, "Waiting for a step"),
      h("div.note", {}, "A step goes from one optimizer.step() to the next; the first ones are recorded at once."));
    const many = s.structures.length;
    this.legend.textContent = many ? `${many} structure${many === 1 ? "" : "s"} in ${s.structures.reduce((a, b) => a + b.count, 0)} recorded steps` : "";
    this.followButton.setAttribute("aria-pressed", String(this.follow));
    const tell = (wish) => () => this.tell(wish);
    this.banner.replaceChildren(...(s.stopped && !this.lost ? [h("button", { onclick: tell({ do: "go" }) }, "Go on"), " ", h("button", { onclick: tell({ do: "step" }) }, "Next op"), " ",
      h("button", { onclick: () => { const value = prompt("Write this number into all of the result:", "0"); if (value !== null) this.tell({ do: "change", value }); } }, "Change …")] : []));
  }

  async load(step) {
    this.wanted = step;
    if (this.loading) return;
    this.loading = true;
    while (this.wanted !== undefined) {
      const now = this.wanted;
      this.wanted = undefined;
      const answer = await fetch(`step/${now}`).catch(() => null);
      if (!answer || !answer.ok) continue;
      const model = await answer.json();
      if (!model) continue; // not kept any more, or it has gone on
      this.shown = now;
      this.app.show(model);
      document.body.dataset.step = now;
      if (now === -1 && this.state.stopped) this.app.choose(this.state.stopped.event, undefined, true);
    }
    this.loading = false;
    this.draw();
  }

  showStop() { this.load(-1); }
  setFollow(on) {
    this.follow = on;
    const last = this.state.recorded[this.state.recorded.length - 1];
    if (on && last) this.load(last.step);
    this.label();
  }
  go(by) {
    const steps = this.state.recorded.map((r) => r.step), at = steps.indexOf(this.shown);
    const to = steps[Math.max(0, Math.min(steps.length - 1, (at < 0 ? steps.length - 1 : at) + by))];
    this.follow = false;
    if (to !== undefined) this.load(to);
    this.label();
  }
  key(e) {
    if (e.key === "[") this.go(-1);
    else if (e.key === "]") this.go(1);
    else if (e.key === " " && e.target === document.body) { e.preventDefault(); this.setFollow(!this.follow); }
  }

  async tell(wish) {
    const answer = await fetch("control", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wish) }).catch(() => null);
    if (answer && !answer.ok) alert(await answer.text());
    return Boolean(answer && answer.ok);
  }

  // ---- the timeline ----

  get range() {
    const steps = [...this.values.keys(), ...this.state.recorded.map((r) => r.step)];
    return steps.length ? [steps.reduce((a, b) => Math.min(a, b)), Math.max(steps.reduce((a, b) => Math.max(a, b)), this.state.number || 0, 1)] : [0, 1];
  }
  get names() {
    const all = [...this.metrics], logged = all.filter((n) => n !== "loss (recorded)");
    return (logged.length ? logged : all).slice(0, 6);
  }

  draw() {
    if (!this.canvas.isConnected) return;
    const [pen, width] = paper(this.canvas, 76), [low, high] = this.range, x = (s) => 4 + ((s - low) / Math.max(high - low, 1)) * (width - 8);
    this.x = x;
    const hues = ["module", "step", "call", "flush", "pass", "warn"], rows = [...this.values.values()].sort((a, b) => a.step - b.step);
    pen.font = "11px " + colour("mono");
    pen.textBaseline = "top";
    let label = 8;
    this.names.forEach((name, k) => {
      const points = rows.filter((r) => isNumber(r[name])).map((r) => [r.step, Number(r[name])]);
      const finite = points.filter(([, v]) => Number.isFinite(v));
      const least = finite.reduce((a, [, v]) => Math.min(a, v), Infinity), most = finite.reduce((a, [, v]) => Math.max(a, v), -Infinity);
      const y = (v) => 60 - ((v - least) / Math.max(most - least, 1e-12)) * 42;
      pen.strokeStyle = colour(hues[k]);
      pen.lineWidth = 1.6;
      pen.beginPath();
      let up = true;
      for (const [s, v] of points) {
        if (!Number.isFinite(v)) { up = true; pen.fillStyle = colour("warn"); pen.fillRect(x(s) - 1, 16, 2, 46); continue; }
        if (up) pen.moveTo(x(s), y(v)); else pen.lineTo(x(s), y(v));
        up = false;
      }
      pen.stroke();
      if (finite.length === 1) { pen.fillStyle = colour(hues[k]); pen.fillRect(x(finite[0][0]) - 2, y(finite[0][1]) - 2, 4, 4); }
      if (points.length) {
        const text = `${name} ${number(points[points.length - 1][1])}`;
        pen.fillStyle = colour(hues[k]);
        pen.fillText(text, label, 3);
        label += pen.measureText(text).width + 18;
      }
    });
    const order = this.state.structures.map((s) => s.name);
    for (const r of this.state.recorded) {
      pen.fillStyle = `hsl(${(order.indexOf(r.structure) * 137.5 + 210) % 360} 62% 52%)`;
      pen.fillRect(x(r.step) - 1.5, 66, 3, 8);
    }
    if (this.shown !== null && this.shown >= 0) {
      pen.fillStyle = colour("ink");
      pen.fillRect(x(this.shown) - 0.75, 0, 1.5, 76);
    }
  }

  nearest(e) {
    let best = null;
    for (const r of this.state.recorded) if (!best || Math.abs(this.x(r.step) - e.offsetX) < Math.abs(this.x(best.step) - e.offsetX)) best = r;
    return best;
  }
  pick(e) {
    const r = this.nearest(e);
    if (!r) return;
    this.follow = false;
    this.load(r.step);
    this.label();
  }
  hover(e) {
    const r = this.nearest(e);
    if (!r) return;
    const row = this.values.get(r.step) || {}, logged = Object.entries(row).filter(([n]) => n !== "step").map(([n, v]) => `${n} ${isNumber(v) ? number(Number(v)) : v}`);
    const s = this.state.structures.findIndex((x) => x.name === r.structure);
    tip(e, [`step ${r.step}`, `structure ${s + 1} of ${this.state.structures.length}`, `${number(r.events)} events`, seconds(r.seconds), ...logged].join(" · "));
  }

  // ---- values ----

  picture(g, v, box) {
    const known = g.model.pictures && g.model.pictures[v];
    if (known) { box.append(pictureOf(known)); return; }
    const last = this.state.recorded[this.state.recorded.length - 1], made = g.values.event[v];
    const absent = () => {
      const line = made >= 0 ? g.line(made) : "", name = made >= 0 ? g.label(made) : "";
      box.append(h("div.dim", {}, "Its values are gone: a recording keeps none. ",
        line && g.kind(made) === "call" ? h("button", { onclick: (e) => { this.tell({ look: { op: name, line } }); e.target.disabled = true; } }, "Picture in the next step") : ""));
    };
    if (!last || last.step !== g.model.step) { absent(); return; }
    fetch(`value/${g.model.step}/${v}`).then((a) => a.json()).then((p) => {
      if (!p) absent();
      else box.append(pictureOf(p), p.now > g.model.step ? h("div.dim", {}, `as it is now, in step ${p.now}`) : "");
    }).catch(() => {});
  }
}

// The runs of a folder (weft.experiment) beside one another: what differs, and their metrics.
"use strict";

class RunsPanel {
  constructor(app) {
    this.app = app;
    this.box = h("div.panel");
    this.left = new Set(); // runs that are not drawn
    this.data = [];
    setInterval(() => { if (app.shown === "Runs" && !document.hidden) this.load(); }, 3000);
  }

  show() { this.draw(); this.load(); }

  async load() {
    const answer = await fetch("runs").catch(() => null);
    if (!answer || !answer.ok) return;
    const text = await answer.text();
    if (text === this.text) return;
    this.text = text;
    this.data = JSON.parse(text);
    this.draw();
  }

  hue(i) { return `hsl(${(i * 137.5 + 210) % 360} 62% 50%)`; }

  draw() {
    const runs = this.data, shown = runs.filter((r) => !this.left.has(r.id));
    if (!runs.length) { this.box.replaceChildren(h("div.note", {}, "No runs in this folder yet. ", h("code", {}, "with weft.experiment(config) as run: run.log(step, loss=…)"), " makes one.")); return; }
    const keys = [...new Set(runs.flatMap((r) => Object.keys(r.config)))], differ = keys.filter((k) => new Set(runs.map((r) => JSON.stringify(r.config[k]))).size > 1);
    const metrics = [...new Set(runs.flatMap((r) => Object.keys(r.series)))];
    this.box.replaceChildren(h("h2", {}, `${runs.length} run${runs.length === 1 ? "" : "s"}`),
      h("table", {}, h("tr", {}, h("th"), h("th", {}, "run"), h("th", {}, "state"), h("th.n", {}, "time"), ...differ.map((k) => h("th", {}, k)), ...metrics.slice(0, 6).map((m) => h("th.n", {}, `last ${m}`))),
        ...runs.map((r, i) => h("tr", {}, h("td", {}, h("input", { type: "checkbox", checked: !this.left.has(r.id), "aria-label": `draw ${r.id}`,
          onchange: (e) => { if (e.target.checked) this.left.delete(r.id); else this.left.add(r.id); this.draw(); } })),
        h("td.mono", {}, h("i.dot", { style: `display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px;background:${this.hue(i)}` }), r.id),
        h("td", { style: r.state === "failed" || r.state === "killed" ? "color:var(--warn)" : "" }, r.state), h("td.n", {}, seconds(r.seconds)),
        ...differ.map((k) => h("td.mono", {}, r.config[k] === undefined ? "" : JSON.stringify(r.config[k]))),
        ...metrics.slice(0, 6).map((m) => h("td.n", {}, m in r.last ? isNumber(r.last[m]) ? number(Number(r.last[m])) : String(r.last[m]) : ""))))),
      ...metrics.flatMap((m) => [h("h2", {}, m), h("canvas", { "data-metric": m, role: "img", "aria-label": `${m} over the steps of each run`, style: "width:100%" })]));
    this.box.querySelectorAll("canvas").forEach((c) => this.plot(c, c.dataset.metric, shown));
  }

  plot(canvas, metric, shown) {
    const [pen, width] = paper(canvas, 180), points = shown.flatMap((r) => r.series[metric] || []).map(([s, v]) => [s, Number(v)]).filter(([, v]) => Number.isFinite(v));
    if (!points.length) return;
    const least = (k) => points.reduce((a, p) => Math.min(a, p[k]), Infinity), most = (k) => points.reduce((a, p) => Math.max(a, p[k]), -Infinity);
    const [s0, s1, v0, v1] = [least(0), most(0), least(1), most(1)];
    const x = (s) => 56 + ((s - s0) / Math.max(s1 - s0, 1)) * (width - 64), y = (v) => 160 - ((v - v0) / Math.max(v1 - v0, 1e-12)) * 150;
    pen.font = "11px " + colour("mono");
    pen.fillStyle = colour("dim");
    pen.textAlign = "right";
    for (const v of v1 > v0 ? [v0, (v0 + v1) / 2, v1] : [v0]) { pen.fillText(number(v), 50, y(v) + 4); pen.fillRect(56, y(v), width - 64, 0.5); }
    pen.fillText(`step ${number(s1)}`, width - 8, 176);
    for (const r of shown) {
      pen.strokeStyle = this.hue(this.data.indexOf(r));
      pen.lineWidth = 1.6;
      pen.beginPath();
      let up = true;
      for (const [s, value] of r.series[metric] || []) {
        const v = Number(value);
        if (!Number.isFinite(v)) { up = true; continue; }
        if (up) pen.moveTo(x(s), y(v)); else pen.lineTo(x(s), y(v));
        up = false;
      }
      pen.stroke();
    }
  }
}

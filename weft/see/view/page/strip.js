// What ran over time, one band for each depth, and the live bytes below. Wheel: zoom; drag: move.
"use strict";

class Strip {
  constructor(app, memory) {
    this.app = app;
    this.memory = memory; // memory alone, in a panel of its own
    this.canvas = h("canvas", { "aria-label": memory ? "bytes over time" : "events over time", role: "img" });
    this.box = h("div", { id: memory ? "curve" : "strip", style: memory ? "position:relative" : "" }, this.canvas);
    const on = (name, f) => this.canvas.addEventListener(name, f);
    on("wheel", (e) => {
      e.preventDefault();
      const at = this.time(e.offsetX), by = Math.exp(Math.sign(e.deltaY) * 0.25);
      this.look(at - (at - this.low) * by, at + (this.high - at) * by);
    });
    on("pointerdown", (e) => { this.grip = { x: e.offsetX, low: this.low, high: this.high, moved: false }; this.canvas.setPointerCapture(e.pointerId); });
    on("pointermove", (e) => this.move(e));
    on("pointerup", (e) => {
      const moved = this.grip && this.grip.moved;
      this.grip = null;
      const hit = moved ? -1 : this.hit(e.offsetX, e.offsetY);
      if (hit >= 0) this.app.choose(hit, undefined, true);
    });
    on("pointerleave", () => tip(null, ""));
    on("dblclick", () => this.look(0, this.graph.end));
    new ResizeObserver(() => this.graph && this.draw()).observe(this.box);
  }

  show(graph) {
    this.graph = graph;
    this.leaves = [];
    for (let e = 0; e < graph.count; e++) if (!graph.insideCount[e]) this.leaves.push(e);
    this.peak = graph.events.bytes.reduce((a, b) => Math.max(a, b), 0);
    this.bands = Math.min(graph.deepest + 1, 9);
    this.look(0, graph.end);
  }

  look(low, high) {
    const least = this.graph.end * 1e-7;
    if (high - low < least) return;
    this.low = Math.max(0, low);
    this.high = Math.min(this.graph.end, high);
    this.draw();
  }

  time(x) { return this.low + (x / this.width) * (this.high - this.low); }
  x(time) { return ((time - this.low) / (this.high - this.low)) * this.width; }

  draw() {
    if (!this.graph || !this.box.isConnected) return;
    const curve = this.memory ? 220 : this.peak ? 34 : 0, bands = this.memory ? 0 : this.bands * 14;
    const [pen, width] = paper(this.canvas, bands + curve + 4);
    this.width = width;
    this.bandsHeight = bands;
    if (!this.memory) this.drawEvents(pen);
    if (curve) this.drawBytes(pen, bands + 2, curve);
    const e = this.app.event;
    if (e >= 0 && e < this.graph.count) {
      pen.fillStyle = colour("accent");
      const x = this.x(this.graph.from[e]), w = Math.max(this.x(this.graph.to[e]) - x, 1.5);
      pen.globalAlpha = 0.16;
      pen.fillRect(x, 0, w, bands + curve + 4);
      pen.globalAlpha = 1;
      if (!this.memory) { pen.strokeStyle = colour("ink"); pen.lineWidth = 1.5; pen.strokeRect(x, Math.min(this.graph.depth[e], 8) * 14 + 0.5, Math.max(w, 2), 13); }
    }
  }

  drawEvents(pen) {
    const g = this.graph, last = new Float64Array(this.bands).fill(-1);
    const kinds = g.model.kinds.map((k) => colour(kindColour(k)));
    const warn = colour("warn");
    pen.font = "11px " + colour("mono");
    pen.textBaseline = "middle";
    for (let e = 0; e < g.count; e++) {
      const d = g.depth[e];
      if (d >= this.bands || g.to[e] < this.low || g.from[e] > this.high) continue;
      let x0 = this.x(g.from[e]), x1 = this.x(g.to[e]);
      if (x1 - last[d] < 0.6) continue;
      x0 = Math.max(x0, last[d], 0);
      x1 = Math.min(Math.max(x1, x0 + 0.7), this.width);
      last[d] = x1;
      pen.fillStyle = g.events.flags[e] & FAILED ? warn : kinds[g.events.kind[e]];
      pen.globalAlpha = g.events.flags[e] & BACKWARD && g.kind(e) === "call" ? 0.55 : 0.85;
      const gap = x1 - x0 > 3 ? 1 : 0;
      pen.fillRect(x0, d * 14 + 1, x1 - x0 - gap, 12);
      if (x1 - x0 > 30) {
        pen.globalAlpha = 1;
        pen.fillStyle = colour("panel");
        const room = Math.floor((x1 - x0 - 6) / 6.7), text = g.label(e);
        pen.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, x0 + 3, d * 14 + 7.5);
      }
    }
    pen.globalAlpha = 1;
  }

  drawBytes(pen, top, height) {
    const g = this.graph, y = (b) => top + height - 2 - (b / this.peak) * (height - 6);
    pen.beginPath();
    pen.moveTo(0, y(0));
    let before = 0, peak = -1;
    for (const e of this.leaves) {
      const x = this.x(g.to[e]), b = g.events.bytes[e];
      if (b === this.peak && peak < 0) peak = e;
      if (x >= 0 && x <= this.width + 1) { pen.lineTo(x, y(before)); pen.lineTo(x, y(b)); }
      else if (x < 0) pen.lineTo(0, y(b));
      before = b;
      if (x > this.width) break;
    }
    pen.lineTo(this.width, y(before));
    pen.lineTo(this.width, y(0));
    pen.closePath();
    pen.fillStyle = colour("module");
    pen.globalAlpha = 0.25;
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("module");
    pen.lineWidth = 1;
    pen.stroke();
    pen.fillStyle = colour("dim");
    pen.font = "11px " + colour("mono");
    pen.textBaseline = "top";
    if (peak >= 0 && this.memory) { pen.fillStyle = colour("warn"); pen.fillRect(this.x(g.to[peak]) - 1, top, 2, height); }
    const text = `${size(this.peak)} at the peak`;
    pen.fillStyle = colour("dim");
    pen.fillText(text, 6, top + 2);
  }

  // The event under a point: the innermost of its band, and under the bands the last one that had ended.
  hit(x, y) {
    const g = this.graph, time = this.time(x), d = Math.floor(y / 14);
    let best = -1, near = (3 / this.width) * (this.high - this.low);
    for (let e = 0; e < g.count; e++) {
      if (y < this.bandsHeight) {
        if (g.depth[e] !== d) continue;
        if (g.from[e] <= time && time <= g.to[e]) return e;
        const off = Math.min(Math.abs(g.from[e] - time), Math.abs(g.to[e] - time));
        if (off < near) { near = off; best = e; }
      } else if (!g.insideCount[e] && g.from[e] <= time) best = e;
    }
    return best;
  }

  move(event) {
    if (this.grip) {
      const by = event.offsetX - this.grip.x, span = this.grip.high - this.grip.low;
      if (Math.abs(by) > 3) this.grip.moved = true;
      if (!this.grip.moved) return;
      const low = Math.max(0, Math.min(this.grip.low - (by / this.width) * span, this.graph.end - span));
      this.look(low, low + span);
      return;
    }
    const e = this.hit(event.offsetX, event.offsetY), g = this.graph;
    tip(event, e < 0 ? "" : `${g.label(e)}  ${seconds(g.events.time[e])}  ${g.line(e)}  ${g.events.bytes[e] ? size(g.events.bytes[e]) : ""}`);
  }
}

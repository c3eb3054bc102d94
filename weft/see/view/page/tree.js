// The tree of what ran: rows that open in place, of which only those in sight are in the document.
"use strict";

const ROW = 24;

class TreeView {
  constructor(app) {
    this.app = app;
    this.open = new Set();
    this.visible = [];
    this.chosen = -1;
    this.spacer = h("div", { style: "position:relative" });
    this.box = h("div.rows", { tabindex: 0, role: "tree", "aria-label": "modules and calls" }, this.spacer);
    this.head = h("div.head", {}, h("span", {}, "what ran"), h("span", {}, "result"),
      h("span", {}, "time"), h("span", {}, "line"));
    this.box.addEventListener("scroll", () => this.later());
    this.box.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.later()).observe(this.box);
  }

  show(graph) {
    const same = this.tree && this.graph.model.structure === graph.model.structure && this.tree.count === graph.tree.count;
    this.graph = graph;
    this.tree = graph.tree;
    if (!same) { this.open.clear(); this.openUpTo(48); this.chosen = -1; }
    this.find(this.words || "");
  }

  // Opens level by level as long as few rows are in sight.
  openUpTo(most) {
    const t = this.tree;
    let seen = 0, level = [];
    for (let i = 0; i < t.count; i = t.after[i]) { level.push(i); seen++; }
    while (level.length) {
      const below = [];
      for (const i of level) {
        const inside = [];
        for (let c = i + 1; c < t.after[i]; c = t.after[c]) inside.push(c);
        if (!inside.length || seen + inside.length > most || t.kind(i) === "backward") continue;
        seen += inside.length;
        this.open.add(i);
        below.push(...inside);
      }
      level = below;
    }
  }

  // Shows what has all the words in its name, path or line, and what that is inside of.
  find(words) {
    this.words = words;
    const t = this.tree, wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    this.matches = null;
    if (wanted.length) {
      this.matches = new Set();
      const shown = new Uint8Array(t.count);
      for (let i = 0; i < t.count; i++) {
        const e = t.event(i);
        const text = `${t.label(i)} ${e >= 0 ? this.graph.pathOf(e) : ""} ${t.line(i)} ${t.sizes(i)} ${t.odd(i)}`.toLowerCase();
        if (!wanted.every((w) => text.includes(w))) continue;
        this.matches.add(i);
        for (let a = i; a >= 0 && !shown[a]; a = t.around[a]) shown[a] = 1;
      }
      this.visible = [];
      for (let i = 0; i < t.count; i++) if (shown[i]) this.visible.push(i);
    } else {
      this.visible = [];
      for (let i = 0; i < t.count;) {
        this.visible.push(i);
        i = this.open.has(i) ? i + 1 : t.after[i];
      }
    }
    this.most = 0;
    for (let i = 0; i < t.count; i = t.after[i]) this.most = Math.max(this.most, t.time[i]);
    this.spacer.style.height = `${this.visible.length * ROW}px`;
    this.draw();
  }

  later() {
    if (!this.waits) this.waits = requestAnimationFrame(() => { this.waits = 0; this.draw(); });
  }

  draw() {
    const height = this.box.clientHeight || 600;
    const from = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 8);
    const to = Math.min(this.visible.length, from + Math.ceil(height / ROW) + 16);
    this.spacer.replaceChildren(...this.visible.slice(from, to).map((i, k) => this.row(i, from + k)));
    this.box.setAttribute("aria-activedescendant", this.chosen >= 0 ? `item${this.chosen}` : "");
  }

  row(i, at) {
    const t = this.tree, holds = t.after[i] > i + 1, open = this.matches ? true : this.open.has(i);
    const label = t.label(i), colon = label.indexOf(": ");
    const twist = h("span.twist", { onclick: (e) => { e.stopPropagation(); this.toggle(i); } }, holds ? (open ? "▾" : "▸") : "");
    const name = h("span", { style: `padding-left:${6 + t.level[i] * 16}px` }, twist,
      h("i.dot", { style: `background:var(--${kindColour(t.kind(i))})` }),
      ...(!label ? [h("span.often", { style: "margin-left:0" }, t.often(i)), h("span.path", {}, ` ${t.round(i)}`)]
        : colon > 0 ? [label.slice(colon + 2), h("span.path", {}, ` ${label.slice(0, colon)}`)] : [label]),
      label && t.often(i) ? h("span.often", {}, t.often(i)) : "",
      t.odd(i) ? h("span.bad", {}, ` ${t.odd(i)}`) : "");
    const wide = this.most > 0 ? (t.time[i] / this.most) * 100 : 0;
    return h(`div.row${i === this.chosen ? ".on" : ""}`, {
      style: `top:${at * ROW}px`, id: `item${i}`, role: "treeitem", "aria-level": t.level[i] + 1,
      "aria-expanded": holds ? String(open) : undefined, "aria-selected": String(i === this.chosen),
      "data-item": i, onclick: () => this.choose(i), ondblclick: () => this.toggle(i),
    }, name, h("span.shape", { title: t.sizes(i) }, t.sizes(i)),
    h("span.time", {}, h("i", { style: `width:${wide.toFixed(1)}%` }), seconds(t.time[i])),
    h("span.site", {}, t.line(i)));
  }

  toggle(i) {
    if (this.tree.after[i] === i + 1 || this.matches) return;
    if (!this.open.delete(i)) this.open.add(i);
    this.find("");
  }

  choose(i) {
    this.chosen = i;
    this.draw();
    this.app.choose(this.tree.event(i), i);
  }

  // Brings the item of an event in sight, opening what it is inside of.
  reveal(i) {
    if (i < 0) return;
    this.chosen = i;
    if (!this.matches) {
      for (let a = this.tree.around[i]; a >= 0; a = this.tree.around[a]) this.open.add(a);
      this.find("");
    }
    const at = this.visible.indexOf(i), top = at * ROW;
    if (at >= 0 && (top < this.box.scrollTop || top > this.box.scrollTop + this.box.clientHeight - 2 * ROW))
      this.box.scrollTop = top - this.box.clientHeight / 3;
    this.draw();
  }

  key(event) {
    const at = this.visible.indexOf(this.chosen), i = this.chosen, t = this.tree;
    const go = (to) => {
      if (!this.visible.length) return;
      const next = this.visible[Math.max(0, Math.min(this.visible.length - 1, to))];
      this.choose(next);
      this.reveal(next);
    };
    const page = Math.floor(this.box.clientHeight / ROW) - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) go(at + steps[event.key]);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(this.visible.length - 1);
    else if (event.key === "ArrowRight" && i >= 0) { if (!this.open.has(i)) this.toggle(i); else go(at + 1); }
    else if (event.key === "ArrowLeft" && i >= 0) {
      if (this.open.has(i)) this.toggle(i);
      else if (t.around[i] >= 0) { this.choose(t.around[i]); this.reveal(t.around[i]); }
    } else if ((event.key === "Enter" || event.key === " ") && i >= 0) this.toggle(i);
    else return;
    event.preventDefault();
  }
}

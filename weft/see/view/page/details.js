// What is known of the event that was chosen.
"use strict";

function sourceOf(graph, site, around = 5) {
  const [file, line, where] = site, text = graph.model.source[file] || {};
  const lines = [];
  for (let n = line - around; n <= line + around; n++)
    if (text[n] !== undefined) lines.push(h(`span${n === line ? ".on" : ""}`, {}, h("i", {}, String(n)), text[n] || " "));
  return [h("h3", {}, "Line"),
    h("div.where.mono", { title: graph.model.files[file] }, `${graph.model.files[file].split("/").slice(-2).join("/")}:${line} in ${where}`),
    lines.length ? h("pre.source", {}, ...lines) : h("div.note", {}, "No text of this file was there when the graph was saved.")];
}

function statisticsLine(s) {
  if (!s) return null;
  const bad = s.nans || s.infs ? h("span.bad", {}, ` ${s.nans} nan, ${s.infs} inf`) : "";
  if (s.counted <= s.nans + s.infs) return h("div.dim", {}, "no finite element", bad);
  return h("div.dim", { title: `of ${s.counted} elements that were looked at` },
    `mean ${number(s.mean)} · std ${number(s.std)} · ${number(s.least)} … ${number(s.most)}`, bad);
}

class Details {
  constructor(app) {
    this.app = app;
    this.box = $("details");
  }

  show(event, item) {
    const g = this.app.graph;
    this.box.replaceChildren(...(event >= 0 ? this.ofEvent(g, event, item) : this.ofNothing(g, item)));
    this.box.scrollTop = 0;
  }

  ofNothing(g, item) {
    if (item >= 0)
      return [h("h2", {}, `Loop ${g.tree.often(item)}`), h("div.dim", {}, `${seconds(g.tree.time[item])} in all rounds`)];
    return [h("h2", {}, "Choose something"),
      h("div.note", {}, "A row of the tree or a block of the strip: its line, shapes, statistics, time and gradient show here. "
        + "Arrow keys walk the tree, / finds, wheel and drag zoom and move the strip.")];
  }

  ofEvent(g, e, item) {
    const kind = g.kind(e), flags = g.events.flags[e], site = g.site(e), path = g.pathOf(e);
    const out = [h("h2", {}, g.label(e)),
      h("div.where", {}, `${kind}${flags & BACKWARD ? " in backward" : ""}${path ? ` in ${path}` : ""}`)];
    if (flags & FAILED) out.push(h("div.note.bad", {}, "An exception ended it."));
    const alike = item >= 0 ? g.tree.eventsOf(item) : [];
    if (alike.length > 1) {
      const at = alike.indexOf(e), go = (k) => this.app.choose(alike[(k + alike.length) % alike.length], item, true);
      out.push(h("div.stepper", {}, h("button", { onclick: () => go(at - 1), "aria-label": "the one before" }, "‹"),
        h("span", {}, `${at + 1} of ${alike.length}`),
        h("button", { onclick: () => go(at + 1), "aria-label": "the next one" }, "›")));
    }
    if (site) out.push(...sourceOf(g, site));
    const saved = g.saved(e), inputs = g.inputs(e), results = g.outputs(e);
    if (this.app.live && site && kind === "call") out.push(h("div", { style: "margin-top:8px" }, h("button", {
      title: "a breakpoint on this op at this line", onclick: () => this.app.live.tell({ stop: { op: g.label(e), line: g.line(e) } }) }, "Stop here")));
    if (results.length) out.push(h("h3", {}, results.length > 1 ? "Results" : "Result"), ...results.map((v) => this.value(g, v, saved, e)));
    if (inputs.length) out.push(h("h3", {}, "Inputs"), ...inputs.map((v) => (v < 0 ? h("div.value.dim", {}, "not given") : this.value(g, v, saved, e))));
    out.push(h("h3", {}, "Time and memory"), this.facts(g, e));
    out.push(...this.gradient(g, e));
    const inside = g.inside(e);
    if (inside.length) out.push(h("h3", {}, `Inside (${inside.length})`), this.links(g, inside, 12));
    const around = g.events.parent[e];
    if (around >= 0) out.push(h("h3", {}, "Inside of"), this.links(g, [around], 1));
    return out;
  }

  value(g, v, saved, e) {
    const made = g.values.event[v], marks = g.values.marks[v], name = g.valueName(v);
    const notes = [g.dtype(v)[0], size(g.bytes(v))];
    if (marks & 1) notes.push("requires grad");
    if (marks & 2) notes.push("view");
    if (saved.includes(v)) notes.push("saved for backward");
    const box = h("div.value", {}, h("div.top", {}, h("span.mono", {}, h("b", {}, `${name ? `${name} ` : ""}[${g.shape(v).join(", ")}]`)),
      h("span.dim", {}, notes.join(" · "))), statisticsLine(g.stats(v)));
    if (made >= 0 && made !== e) box.append(h("div", {}, "made by ", this.link(g, made)));
    else if (made < 0 && !name && this.app.live === null) box.append(h("div.dim", {}, "was there before"));
    if (made === e) {
      const readers = g.usedBy(v).filter((r) => r !== e);
      if (readers.length) box.append(h("div", {}, "read by ", ...readers.slice(0, 4).flatMap((r, k) => [k ? ", " : "", this.link(g, r)]),
        readers.length > 4 ? ` and ${readers.length - 4} more` : ""));
    }
    if (this.app.live) this.app.live.picture(g, v, box);
    return box;
  }

  facts(g, e) {
    const rows = [["time", seconds(g.events.time[e]) || "not recorded"]];
    if (g.insideCount[e]) rows.push(["less what is inside", seconds(g.own(e))]);
    if (g.events.bytes[e]) rows.push(["alive at its end", size(g.events.bytes[e])]);
    return h("dl.facts2", {}, ...rows.flatMap(([a, b]) => [h("dt", {}, a), h("dd", {}, b)]));
  }

  gradient(g, e) {
    const call = g.events.forward[e], node = g.nodeOf(e);
    if (call >= 0) return [h("h3", {}, "Of the forward call"), this.links(g, [call], 1)];
    if (node === undefined) return [];
    const results = [];
    for (const c of g.inside(node)) results.push(...g.outputs(c));
    return [h("h3", {}, "Gradient"), h("div", {}, "computed by ", this.link(g, node), ` in ${seconds(g.events.time[node]) || "an unknown time"}`),
      ...results.slice(-3).map((v) => h("div.value", {}, h("span.mono", {}, `[${g.shape(v).join(", ")}] `), statisticsLine(g.stats(v))))];
  }

  link(g, e) { return h("button.link", { onclick: () => this.app.choose(e, undefined, true) }, `${g.label(e)} ${g.line(e)}`.trim()); }
  links(g, events, most) {
    return h("div", {}, ...events.slice(0, most).map((e) => h("div", {}, this.link(g, e), h("span.dim", {}, ` ${seconds(g.events.time[e])}`))),
      events.length > most ? h("div.dim", {}, `and ${events.length - most} more`) : "");
  }
}

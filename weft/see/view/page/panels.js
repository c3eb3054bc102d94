// The other views of a graph: its drawing, memory, profile and batches.
"use strict";

class DrawingPanel {
  constructor(app) { this.app = app; this.box = h("div", { id: "drawing" }); }
  show(g) {
    this.box.innerHTML = g.model.drawing || "";
    if (!g.model.drawing) this.box.append(h("div.note", {}, "No drawing was made of this step."));
    const go = (e) => {
      const at = e.target.closest("[data-event]");
      if (!at || (e.type === "keydown" && e.key !== "Enter" && e.key !== " ")) return;
      e.preventDefault();
      this.box.querySelectorAll(".on").forEach((x) => x.classList.remove("on"));
      at.classList.add("on");
      this.app.choose(+at.dataset.event);
    };
    this.box.onclick = go;
    this.box.onkeydown = go;
  }
}

class MemoryPanel {
  constructor(app) {
    this.app = app;
    this.strip = new Strip(app, true);
    this.table = h("div");
    this.box = h("div.panel", {}, h("h2", {}, "Bytes in live tensors"), this.strip.box, this.table);
  }
  show(g) {
    const m = g.model.memory, rows = m.lines.slice(0, 200);
    if (!m.peak) { this.table.replaceChildren(h("div.note", {}, "No memory was recorded: a graph made after the fact has none.")); return; }
    this.strip.show(g);
    this.table.replaceChildren(
      h("h2", {}, "Alive at the peak, by the line that made it"),
      h("p", {}, `${size(m.peak)} at the ${m.at_begin ? "begin" : "end"} of `, this.app.details.link(g, m.at)),
      h("table", {}, h("tr", {}, h("th", {}, "line and op"), h("th.n", {}, "bytes"), h("th.n", {}, "storages"), h("th", {}, "share")),
        ...rows.map(([line, bytes, count]) => h("tr.click", { tabindex: 0, onclick: () => this.app.find(line) },
          h("td.mono", {}, line), h("td.n", {}, size(bytes)), h("td.n", {}, String(count || "")), h("td", {}, bar([[bytes / m.peak, "module"]]))))),
      m.lines.length > rows.length ? h("p.dim", {}, `and ${m.lines.length - rows.length} lines more`) : "");
  }
}

function bar(parts) {
  return h("div.bar", {}, ...parts.map(([share, name]) => h("i", { style: `width:${(share * 100).toFixed(2)}%;background:var(--${name})` })));
}

// What each event took by itself: in kernels (calls with none inside, fused steps of optimizers) or not.
const OVER = { call: "inside of composite ops, but no kernel", function: "custom functions' Python", module: "modules' Python", backward: "engine",
  node: "nodes of backward", flush: "planning and packing of batches", step: "optimizer's steps", named: "named scopes" };

function profileOf(g) {
  const parts = { kernels: 0 }, groups = { op: new Map(), module: new Map(), line: new Map() };
  let whole = 0;
  for (let e = 0; e < g.count; e++) {
    const kind = g.kind(e), own = g.own(e), kernel = g.events.flags[e] & 8;
    if (g.events.parent[e] < 0) whole += g.events.time[e] || 0;
    const part = kernel && kind === "call" ? "kernels" : kind;
    parts[part] = (parts[part] || 0) + own;
    for (const [by, key] of [["op", g.label(e)], ["module", g.pathOf(e) || "(no module)"], ["line", g.line(e) || "(no line)"]]) {
      let row = groups[by].get(key);
      if (!row) groups[by].set(key, (row = { key, calls: 0, kernel: 0, over: 0, first: e }));
      row.calls += kind === "call" ? 1 : 0;
      row[kernel ? "kernel" : "over"] += own;
    }
  }
  return { parts, groups, whole, between: Math.max(g.model.seconds - whole, 0) };
}

class ProfilePanel {
  constructor(app) { this.app = app; this.by = "op"; this.box = h("div.panel"); }
  show(g) {
    if (!g.times) { this.box.replaceChildren(h("div.note", {}, "No times were recorded.")); return; }
    const p = profileOf(g), all = Math.max(g.model.seconds, 1e-12);
    const names = { kernels: ["in kernels", "call"], module: [OVER.module, "module"], backward: [OVER.backward, "pass"], node: [OVER.node, "pass"],
      call: [OVER.call, "accent"], flush: [OVER.flush, "flush"], step: [OVER.step, "step"], function: [OVER.function, "module"], named: [OVER.named, "step"] };
    for (const kind of Object.keys(p.parts)) names[kind] ??= [kind, kindColour(kind)]; // one that this page has no words for
    const order = Object.keys(names), parts = [...Object.entries(p.parts).filter(([, t]) => t > 0).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)).map(([k, t]) => [...names[k], t]), ["outside of all events", "faint", p.between]];
    const rows = [...p.groups[this.by].values()].sort((a, b) => b.kernel + b.over - a.kernel - a.over);
    const most = rows.length ? rows[0].kernel + rows[0].over : 1;
    this.box.replaceChildren(
      h("h2", {}, `Where ${seconds(g.model.seconds)} went`),
      h("div.stack", { role: "img", "aria-label": "shares of the time" }, ...parts.map(([name, c, t]) => h("i", { style: `width:${(t / all) * 100}%;background:var(--${c})`, title: `${name}: ${seconds(t)}` }))),
      h("div.legend", {}, ...parts.map(([name, c, t]) => h("span", {}, h("i", { style: `background:var(--${c})` }), `${name} ${seconds(t) || "0"} (${((t / all) * 100).toFixed(1)} %)`))),
      h("h2", {}, "By ", ...["op", "module", "line"].flatMap((by) => [h("button", { "aria-pressed": String(by === this.by), onclick: () => { this.by = by; this.show(g); } }, by), " "])),
      h("table", {}, h("tr", {}, h("th", {}, this.by), h("th.n", {}, "calls"), h("th.n", {}, "kernels"), h("th.n", {}, "overhead"), h("th", {}, "share")),
        ...rows.slice(0, 300).map((r) => h("tr.click", { tabindex: 0, onclick: () => this.app.find(r.key.startsWith("(") ? "" : r.key) },
          h("td.mono", {}, r.key), h("td.n", {}, r.calls ? number(r.calls) : ""), h("td.n", {}, seconds(r.kernel)), h("td.n", {}, seconds(r.over)),
          h("td", {}, bar([[r.kernel / most, "call"], [r.over / most, "faint"]]))))),
      rows.length > 300 ? h("p.dim", {}, `and ${rows.length - 300} rows more`) : "");
  }
}

class BatchesPanel {
  constructor(app) { this.app = app; this.box = h("div.panel"); }
  show(g) {
    const report = g.model.batches, flushes = [];
    for (let e = 0; e < g.count; e++) if (g.kind(e) === "flush") flushes.push(e);
    const out = [];
    if (!flushes.length && !(report && report.flushes.length)) {
      this.box.replaceChildren(h("div.note", {}, "Nothing was batched in what was recorded. weft.autobatch runs code written for one example over many."));
      return;
    }
    if (report && report.calls) {
      out.push(h("h2", {}, `${number(report.calls)} calls ran as ${number(report.batches)}`),
        h("p.dim", {}, `planning ${seconds(report.plan_s) || "0"} · packing ${seconds(report.pack_s) || "0"} · running ${seconds(report.run_s) || "0"}`
          + ` · estimate: ${seconds(Math.abs(report.saved_s))} ${report.saved_s < 0 ? "lost" : "saved"} against the plain loop`),
        h("table", {}, h("tr", {}, h("th", {}, "line"), h("th", {}, "ops"), h("th.n", {}, "calls"), h("th.n", {}, "ran as"), h("th.n", {}, "time"), h("th", {}, "why not one")),
          ...report.lines.slice(0, 300).map((l) => h("tr.click", { tabindex: 0, onclick: () => this.app.find(`${l.file.split("/").pop()}:${l.line}`) },
            h("td.mono", { title: l.source }, `${l.file.split("/").pop()}:${l.line}`, h("div.dim", {}, l.source)), h("td.mono", {}, l.ops.join(", ")),
            h("td.n", {}, number(l.calls)), h("td.n", {}, number(l.batches)), h("td.n", {}, seconds(l.time_s)), h("td", {}, this.why(l))))));
    } else out.push(h("div.note", {}, "Why calls did not merge is known where weft.explain looked on: ",
      h("code", {}, "with weft.record() as g, weft.explain() as report: …"), " and ", h("code", {}, "g.save(path, report=report)")));
    out.push(h("h2", {}, `${flushes.length} flush${flushes.length === 1 ? "" : "es"}`), ...flushes.slice(0, 100).map((e, k) => this.flush(g, e, report && report.flushes[k])));
    this.box.replaceChildren(...out);
  }
  why(l) {
    const out = [];
    if (l.single.length) out.push(`single: ${l.single.join(", ")}`);
    if (l.apart.length) out.push(`apart: ${l.apart.join(", ")}`);
    if (l.reads) out.push(`waited for a value ${l.reads}×`);
    if (l.draws) out.push(`waited to draw ${l.draws}×`);
    if (l.changes) out.push(`waited to change ${l.changes}×`);
    return out.join("; ");
  }
  flush(g, e, report) {
    const inside = g.inside(e);
    return h("div.value", {}, h("div.top", {}, this.app.details.link(g, e), h("span.dim", {}, `${inside.length} calls ran · ${seconds(g.events.time[e])}`
      + (report ? ` · of ${report.calls} kept, because of ${report.reason}${report.plan_known ? " · plan known" : ""}` : ""))),
    h("div", {}, ...inside.slice(0, 24).flatMap((c) => [this.app.details.link(g, c), " "]), inside.length > 24 ? `and ${inside.length - 24} more` : ""));
  }
}

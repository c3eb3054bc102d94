// The page: a graph, the panels that show it, and what is chosen in it.
"use strict";

class App {
  constructor() {
    this.event = -1;
    this.live = null;
    this.details = new Details(this);
    this.tree = new TreeView(this);
    this.strip = new Strip(this, false);
    this.panels = {
      Graph: { box: h("div", { style: "display:contents" }, this.strip.box, this.tree.head, this.tree.box),
        show: (g) => { this.strip.show(g); this.tree.show(g); } },
      Drawing: new DrawingPanel(this), Memory: new MemoryPanel(this), Profile: new ProfilePanel(this), Batches: new BatchesPanel(this),
    };
    this.drawTabs();
    $("search").addEventListener("input", (e) => { this.tab("Graph"); this.tree.find(e.target.value); });
    $("search").addEventListener("keydown", (e) => {
      if (e.key === "Escape") { e.target.value = ""; this.tree.find(""); this.tree.box.focus(); }
      if (e.key === "Enter" && this.tree.matches && this.tree.matches.size) {
        const found = [...this.tree.matches], at = found.indexOf(this.tree.chosen);
        this.tree.choose(found[(at + 1) % found.length]);
        this.tree.reveal(this.tree.chosen);
      }
    });
    $("theme").addEventListener("click", () => this.theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    document.addEventListener("keydown", (e) => {
      if (e.target.closest("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
      const names = Object.keys(this.panels);
      if (e.key === "/") { e.preventDefault(); $("search").focus(); }
      else if (e.key >= "1" && e.key <= String(names.length)) this.tab(names[e.key - 1]);
      else if (this.live) this.live.key(e);
    });
    this.theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  add(name, panel) { this.panels[name] = panel; this.drawTabs(); }

  drawTabs() {
    $("tabs").replaceChildren(...Object.keys(this.panels).map((name, k) => h("button", {
      role: "tab", "aria-selected": String(name === this.shown), title: `${name} (${k + 1})`, "data-tab": name, onclick: () => this.tab(name) }, name)));
  }

  theme(name) {
    document.documentElement.dataset.theme = name;
    if (this.graph) this.panels[this.shown].show(this.graph);
    if (this.live) this.live.draw();
  }

  tab(name) {
    if (this.shown === name) return;
    this.shown = name;
    this.drawTabs();
    $("stage").replaceChildren(this.panels[name].box);
    if (this.graph || name === "Runs" || name === "Stops") this.panels[name].show(this.graph);
  }

  show(model) {
    const chosen = this.graph && this.event >= 0 ? this.graph.label(this.event) + this.graph.line(this.event) : null;
    this.graph = new Graph(model);
    this.event = -1;
    const g = this.graph, kinds = g.events.kind, count = (name) => { const k = g.model.kinds.indexOf(name); let n = 0; for (const x of kinds) n += x === k; return n; };
    $("title").textContent = model.title;
    document.title = `${model.title} – weft`;
    const facts = [[number(count("call")), "calls"], [number(count("module")), "of modules"], [seconds(model.seconds), ""],
      [model.memory.peak ? size(model.memory.peak) : "", "at the peak"], [model.structure.slice(0, 6), "structure"]];
    $("facts").replaceChildren(...facts.filter(([a]) => a && a !== "0").map(([a, b]) => h("span", {}, h("b", {}, a), ` ${b}`)));
    if (this.shown) this.panels[this.shown].show(g);
    else this.tab("Graph");
    let again = -1; // the same call of the same line as was chosen in the graph before
    for (let e = 0; chosen !== null && again < 0 && e < g.count; e++) if (g.label(e) + g.line(e) === chosen) again = e;
    if (again >= 0) this.choose(again);
    else this.details.show(-1, -1);
    if (this.shown === "Graph") this.tree.draw();
    document.body.dataset.ready = "1";
  }

  // `reveal`: it was chosen elsewhere than in the tree, which shows it now.
  choose(event, item, reveal) {
    this.event = event;
    if (item === undefined) item = event >= 0 ? this.graph.tree.itemOf[event] : -1;
    if (reveal && this.shown === "Graph") this.tree.reveal(item);
    else this.tree.chosen = item;
    this.details.show(event, item);
    if (this.shown === "Graph") this.strip.draw();
    if (this.shown === "Memory") this.panels.Memory.strip.draw();
  }

  find(words) {
    $("search").value = words;
    this.tab("Graph");
    this.tree.find(words);
  }
}

const app = new App();
const embedded = JSON.parse($("model").textContent);
if (embedded) app.show(embedded);
else new Live(app);

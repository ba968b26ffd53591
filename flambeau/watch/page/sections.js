// The sections of the page. Each makes its cards once, and gives them new data when there are some.

const charts = new Map(); // by section and title
const chartOf = (section, title, options, kind = Chart) => {
  const key = `${section}/${title}`;
  if (!charts.has(key)) charts.set(key, new kind(title, options));
  return charts.get(key);
};

// The lines of all shown runs for one name.
const linesOf = (runs, names, label = (n) => n) => {
  const lines = [];
  runs.forEach((run, r) => names.forEach((name, i) => {
    const series = run.series.get(name);
    if (series && series.n) lines.push({ run, series, name: runs.length > 1 ? (names.length > 1 ? `${label(name)} · ${run.label}` : run.label) : label(name), colour: runs.length > 1 && names.length === 1 ? colour(shownIndex(run)) : colour(r * names.length + i, runs.length * names.length) });
  }));
  return lines;
};
const namesOf = (runs, test) => [...new Set(runs.flatMap((run) => [...run.series.keys()].filter(test)))];
const empty = (text) => make("p", { class: "empty" }, text);

// Puts cards into a grid, moving none that are there already.
const arrange = (main, cards) => {
  let grid = main.querySelector(".cards");
  if (!grid) main.replaceChildren(grid = make("div", { class: "cards" }));
  cards.forEach((card, i) => { if (grid.children[i] !== card) grid.insertBefore(card, grid.children[i] || null); });
  while (grid.children.length > cards.length) grid.lastChild.remove();
};

const SECTIONS = [
  { name: "Curves", show(main, runs) {
    const cards = [];
    const add = (title, names, options, label) => {
      const lines = linesOf(runs, names, label);
      if (!lines.length) return;
      const chart = chartOf("curves", title, options);
      chart.set(lines); cards.push(chart);
    };
    add("loss", namesOf(runs, (n) => n === "loss" || n.startsWith("loss")), { big: true, height: 260 });
    for (const name of namesOf(runs, (n) => n.startsWith("metric/"))) add(name.slice(7), [name], {}, (n) => n.slice(7));
    add("learning rate", namesOf(runs, (n) => n === "lr" || n.startsWith("lr/")), { raw: true }, (n) => n.replace("lr/", ""));
    if (!cards.length) return void main.replaceChildren(empty("No steps yet: curves appear when the program calls backward or an optimizer steps."));
    arrange(main, cards.map((c) => c.element));
    return cards;
  } },
  { name: "Layers", kind: "weights", show(main, runs) {
    const cards = [];
    for (const [title, prefix, options] of [["gradient norms", "gradient/", { log: true, raw: true, about: "Norm of the gradient of each layer before its step." }], ["update ratios", "update/", { log: true, raw: true, about: "How much a step changes a layer's weights, relative to them; about 0.001 is usual." }], ["dead units", "dead/", { raw: true, from0: true, about: "Share of a layer's units that were zero for every sample of the last eight looks." }]]) {
      const lines = linesOf(runs, namesOf(runs, (n) => n.startsWith(prefix)), (n) => n.slice(prefix.length));
      if (lines.length) { const chart = chartOf("layers", title, { ...options, height: 230 }); chart.set(lines); cards.push(chart); }
    }
    const run = runs[0];
    for (const [name, kept] of run ? run.histograms : []) {
      if (!name.startsWith(this.kind + "/")) continue;
      const chart = chartOf("histograms " + run.name, name.replace("/", " of "), {}, HistogramChart);
      chart.set(kept); cards.push(chart);
    }
    if (!cards.length) return void main.replaceChildren(empty("No look at the layers yet: the first comes with the first optimizer step."));
    if (!this.choice) this.choice = make("div", { class: "card big" }, make("label", {}, "histograms of ", make("select", { "aria-label": "Histograms of", onchange: (e) => { this.kind = e.target.value; refresh(true); } }, make("option", { value: "weights" }, "weights"), make("option", { value: "activations" }, "activations"))), make("p", { class: "about" }, "One column for each look, darker where there are more values. Looks are spaced so that they take about a hundredth of the time."));
    const elements = cards.map((c) => c.element), at = cards.findIndex((c) => c instanceof HistogramChart);
    if (at >= 0) elements.splice(at, 0, this.choice);
    arrange(main, elements);
    return cards;
  } },
  { name: "Time", show(main, runs) {
    const run = runs[0], cards = [];
    if (!run || !run.series.has("time/forward")) return void main.replaceChildren(empty("No steps yet."));
    const chart = chartOf("time", run.name, {}, TimeChart);
    chart.set(PHASES.map((name, i) => ({ run, name, series: run.series.get("time/" + name), colour: colour(i) })).filter((l) => l.series && l.series.y.subarray(0, l.series.n).some((v) => v > 0)));
    cards.push(chart);
    const memory = linesOf(runs, namesOf(runs, (n) => n.startsWith("memory/")), (n) => n.slice(7));
    if (memory.length) { const m = chartOf("time", "memory, MiB", { raw: true, from0: true }); m.set(memory); cards.push(m); }
    const table = this.table ||= make("section", { class: "card", "aria-label": "Shares of time" });
    table.replaceChildren(make("h3", {}, "mean of all steps"), make("div", { class: "scroll" }, timeTable(run)));
    arrange(main, [chart.element, table, ...cards.slice(1).map((c) => c.element)]);
    return cards;
  } },
  { name: "Model", path: "", which: 0, show(main, runs, force) {
    const run = runs[0];
    if (!run || !run.graphs.length) return void main.replaceChildren(empty("No model yet: its graph is drawn from its first forward pass in training."));
    const state = `${run.name} ${run.graphs.length} ${this.which} ${this.path} ${dark.matches}`;
    if (state === this.seen && main.firstChild && !force) return;
    this.seen = state;
    const graph = run.graphs[Math.min(this.which, run.graphs.length - 1)], open = (path) => { this.path = path; refresh(true); const again = document.querySelector(".path button:last-of-type"); if (again) again.focus(); };
    const parts = this.path ? this.path.split(".") : [];
    const way = make("div", { class: "path", role: "group", "aria-label": "Where in the model" }, make("button", { onclick: () => open("") }, graph.name));
    parts.forEach((part, i) => way.append("›", make("button", { onclick: () => open(parts.slice(0, i + 1).join(".")) }, part)));
    if (run.graphs.length > 1) way.append(make("select", { "aria-label": "Model", onchange: (e) => { this.which = Number(e.target.value); open(""); } }, ...run.graphs.map((g, i) => { const o = make("option", { value: i }, g.name); o.selected = i === this.which; return o; })));
    const root = graph.nodes.find((n) => n.path === "") || {};
    main.replaceChildren(make("section", { class: "card", "aria-label": "Model" }, way, make("p", { class: "about" }, `${(root.parameters || 0).toLocaleString("en")} parameters, ${(root.trained || 0).toLocaleString("en")} trained. Modules with ▸ open.`), make("div", { class: "scroll" }, drawGraph(graph, this.path, open))));
  } },
  { name: "Data", show(main, runs, force) {
    const run = runs[0];
    if (!run || !run.images.length) return void main.replaceChildren(empty("No images: samples are shown if a DataLoader gives batches of images (N, 1 or 3, height, width)."));
    const state = `${run.name} ${run.images.length}`;
    if (state === this.seen && main.firstChild && !force) return;
    this.seen = state;
    main.replaceChildren(...[...run.images].reverse().map((one) => make("section", { class: "card", style: "margin-bottom:.8rem" }, make("h3", {}, `batch at step ${one.images}: ${one.shape.join(" × ")}`), make("div", { class: "images" }, ...one.png.map((p, i) => make("figure", {}, make("img", { src: p, alt: one.labels ? `sample with label ${one.labels[i]}` : `sample ${i}` }), one.labels ? make("figcaption", {}, String(one.labels[i])) : ""))))));
  } },
  { name: "Findings", show(main, runs) {
    const run = runs[0], notes = run ? run.checkpoints : [];
    const state = run && `${run.name} ${run.findings.length} ${notes.length} ${run.error}`;
    if (state === this.seen && main.firstChild) return;
    this.seen = state;
    const found = run ? run.findings : [];
    const cards = found.map((f) => make("article", { class: `card finding ${f.severity}` }, make("h3", {}, `${f.severity}: ${f.id}`), make("p", {}, f.message), make("p", {}, make("code", {}, `${f.file}:${f.line}`), ` · seen at step ${f.step}`), make("p", { class: "about" }, f.why), make("p", {}, make("b", {}, "Fix: "), f.fix)));
    if (run && run.error) cards.unshift(make("article", { class: "card finding error" }, make("h3", {}, "The program failed"), make("p", {}, run.error)));
    for (const c of notes) cards.push(make("article", { class: "card" }, c.checkpoint ? `Checkpoint of step ${c.step}: ` : `No checkpoint at step ${c.step}: `, make("code", {}, c.checkpoint || c.error)));
    main.replaceChildren(...(cards.length ? cards : [empty("Nothing found. With --doctor the program's mistakes are looked for while it runs: flambeau run --watch --doctor script.py")]));
  } },
];

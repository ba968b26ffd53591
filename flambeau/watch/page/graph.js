// The model as a graph: one level of modules at a time; a module that has parts opens.

const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, options = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(options)) if (key.startsWith("on")) element.addEventListener(key.slice(2), value); else element.setAttribute(key, value);
  element.append(...children);
  return element;
};

// What one level shows: the parts of a module, and edges between them, from and to the outside.
const level = (graph, path) => {
  const inside = (p) => path === "" ? p !== "" : p.startsWith(path + ".");
  const child = (p) => { if (!inside(p)) return null; const rest = path === "" ? p : p.slice(path.length + 1); const dot = rest.indexOf("."); const name = dot < 0 ? rest : rest.slice(0, dot); return path === "" ? name : `${path}.${name}`; };
  const known = new Map(graph.nodes.map((n) => [n.path, n])), shown = new Map(), edges = new Map();
  for (const node of graph.nodes) {
    const c = child(node.path);
    if (c === null || shown.has(c)) continue;
    shown.set(c, known.get(c) || { path: c, kind: "", in: "", out: "" });
  }
  for (const [a, b] of graph.edges) {
    const from = child(a), to = child(b);
    if (from === to || (from === null && to === null)) continue;
    edges.set(`${from === null ? "«input»" : from}→${to === null ? "«output»" : to}`, [from === null ? "«input»" : from, to === null ? "«output»" : to]);
  }
  const own = known.get(path) || { in: "", out: "" };
  const list = [...edges.values()], names = [...shown.keys()].filter((n) => !n.includes("#") || list.some((e) => e.includes(n)));
  const begins = names.filter((n) => !list.some((e) => e[1] === n)), ends = names.filter((n) => !list.some((e) => e[0] === n));
  if (!list.some((e) => e[0] === "«input»") && begins.length) list.push(["«input»", begins[0]]);
  if (!list.some((e) => e[1] === "«output»") && ends.length) list.push([ends[ends.length - 1], "«output»"]);
  const nodes = names.map((n) => ({ id: n, ...shown.get(n), inner: graph.nodes.some((m) => m.path.startsWith(n + ".")) }));
  nodes.unshift({ id: "«input»", kind: "input", out: own.in, end: true });
  nodes.push({ id: "«output»", kind: "output", in: own.out, end: true });
  return { nodes, edges: list };
};

// Rows by the longest way from the input; within a row, near what a node takes its values from.
const layout = ({ nodes, edges }) => {
  const order = new Map(nodes.map((n, i) => [n.id, i])), row = new Map(nodes.map((n) => [n.id, 0]));
  for (let pass = 0, moved = true; moved && pass < nodes.length; pass++) {
    moved = false;
    for (const [a, b] of edges) if (order.has(a) && order.has(b) && row.get(b) < row.get(a) + 1 && row.get(a) + 1 < nodes.length) { row.set(b, row.get(a) + 1); moved = true; }
  }
  const rows = [];
  for (const n of nodes) (rows[row.get(n.id)] ||= []).push(n);
  const filled = rows.filter(Boolean), x = new Map();
  filled.forEach((list) => {
    for (const n of list) { const from = edges.filter((e) => e[1] === n.id && x.has(e[0])).map((e) => x.get(e[0])); n.want = from.length ? from.reduce((a, b) => a + b) / from.length : 0; }
    list.sort((a, b) => a.want - b.want || order.get(a.id) - order.get(b.id));
    list.forEach((n, i) => x.set(n.id, i - (list.length - 1) / 2));
  });
  return { rows: filled, x };
};

const drawGraph = (graph, path, open) => {
  const found = level(graph, path), { rows, x } = layout(found);
  const W = 210, H = 44, GX = 26, GY = 34, most = Math.max(...rows.map((r) => r.length));
  const long = rows.length > 14 ? Math.ceil(rows.length / Math.ceil(rows.length / 14)) : rows.length; // a long chain continues in another column
  const chain = most === 1, columns = chain ? Math.ceil(rows.length / long) : 1;
  const width = chain ? columns * (W + GX + 24) : most * (W + GX) + 20, height = (chain ? Math.min(rows.length, long) : rows.length) * (H + GY) + 10;
  const place = new Map();
  rows.forEach((list, r) => list.forEach((n) => place.set(n.id, chain
    ? { x: Math.floor(r / long) * (W + GX + 24) + 12, y: (r % long) * (H + GY) + 8 }
    : { x: width / 2 + x.get(n.id) * (W + GX) - W / 2, y: r * (H + GY) + 8 })));
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Modules of ${path || graph.name}` });
  picture.append(svg("defs", {}, svg("marker", { id: "tipmark", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z", fill: style("--soft") }))));
  for (const [a, b] of found.edges) {
    const p = place.get(a), q = place.get(b);
    if (!p || !q) continue;
    const x1 = p.x + W / 2, y1 = p.y + H, x2 = q.x + W / 2, y2 = q.y;
    const skip = y2 - y1 > GY + 2 && Math.abs(x1 - x2) < 2, aside = W / 2 + 14;
    const d = y2 <= y1 ? `M${p.x + W} ${p.y + H / 2}C${p.x + W + 24} ${p.y + H / 2} ${q.x - 24} ${q.y + H / 2} ${q.x} ${q.y + H / 2}`
      : skip ? `M${x1 + 60} ${y1}C${x1 + aside + 20} ${y1 + 20} ${x2 + aside + 20} ${y2 - 20} ${x2 + 60} ${y2}`
        : `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
    picture.append(svg("path", { class: "edge", d, "marker-end": "url(#tipmark)" }));
  }
  for (const n of found.nodes) {
    const p = place.get(n.id), name = n.end ? n.kind : n.path.slice(path ? path.length + 1 : 0);
    const first = n.end || n.operation ? n.kind : `${name}: ${n.kind}`;
    const second = n.end ? n.in || n.out : [n.out && `→ ${n.out}`, n.parameters ? `${n.parameters.toLocaleString("en")} par.` : ""].filter(Boolean).join("  ");
    const cut = (t, k) => t.length > k ? t.slice(0, k - 1) + "…" : t;
    const group = svg("g", { class: n.inner ? "open" : "" },
      svg("title", {}, `${first}${n.about ? `(${n.about})` : ""}\n${n.in ? "in " + n.in : ""} ${n.out ? "out " + n.out : ""}`),
      svg("rect", { class: `box${n.end ? " end" : n.operation ? " op" : ""}`, x: p.x, y: p.y, width: W, height: H, rx: 6 }),
      svg("text", { x: p.x + 10, y: p.y + (second ? 18 : 26) }, cut(first, 30) + (n.inner ? "  ▸" : "")),
      svg("text", { class: "soft", x: p.x + 10, y: p.y + 34 }, cut(second, 38)));
    if (n.inner) {
      for (const [key, value] of Object.entries({ tabindex: "0", role: "button", "aria-label": `Open ${first}` })) group.setAttribute(key, value);
      group.addEventListener("click", () => open(n.path));
      group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); open(n.path); } });
    }
    picture.append(group);
  }
  return picture;
};

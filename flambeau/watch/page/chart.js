// Line charts on a canvas: every pixel column shows the lowest and the highest value in it, so that any number of points is drawn at once.

const view = { from: null, to: null, log: false, smooth: 0.6, axis: "step" }; // all charts of the page share it

const ticks = (low, high, room) => {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(1, room), power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
};

const logTicks = (low, high, room) => {
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
  if (last - first < 2) { // less than two decades: 1, 2 and 5 of each, or even steps where that is too coarse
    const fine = [];
    for (let e = Math.floor(low); e <= high; e++) for (const m of [1, 2, 5]) { const v = e + Math.log10(m); if (v >= low && v <= high) fine.push(v); }
    return fine.length > 1 ? fine : ticks(Math.pow(10, low), Math.pow(10, high), room).filter((v) => v > 0).map(Math.log10);
  }
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, room)));
  const found = [];
  for (let e = first; e <= last; e += step) found.push(e);
  return found;
};

class Chart {
  // lines: [{name, run, series, colour}]; options: log, raw (no smoothing), from0, big, height, about
  constructor(title, options = {}) {
    this.title = title; this.options = options; this.lines = []; this.hidden = new Set(); this.cursor = null; this.drag = null; this.seen = "";
    this.canvas = make("canvas", { tabindex: "0", role: "img", style: `height:${options.height || 190}px` });
    this.now = make("span", { class: "now" });
    this.legend = make("ul", { class: "legend" });
    this.save = make("button", { title: "Save this chart as a picture", "aria-label": `Save ${title} as PNG`, onclick: () => this.png() }, "PNG");
    this.element = make("section", { class: "card" + (options.big ? " big" : ""), "aria-label": title },
      make("div", { class: "top" }, make("h3", {}, title), this.now, this.save), options.about ? make("p", { class: "about" }, options.about) : "", this.canvas, this.legend);
    this.listen();
  }

  set(lines) {
    const key = lines.map((l) => l.name + l.colour).join("|");
    this.lines = lines;
    const single = lines.length === 1;
    this.now.textContent = single ? format(lines[0].series.last) : "";
    if (key !== this.key) { this.key = key; this.listLines(single); }
    this.canvas.setAttribute("aria-label", this.describe());
  }

  listLines(single) {
    this.legend.replaceChildren(...(single ? [] : this.lines.map((line) => make("li", {}, make("button", {
      "aria-pressed": String(!this.hidden.has(line.name)), title: "Show or hide",
      onclick: (event) => {
        if (!this.hidden.delete(line.name)) this.hidden.add(line.name);
        event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(line.name)));
        this.draw(true);
      },
    }, make("span", { class: "dot", style: `background:${line.colour}` }), line.name)))));
  }

  describe() {
    const parts = this.lines.slice(0, 6).map((l) => `${l.name} ${format(l.series.last)}`);
    return `${this.title}: ${parts.join(", ") || "no values yet"}`;
  }

  shown() { return this.lines.filter((line) => !this.hidden.has(line.name)); }

  place(line, step) { return view.axis === "at" ? line.run.time(step) : step; }

  // The extent of what is drawn.
  extent(lines, values, log) {
    let x0 = Infinity, x1 = -Infinity;
    for (const line of lines) {
      if (!line.series.n) continue;
      x0 = Math.min(x0, this.place(line, line.series.x[0])); x1 = Math.max(x1, this.place(line, line.series.x[line.series.n - 1]));
    }
    if (view.from !== null) { x0 = view.from; x1 = view.to; } else { const edge = (x1 - x0) * 0.01; x0 -= edge; x1 += edge; }
    let low = Infinity, high = -Infinity;
    lines.forEach((line, k) => {
      const [first, last] = this.range(line, x0, x1), y = values[k];
      for (let i = first; i < last; i++) {
        const v = y[i];
        if (Number.isFinite(v) && (!log || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
      }
    });
    if (!Number.isFinite(low)) { low = 0; high = 1; }
    if (log) { low = Math.log10(low); high = Math.log10(high); }
    if (this.options.from0 && !log) low = Math.min(low, 0);
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.5;
    return { x0, x1: x1 > x0 ? x1 : x0 + 1, low: this.options.from0 && !log && low === 0 ? 0 : low - pad, high: high + pad };
  }

  range(line, x0, x1) {
    const s = line.series;
    if (view.axis === "at") return [0, s.n];
    return [Math.max(0, s.find(x0) - 1), Math.min(s.n, s.find(x1) + 1)];
  }

  draw(force) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width) return;
    const scale = devicePixelRatio || 1, lines = this.shown();
    const log = this.options.log || view.log;
    const state = [width, height, scale, dark.matches, log, view.smooth, view.axis, view.from, view.to, this.cursor, this.drag && this.drag.to,
      ...lines.map((l) => l.series.n)].join();
    if (state === this.seen && !force) return;
    this.seen = state;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale); this.canvas.height = Math.round(height * scale);
    }
    const g = this.canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "11px system-ui, sans-serif";
    const smoothing = this.options.raw ? 0 : view.smooth;
    const raw = lines.map((l) => l.series.y), smooth = lines.map((l) => l.series.smooth(l.series.n > 20 ? smoothing : 0));
    const e = this.e = this.extent(lines, raw, log);
    const yTicks = (log ? logTicks : ticks)(e.low, e.high, height / 40);
    const names = yTicks.map((v) => format(log ? Math.pow(10, v) : v));
    const left = this.left = Math.max(30, ...names.map((n) => g.measureText(n).width + 8)), right = width - 8, top = 8, bottom = height - 20;
    const X = this.X = (x) => left + (x - e.x0) / (e.x1 - e.x0) * (right - left);
    const Y = (v) => bottom - ((log ? Math.log10(v) : v) - e.low) / (e.high - e.low) * (bottom - top);
    this.back = (px) => e.x0 + (px - left) / (right - left) * (e.x1 - e.x0);
    this.axes(g, e, yTicks, names, { left, right, top, bottom }, log);
    g.save();
    g.beginPath(); g.rect(left, top - 2, right - left, bottom - top + 4); g.clip();
    lines.forEach((line, k) => {
      g.strokeStyle = g.fillStyle = line.colour;
      if (smooth[k] !== raw[k]) { g.globalAlpha = 0.28; this.line(g, line, raw[k], X, Y, e, log, 1); }
      g.globalAlpha = 1;
      this.line(g, line, smooth[k], X, Y, e, log, 1.8);
    });
    if (this.drag) { g.globalAlpha = 0.15; g.fillStyle = style("--accent"); g.fillRect(this.drag.from, top, this.drag.to - this.drag.from, bottom - top); g.globalAlpha = 1; }
    if (this.cursor !== null) {
      const x = X(this.cursor);
      g.strokeStyle = style("--soft"); g.setLineDash([3, 3]); g.beginPath(); g.moveTo(x, top); g.lineTo(x, bottom); g.stroke(); g.setLineDash([]);
    }
    g.restore();
  }

  axes(g, e, yTicks, names, b, log) {
    g.strokeStyle = style("--grid"); g.fillStyle = style("--soft"); g.lineWidth = 1; g.textBaseline = "middle"; g.textAlign = "right";
    yTicks.forEach((v, i) => {
      const y = Math.round(b.bottom - (v - e.low) / (e.high - e.low) * (b.bottom - b.top)) + 0.5;
      g.beginPath(); g.moveTo(b.left, y); g.lineTo(b.right, y); g.stroke();
      g.fillText(names[i], b.left - 5, y);
    });
    g.textBaseline = "top"; g.textAlign = "center";
    for (const v of ticks(e.x0, e.x1, (b.right - b.left) / 80)) {
      if (view.axis === "step" && v % 1) continue;
      const text = view.axis === "at" ? (e.x1 > 600 ? `${format(v / 60)} min` : `${format(v)} s`) : v >= 1e4 ? `${format(v / 1000)}k` : format(v);
      g.fillText(text, Math.min(Math.max(this.X(v), b.left + 8), b.right - 10), b.bottom + 5);
    }
  }

  line(g, line, y, X, Y, e, log, width) {
    const [first, last] = this.range(line, e.x0, e.x1), x = line.series.x, dense = (last - first) > 4 * (X(e.x1) - X(e.x0));
    g.lineWidth = width; g.lineJoin = "round"; g.beginPath();
    let open = false, column = -1, low = 0, high = 0, bad = [];
    const flush = () => { if (column >= 0) { if (open) g.lineTo(column, Y(low)); else g.moveTo(column, Y(low)); g.lineTo(column, Y(high)); open = true; } };
    for (let i = first; i < last; i++) {
      const v = y[i], px = X(this.place(line, x[i]));
      if (!Number.isFinite(v) || (log && v <= 0)) { if (!Number.isFinite(v)) bad.push(px); if (dense) flush(); column = -1; open = false; continue; }
      if (!dense) { if (open) g.lineTo(px, Y(v)); else { g.moveTo(px, Y(v)); open = true; } continue; }
      const c = Math.round(px);
      if (c === column) { if (v < low) low = v; if (v > high) high = v; } else { flush(); column = c; low = high = v; }
    }
    if (dense) flush();
    g.stroke();
    if (!dense && last - first < 60) for (let i = first; i < last; i++) {
      const v = y[i];
      if (Number.isFinite(v) && (!log || v > 0)) { g.beginPath(); g.arc(X(this.place(line, x[i])), Y(v), width > 1 ? 2.2 : 1.2, 0, 7); g.fill(); }
    }
    if (bad.length && width > 1) { // what is no number is marked at the top
      g.fillStyle = style("--bad"); let before = -9;
      for (const px of bad) if (px - before > 3) { g.fillText("×", px, 10); before = px; }
      g.fillStyle = line.colour;
    }
  }

  // -- reading and zooming --------------------------------------------------------------------------------------------

  listen() {
    const c = this.canvas, at = (event) => event.clientX - c.getBoundingClientRect().left;
    c.addEventListener("pointermove", (event) => {
      if (this.drag) { this.drag.to = at(event); this.draw(); return; }
      if (this.back) { this.point(this.back(at(event))); this.tip(event.clientX, event.clientY); }
    });
    c.addEventListener("pointerleave", () => { this.point(null); });
    c.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse" && event.button === 0) { this.drag = { from: at(event), to: at(event) }; c.setPointerCapture(event.pointerId); } });
    c.addEventListener("pointerup", () => {
      const drag = this.drag; this.drag = null;
      if (drag && Math.abs(drag.to - drag.from) > 8) zoom(this.back(Math.min(drag.from, drag.to)), this.back(Math.max(drag.from, drag.to)));
      else this.draw(true);
    });
    c.addEventListener("dblclick", () => zoom(null, null));
    c.addEventListener("blur", () => this.point(null));
    c.addEventListener("keydown", (event) => this.key_(event));
  }

  key_(event) {
    if (!this.e || event.ctrlKey || event.metaKey || event.altKey) return;
    const { x0, x1 } = this.e, middle = this.cursor === null ? (x0 + x1) / 2 : this.cursor;
    const by = (x1 - x0) / (event.shiftKey ? 10 : 100);
    const keys = {
      ArrowLeft: () => this.walk(middle - by), ArrowRight: () => this.walk(middle + by), Home: () => this.walk(x0), End: () => this.walk(x1),
      "+": () => zoom(middle - (middle - x0) / 2, middle + (x1 - middle) / 2), "=": () => keys["+"](),
      "-": () => zoom(middle - (middle - x0) * 2, middle + (x1 - middle) * 2), p: () => this.png(), Escape: () => { this.point(null); },
    };
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); event.stopPropagation(); }
  }

  walk(x) {
    this.point(Math.min(Math.max(x, this.e.x0), this.e.x1));
    const box = this.canvas.getBoundingClientRect();
    this.tip(box.left + this.X(this.cursor), box.top + 30);
  }

  point(x) {
    this.cursor = x;
    if (x === null) document.getElementById("tip").hidden = true;
    this.draw();
  }

  // The values nearest to the cursor.
  values() {
    return this.shown().map((line) => {
      const s = line.series;
      let i;
      if (view.axis === "at") { const a = line.run.series.get("at"); let k = 0, h = a ? a.n : 0; while (k < h) { const m = (k + h) >> 1; if (a.y[m] < this.cursor) k = m + 1; else h = m; } i = s.find(a && a.n ? a.x[Math.min(k, a.n - 1)] : 0); } else i = s.find(this.cursor - 0.5);
      if (i >= s.n) i = s.n - 1;
      return i < 0 ? null : { line, step: s.x[i], value: s.y[i] };
    }).filter(Boolean);
  }

  tip(x, y) {
    const tip = document.getElementById("tip"), found = this.values();
    if (!found.length) { tip.hidden = true; return; }
    tip.replaceChildren(make("div", {}, `step ${found[0].step}`), ...found.slice(0, 12).map((f) => make("div", {},
      make("span", { class: "dot", style: `background:${f.line.colour}` }), this.lines.length > 1 ? `${f.line.name} ` : "", make("b", {}, format(f.value)))));
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  }

  png() {
    const whole = document.createElement("canvas"), scale = devicePixelRatio || 1, names = this.lines.length > 1 ? this.shown().slice(0, 12) : [];
    whole.width = this.canvas.width; whole.height = this.canvas.height + (30 + 15 * names.length) * scale;
    const g = whole.getContext("2d");
    g.fillStyle = style("--paper"); g.fillRect(0, 0, whole.width, whole.height);
    g.scale(scale, scale); g.fillStyle = style("--ink"); g.font = "600 13px system-ui, sans-serif"; g.fillText(this.title, 8, 18);
    g.drawImage(this.canvas, 0, 26, this.canvas.width / scale, this.canvas.height / scale);
    g.font = "11px system-ui, sans-serif";
    names.forEach((l, i) => { const y = 38 + this.canvas.height / scale + 15 * i; g.fillStyle = l.colour; g.fillRect(8, y - 7, 8, 8); g.fillStyle = style("--ink"); g.fillText(l.name, 22, y); });
    whole.toBlob((blob) => download(blob, `${this.title.replace(/\W+/g, "-")}.png`));
  }
}

const download = (blob, name) => {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

// Where the time of steps goes: a stack of phases over steps, and a table of their shares.

const PHASES = ["loader", "forward", "backward", "optimizer", "evaluation", "other"];

class TimeChart extends Chart {
  constructor() { super("Time per step, milliseconds", { big: true, height: 230, raw: true, from0: true }); }

  draw(force) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, scale = devicePixelRatio || 1;
    const lines = this.shown();
    if (!width || !lines.length) return;
    const state = [width, scale, dark.matches, view.from, view.to, this.cursor, this.drag && this.drag.to, lines.map((l) => l.name + l.series.n)].join();
    if (state === this.seen && !force) return;
    this.seen = state;
    this.canvas.width = width * scale; this.canvas.height = height * scale;
    const g = this.canvas.getContext("2d");
    g.scale(scale, scale); g.font = "11px system-ui, sans-serif";
    const first = lines[0].series, x0 = view.from === null || view.axis === "at" ? first.x[0] : view.from, x1 = Math.max(x0 + 1, view.from === null || view.axis === "at" ? first.x[first.n - 1] : view.to);
    const count = Math.max(1, Math.min(120, Math.floor((width - 60) / 4), Math.round(x1 - x0) + 1));
    const sums = lines.map(() => new Float64Array(count)), counts = new Float64Array(count);
    lines.forEach((line, k) => {
      const s = line.series;
      for (let i = s.find(x0); i < s.n && s.x[i] <= x1; i++) {
        const b = Math.min(count - 1, Math.floor((s.x[i] - x0) / (x1 - x0) * count));
        if (!k) counts[b] += 1;
        sums[k][b] += s.y[i];
      }
    });
    const totals = [...counts].map((n, b) => n ? sums.reduce((t, s) => t + s[b], 0) / n : 0);
    const ordered = totals.filter((t) => t > 0).sort((a, b) => a - b);
    const most = Math.min(ordered[ordered.length - 1] || 1, (ordered[Math.floor(ordered.length * 0.9)] || 1) * 3) * 1.05; // a slow first step leaves room for the others
    const yTicks = ticks(0, most, height / 40), names = yTicks.map(format);
    const left = this.left = Math.max(30, ...names.map((n) => g.measureText(n).width + 8)), right = width - 8, top = 8, bottom = height - 20;
    this.X = (x) => left + (x - x0) / (x1 - x0) * (right - left);
    this.back = (px) => x0 + (px - left) / (right - left) * (x1 - x0);
    this.e = { x0, x1, low: 0, high: most };
    const axis = view.axis; view.axis = "step";
    this.axes(g, this.e, yTicks, names, { left, right, top, bottom }, false);
    view.axis = axis;
    const wide = (right - left) / count;
    g.save(); g.beginPath(); g.rect(left, top, right - left, bottom - top); g.clip();
    for (let b = 0; b < count; b++) {
      if (!counts[b]) continue;
      let y = bottom;
      lines.forEach((line, k) => {
        const h = sums[k][b] / counts[b] / most * (bottom - top);
        g.fillStyle = line.colour; g.fillRect(left + b * wide, y - h, Math.max(1, wide - (wide > 5 ? 1 : 0)), h); y -= h;
      });
    }
    if (this.drag) { g.globalAlpha = 0.2; g.fillStyle = style("--accent"); g.fillRect(this.drag.from, top, this.drag.to - this.drag.from, bottom - top); }
    g.restore();
  }
}

const timeTable = (run) => {
  const rows = PHASES.map((name, i) => {
    const s = run.series.get("time/" + name);
    let sum = 0;
    if (s) for (let k = 0; k < s.n; k++) sum += s.y[k];
    return { name, sum, mean: s && s.n ? sum / s.n : 0, colour: colour(i) };
  });
  const total = rows.reduce((t, r) => t + r.sum, 0) || 1;
  return make("table", {}, make("thead", {}, make("tr", {}, ...["phase", "per step", "share", ""].map((t, i) => make("th", { scope: "col", class: i === 1 || i === 2 ? "n" : "" }, t)))),
    make("tbody", {}, ...rows.filter((r) => r.sum).map((r) => make("tr", {}, make("th", { scope: "row" }, r.name), make("td", { class: "n" }, `${format(r.mean)} ms`),
      make("td", { class: "n" }, `${(100 * r.sum / total).toFixed(1)} %`), make("td", {}, make("div", { class: "bar", style: `width:${(160 * r.sum / total).toFixed(0)}px;background:${r.colour}` }))))));
};

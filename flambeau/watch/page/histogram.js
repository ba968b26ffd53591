// Histograms over time: a column for each look, darker where there are more values.

class HistogramChart {
  constructor(title) {
    this.title = title; this.seen = "";
    this.canvas = make("canvas", { role: "img", style: "height:150px", tabindex: "0" });
    this.element = make("section", { class: "card", "aria-label": title }, make("div", { class: "top" }, make("h3", {}, title)), this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.tip(event));
    this.canvas.addEventListener("pointerleave", () => { document.getElementById("tip").hidden = true; });
  }

  set(kept) { this.kept = kept; const last = kept[kept.length - 1]; this.canvas.setAttribute("aria-label", `${this.title}: from ${format(last.low)} to ${format(last.high)} at step ${last.step}`); }

  draw() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, scale = devicePixelRatio || 1, kept = this.kept;
    const state = [width, kept.length, scale, dark.matches].join();
    if (!width || state === this.seen) return;
    this.seen = state;
    this.canvas.width = width * scale; this.canvas.height = height * scale;
    const g = this.canvas.getContext("2d");
    g.scale(scale, scale); g.font = "11px system-ui, sans-serif";
    let low = Math.min(...kept.map((k) => k.low)), high = Math.max(...kept.map((k) => k.high));
    if (!(high > low)) { low -= 0.5; high += 0.5; }
    const left = 44, right = width - 8, top = 6, bottom = height - 20, heat = style("--heat");
    const x = (i) => left + i / kept.length * (right - left), Y = (v) => bottom - (v - low) / (high - low) * (bottom - top);
    const stride = Math.max(1, Math.ceil(kept.length / (right - left)));
    for (let i = 0; i < kept.length; i += stride) {
      const one = kept[i], most = Math.max(...one.counts), size = (one.high - one.low) / one.counts.length || (high - low) / 40;
      one.counts.forEach((count, k) => {
        if (!count) return;
        g.fillStyle = `rgba(${heat},${(0.12 + 0.88 * Math.sqrt(count / most)).toFixed(3)})`;
        const y1 = Math.round(Y(one.low + (k + 1) * size)), y0 = Math.round(Y(one.low + k * size)), x1 = Math.round(x(i)); // whole pixels leave no seams
        g.fillRect(x1, y1, Math.max(1, Math.round(x(i + stride)) - x1), Math.max(1, y0 - y1));
      });
    }
    g.fillStyle = style("--soft"); g.textAlign = "right"; g.textBaseline = "middle";
    for (const v of ticks(low, high, 6)) g.fillText(format(v), left - 5, Y(v));
    g.textAlign = "left"; g.textBaseline = "top"; g.fillText(`step ${kept[0].step}`, left, bottom + 5);
    g.textAlign = "right"; if (kept.length > 1) g.fillText(`${kept[kept.length - 1].step}`, right, bottom + 5);
    this.at = (px) => kept[Math.min(kept.length - 1, Math.max(0, Math.floor((px - left) / (right - left) * kept.length)))];
  }

  tip(event) {
    if (!this.at) return;
    const one = this.at(event.clientX - this.canvas.getBoundingClientRect().left), tip = document.getElementById("tip");
    tip.replaceChildren(make("div", {}, `step ${one.step}`), make("div", {}, `${format(one.low)} to ${format(one.high)}`));
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - 150) + "px"; tip.style.top = event.clientY + 14 + "px";
  }
}

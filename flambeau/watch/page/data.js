"use strict";
// Runs as they come: lines of JSON become numbers over steps, histograms, graphs, images, findings.

class Series {
  constructor() { this.n = 0; this.x = new Float64Array(256); this.y = new Float64Array(256); this.smoothed = null; }

  push(x, y) {
    if (this.n === this.x.length) {
      for (const key of ["x", "y"]) { const more = new Float64Array(this.n * 2); more.set(this[key]); this[key] = more; }
    }
    this.x[this.n] = x; this.y[this.n] = y; this.n += 1;
  }

  get last() { return this.n ? this.y[this.n - 1] : NaN; }

  // The values after exponential smoothing, without its bias to the first ones; kept until there are more.
  smooth(weight) {
    if (!(weight > 0)) return this.y;
    const known = this.smoothed;
    if (known && known.weight === weight && known.n === this.n) return known.y;
    const y = new Float64Array(this.n);
    let mean = 0, count = 0;
    for (let i = 0; i < this.n; i++) {
      const v = this.y[i];
      if (!Number.isFinite(v)) { y[i] = v; continue; }
      mean = weight * mean + (1 - weight) * v; count += 1;
      y[i] = mean / (1 - Math.pow(weight, count));
    }
    this.smoothed = { weight, n: this.n, y };
    return y;
  }

  // The place of the first point at or after x.
  find(x) {
    let low = 0, high = this.n;
    while (low < high) { const middle = (low + high) >> 1; if (this.x[middle] < x) low = middle + 1; else high = middle; }
    return low;
  }
}

class Run {
  constructor(name) {
    this.name = name; this.position = 0; this.version = 0;
    this.series = new Map(); this.histograms = new Map(); this.graphs = []; this.images = []; this.findings = []; this.checkpoints = [];
    this.about = {}; this.state = ""; this.error = "";
  }

  read(text) {
    for (const line of text.split("\n")) {
      if (!line) continue;
      let record;
      try { record = JSON.parse(line); } catch { continue; }
      this.take(record);
    }
    this.version += 1;
  }

  take(record) {
    if (record.x) {
      for (const [name, values] of Object.entries(record.c)) {
        let series = this.series.get(name);
        if (!series) this.series.set(name, series = new Series());
        for (let i = 0; i < values.length; i++) {
          const v = values[i];
          if (v !== null) series.push(record.x[i], typeof v === "number" ? v : Number(v));
        }
      }
    } else if ("h" in record) {
      let kept = this.histograms.get(record.n);
      if (!kept) this.histograms.set(record.n, kept = []);
      kept.push({ step: record.h, low: record.r[0], high: record.r[1], counts: record.c });
    } else if (record.graph) this.graphs.push(record.graph);
    else if ("images" in record) this.images.push(record);
    else if (record.finding) this.findings.push({ ...record.finding, step: record.step });
    else if ("checkpoint" in record) this.checkpoints.push(record);
    else if (record.run) this.about = record.run;
    else if (record.state) { this.state = record.state; this.error = record.error || ""; }
  }

  get label() { const given = (this.about.arguments || []).join(" "); return given ? `${this.name} (${given.length > 40 ? given.slice(0, 39) + "…" : given})` : this.name; }

  get steps() { const at = this.series.get("at"); return at && at.n ? at.x[at.n - 1] : 0; }

  get seconds() { const at = this.series.get("at"); return at ? at.last : NaN; }

  // Steps per second of late.
  get speed() {
    const at = this.series.get("at");
    if (!at || at.n < 2) return NaN;
    const i = Math.max(0, at.n - 50);
    return (at.x[at.n - 1] - at.x[i]) / (at.y[at.n - 1] - at.y[i]);
  }

  // Seconds at a step.
  time(step) {
    const at = this.series.get("at");
    if (!at || !at.n) return step;
    const i = Math.min(at.find(step), at.n - 1);
    return at.y[i];
  }
}

const format = (v) => {
  if (v === undefined || v === null || Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  const a = Math.abs(v);
  if (a !== 0 && (a < 1e-3 || a >= 1e6)) return v.toExponential(2).replace("e+", "e").replace("-", "−");
  return (a >= 1000 ? v.toFixed(0) : String(Number(v.toPrecision(4)))).replace("-", "−");
};
const duration = (s) => !Number.isFinite(s) ? "–" : s < 60 ? s.toFixed(1) + " s" : s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
const make = (tag, options = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
};
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");
const LIGHT = ["#0067a5", "#c2410c", "#0b7a55", "#9a4c95", "#8a6500", "#b3261e", "#4a5bbf", "#5f6b6d"];
const DARK = ["#6ab6f0", "#ff9b61", "#59cfa0", "#dd9fd8", "#e5bf55", "#ff8a80", "#a3aefc", "#b0bcbe"];
// The colour of one of several lines: of more than eight, a row of hues, so that neighbours look alike and none comes twice.
const colour = (i, of = 0) => of <= LIGHT.length ? (dark.matches ? DARK : LIGHT)[i % LIGHT.length] : `hsl(${Math.round(230 - 300 * i / (of - 1) + 360) % 360} ${dark.matches ? "75% 68%" : "70% 38%"})`;

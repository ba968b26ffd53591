// Pause, stop, checkpoint; which runs are shown; what is saved.

const runs = new Map();
const shown = new Set();
const shownRuns = () => [...runs.values()].filter((run) => shown.has(run.name));
const shownIndex = (run) => [...runs.keys()].indexOf(run.name);
const $ = (id) => document.getElementById(id);
let current = 0, lost = false;

const toast = (text) => {
  const note = make("div", { class: "toast", role: "status" }, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 4000);
};

const post = async (what) => {
  try {
    const answer = await fetch(what, { method: "POST" });
    if (!answer.ok) throw new Error(await answer.text());
    return await answer.json();
  } catch (error) { toast(`${what}: ${error.message}`); return null; }
};
const live = () => SETUP.live ? runs.get(SETUP.live) : null;
const pause = () => { const run = live(); if (run && over(run) === false) post(run.state === "paused" ? "resume" : "pause").then(poll); };
const checkpoint = () => { if (live()) post("checkpoint").then(() => toast("A checkpoint is saved after this step.")); };
const over = (run) => ["ended", "failed", "stopped"].includes(run.state);

const showState = () => {
  const run = live() || shownRuns()[0], state = $("state");
  if (!run) { state.textContent = runs.size ? "" : "no runs"; return; }
  const text = lost && !over(run) ? "lost" : run.state || "…";
  const words = { lost: "no answer from the program", running: "running", paused: "paused", stopping: "stopping", ended: "ended", failed: "failed", stopped: "stopped" };
  const said = SETUP.live || over(run) ? words[text] || text : "kept";
  if (state.textContent !== said) state.textContent = said;
  state.className = text;
  $("title").textContent = run.about.program ? `${run.about.program.split("/").pop()} ${(run.about.arguments || []).join(" ")}` : "flambeau watch";
  $("controls").hidden = !live() || over(live()) || lost;
  $("pause").textContent = run.state === "paused" ? "Resume" : "Pause";
  const loss = run.series.get("loss"), facts = [["step", run.steps.toLocaleString("en")], ["loss", loss ? format(loss.last) : "–"], ["steps per second", Number.isFinite(run.speed) ? format(run.speed) : "–"], ["time", duration(run.seconds)]];
  const memory = run.series.get("memory/resident");
  if (memory) facts.push(["memory", `${format(memory.last)} MiB`]);
  const list = $("facts");
  facts.forEach(([name, value], i) => {
    if (!list.children[i]) list.append(make("div", {}, make("dt", {}, name), make("dd", {})));
    const dd = list.children[i].lastChild;
    if (dd.textContent !== value) dd.textContent = value;
  });
};

const showRuns = () => {
  $("runs").hidden = runs.size < 2;
  const key = [...runs.values()].map((run) => run.label).join() + dark.matches;
  if (key === showRuns.key) return;
  showRuns.key = key;
  $("runs").firstChild.textContent = `Runs (${runs.size})`;
  $("runlist").replaceChildren(...[...runs.values()].map((run, i) => make("label", {}, Object.assign(make("input", { type: "checkbox", onchange: (event) => { if (event.target.checked) shown.add(run.name); else shown.delete(run.name); poll().then(() => refresh(true)); } }), { checked: shown.has(run.name) }), " ", make("span", { class: "dot", style: `background:${colour(i)}` }), run.label)));
};

const saveCsv = () => {
  const run = live() || shownRuns()[0];
  if (!run) return;
  const names = [...run.series.keys()], table = new Map();
  for (const name of names) { const s = run.series.get(name); for (let i = 0; i < s.n; i++) { if (!table.has(s.x[i])) table.set(s.x[i], {}); table.get(s.x[i])[name] = s.y[i]; } }
  const quote = (t) => /[",\n]/.test(t) ? `"${t.replace(/"/g, '""')}"` : t;
  const rows = [...table.entries()].sort((a, b) => a[0] - b[0]).map(([step, row]) => [step, ...names.map((n) => n in row ? row[n] : "")].join(","));
  download(new Blob([["step", ...names].map(quote).join(",") + "\n" + rows.join("\n") + "\n"], { type: "text/csv" }), `${run.name}.csv`);
};

const zoom = (from, to) => { view.from = from; view.to = to; refresh(true); };

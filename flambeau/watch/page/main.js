// Reads the data, keeps the page up to date, and listens to keys.

let visible = [];
const refresh = (force) => {
  showState(); showRuns();
  const main = $("main");
  visible = SECTIONS[current].show(main, shownRuns(), force) || [];
  requestAnimationFrame(() => { for (const chart of visible) chart.draw(force === true); });
};

const select = (index, focus) => {
  current = index;
  [...$("tabs").children].forEach((tab, i) => { tab.setAttribute("aria-selected", String(i === index)); tab.tabIndex = i === index ? 0 : -1; if (i === index && focus) tab.focus(); });
  $("main").replaceChildren();
  $("tools").hidden = index > 2;
  refresh(true);
};

const fetchRun = async (run) => {
  for (;;) {
    const answer = await fetch(`data?run=${encodeURIComponent(run.name)}&from=${run.position}`);
    if (!answer.ok) return;
    const text = await answer.text(), position = Number(answer.headers.get("X-Position"));
    if (text) run.read(text);
    const more = position > run.position;
    run.position = position;
    if (!more || text.length < 4e6) return;
  }
};

let polling = null;
const poll = () => polling ||= (async () => {
  try {
    const list = await (await fetch("runs")).json();
    for (const { name } of list) if (!runs.has(name)) runs.set(name, new Run(name));
    if (!shown.size && list.length) shown.add(SETUP.live || list[0].name);
    await Promise.all(shownRuns().map(fetchRun));
    lost = false;
  } catch { lost = true; }
  polling = null;
})();

const keep = async () => {
  await poll();
  refresh();
  const run = live();
  setTimeout(keep, document.hidden ? 4000 : run && !over(run) && !lost ? 700 : 3000);
};

SECTIONS.forEach((section, i) => $("tabs").append(make("button", { role: "tab", "aria-controls": "main", onclick: () => select(i) }, section.name)));
$("tabs").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by) { select((current + by + SECTIONS.length) % SECTIONS.length, true); event.preventDefault(); }
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const number = Number(event.key);
  if (number >= 1 && number <= SECTIONS.length) select(number - 1, true);
  else if (event.key === " " && event.target.tagName !== "BUTTON" && event.target.tagName !== "SUMMARY") { if (live()) { pause(); event.preventDefault(); } }
  else if (event.key === "c") checkpoint();
  else if (event.key === "l") { $("log").checked = view.log = !view.log; refresh(true); }
  else if (event.key === "0") zoom(null, null);
  else if (event.key === "?") $("help").click();
});
$("pause").addEventListener("click", pause);
$("checkpoint").addEventListener("click", checkpoint);
$("stop").addEventListener("click", () => { if (confirm("Stop the program? It ends as with Ctrl+C.")) post("stop"); });
$("log").addEventListener("change", (event) => { view.log = event.target.checked; refresh(true); });
$("smooth").addEventListener("input", (event) => { view.smooth = Number(event.target.value); refresh(true); });
$("axis").addEventListener("change", (event) => { view.axis = event.target.value; zoom(null, null); });
$("reset").addEventListener("click", () => zoom(null, null));
$("csv").addEventListener("click", saveCsv);
$("help").addEventListener("click", () => { $("keys").hidden = !$("keys").hidden; $("help").setAttribute("aria-expanded", String(!$("keys").hidden)); });
$("tensorboard").addEventListener("click", async () => {
  const run = live() || shownRuns()[0], answer = run && await post(`tensorboard?run=${encodeURIComponent(run.name)}`);
  if (answer) toast(answer.path ? `Event files are in ${answer.path}` : answer.error);
});
dark.addEventListener("change", () => { charts.forEach((chart) => chart.element.remove()); charts.clear(); select(current); });
addEventListener("resize", () => refresh());

if (SETUP.kept) {
  for (const element of document.querySelectorAll("script[data-run]")) {
    const run = new Run(element.dataset.run);
    run.read(element.textContent); runs.set(run.name, run); shown.add(run.name);
  }
  select(0);
} else { $("tensorboard").hidden = false; select(0); keep(); }

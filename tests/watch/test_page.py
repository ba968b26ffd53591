"""The page in a real browser: curves while a program trains, controls, keys, a long run, a phone."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.watch.page import page
from flambeau.watch.store import Writer, records, rows

_spec = importlib.util.spec_from_file_location("watch_browser", Path(__file__).with_name("browser.py"))
driving = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(driving)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(driving.MISSING is not None, reason=str(driving.MISSING))]

PROGRAM = """import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Sequential(nn.Linear(4 * 16, 8), nn.ReLU(), nn.Linear(8, 3)))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(32, 1, 6, 6), torch.randint(0, 3, (32,))), 8)
for epoch in range(100000):
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        time.sleep(0.005)
    print(f"epoch={epoch} accuracy: {1 - 1 / (epoch + 1):.4f}")
"""


@pytest.fixture(scope="module")
def browser():
    made = driving.Browser()
    made.size(1200, 850)
    yield made
    made.close()


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A program that trains under the watch: its folder, and the address that was printed."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-m", "flambeau", "run", "--watch", "train.py"], cwd=folder, env=environment, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", process.stderr.readline())[0]
    yield folder, address, process
    if process.poll() is None:
        process.kill()
    process.wait(20)
    process.stderr.close()


STEPS = "live() && live().steps"


def test_a_program_that_trains(browser, training):
    folder, address, process = training
    browser.open(address)
    first = browser.wait(STEPS)
    browser.wait(f"{STEPS} > {first}")  # the curve grows while the program trains
    assert browser.run("return document.title") == "flambeau watch"
    assert (
        "train.py" in browser.run("return $('title').textContent")
        and browser.run("return $('state').textContent") == "running"
    )
    browser.wait("charts.has('curves/loss') && charts.has('curves/accuracy')")
    drawn = "(() => { const c = charts.get('curves/loss').canvas; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()"
    assert browser.wait(drawn) > 1000
    assert browser.run("return charts.get('curves/loss').canvas.getAttribute('aria-label')").startswith("loss: loss ")
    # the space bar pauses, and again goes on
    browser.run("document.activeElement.blur()")
    browser.key(" ")
    browser.wait("live().state === 'paused' && $('pause').textContent === 'Resume'")
    time.sleep(1.2)
    at = browser.run(f"return {STEPS}")
    time.sleep(1.5)
    assert browser.run(f"return {STEPS}") == at and process.poll() is None
    browser.run("$('checkpoint').click()")
    browser.wait("live().checkpoints.length === 1")
    browser.key(" ")
    browser.wait(f"{STEPS} > {at} && live().state === 'running'")
    # sections by number; each has something to show
    for key, found in (("2", "visible.length >= 3"), ("3", "document.querySelector('table tbody tr')"), ("4", "document.querySelectorAll('svg g').length >= 5"), ("5", "document.querySelectorAll('.images img').length >= 8"), ("6", "document.querySelector('#main .card code')"), ("1", "visible.length >= 3")):  # fmt: skip
        browser.key(key)
        browser.wait(found)
        assert browser.run("return document.activeElement.getAttribute('aria-selected')") == "true"
    # a module opens by keyboard
    browser.key("4")
    browser.wait("document.querySelector('svg g.open')")
    browser.run("document.querySelector('svg g.open').focus()")
    browser.key("\ue007")
    browser.wait("document.querySelectorAll('.path button').length === 2")
    # stop ends the program as Ctrl+C would
    browser.run("window.confirm = () => true; $('stop').click()")
    process.wait(30)
    assert process.returncode == 0
    browser.wait("live().state === 'stopped' && $('controls').hidden")
    assert browser.problems() == []
    (run,) = (folder / "runs").iterdir()
    assert [r["state"] for r in records(run / "watch.jsonl") if "state" in r] == [
        "running",
        "paused",
        "running",
        "stopping",
        "stopped",
    ]
    assert len(list(run.glob("step-*.pt"))) == 1


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Pages with runs of 100,000 steps."""
    folder = tmp_path_factory.mktemp("long")
    for name, shift in (("first", 0.0), ("second", 0.5)):
        writer = Writer(folder / name)
        writer.write({"run": {"program": f"{name}.py", "arguments": [name]}})
        for start in range(0, 100_000, 10_000):
            steps = list(range(start + 1, start + 10_001))
            loss = [50 if s == 77_777 else shift + 2 / (1 + s / 5000) + 0.2 * math.sin(s * 12.9898) for s in steps]
            names = ("loader", "forward", "backward", "optimizer", "evaluation", "other")
            columns = {"loss": loss, "lr": [0.1 * 0.5 ** (s // 20000) for s in steps], "at": [s / 100 for s in steps]}
            columns.update({f"time/{n}": [1.0 + k] * len(steps) for k, n in enumerate(names)})
            columns.update({f"metric/m{k}": [v + k for v in loss] for k in range(6)})
            writer.write(rows(steps, columns))
        for step in range(0, 100_000, 1000):
            writer.write({"h": step, "n": "weights/head", "r": [-1, 1], "c": [1, 5, 9, 5, 1]})
        writer.write({"state": "ended"})
        writer.close()
    one, both = folder / "one.html", folder / "both.html"
    one.write_text(page(runs=[folder / "first"]))
    both.write_text(page(runs=[folder / "first", folder / "second"]))
    return one, both


REDRAW = "const t = performance.now(); for (const chart of visible) chart.draw(true); return performance.now() - t"


def test_a_hundred_thousand_steps_stay_responsive(browser, long):
    browser.open(long[0].as_uri())
    browser.wait("visible.length >= 8 && charts.get('curves/loss').e")
    times = [browser.run(REDRAW) for _ in range(5)]
    assert min(times) < 250, times  # eight charts of 100,000 points each, on a slow machine
    one = [
        browser.run("const t = performance.now(); charts.get('curves/loss').draw(true); return performance.now() - t")
        for _ in range(5)
    ]
    assert min(one) < 50, one
    # zooming by keyboard shows less, and the spike is there though a pixel stands for a hundred steps
    assert browser.run("return charts.get('curves/loss').e.high") > 50
    browser.run("charts.get('curves/loss').canvas.focus()")
    browser.key("+")
    browser.wait("view.from !== null && charts.get('curves/loss').e.x1 < 80000")
    browser.key("\ue014")  # to the right: values are read
    browser.wait("!$('tip').hidden && /step \\d+/.test($('tip').textContent)")
    browser.key("0")
    browser.wait("view.from === null")
    browser.key("l")
    browser.wait("view.log && $('log').checked")
    browser.key("l")
    browser.run("$('axis').value = 'at'; $('axis').dispatchEvent(new Event('change'))")
    browser.wait("charts.get('curves/loss').e.x1 > 990 && charts.get('curves/loss').e.x1 < 1100")
    browser.run("$('axis').value = 'step'; $('axis').dispatchEvent(new Event('change'))")
    assert browser.problems() == []


def test_runs_are_compared_and_saved(browser, long):
    browser.open(long[1].as_uri())
    browser.wait("charts.has('curves/loss') && charts.get('curves/loss').lines.length === 2")
    assert browser.run("return [...document.querySelectorAll('#runlist input')].map((i) => i.checked)") == [True, True]
    assert browser.run("return charts.get('curves/loss').lines.map((l) => l.name)") == [
        "first (first)",
        "second (second)",
    ]
    colours = browser.run("return charts.get('curves/loss').lines.map((l) => l.colour)")
    assert colours[0] != colours[1]
    saved = browser.run(
        "window.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return '#'; }; $('csv').click(); return saved[0].size"
    )
    assert saved > 1_000_000
    browser.run("document.querySelector('.card .top button').click()")
    assert browser.wait("saved.length === 2 && saved[1].type") == "image/png"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_one_way(browser, long, scheme):
    browser.size(390, 844)
    browser.media(scheme)
    try:
        browser.open(long[1].as_uri())
        browser.wait("visible.length >= 8")
        for section in range(6):
            browser.run(f"select({section})")
            wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert wide[0] <= wide[1] == 390, section
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 21)"}[scheme]  # fmt: skip
    finally:
        browser.size(1200, 850)
        browser.media("light")


def test_everything_has_a_name(browser, long):
    """Buttons, fields and pictures say what they are."""
    browser.open(long[0].as_uri())
    browser.wait("visible.length >= 8")
    unnamed = """return [...document.querySelectorAll('button, input, select, canvas, img, [role=tab], [role=group]')].filter((e) =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('alt') || (e.labels && e.labels.length))).map((e) => e.outerHTML)"""
    for section in range(6):
        browser.run(f"select({section})")
        assert browser.run(unnamed) == []
    assert json.loads(
        browser.run("return JSON.stringify([document.documentElement.lang, document.querySelectorAll('main').length])")
    ) == ["en", 1]

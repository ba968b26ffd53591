"""The command: formats, exit status, comments and configuration that silence, notebooks, modules, fixes; the doctor as a library."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.doctor import watch
from flambeau.doctor.catalog import LESSONS
from flambeau.doctor.findings import Finding
from flambeau.doctor.fixes import fixed
from flambeau.doctor.static import read

ROOT = Path(__file__).parents[2]
WRONG = """import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
opt = torch.optim.Adam(net.parameters(), weight_decay=0.1)
for _ in range(4):
    loss = nn.functional.cross_entropy(torch.softmax(net(torch.randn(8, 3)), 1), torch.randint(0, 2, (8,)))
    loss.backward()
    opt.step()
print("the program's own output")
"""


def doctor(*arguments, cwd, command="doctor", **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "flambeau", command, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, **options)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WRONG)
    return path


@pytest.mark.slow
def test_json_is_a_list_of_findings_and_errors_decide_the_status(script):
    done = doctor("--format", "json", script, cwd=script.parent)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and "own output" in done.stderr
    assert [(f["id"], f["line"]) for f in found] == [
        ("adam-weight-decay", 6), ("softmax-before-cross-entropy", 8), ("missing-zero-grad", 9),
    ]  # fmt: skip
    for finding in found:
        assert {"id", "file", "line", "message", "severity", "confidence", "fix"} <= finding.keys()
        assert finding["file"] == str(script) and finding["severity"] == LESSONS[finding["id"]].severity


@pytest.mark.slow
def test_text_marks_the_line(script):
    text = doctor("--static", script, cwd=script.parent).stdout
    assert f"{script}:9: error[missing-zero-grad]" in text
    assert "    9 |     loss.backward()\n      |     ^^^^^^^^^^^^^^^\n" in text


@pytest.mark.slow
def test_sarif(script):
    run = json.loads(doctor("--static", "--format", "sarif", script, cwd=script.parent).stdout)["runs"][0]
    assert {r["ruleId"] for r in run["results"]} == {r["id"] for r in run["tool"]["driver"]["rules"]}
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 6}


@pytest.mark.slow
def test_comments_and_configuration_silence(script):
    text = WRONG.replace("weight_decay=0.1)", "weight_decay=0.1)  # doctor: ignore[adam-weight-decay]")
    script.write_text(
        text.replace("    loss.backward()", "    # doctor: ignore[missing-zero-grad]\n    loss.backward()")
    )
    (script.parent / "pyproject.toml").write_text('[tool.flambeau.doctor]\nignore = ["softmax-before-cross-entropy"]\n')
    done = doctor(script, cwd=script.parent)
    assert done.returncode == 0 and done.stdout == "nothing found\n"


@pytest.mark.slow
def test_notebooks_and_modules(tmp_path):
    cells = [{"cell_type": "markdown", "source": ["# title"]}]
    cells += [{"cell_type": "code", "source": [line + "\n" for line in ["%matplotlib inline", *WRONG.splitlines()]]}]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells}))
    found = json.loads(doctor("--format", "json", "book.ipynb", cwd=tmp_path).stdout)
    assert {f["id"] for f in found} == {"adam-weight-decay", "softmax-before-cross-entropy", "missing-zero-grad"}
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "__main__.py").write_text(WRONG)
    found = json.loads(doctor("--format", "json", "-m", "pack", cwd=tmp_path).stdout)
    assert {f["line"] for f in found} == {6, 8, 9}


@pytest.mark.slow
def test_limits_end_the_program(script):
    script.write_text(WRONG.replace("range(4)", "range(10**9)"))
    done = doctor("--steps", 20, script, cwd=script.parent)
    assert done.returncode == 1 and "missing-zero-grad" in done.stdout and "own output" not in done.stderr


@pytest.mark.slow
def test_failures_that_nobody_explains(script):
    script.write_text("import torch\nraise ValueError('something else')\n")
    done = doctor(script, cwd=script.parent)
    assert done.returncode == 2 and "something else" in done.stderr


@pytest.mark.slow
def test_lists_and_lessons(tmp_path):
    assert [line.split()[0] for line in doctor("--list", cwd=tmp_path).stdout.splitlines()] == list(LESSONS)
    assert "optimizer.zero_grad()" in doctor("--explain", "missing-zero-grad", cwd=tmp_path).stdout
    assert doctor("--explain", "no-such-id", cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_run_with_the_doctor(script):
    done = doctor("--doctor", script, cwd=script.parent, command="run")
    assert done.stdout == "the program's own output\n" and "missing-zero-grad" in done.stderr


@pytest.mark.slow
def test_fixes_are_shown_and_applied(script):
    done = doctor("--static", "--diff", script, cwd=script.parent)
    assert "+    opt.zero_grad()\n" in done.stdout and script.read_text() == WRONG
    doctor("--static", "--fix", script, cwd=script.parent, input="y\n")
    after = script.read_text()
    assert "torch.optim.AdamW(" in after and "    opt.zero_grad()\n    loss.backward()\n" in after


@pytest.mark.parametrize(
    "id, before, after",
    [
        ("calling-forward", "y = net.forward(x)", "y = net(x)"),
        ("view-after-transpose", "y = x.t().view(6)", "y = x.t().reshape(6)"),
        ("load-without-map-location", "s = torch.load('w.pt')", "s = torch.load('w.pt', map_location=\"cpu\")"),
        ("graph-kept-by-logging", "total += loss", "total += loss.item()"),
        ("whole-model-pickled", "torch.save(net, 'w.pt')", "torch.save(net.state_dict(), 'w.pt')"),
        ("backward-twice", "loss.backward(retain_graph=True)", "loss.backward()"),
    ],
)
def test_mechanical_fixes(id, before, after, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"import torch\n{before}\n")
    assert fixed(str(path), [Finding(id, str(path), 2, "")])[1] == f"import torch\n{after}\n"


def _train(steps):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        opt.zero_grad()
        nn.functional.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,))).backward()
        opt.step()
    return torch.cat([p.detach().flatten() for p in net.parameters()]), torch.random.get_rng_state()


def test_watching_changes_no_result_and_leaves_nothing_behind():
    for name in ("__mul__", "view"):
        getattr(torch.Tensor, name)  # what waits is made when it is first asked for
    methods = {name: vars(torch.Tensor)[name] for name in ("backward", "__mul__", "item", "view")}
    call = nn.Module.__call__
    plain, state = _train(5)
    with watch() as report:
        watched, watched_state = _train(5)
    assert torch.equal(plain, watched) and torch.equal(state, watched_state)
    assert report.findings == [] and str(report) == "nothing found"
    assert nn.Module.__call__ is call
    assert {name: vars(torch.Tensor)[name] for name in methods} == methods


def test_the_library_form():
    logits, classes = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    with watch() as report:
        nn.functional.cross_entropy(torch.softmax(logits, 1), classes)
    assert [(f.id, Path(f.file).name) for f in report.findings] == [("softmax-before-cross-entropy", "test_command.py")]


def test_the_plugin_costs_other_runs_nothing():
    line = "import sys, flambeau_pytest; sys.exit(bool({'flambeau', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", line], cwd=ROOT, timeout=60).returncode == 0


@pytest.mark.slow
def test_the_plugin(tmp_path):
    (tmp_path / "test_train.py").write_text(
        "import flambeau as torch\n"
        "def test_good():\n    assert torch.ones(2).sum() == 2\n"
        "def test_bad():\n    x = torch.randn(4, 3, requires_grad=True)\n"
        "    torch.nn.functional.nll_loss(torch.softmax(x, 1), torch.tensor([0, 1, 2, 0]))\n"
    )
    installed = any(e.value == "flambeau_pytest" for e in entry_points(group="pytest11"))
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *([] if installed else ["-p", "flambeau_pytest"]),
        "--doctor",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120)
    assert "1 failed, 1 passed" in done.stdout and "softmax-into-nll" in done.stdout


def test_the_documentation_lists_all_mistakes():
    rows = [f"| {lesson.id} | {lesson.severity} | {lesson.title} |" for lesson in LESSONS.values()]
    text = (ROOT / "docs" / "doctor.md").read_text()
    assert len(rows) == 69 and all(row in text for row in rows)


def test_unusual_forms_are_read():
    text = "import torch\na = {torch.ones(1): 2}\nb, *c = (torch.ones(1), 2, torch.zeros(2))\n(d, e), f = torch.ones(2), torch.zeros(1)\n"
    assert read("program.py", text) == []

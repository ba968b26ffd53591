"""--overfit, --find-lr, --profile: what they say of programs that learn, that cannot, that wait."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.doctor.trials.overfit import Overfit, _first
from flambeau.doctor.trials.rates import Rates

PROGRAM = """import torch, sys
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=8)
loader = DataLoader(TensorDataset(x, y), 8, shuffle=True)
for epoch in range(1):
    for a, b in loader:
        assert a.shape[0] <= 8
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        sched.step()
    with torch.no_grad():
        for a, b in loader:
            net(a)
torch.save(net.state_dict(), "model.pt")
"""


CANNOT = PROGRAM.replace("net(a), b", "net(a) * 0, b")
NO_LOADER = """import torch
w = torch.nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([w], 0.1)
for _ in range(9):
    (w * w).sum().backward()
    opt.step()
"""
WAITS = PROGRAM.replace("opt.zero_grad()", "opt.zero_grad(); import time\n        time.sleep(0.02)  # slow")
TRIALS = {
    "learns": (["--format", "json", "--overfit", "12", "--steps", "80"], PROGRAM),
    "cannot": (["--format", "json", "--overfit", "16", "--steps", "40"], CANNOT),
    "no loader": (["--overfit", "4"], NO_LOADER),
    "no samples": (["--overfit", "0"], PROGRAM),
    "fails": (["--overfit", "4"], PROGRAM.replace("assert", "assert not")),
    "rates": (["--format", "json", "--find-lr", "--steps", "60"], PROGRAM),
    "rates as text": (["--find-lr", "--svg", "mine.svg"], PROGRAM),
    "profile": (["--format", "json", "--profile"], WAITS),
    "profile as text": (["--profile"], WAITS),
}


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """What came of each: status, output, errors, files."""
    folder = tmp_path_factory.mktemp("trials")
    child = Path(__file__).with_name("_trials.py")
    environment = {**os.environ, "PYTHONPATH": str(child.parents[2])}
    line = [sys.executable, str(child), str(folder)]
    done = subprocess.run(line, input=json.dumps(TRIALS), capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return {"folder": folder, **json.loads(done.stdout)}


@pytest.mark.slow
def test_a_program_that_learns_by_heart(trials):
    status, out, _, files = trials["learns"]
    found = json.loads(out)
    assert status == 0 and found["verdict"] == "learns" and found["steps"] == 80
    assert found["last"] < 0.05 * found["first"] and files == ["train.py"]  # nothing was saved


def test_a_program_that_cannot(trials):
    status, out, *_ = trials["cannot"]
    assert status == 1 and json.loads(out)["verdict"] == "stays"


def test_trials_that_cannot_be_made(trials):
    for name, said in (("no loader", "needs a DataLoader"), ("no samples", "above 0"), ("fails", "AssertionError")):
        status, out, error, _ = trials[name]
        assert status == 2 and said in error and not out


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [([2.0] * 20, "stays"), ([2.0, 1.9, 1.8] + [1.0] * 20, "falls"), ([2.0] * 9 + [math.nan] * 9, "diverges"), ([3.0] * 3 + [0.01] * 20, "learns")],
)  # fmt: skip
def test_verdicts(losses, verdict):
    made = Overfit(4, losses)
    assert made.verdict == verdict and made.status == (verdict in ("stays", "diverges")) and "4 samples" in str(made)


def test_batches_are_cut():
    batches = [{"x": torch.arange(4), "names": ["a", "b", "c", "d"], "k": 3}] * 3
    first = list(_first(iter(batches), 6))
    assert [len(b["x"]) for b in first] == [4, 2] and first[1]["names"] == ["a", "b"] and first[1]["k"] == 3
    assert [t.shape for t in next(_first([(torch.ones(5, 2), torch.ones(5))], 3))] == [(3, 2), (3,)]


def test_a_rate_is_suggested(trials):
    status, out, _, files = trials["rates"]
    found = json.loads(out)
    assert status == 0 and len(found["rates"]) == len(found["losses"]) > 30
    assert found["rates"][0] == 1e-6 and found["rates"][1] > found["rates"][0]
    assert 1e-3 < found["suggested"] < 3 and found["own"] == 0.5
    assert files == ["train-find-lr.svg", "train.py"]
    status, out, *_ = trials["rates as text"]
    assert (
        status == 0 and "suggested: " in out and "drawn in mine.svg" in out and "the program begins with 5.0e-01" in out
    )
    picture = (trials["folder"] / "mine.svg").read_text()
    assert picture.startswith("<svg") and "suggested" in picture and "learning rate" in picture


def test_a_curve_of_rates():
    rates = [1e-6 * 10 ** (i / 10) for i in range(60)]
    losses = [1.0 if r < 1e-4 else 1 - 0.3 * math.log10(r / 1e-4) if r < 1e-2 else 100.0 for r in rates]
    found = Rates(rates, losses, own=1.0, kind="SGD")
    assert 1e-4 < found.suggested < 1e-2 and "times higher" in str(found)
    assert Rates(rates, [1.0] * 60, own=1.0).suggested is None


def test_where_the_time_goes(trials):
    status, out, *_ = trials["profile"]
    found = json.loads(out)
    assert status == 0 and found["steps"] == 8 and found["seconds"]["other"] > 0.1
    assert all(found["seconds"][phase] > 0 for phase in ("loader", "forward", "backward", "optimizer"))
    slow = next(n for n, line in enumerate(WAITS.splitlines(), 1) if "# slow" in line)
    assert slow in [line["line"] for line in found["lines"][:3]]
    _, said, *_ = trials["profile as text"]
    assert "time.sleep(0.02)  # slow" in said and "Python between the phases" in said

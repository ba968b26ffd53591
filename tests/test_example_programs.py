"""The programs in `examples` that say `import torch` run unchanged on flambeau and learn, with fewer steps than usual."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNNER = """
import json, runpy, sys
import flambeau
flambeau.install_as_torch(children=False)
program, options = sys.argv[1], json.loads(sys.argv[2])
print("figure", runpy.run_path(program)["main"](**options))
"""


def figure(name, **options):
    """What `main` of a program returns, run in a process of its own so that `torch` there is flambeau."""
    command = [sys.executable, "-W", "error", "-c", RUNNER, str(EXAMPLES / f"{name}.py"), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.rpartition("figure ")[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, options, reached",
    [
        ("nano_gpt", {"steps": 40, "batch_size": 16, "sample": 20}, lambda loss: 1 < loss < 3.1),
        ("cifar_style_resnet", {"steps": 90, "batch_size": 32}, lambda accuracy: 0.35 < accuracy <= 1),
        ("lstm_classifier", {"steps": 60, "batch_size": 32}, lambda accuracy: 0.85 < accuracy <= 1),
        ("vae", {"steps": 100}, lambda bound: 60 < bound < 150),
        ("dcgan", {"steps": 150, "batch_size": 32}, lambda distance: 0.3 < distance < 13),
        ("reinforce", {"steps": 20}, lambda length: 80 < length <= 200),
        ("transfer_learning", {"steps": 80}, lambda accuracy: 0.7 < accuracy <= 1),
    ],
)
def test_it_learns(name, options, reached):
    found = figure(name, **options)
    assert reached(found), found


def test_every_program_says_how_it_is_started():
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text()
        if "\nimport torch\n" in text:
            assert f"flambeau run examples/{path.name}" in text and "argparse" in text, path


@pytest.mark.slow
def test_the_command_runs_a_program():
    command = [
        sys.executable,
        "-m",
        "flambeau",
        "run",
        str(EXAMPLES / "reinforce.py"),
        "--steps",
        "1",
        "--batch-size",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent)
    assert done.returncode == 0 and "mean length of episodes" in done.stdout, done.stderr

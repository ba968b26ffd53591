"""The command `flambeau`: help, programs given as text, kernels kept on disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(folder, *options):
    environment = {**os.environ, "FLAMBEAU_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "flambeau", *map(str, options)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


@pytest.mark.slow
def test_help_is_what_comes_without_a_command(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("usage: flambeau") and "doctor" in done.stdout


@pytest.mark.slow
def test_a_program_as_text(tmp_path):
    done = run(
        tmp_path, "run", "-c", "import sys, torch; print(torch.ones(2).sum().item(), sys.argv, __name__)", "a", "-b"
    )
    assert (done.returncode, done.stdout) == (0, "2.0 ['-c', 'a', '-b'] __main__\n"), done.stderr
    done = run(tmp_path, "run", "-c", "import torch; torch.ones(2) @ torch.ones(3)")
    assert done.returncode == 1 and "RuntimeError" in done.stderr


def kept(text):
    return int(re.search(r"^(\d+) kernels, ", text, re.MULTILINE)[1])


@pytest.mark.slow
def test_kernels_on_disk(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys, torch\nprint((torch.ones(5) * 3).exp().sum() > 0, sys.argv[1:])\n"
    )
    done = run(tmp_path, "warm", tmp_path / "program.py", "x")
    assert done.returncode == 0 and done.stdout == "tensor(True) ['x']\n"
    more = int(re.match(r"(\d+) kernels more", done.stderr)[1])
    assert more > 1
    again = run(tmp_path, "warm", tmp_path / "program.py", "x")
    assert again.stderr.startswith("0 kernels more")
    shown = run(tmp_path, "cache")
    assert kept(shown.stdout) == more and str(tmp_path) in shown.stdout
    size = sum(file.stat().st_size for file in (tmp_path / "cache" / "kernels").glob("*.kernel")) / 1e6
    bounded = run(tmp_path, "cache", "--limit", size / 2)
    assert 0 < kept(bounded.stdout) < more and "kernels removed" in bounded.stdout
    assert kept(run(tmp_path, "cache", "--clear").stdout) == 0
    assert run(tmp_path, "cache", "--limit", "-1").returncode == 2
    assert run(tmp_path, "warm", tmp_path / "nowhere.py").returncode == 2


def test_help_needs_nothing_of_the_package():
    program = """
import sys
import flambeau_command
for line in ([], ["--help"], ["run", "-h"]):
    sys.argv = ["flambeau", *line]
    try:
        flambeau_command.main()
    except SystemExit as end:
        assert not end.code
assert not {"flambeau", "numpy"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: flambeau [-h]") == 2 and done.stdout.count("usage: flambeau run") == 1

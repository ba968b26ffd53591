"""The type stubs: up to date, silent about programs as users write them, loud about mistakes."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))


@pytest.mark.slow
def test_stubs_are_up_to_date():
    """Asked in a process of its own, in which nobody has added to the package."""
    command = [sys.executable, str(ROOT / "tools" / "stubs.py"), "--check"]
    known = {
        name: value for name, value in os.environ.items() if name != "FLAMBEAU_NATIVE_ENTRY"
    }  # sites show their signatures
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**known, "PYTHONPATH": str(ROOT)})
    assert asked.returncode == 0, asked.stdout + asked.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_programs_run(program, capsys):
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out


def _mypy(folder, *files):
    pytest.importorskip("mypy")
    (folder / "mypy.ini").write_text(
        "[mypy]\nfollow_imports = silent\nignore_missing_imports = true\ncheck_untyped_defs = true\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(folder / "mypy.ini"),
        "--cache-dir",
        str(folder / "cache"),
    ]
    answer = subprocess.run(
        [*command, *map(str, files)], cwd=folder, capture_output=True, text=True, env={"MYPYPATH": str(ROOT)}
    )
    return answer.stdout + answer.stderr


@pytest.mark.slow
def test_programs_and_mistakes(tmp_path):
    """Checked in one go: reading the package takes the time."""
    wrong = [HERE / "mistakes.py", HERE / "mistakes_inside.py"]
    said = _mypy(tmp_path, *PROGRAMS, *wrong)
    found = {(Path(m[1]).name, int(m[2])) for m in re.finditer(r"^(.*?):(\d+): error", said, re.MULTILINE)}
    planted = {(f.name, i + 1) for f in wrong for i, line in enumerate(f.read_text().split("\n")) if "  # " in line}
    assert len(planted) > 24
    assert found == planted, said


@pytest.mark.slow
def test_link_for_programs_that_import_torch(tmp_path):
    command = [sys.executable, "-m", "flambeau", "typings", "typings"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "typings" / "torch" / "nn" / "functional.pyi").exists()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert again.returncode == 2 and "is there already" in again.stderr

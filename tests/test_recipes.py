"""The programs of docs/recipes.md, run where their packages are installed: they print what the page says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
PROGRAMS = {}
for _part in PAGE.read_text().split("\n## ")[1:]:
    for _code in re.findall(r"```python\n(.*?)```", _part, re.DOTALL):
        _found = re.match(r"# needs: (.*)\n", _code)
        _title = re.split(r"[:\n]", _part)[0]
        PROGRAMS[f"{_title} {len(PROGRAMS)}"] = (_found[1].split(", ") if _found else [], _code)


# Those with other libraries take seconds, nearly all of them for imports.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if p[0] else []) for n, p in PROGRAMS.items()]
)
def test_recipe(name, tmp_path):
    packages, code = PROGRAMS[name]
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}, which is not installed")
    expected = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(expected) == code.count("print("), "every print says what it prints"
    (tmp_path / "recipe.py").write_text(code)
    around = {**os.environ, "PYTHONPATH": str(PAGE.parent.parent)}
    command = [sys.executable, "recipe.py"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=around)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines() == expected

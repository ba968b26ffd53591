"""Wrong programs are found out on the right line, their mended twins and correct programs stay silent.

A file in programs/wrong is a program with a mistake. `#! id` ends the line at which the finding must be (`#? id`: a hint);
the mended twin has the lines that `#+` keeps in comments and lacks those that end with `#-` or `#!-`.
Where the first line is `# nothing else`, the doctor must not find other mistakes, either.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
WRONG = sorted((PROGRAMS / "wrong").glob("*.py"))
CORRECT = sorted((PROGRAMS / "correct").glob("*.py"))
ALONE = "# nothing else\n"
_MARK = re.compile(r"#([!?])-? ([a-z0-9-]+)\s*$")


def mended(text):
    lines = []
    for line in text.splitlines():
        if re.search(r"#(-|!-.*|\?-.*)$", line):
            continue
        lines.append(_MARK.sub("", re.sub(r"^(\s*)#\+ ", r"\1", line)))
    return "\n".join(lines) + "\n"


def expected(text):
    """(id, line, whether it is a hint) for every mark."""
    marks = ((number, _MARK.search(line)) for number, line in enumerate(text.splitlines(), 1))
    return [(m[2], number, m[1] == "?") for number, m in marks if m]


def _by_mistake():
    """The wrong programs; all but the first of a mistake take their time."""
    known = set()
    for path in WRONG:
        mistake = re.sub("_[a-z0-9]$", "", path.stem)
        yield pytest.param(path, marks=[pytest.mark.slow] if mistake in known else [], id=path.stem)
        known.add(mistake)


@pytest.fixture(scope="session")
def examined(tmp_path_factory, request):
    """Findings of the programs and twins that are asked about, by file, from one child process."""
    twins, paths = tmp_path_factory.mktemp("mended"), {}
    for item in request.session.items:
        if "examined" in getattr(item, "fixturenames", ()):
            path = item.callspec.params["path"]
            if item.originalname == test_the_mended_twin_is_silent.__name__:
                (twins / path.name).write_text(mended(path.read_text()))
                path = twins / path.name
            paths[str(path)] = None
    command = [sys.executable, str(Path(__file__).parent / "_examine.py"), *paths]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=PROGRAMS.parents[2], env=_environment(), timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    return {("twin" if Path(p).parent == twins else "own", Path(p).name): f for p, f in found.items()}


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": str(PROGRAMS.parents[2])}


@pytest.mark.slow
@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_the_mistake_is_found(path, examined):
    result = examined["own", path.name]
    found = {(id, line, severity == "hint") for id, line, severity in result["found"]}
    for mark in expected(path.read_text()):
        assert mark in found, (sorted(found), result["failure"])


@pytest.mark.parametrize("path", list(_by_mistake()))
def test_the_mended_twin_is_silent(path, examined):
    result = examined["twin", path.name]
    about = {id for id, _, _ in expected(path.read_text())}
    assert not [f for f in result["found"] if f[2] != "hint" or f[0] in about] and not result["failure"], result


@pytest.mark.parametrize("path", [p for p in WRONG if p.read_text().startswith(ALONE)], ids=lambda p: p.stem)
def test_nothing_else_is_found(path, examined):
    result = examined["own", path.name]
    about = {id for id, _, _ in expected(path.read_text())}
    assert not [f for f in result["found"] if f[2] != "hint" and f[0] not in about] and not result["failure"], result


@pytest.mark.slow
@pytest.mark.parametrize("path", CORRECT, ids=lambda p: p.stem)
def test_correct_programs_are_silent(path, examined):
    result = examined["own", path.name]
    assert not [f for f in result["found"] if f[2] != "hint"] and not result["failure"], result

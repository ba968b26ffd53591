"""Classic mistakes raise PyTorch's type of error with its phrase, and say where and what to do; the page about them is true."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTORCH = json.loads(Path(__file__).with_name("pytorch.json").read_text())


@pytest.fixture(scope="module")
def tool():
    program = (
        f"import json, sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import compare_errors as c; ours = c.here(); "
        "print(json.dumps([ours, {t: c.phrase(p[1], ours[t][1]) for t, p in json.loads(c.KEPT.read_text()).items()}, "
        "c.page(json.loads(c.KEPT.read_text()), ours)]))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("title", PYTORCH)
def test_type_and_phrase_are_pytorchs(tool, title):
    ours, phrases, _ = tool
    (kind, text), (mine, own) = PYTORCH[title], ours[title]
    assert mine == kind, own
    assert len(phrases[title]) >= min(12, len(text)), (text, own)


def test_there_are_many(tool):
    ours, _, page = tool
    assert len(ours) >= 60
    helped = [
        title
        for title, (_, text) in ours.items()
        if re.search(r"fix:|did you mean|Did you mean|[Uu]se |[Cc]lone|instead|Specify|Set ", text)
    ]
    assert len(helped) >= 50, sorted(set(ours) - set(helped))
    if sys.version_info < (3, 14):  # where Python itself says what was meant
        assert (ROOT / "docs/errors.md").read_text() == page, "run tools/compare_errors.py --write"

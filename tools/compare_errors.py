"""Classic mistakes side by side: what PyTorch says, and what flambeau says.

    python tools/compare_errors.py            # runs them here and compares with what is kept of PyTorch
    python tools/compare_errors.py --pytorch  # asks PyTorch again, which must be importable, and keeps what it says
    python tools/compare_errors.py --write    # writes docs/errors.md

The programs are in `tests/errors/classic.py`; the tests run them and see that the page is as they say.
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT, PAGE = ROOT / "tests/errors/pytorch.json", ROOT / "docs/errors.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests/errors")]

from classic import CASES, SETUP  # noqa: E402

HEAD = """# Errors that teach

This page shows what classic mistakes say on PyTorch and on flambeau. The types of errors and the phrases that people search for are the same.
flambeau adds three things: where in the model the error happened, what that layer expects, and what to do. Uncaught errors end at the line of
your program. Frames inside the package are folded away unless `FLAMBEAU_FULL_TRACEBACK=1` is set.

`tools/compare_errors.py` runs every example and writes this page.
"""


def said(code: str) -> tuple[str, str]:
    """The type of the error that a program raises, and the text that it ends with."""
    space: dict[str, object] = {"__name__": "program"}
    try:
        exec(compile(SETUP + code, "program.py", "exec"), space)
    except Exception as error:
        tracebacks = sys.modules.get("flambeau._errors.tracebacks")
        if tracebacks is not None:  # what is added to errors that nobody catches
            tracebacks.explained(error, True)
        return type(error).__name__.lstrip("_"), str(error)
    return "", "no error"


def everything() -> dict[str, tuple[str, str]]:
    return {title: said(code) for title, code in CASES.items()}


def here() -> dict[str, tuple[str, str]]:
    import flambeau

    flambeau.install_as_torch()
    return everything()


def phrase(a: str, b: str) -> str:
    """The longest part of a first line that two texts share."""
    a = a.splitlines()[0] if a else ""
    found = difflib.SequenceMatcher(None, a, b, False).find_longest_match()
    return a[found.a : found.a + found.size].strip()


def page(theirs: dict[str, list[str]], ours: dict[str, tuple[str, str]]) -> str:
    parts = [HEAD]
    for title, code in CASES.items():
        there, mine = theirs[title], ours[title]
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n```text\n{code}\n```\n")
        parts.append(f"PyTorch:\n\n```text\n{_clean(there)}\n```\n\nflambeau:\n\n```text\n{_clean(mine)}\n```\n")
    return "\n".join(parts)


def _clean(found: list[str] | tuple[str, str]) -> str:
    lines = [line.rstrip().replace("\t", "    ") for line in f"{found[0]}: {found[1]}".splitlines()]
    return "\n".join(lines[:12])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pytorch", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)  # in a process that has PyTorch as torch
    chosen = parser.parse_args()
    if chosen.ask:
        print(json.dumps(everything()))
        return 0
    if chosen.pytorch:
        run = subprocess.run([sys.executable, __file__, "--ask"], capture_output=True, text=True, check=True)
        KEPT.write_text(json.dumps(json.loads(run.stdout), indent=1) + "\n")
    theirs, ours = json.loads(KEPT.read_text()), here()
    wrong = 0
    for title in CASES:
        (kind, text), (mine, own) = theirs[title], ours[title]
        common = phrase(text, own)
        if kind != mine or len(common) < min(12, len(text)):
            wrong += 1
            print(f"{title}\n  PyTorch:  {kind}: {text[:300]}\n  flambeau: {mine}: {own[:300]}")
    print(f"{len(CASES) - wrong} of {len(CASES)} agree in type and phrase")
    if chosen.write:
        PAGE.write_text(page(theirs, ours))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

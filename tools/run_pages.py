"""Runs what documentation pages show: `python tools/run_pages.py docs/start.md …`, or all pages without arguments.

A page is one program. Its blocks run in order, in one namespace, in a process of its own and an empty folder:

    ```python          runs; with prompts (>>>) it is compared with the results that follow them
    ```text            right after a block: what that block prints
    ```console         lines after `$ ` run in a shell, the others are what they print

`...` stands for any text in what is compared. A comment in the line before a block says what else is done with it:
`<!-- file: train.py -->` writes it to a file, `<!-- not run: reason -->` leaves it alone; `<!-- run by tests/… -->` on a page leaves all of
it to a test. Pictures that a program writes to `made/`
come to `--made FOLDER`. `--programs FOLDER` runs nothing and writes the programs there, for type checkers.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import linecache
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(
    r"(?:^<!-- (?P<said>[^\n]*?) -->\n+)?^```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    kind: str
    text: str
    line: int  # of its first line
    said: str  # in the comment before it
    follows: bool  # nothing but white space lies between it and the block before


def pages() -> list[Path]:
    return sorted(p for folder in ("docs", "docs/guides") for p in (ROOT / folder).glob("*.md"))


def blocks(page: Path) -> list[Block]:
    text, found, end = page.read_text(), [], 0
    for m in _FENCE.finditer(text):
        line = text.count("\n", 0, m.start("text")) + 1
        found.append(Block(m["kind"], m["text"], line, m["said"] or "", not text[end : m.start()].strip()))
        end = m.end()
    return found


def shows_something(page: Path) -> bool:
    if "\n<!-- run by tests/" in page.read_text():  # each of its blocks is a program, which needs other libraries
        return False
    return any(b.kind in ("python", "console") and not b.said.startswith("not run") for b in blocks(page))


def program(page: Path) -> str:
    """The blocks of Python that are run, as one text; what pages print and compare is left out."""
    parts = []
    for b in blocks(page):
        if b.kind == "python" and not b.said:
            parts.append("".join(e.source for e in _examples(b)) if ">>> " in b.text else b.text)
    return "\n\n".join(parts)


def _examples(block: Block) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(block.text)


class Failure(Exception):
    pass


def _compare(place: str, wanted: str, got: str) -> None:
    checker = doctest.OutputChecker()
    if not checker.check_output(wanted, got, FLAGS):
        example = doctest.Example("", wanted)
        raise Failure(f"{place}: {checker.output_difference(example, got, FLAGS)}")


def _run_prompts(place: str, page: Path, block: Block, space: dict[str, Any]) -> None:
    test = doctest.DocTest(_examples(block), {}, page.name, str(page), block.line - 1, block.text)
    test.globs = space  # not a copy: what a block names is there in the next
    said: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append, clear_globs=False)
    if outcome.failed:
        raise Failure(f"{place}\n{''.join(said)}")


def _run_text(place: str, block: Block, space: dict[str, Any]) -> str:
    linecache.cache[place] = (
        len(block.text),
        None,
        block.text.splitlines(True),
        place,
    )  # kernels and scripts read their source
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, place, "exec"), space)
    return printed.getvalue()


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Command and what it prints, in turn."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(True)
        n = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        yield "".join(lines[:n]), "".join(lines[n:])


def _shell(command: str) -> str:
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def run_here(page: Path) -> None:
    """All blocks of a page, in this process and folder."""
    space: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for b in blocks(page):
        place = f"{page.name}:{b.line}"
        before, printed = printed, None
        if b.said.startswith("not run"):
            continue
        if b.said.startswith("file: "):
            Path(b.said[6:]).write_text(b.text)
        elif b.kind == "text" and b.follows and before is not None:
            _compare(place, b.text, before)
        elif b.kind == "console":
            for command, wanted in _commands(b.text):
                _compare(f"{place}: {command}", wanted, _shell(command))
        elif b.kind == "python" and ">>> " in b.text:
            _run_prompts(place, page, b, space)
        elif b.kind == "python":
            printed = _run_text(place, b, space)


def run(page: Path, made: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A page in a process of its own; `flambeau` is a command there, whatever is installed."""
    with tempfile.TemporaryDirectory() as name:
        folder, commands = Path(name) / "here", Path(name) / "bin"
        folder.mkdir()
        commands.mkdir()
        if made is None:
            (folder / "made").mkdir()
        else:
            made.mkdir(parents=True, exist_ok=True)
            (folder / "made").symlink_to(made.resolve())
        command = commands / "flambeau"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flambeau "$@"\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        paths = {
            "PATH": os.pathsep.join((str(commands), str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
            "MPLBACKEND": "agg",
        }
        return subprocess.run(
            [sys.executable, "-W", "error", __file__, "--here", str(page.resolve())],
            cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--made", type=Path, help="where pictures come to")
    parser.add_argument("--programs", type=Path, help="write the programs there and run nothing")
    parser.add_argument("--here", action="store_true", help="in this process and folder")
    options = parser.parse_args()
    failed = 0
    for page in options.pages or pages():
        if options.programs:
            options.programs.mkdir(parents=True, exist_ok=True)
            if text := program(page):
                (options.programs / f"{page.stem.replace('-', '_')}_page.py").write_text(text)
        elif options.here:
            try:
                run_here(page)
            except Failure as error:
                print(error)
                failed = 1
        elif shows_something(page):
            done = run(page, options.made)
            print(page.name, "failed" if done.returncode else "ran")
            if done.returncode:
                print(done.stdout + done.stderr)
            failed |= done.returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())

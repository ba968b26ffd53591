"""Makes single random changes in the package and asks whether the tests of the changed folder notice them.

    python tools/mutate.py                              # 300 changes, drawn with seed 0
    python tools/mutate.py --changes 20 --folders nn optim --seed 7 --jobs 2
    python tools/mutate.py --list                       # what would be changed, without running anything
    python tools/mutate.py --lessons kept.gz --minutes 10

A change turns a comparison, an operator, an `and`/`or`, a `not` or a returned flag into its opposite, in a copy of the
checkout; tests of `FOLDERS` then run until the first failure: those that come through the changed line (`lessons.py`
learns this first from the unchanged tests, with Python 3.12 or newer, and --lessons keeps it in a file), at most `MOST`
and for about `SECONDS`, those of files named like the changed one first. Lines outside functions run before any test,
functions that are compiled from their text are read but not run, and workers' lines run in processes of their own: tests
that come through the file, or are named like it, get those. Kernels on disk hide nothing: they go by the compiled text.
A change that no test notices is printed, unless `equivalent_changes.txt` names it with the reason why it alters nothing
that a user could see. The exit status is 0 if at least --share of the others were noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lessons import Lessons, selection

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_changes.txt")
# The folders of the package, and the folders under tests/ that are theirs.
FOLDERS = {
    "_ops": ["ops", "nn", "quantization", "fuzz", "features", "kernel", "autograd", "func", "cuda"],
    "_kernel": ["kernel", "ops", "nn", "optim", "distributions", "cuda", "compile"],
    "_autograd": ["autograd", "features", "func"],
    "nn": ["nn", "features", "pruning"],
    "optim": ["optim", "features"],
    "func": ["autograd", "func"],
    "_serialization": ["serialization"],
    "jit": ["jit"],
    "utils/data": ["data"],
}
OPPOSITE = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*",
    "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<", "@": "*", "and": "or", "or": "and",
}  # fmt: skip
MOST, SECONDS = 200, 60.0
GUARDED = "tests/kernel/test_guarded.py"  # runs kernels beside pages without rights: only there a read too far is seen
COPIED = (
    "flambeau",
    "tests",
    "tools",
    "docs",
    "examples",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)


# --- the changes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Some text of one line replaced by another."""

    path: str  # from the root of the checkout
    line: int
    column: int
    old: str
    new: str
    source: str  # the line as it stands, without the spaces around it
    read: bool = False  # outside functions: run when the package is imported, not in a test
    which: int = 1  # of the changes of this text in lines that read the same

    @property
    def name(self) -> str:
        """How `equivalent_changes.txt` calls it: without the line's number, which other changes move."""
        which = f" ({self.which})" if self.which > 1 else ""
        return f"{self.path}: {self.source} [{self.old}{which} -> {self.new or 'nothing'}]"


def changes_of(path: Path) -> Iterator[Change]:
    """All changes that can be made in a file, by their places."""
    seen: Counter[tuple[str, str]] = Counter()
    for change in sorted(_changes_of(path), key=lambda change: (change.line, change.column)):
        seen[change.source, change.old] += 1
        yield replace(change, which=seen[change.source, change.old])


def _changes_of(path: Path) -> Iterator[Change]:
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    relative = path.relative_to(ROOT).as_posix()

    tree = ast.parse(text)
    functions = [(node.lineno, node.end_lineno or 0) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]

    def change(line: int, column: int, old: str, new: str) -> Change:
        column = len(lines[line - 1].encode()[:column].decode())  # ast counts bytes
        read = not any(first <= line <= last for first, last in functions)
        return Change(relative, line, column, old, new, lines[line - 1].strip(), read)

    def between(left: ast.expr, right: ast.expr) -> Iterator[Change]:
        """The operator between two operands, if it stands on one line with the end of the left one."""
        line, column = left.end_lineno or 0, left.end_col_offset or 0
        end = right.col_offset if right.lineno == line else len(lines[line - 1].encode())
        part = lines[line - 1].encode()[column:end].decode()
        found = _OPERATOR.match(part)
        if found and " ".join(found[1].split()) in OPPOSITE:
            yield change(
                line, column + len(part[: found.start(1)].encode()), found[1], OPPOSITE[" ".join(found[1].split())]
            )

    for node in _code(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node.left, node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1])
        elif isinstance(node, ast.BinOp) and not _of_text_or_types(node):
            yield from between(node.left, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield change(node.lineno, node.col_offset, "not ", "")
        elif (
            isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)
        ):
            flag = node.value.value
            yield change(node.value.lineno, node.value.col_offset, str(flag), str(not flag))


_OPERATOR = re.compile(r"[\s)]*([a-z]+(?:\s+[a-z]+)?|[^\s\w()#]+)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute something: annotations do not, and what `raise` says is for people."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(node, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _code(child)


def _of_text_or_types(node: ast.BinOp) -> bool:
    def plain(side: ast.expr) -> bool:
        return (isinstance(side, ast.Constant) and (side.value is None or isinstance(side.value, str))) or isinstance(
            side, ast.JoinedStr
        )

    return plain(node.left) or plain(node.right)


def possible(folders: list[str]) -> list[Change]:
    paths = [path for folder in folders for path in sorted((ROOT / "flambeau" / folder).rglob("*.py"))]
    return [change for path in paths for change in changes_of(path)]


def still_to_notice(report: Path, found: list[Change]) -> list[Change]:
    """The changes that an earlier report calls unnoticed or slow, where they can still be made."""
    rows = [row for row in map(json.loads, report.read_text().splitlines()) if row["outcome"] in ("unnoticed", "slow")]
    by_name = {change.name: change for change in found}
    return [by_name[name] for name in dict.fromkeys(row["name"] for row in rows) if name in by_name]


def folder_of(change: Change) -> str:
    return next(name for name in FOLDERS if change.path.startswith(f"flambeau/{name}/"))


class Copies:
    """Copies of the checkout, one for each thread, so that changes do not meet."""

    def __init__(self, scratch: Path):
        self.scratch, self.local = scratch, threading.local()
        self.cache = scratch / "cache"  # compiled kernels go by their digests: all unchanged copies share them
        self.cache.mkdir(mode=0o700)

    def mine(self) -> Path:
        if not hasattr(self.local, "root"):
            root = self.scratch / str(threading.get_ident())
            root.mkdir()
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, root / name)
            self.local.root = root
        return self.local.root  # type: ignore[no-any-return]


def learn(lessons: Lessons, folders: list[str], copies: Copies, pool: ThreadPoolExecutor) -> None:
    """Runs those tests of the folders about which nothing is known yet, each file in a process of its own."""
    files = [path for test in folders for path in (ROOT / "tests" / test).rglob("test_*.py")]
    files.sort(key=lambda path: -path.stat().st_size)
    adding = threading.Lock()

    def one(path: str) -> None:
        record = copies.mine() / "record.jsonl"
        record.unlink(missing_ok=True)
        done = run_tests(copies, [path], 900, copies.cache, MUTATE_RECORD=str(record))
        if done.returncode > 1 and done.returncode != 5:  # 5: nothing to run here
            print(f"{path} did not run to its end:\n{done.stdout[-1000:]}")
        with adding:
            lessons.add(path, record)

    unknown = lessons.unknown([path.relative_to(ROOT).as_posix() for path in files])
    if unknown and not hasattr(sys, "monitoring"):
        raise RuntimeError(f"nothing is known about {len(unknown)} test files, and learning needs Python 3.12 or newer")
    list(pool.map(one, unknown))
    if not lessons.rows:
        raise RuntimeError("no test ran")


def run_tests(
    copies: Copies, tests: list[str], seconds: int, cache: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    root = copies.mine()
    stop = ["-p", "lessons"] if variables else ["-x"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--timeout={max(20, seconds // 3)}",
        *stop,
        *tests,
    ]
    path = os.pathsep.join([str(root), str(root / "tools"), os.environ.get("PYTHONPATH", "")])
    given = {
        **os.environ,
        "FLAMBEAU_CACHE_DIR": str(cache),
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        command, cwd=root, env={**given, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip


def tests_for(change: Change, lessons: Lessons) -> list[str]:
    """The tests that may notice a change: those that come through its line, or else through its file.

    What runs in other processes is not seen there: whole files of tests named like the changed file follow then.
    """
    file, folders = change.path.removeprefix("flambeau/"), FOLDERS[folder_of(change)]
    stem = Path(change.path).stem.strip("_")
    rows = [] if change.read else lessons.through(file, 1 << change.line, folders)
    wider: list[dict[str, Any]] = []
    last: list[str] = []
    if not rows:
        wider = lessons.through(file, -1, folders) or lessons.like(stem, folders)
    elif change.path.startswith("flambeau/_kernel/"):  # a kernel is read once in a process: later tests have it too
        wider = lessons.of_files({row["test"].split("::")[0] for row in rows})
        last = [row["test"] for row in rows if row["test"].startswith(GUARDED)]
    chosen = [*selection(rows, stem, MOST, SECONDS), *selection(wider, stem, MOST, SECONDS), *last]
    return list(dict.fromkeys(chosen))


def noticed(change: Change, lessons: Lessons, copies: Copies, seconds: int) -> str:
    """Makes the change in a copy, runs the tests, takes it back; says how it ended: noticed, unnoticed or slow."""
    tests = tests_for(change, lessons)
    if not tests:
        return "unnoticed"
    path = copies.mine() / change.path
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    line = lines[change.line - 1]
    assert line[change.column :].startswith(change.old), change
    lines[change.line - 1] = line[: change.column] + change.new + line[change.column + len(change.old) :]
    path.write_text("".join(lines))
    cache = copies.cache
    if change.path.startswith("flambeau/_kernel/"):  # what it makes may not reach the others
        cache = copies.mine() / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(copies.cache, cache, ignore=shutil.ignore_patterns("*.tmp"))
    try:
        done = run_tests(copies, tests, seconds, cache)
    except subprocess.TimeoutExpired:
        return "slow"
    finally:
        path.write_text(before)
    if done.returncode == 0:
        return "unnoticed"
    if done.returncode == 5 or (done.returncode == 4 and "usage:" in done.stdout):
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-2000:]}")
    return "noticed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", nargs="*", default=list(FOLDERS), choices=list(FOLDERS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=300, help="the longest that the tests of one change may take")
    parser.add_argument("--share", type=float, default=0.9, help="how much of what can be noticed must be")
    parser.add_argument("--json", type=Path, help="write every change and its outcome there, as they come")
    parser.add_argument("--again", type=Path, help="only the changes that this --json file calls unnoticed or slow")
    parser.add_argument(
        "--minutes", type=float, help="begin no change after this time, and count those that were tried"
    )
    parser.add_argument("--lessons", type=Path, help="where what was learned about the tests is kept between runs")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    named = (line.rpartition("] # ") for line in EQUIVALENT.read_text().splitlines())
    reasons = {f"{name}]": reason for name, _, reason in named}
    picked = possible(chosen.folders)
    for name in sorted(reasons.keys() - {change.name for change in possible(list(FOLDERS))}):
        print(f"{EQUIVALENT.name} names a change that cannot be made any more: {name}")
    if chosen.again:
        picked = [change for change in still_to_notice(chosen.again, picked) if change.name not in reasons]
    else:
        picked = random.Random(chosen.seed).sample(picked, min(chosen.changes, len(picked)))
    if chosen.list:
        for change in picked:
            print(f"{change.path}:{change.line}: {change.source} [{change.old} -> {change.new or 'nothing'}]")
        return 0
    began = time.monotonic()
    counts = {"noticed": 0, "unnoticed": 0, "slow": 0, "equivalent": 0}
    writing = threading.Lock()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(chosen.jobs) as pool:
        copies = Copies(Path(scratch))

        lessons = Lessons(ROOT)
        if chosen.lessons and chosen.lessons.exists():
            lessons.load(chosen.lessons)
        learn(lessons, sorted({test for change in picked for test in FOLDERS[folder_of(change)]}), copies, pool)
        if chosen.lessons:
            lessons.save(chosen.lessons)
        if lessons.failing:
            print(
                f"{len(lessons.failing)} tests fail without any change and do not count: {', '.join(lessons.failing[:5])}"
            )

        def tried(change: Change) -> None:
            if chosen.minutes and time.monotonic() - began > 60 * chosen.minutes:
                return
            outcome = noticed(change, lessons, copies, chosen.seconds)
            if outcome != "noticed" and change.name in reasons:
                outcome = "equivalent"
            with writing:
                counts[outcome] += 1
                if outcome in ("unnoticed", "slow"):
                    print(
                        f"{outcome}: {change.path}:{change.line}: {change.source} [{change.old} -> {change.new or 'nothing'}]",
                        flush=True,
                    )
                if chosen.json:
                    with chosen.json.open("a") as file:
                        file.write(json.dumps({**asdict(change), "name": change.name, "outcome": outcome}) + "\n")

        list(pool.map(tried, picked))
    tried_now = sum(counts.values())
    real = tried_now - counts["equivalent"]
    print(
        f"{tried_now} of {len(picked)} changes: {counts}; noticed {counts['noticed']} of {real} ({100 * counts['noticed'] / max(real, 1):.1f} %)"
    )
    return 0 if counts["noticed"] >= chosen.share * real else 1


if __name__ == "__main__":
    sys.exit(main())

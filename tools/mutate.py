"""Makes single random changes in the package and asks whether the tests of the changed folder notice them.

    python tools/mutate.py                              # 300 changes, drawn with seed 0
    python tools/mutate.py --changes 20 --folders nn optim --seed 7 --jobs 2
    python tools/mutate.py --list                       # what would be changed, without running anything

A change turns a comparison, an operator, an `and`/`or`, a `not` or a returned flag into its opposite, in a copy of the
checkout; the tests of `FOLDERS` then run until the first failure. They run once before, to learn which of them come through
which line (Python 3.12 or newer), and a change is then given to those alone (to `MOST` of them if there are more).
Lines outside functions run before any test: their changes are given to all tests of the folder, those whose names
resemble the changed file's first.
A change that no test notices is printed, unless `equivalent_changes.txt` names it with the reason why it alters nothing
that a user could see. The exit status is 0 if at least --share of the others were noticed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_changes.txt")
# The folders of the package, and the folders under tests/ that are theirs.
FOLDERS = {
    "_ops": ["ops", "nn", "quantization", "fuzz"],
    "_kernel": ["kernel", "ops", "nn"],
    "_autograd": ["autograd", "features"],
    "nn": ["nn"],
    "optim": ["optim"],
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
MOST = 60
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


# --- inside a process that learns: a plugin of pytest (`-p mutate`) --------------------------------------------------

_record = os.environ.get("MUTATE_RECORD")
if _record:
    _tool, _lines, _failed = 4, set(), set()
    sys.monitoring.use_tool_id(_tool, "mutate")

    def _line(code: Any, line: int) -> Any:
        if "/flambeau/" in code.co_filename:
            _lines.add((code.co_filename.rpartition("/flambeau/")[2], line))
        return sys.monitoring.DISABLE

    sys.monitoring.register_callback(_tool, sys.monitoring.events.LINE, _line)
    from flambeau._kernel import lang

    _source = lang._source

    def _reading(function: Any) -> Any:
        """Kernels are read, not run: a test that has one compiled comes through all of its lines."""
        code = function.__code__
        last = code.co_firstlineno + max((line or 0) - code.co_firstlineno for *_, line in code.co_lines())
        for line in range(code.co_firstlineno, last + 1):
            _line(code, line)
        return _source(function)

    lang._source = _reading

    def pytest_runtest_logstart(nodeid: str) -> None:
        _lines.clear()
        sys.monitoring.set_events(_tool, sys.monitoring.events.LINE)
        sys.monitoring.restart_events()

    def pytest_runtest_logreport(report: Any) -> None:
        if report.failed:
            _failed.add(report.nodeid)

    def pytest_runtest_logfinish(nodeid: str) -> None:
        sys.monitoring.set_events(_tool, 0)
        found: dict[str, list[int]] = {}
        for file, line in _lines:
            found.setdefault(file, []).append(line)
        with open(_record, "a") as file:
            file.write(json.dumps({"test": nodeid, "failed": nodeid in _failed, "lines": found}) + "\n")


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

    @property
    def name(self) -> str:
        """How `equivalent_changes.txt` calls it: without the line's number, which other changes move."""
        return f"{self.path}: {self.source} [{self.old} -> {self.new or 'nothing'}]"


def changes_of(path: Path) -> Iterator[Change]:
    """All changes that can be made in a file."""
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
        words = [
            token for token in _tokens(part) if token.type in (tokenize.OP, tokenize.NAME) and token.string not in "()"
        ]
        operator = " ".join(token.string for token in words)
        if operator in OPPOSITE and words:
            old = part[words[0].start[1] : words[-1].end[1]]
            yield change(line, column + len(part[: words[0].start[1]].encode()), old, OPPOSITE[operator])

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


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _tokens(part: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(part.strip() and part).readline))
    except (tokenize.TokenError, IndentationError):
        return []


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
    left = {row["name"] for row in map(json.loads, report.read_text().splitlines()) if row["outcome"] != "noticed"}
    return list({change.name: change for change in found if change.name in left}.values())


def folder_of(change: Change) -> str:
    return next(name for name in FOLDERS if change.path.startswith(f"flambeau/{name}/"))


def tests_for(change: Change, root: Path) -> list[str]:
    """The test files of the changed folder, those named like the changed file first."""
    stem = Path(change.path).stem.strip("_")
    found = []
    for rank, tests in enumerate(FOLDERS[folder_of(change)]):
        for path in sorted((root / "tests" / tests).rglob("test_*.py")):
            likeness = difflib.SequenceMatcher(None, stem, path.stem.removeprefix("test_")).ratio()
            found.append((-likeness if likeness > 0.6 else rank, path.relative_to(root).as_posix()))
    return [path for _, path in sorted(found)]


class Copies:
    """Copies of the checkout, one for each thread, so that changes do not meet."""

    def __init__(self, scratch: Path):
        self.scratch, self.local = scratch, threading.local()

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


class Lessons:
    """What the unchanged tests do: which of them come through which line, and which fail here anyway."""

    def __init__(self) -> None:
        self.through: dict[tuple[str, int], list[str]] = {}
        self.failing: list[str] = []

    def learn(self, folders: list[str], copies: Copies, pool: ThreadPoolExecutor) -> None:
        """Runs the folders' tests, each file in a process of its own."""
        wanted = sorted({test for folder in folders for test in FOLDERS[folder]})
        files = [path for test in wanted for path in (ROOT / "tests" / test).rglob("test_*.py")]
        files.sort(key=lambda path: -path.stat().st_size)
        adding = threading.Lock()

        def one(path: str) -> None:
            record = copies.mine() / "record.jsonl"
            record.unlink(missing_ok=True)
            done = run_tests(copies.mine(), [path], 900, MUTATE_RECORD=str(record))
            if done.returncode > 1 and done.returncode != 5:  # 5: nothing to run here
                print(f"{path} did not run to its end:\n{done.stdout[-1000:]}")
            with adding:
                for text in record.read_text().splitlines() if record.exists() else []:
                    self.add(json.loads(text))

        list(pool.map(one, [path.relative_to(ROOT).as_posix() for path in files]))
        if not self.through:
            raise RuntimeError("no test ran")

    def add(self, row: dict[str, Any]) -> None:
        if row["failed"]:
            self.failing.append(row["test"])
            return
        for file, lines in row["lines"].items():
            for line in lines:
                self.through.setdefault((f"flambeau/{file}", line), []).append(row["test"])


def run_tests(root: Path, tests: list[str], seconds: int, **variables: str) -> subprocess.CompletedProcess[str]:
    stop = ["-p", "mutate"] if variables else ["-x"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", *stop, *tests]
    path = os.pathsep.join([str(root), str(root / "tools"), os.environ.get("PYTHONPATH", "")])
    given = {
        **os.environ,
        "FLAMBEAU_CACHE_DIR": str(root / "cache"),
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        command, cwd=root, env={**given, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip


def noticed(change: Change, lessons: Lessons, root: Path, seconds: int) -> str:
    """Makes the change in a copy, runs the tests, takes it back; says how it ended: noticed, unnoticed or slow."""
    tests = lessons.through.get((change.path, change.line), [])
    if not tests and not change.read:
        return "unnoticed"  # no test comes through this line
    if tests:
        tests = tests[:: -(-len(tests) // MOST)]
    else:
        tests = tests_for(change, root) + [f"--deselect={test}" for test in lessons.failing]
    path = root / change.path
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    line = lines[change.line - 1]
    assert line[change.column :].startswith(change.old), change
    lines[change.line - 1] = line[: change.column] + change.new + line[change.column + len(change.old) :]
    path.write_text("".join(lines))
    try:
        done = run_tests(root, tests, seconds)
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
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    picked = possible(chosen.folders)
    if chosen.again:
        picked = still_to_notice(chosen.again, picked)
    else:
        picked = random.Random(chosen.seed).sample(picked, min(chosen.changes, len(picked)))
    if chosen.list:
        for change in picked:
            print(f"{change.path}:{change.line}: {change.source} [{change.old} -> {change.new or 'nothing'}]")
        return 0
    reasons = (
        dict(line.split(" # ", 1) for line in EQUIVALENT.read_text().splitlines() if " # " in line)
        if EQUIVALENT.exists()
        else {}
    )
    counts = {"noticed": 0, "unnoticed": 0, "slow": 0, "equivalent": 0}
    writing = threading.Lock()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(chosen.jobs) as pool:
        copies = Copies(Path(scratch))

        lessons = Lessons()
        lessons.learn(sorted({folder_of(change) for change in picked}), copies, pool)
        if lessons.failing:
            print(
                f"{len(lessons.failing)} tests fail without any change and do not count: {', '.join(lessons.failing[:5])}"
            )

        def tried(change: Change) -> None:
            outcome = noticed(change, lessons, copies.mine(), chosen.seconds)
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
    real = len(picked) - counts["equivalent"]
    print(
        f"{len(picked)} changes: {counts}; noticed {counts['noticed']} of {real} ({100 * counts['noticed'] / max(real, 1):.1f} %)"
    )
    return 0 if counts["noticed"] >= chosen.share * real else 1


if __name__ == "__main__":
    sys.exit(main())

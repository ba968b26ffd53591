"""Mechanical fixes: small changes of one line that are right wherever the finding is; shown as a diff, applied on request."""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Callable, Sequence

from .findings import Finding
from .static.loops import Loops
from .static.source import Source, keyword

Edit = Callable[[Source, str, int], "str | None"]


def _replace(pattern: str, new: str) -> Edit:
    def edit(source: Source, line: str, number: int) -> str | None:
        changed, count = re.subn(pattern, new, line, count=1)
        return changed if count else None

    return edit


def _argument(called: Sequence[str], text: str) -> Edit:
    """Adds an argument to the call of a function that begins and ends on the line."""

    def edit(source: Source, line: str, number: int) -> str | None:
        for call in source.calls:
            if call.lineno == number == call.end_lineno and source.name(call.func).rpartition(".")[2] in called:
                given = call.end_col_offset - 1
                comma = ", " if call.args or call.keywords else ""
                return line[:given] + comma + text + line[given:]
        return None

    return edit


def _super_init(source: Source, line: str, number: int) -> str | None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.lineno == number and node.body[0].lineno > number:
            return line + " " * node.body[0].col_offset + "super().__init__()\n"
    return None


def _zero_grad(source: Source, line: str, number: int) -> str | None:
    loops = Loops(source)
    call = next((c for c in loops.backwards if c.lineno == number), None)
    if call is None:
        return None
    steps = [s for s in loops.optimizer_steps if source.function(s) is source.function(call)]
    names = {ast.unparse(s.func.value) for s in steps if isinstance(s.func, ast.Attribute)}
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{names.pop()}.zero_grad()\n{line}" if len(names) == 1 else None


def _item(source: Source, line: str, number: int) -> str | None:
    return (
        re.sub(r"(\+=\s*|append\()(\w+)(\s*\)?\s*(?:#.*)?)$", r"\1\2.item()\3", line.rstrip("\n")) + "\n"
        if re.search(r"(\+=\s*|append\()\w+\s*\)?\s*(#.*)?$", line)
        else None
    )


def _state(source: Source, line: str, number: int) -> str | None:
    for call in source.calls:
        if (
            call.lineno == number
            and source.name(call.func).endswith(".save")
            and call.args
            and isinstance(call.args[0], ast.Name)
        ):
            end = call.args[0].end_col_offset
            return line[:end] + ".state_dict()" + line[end:]
    return None


def _shuffled(source: Source, line: str, number: int) -> str | None:
    for call in source.calls:
        if call.lineno == number == call.end_lineno and source.called(call) == "DataLoader":
            if keyword(call, "shuffle") is None:
                return _argument(["DataLoader"], "shuffle=True")(source, line, number)
            return (
                line.replace("shuffle=True", "shuffle=False")
                if "shuffle=True" in line
                else line.replace("shuffle=False", "shuffle=True")
            )
    return None


_EDITS: dict[str, Edit] = {
    "adam-weight-decay": _replace(r"\bAdam\(", "AdamW("),
    "calling-forward": _replace(r"\.forward\(", "("),
    "view-after-transpose": _replace(r"\.view\(", ".reshape("),
    "numpy-on-tracked": _replace(r"\.numpy\(\)", ".detach().numpy()"),
    "backward-twice": _replace(r",?\s*retain_graph\s*=\s*True", ""),
    "checkpoint-rng": _replace(r",\s*preserve_rng_state\s*=\s*False", ""),
    "load-without-map-location": _argument(["load"], 'map_location="cpu"'),
    "batch-of-one": _argument(["DataLoader"], "drop_last=True"),
    "float-class-targets": _replace(r"\.float\(\)", ".long()"),
    "missing-super-init": _super_init,
    "missing-zero-grad": _zero_grad,
    "graph-kept-by-logging": _item,
    "whole-model-pickled": _state,
    "shuffle": _shuffled,
}


def fixed(path: str, findings: Sequence[Finding]) -> tuple[str, str, int]:
    """The text of a file before and after the mechanical fixes, and how many there are."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    source = Source(path, text)
    lines = text.splitlines(keepends=True)
    done: set[int] = set()
    for finding in findings:
        edit = _EDITS.get(finding.id)
        if edit is None or finding.line in done or finding.file != path:
            continue
        new = edit(source, lines[finding.line - 1], finding.line)
        if new is not None and new != lines[finding.line - 1]:
            lines[finding.line - 1] = new
            done.add(finding.line)
    after = "".join(lines)
    try:
        ast.parse(after)
    except SyntaxError:  # a fix that does not fit: better none
        return text, text, 0
    return text, after, len(done)


def offer(findings: Sequence[Finding], apply: bool, asking: bool) -> int:
    """Prints the fixes as a diff and, if told so, writes them after asking; the number of fixes decides the exit status."""
    total = 0
    for path in sorted({f.file for f in findings if f.file.endswith(".py")}):
        before, after, count = fixed(path, [f for f in findings if f.file == path])
        if not count:
            continue
        total += count
        sys.stdout.writelines(
            difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), path, path)
        )
        if apply and (not asking or input(f"apply {count} fixes to {path}? [y/N] ").strip().lower().startswith("y")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(after)
    if not total:
        print("no mechanical fixes")
    return 0

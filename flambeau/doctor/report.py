"""How findings are shown: as text with the source line and a mark under it, as JSON, as SARIF."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from typing import Any

from .catalog import LESSONS
from .findings import Finding

_LEVELS = {"error": "error", "warning": "warning", "hint": "note"}


def as_text(findings: Sequence[Finding]) -> str:
    """One paragraph for each finding, as compilers print them, and a count at the end."""
    parts = [_paragraph(finding) for finding in findings]
    count = {level: sum(f.severity == level for f in findings) for level in _LEVELS}
    total = ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for level, n in count.items() if n)
    return "\n".join([*parts, total or "nothing found"])


def _paragraph(finding: Finding) -> str:
    sure = "" if finding.confidence >= 0.8 else f" (confidence {finding.confidence:.0%})"
    lines = [f"{finding.file}:{finding.line}: {finding.severity}[{finding.id}]: {finding.message}{sure}"]
    source = linecache.getline(finding.file, finding.line).rstrip()
    if source:
        first = len(source) - len(source.lstrip()) if finding.column is None else finding.column
        last = finding.end_column if finding.column is not None and finding.end_column else len(source)
        number = f"{finding.line:5d} | "
        lines += [number + source, " " * (len(number) - 2) + "| " + " " * first + "^" * max(1, last - first)]
    lines += [f"    seen: {text}" for text in finding.evidence]
    lines += [f"    why:  {finding.why}", f"    fix:  {finding.fix}", ""]
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """A list of findings."""
    return json.dumps([finding.as_dict() for finding in findings], indent=2)


def as_sarif(findings: Sequence[Finding]) -> str:
    """SARIF 2.1.0, which code hosts show beside the lines."""
    used = sorted({finding.id for finding in findings})
    rules = [
        {
            "id": id,
            "shortDescription": {"text": LESSONS[id].title},
            "fullDescription": {"text": LESSONS[id].why},
            "help": {"text": LESSONS[id].fix},
        }
        for id in used
    ]
    results: list[dict[str, Any]] = [
        {
            "ruleId": finding.id,
            "ruleIndex": used.index(finding.id),
            "level": _LEVELS[finding.severity],
            "message": {"text": f"{finding.message} {finding.fix}"},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": finding.file}, "region": {"startLine": finding.line}}}
            ],
        }
        for finding in findings
    ]
    driver = {"name": "flambeau doctor", "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2)


def explained(id: str) -> str:
    """The lesson about one mistake, with a wrong and a right example."""
    lesson = LESSONS[id]
    wrong, right = (text.replace("\n", "\n    ") for text in (lesson.wrong, lesson.right))
    return (
        f"{lesson.id} ({lesson.severity}): {lesson.title}\n\n{lesson.why}\n{lesson.fix}\n\n"
        f"wrong:\n\n    {wrong}\n\nright:\n\n    {right}\n"
    )


def listed() -> str:
    """All mistakes that the doctor knows, one per line."""
    return "\n".join(f"{lesson.id:34} {lesson.severity:8} {lesson.title}" for lesson in LESSONS.values())


FORMATS = {"text": as_text, "json": as_json, "sarif": as_sarif}

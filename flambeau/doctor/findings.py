"""Findings: what was found, where, how sure it is; how findings are gathered, merged and silenced."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .catalog import LESSONS

SHOWN = 0.5  # findings that are less sure are hints
_IGNORE = re.compile(r"#\s*doctor:\s*ignore(?:\[([^\]]*)\])?")


@dataclass
class Finding:
    """One mistake at one line of the user's program."""

    id: str
    file: str
    line: int
    message: str
    confidence: float = 0.9
    evidence: list[str] = field(default_factory=list)
    column: int | None = None
    end_column: int | None = None
    edits: list[Any] = field(default_factory=list)  # mechanical changes: (first line, last line, new text)

    @property
    def severity(self) -> str:
        """How bad it is: "error" or "warning"; unsure findings are hints."""
        return LESSONS[self.id].severity if self.confidence >= SHOWN else "hint"

    @property
    def why(self) -> str:
        return LESSONS[self.id].why

    @property
    def fix(self) -> str:
        return LESSONS[self.id].fix

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON shows it."""
        return {
            "id": self.id, "file": self.file, "line": self.line, "message": self.message, "severity": self.severity,
            "confidence": round(self.confidence, 2), "why": self.why, "fix": self.fix, "evidence": self.evidence,
        }  # fmt: skip


class Findings:
    """Findings as they come: of one id at one line there is one, the surer of both supports."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, str, int], Finding] = {}

    def add(self, finding: Finding) -> None:
        place = (finding.id, finding.file, finding.line)
        known = self.by_place.get(place)
        if known is None:
            self.by_place[place] = finding
            return
        known.confidence = max(known.confidence, finding.confidence)
        for text in finding.evidence:  # the first time is enough
            if len(known.evidence) < 4 and text not in known.evidence and not text.startswith("seen after"):
                known.evidence.append(text)
        known.edits = known.edits or finding.edits

    def listed(self, hints: bool = False, off: Iterable[str] = ()) -> list[Finding]:
        """In the order of files and lines; without hints unless they are asked for."""
        hidden = set(off)
        kept = [
            f
            for f in self.by_place.values()
            if (hints or f.confidence >= SHOWN) and f.id not in hidden and not _ignored(f)
        ]
        return sorted(kept, key=lambda f: (f.file, f.line, f.id))


def _ignored(finding: Finding) -> bool:
    """Whether a comment on the line (or alone on the line before) silences the finding."""
    here = linecache.getline(finding.file, finding.line)
    before = linecache.getline(finding.file, finding.line - 1).strip() if finding.line > 1 else ""
    for text in (here, before if before.startswith("#") else ""):
        match = _IGNORE.search(text)
        if match and (match[1] is None or finding.id in re.split(r"[,\s]+", match[1])):
            return True
    return False

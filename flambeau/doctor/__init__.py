"""The doctor: finds the classic mistakes of training programs, in their source and while they run.

`flambeau doctor script.py` examines a program; `watch` does so with a part of one:

>>> import flambeau as torch
>>> from flambeau.doctor import watch
>>> logits, classes = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
>>> with watch() as report:
...     loss = torch.nn.functional.cross_entropy(torch.softmax(logits, 1), classes)
>>> [finding.id for finding in report.findings]  # doctest: +SKIP
['softmax-before-cross-entropy']
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .findings import Finding

__all__ = ["Finding", "Report", "watch"]


class Report:
    """What a watched block showed: `findings` when it has ended, `hints` with unsure ones, and the text of both."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.hints: list[Finding] = []

    def __str__(self) -> str:
        from .report import as_text

        return as_text(self.findings)


@contextlib.contextmanager
def watch() -> Iterator[Report]:
    """Watches what runs inside of the block; the report is complete when it ends."""
    from .run import Watch

    report, watching = Report(), Watch()
    try:
        with watching:
            yield report
    finally:
        report.findings = watching.findings.listed()
        report.hints = [f for f in watching.findings.listed(hints=True) if f.severity == "hint"]

"""`draft_export`: a program in any case where there is one, with a report of what had to be given up for it."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from .._dynamo.exc import UserError
from ._export import exported
from ._known import given_up
from .dynamic_shapes import Dim, _DimHint
from .exported_program import ExportedProgram


class FailureType(enum.IntEnum):
    """What kept a module from being exported as it was asked for."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4


@dataclasses.dataclass
class FailureReport:
    """One reason, with what an export would have said."""

    failure_type: FailureType
    data: dict[str, Any]

    def __str__(self) -> str:
        return str(self.data["reason"])


@dataclasses.dataclass
class DraftExportReport:
    """What kept a module from being exported as it was asked for."""

    failures: list[FailureReport] = dataclasses.field(default_factory=list)

    def successful(self) -> bool:
        """Whether nothing was given up."""
        return not self.failures

    def __str__(self) -> str:
        if self.successful():
            return "Congratulations: No issues are found during export, and it was able to soundly produce a graph."
        words = {
            FailureType.GUARD_ADDED: "Sizes cannot be as they were asked for; they were found instead.",
            FailureType.DATA_DEPENDENT_ERROR: "The program goes as with these example inputs, whatever the elements are.",
        }
        lines = [f"{i}. {words[f.failure_type]}\n{f}" for i, f in enumerate(self.failures, 1)]
        return "\n".join([f"WARNING: {len(lines)} issue(s) found during export; the program may be wrong:", *lines])


def drafted(mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any, preserved: tuple[str, ...]) -> ExportedProgram:
    """The program of a module. Sizes that cannot be as they were asked for are found instead, and what elements decide is decided as
    in the example; both are reported."""
    report = DraftExportReport()
    reasons: list[str] = []
    token = given_up.set(reasons)
    try:
        try:
            ep = exported(mod, args, kwargs, dynamic_shapes, preserved)
        except UserError as error:
            if dynamic_shapes is None:
                raise
            reasons.clear()
            report.failures.append(FailureReport(FailureType.GUARD_ADDED, {"reason": str(error)}))
            ep = exported(mod, args, kwargs, _softened(dynamic_shapes), preserved)
    finally:
        given_up.reset(token)
    for reason in dict.fromkeys(reasons):
        report.failures.append(FailureReport(FailureType.DATA_DEPENDENT_ERROR, {"reason": reason}))
    ep._report = report  # type: ignore[attr-defined]
    return ep


def _softened(sizes: Any) -> Any:
    """The same wishes, none of which must come true."""
    if isinstance(sizes, dict):
        return {k: _softened(v) for k, v in sizes.items()}
    if isinstance(sizes, (list, tuple)):
        parts = [_softened(v) for v in sizes]
        return type(sizes)(*parts) if hasattr(sizes, "_fields") else type(sizes)(parts)
    if isinstance(sizes, (_DimHint, Dim)) and sizes is not Dim.STATIC:
        return Dim.AUTO
    return sizes

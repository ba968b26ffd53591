"""`draft_export`: a program in any case where there is one, with a report of what had to be given up for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from .._dynamo.exc import UserError
from .._tensor import Tensor
from ..utils._pytree import tree_map
from ._export import exported
from .dynamic_shapes import Dim, argument_names
from .exported_program import ExportedProgram


@dataclasses.dataclass
class DraftExportReport:
    """What kept a module from being exported as it was asked for."""

    failures: list[str] = dataclasses.field(default_factory=list)

    def successful(self) -> bool:
        """Whether nothing was given up."""
        return not self.failures

    def __str__(self) -> str:
        if self.successful():
            return "Congratulations: No issues are found during export, and it was able to soundly produce a graph."
        lines = [f"{i}. {text}" for i, text in enumerate(self.failures, 1)]
        return "\n".join([f"WARNING: {len(lines)} issue(s) found during export; sizes were found instead:", *lines])


def drafted(mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any, preserved: tuple[str, ...]) -> ExportedProgram:
    """The program of a module; sizes that cannot be as they were asked for are found instead, and reported."""
    report = DraftExportReport()
    try:
        ep = exported(mod, args, kwargs, dynamic_shapes, preserved)
    except UserError as error:
        if dynamic_shapes is None:
            raise
        report.failures.append(str(error))
        named = dict(kwargs or {})
        names = argument_names(mod, args, named)
        every = tree_map(
            lambda t: dict.fromkeys(range(t.dim()), Dim.AUTO) if isinstance(t, Tensor) else None,
            [*args, *named.values()],
        )
        ep = exported(mod, args, kwargs, dict(zip(names, every)), preserved)
    ep._report = report  # type: ignore[attr-defined]
    return ep

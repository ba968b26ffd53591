"""A table of decompositions that starts with all that `run_decompositions` uses."""

from __future__ import annotations

from typing import Any

from .exported_program import default_decompositions

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict[Any, Any]):
    """The rules by which `run_decompositions` takes operators apart, to be changed: what is removed stays whole.

    >>> import flambeau as torch
    >>> table = torch.export.CustomDecompTable()
    >>> rule = table.pop(torch.ops.aten.silu.default)
    >>> torch.ops.aten.silu.default in table, torch.ops.aten.silu.default in torch.export.CustomDecompTable()
    (False, True)
    """

    def __init__(self) -> None:
        super().__init__(default_decompositions())

    def copy(self) -> CustomDecompTable:
        """Another table with the same rules."""
        made = CustomDecompTable.__new__(CustomDecompTable)
        made.update(self)
        return made

    def materialize(self) -> dict[Any, Any]:
        """The rules as a plain dictionary."""
        return dict(self)

"""What `torch.export.export` will give."""

from __future__ import annotations

from typing import Any

__all__ = ["ExportedProgram"]


class ExportedProgram:
    """The graph of a model with its parameters, for programs that ask whether they have one; cannot be made yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("ExportedProgram: flambeau does not capture whole programs yet")

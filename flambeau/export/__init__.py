"""`torch.export`: a model as one graph. Not available yet: what needs the graph says so; what describes inputs works."""

from __future__ import annotations

from typing import Any

from ..utils import _pytree
from .dynamic_shapes import Dim, dims
from .exported_program import ExportedProgram

__all__ = [
    "Dim",
    "ExportedProgram",
    "dims",
    "draft_export",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]


def _later(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.export.{name}: flambeau does not capture whole programs yet; torch.jit.trace, torch.fx.symbolic_trace "
        "and torch.onnx.export give graphs of models"
    )


def export(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any) -> ExportedProgram:
    """The graph of a module; not available yet."""
    raise _later("export")


def draft_export(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> ExportedProgram:
    """The graph of a module, with a report; not available yet."""
    raise _later("draft_export")


def save(ep: ExportedProgram, f: Any, **options: Any) -> None:
    """Writes an exported program to a file; not available yet."""
    raise _later("save")


def load(f: Any, **options: Any) -> ExportedProgram:
    """Reads an exported program from a file; not available yet."""
    raise _later("load")


def unflatten(module: ExportedProgram, flat_args_adapter: Any = None) -> Any:
    """The modules of an exported program; not available yet."""
    raise _later("unflatten")


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Lets inputs and results of models be objects of a dataclass.

    >>> import dataclasses
    >>> import flambeau as torch
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     first: torch.Tensor
    ...     second: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> torch.utils._pytree.tree_leaves(Pair(torch.ones(1), torch.zeros(1)))
    [tensor([1.]), tensor([0.])]
    """
    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)

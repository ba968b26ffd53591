"""`torch.export`: a model as one graph of operators, with its parameters, for other programs and machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..utils import _pytree
from . import _archive
from ._draft import drafted
from ._export import exported
from .decomp_utils import CustomDecompTable
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule",
    "default_decompositions", "dims", "draft_export", "export", "export_for_training", "load", "register_dataclass", "save", "unflatten",
]  # fmt: skip


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The graph of a module for arguments like those given: it runs once for real, and what it runs is the graph.

    Sizes are those of the examples, unless `dynamic_shapes` says which of them change. Nothing of the module changes.

    >>> import flambeau as torch
    >>> class Net(torch.nn.Module):
    ...     def forward(self, x, y):
    ...         return torch.relu(x) + y
    >>> ep = torch.export.export(Net(), (torch.ones(2), torch.ones(2)))
    >>> print(ep.graph_module.code.strip())
    def forward(self, x, y):
        relu = torch.ops.aten.relu.default(x);  x = None
        add = torch.ops.aten.add.Tensor(relu, y);  relu = y = None
        return (add,)
    """
    return exported(mod, args, kwargs, dynamic_shapes, tuple(preserve_module_call_signature))


export_for_training = export


def draft_export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Like `export`, but sizes that cannot change as asked for are found instead, and what elements decide is decided as in the
    example; `_report` of the program says so.

    >>> import flambeau as torch
    >>> class Fixed(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + torch.ones(4)
    >>> ep = torch.export.draft_export(Fixed(), (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    >>> ep._report.successful(), ep.range_constraints
    (False, {})
    """
    return drafted(mod, args, kwargs, dynamic_shapes, tuple(preserve_module_call_signature))


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Writes an exported program as a `.pt2` archive, which PyTorch reads as well.

    >>> import io
    >>> import flambeau as torch
    >>> held = io.BytesIO()
    >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), held)
    >>> torch.export.load(held).module()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    _archive.save(ep, f, extra_files)


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: dict[str, int] | None = None
) -> ExportedProgram:
    """Reads a `.pt2` archive that `save` or PyTorch wrote. Nothing in the file is executed; a damaged one raises."""
    return _archive.load(f, extra_files)


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

"""`export`: a module and example arguments become an `ExportedProgram`."""

from __future__ import annotations

from typing import Any

from .._dynamo.exc import UserError
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten
from ._conversion import Sizes, argument_names, converted, leaf_names
from ._recording import Recorder, recorded
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature

__all__ = ["exported"]


def exported(
    mod: Any, args: Any, kwargs: Any = None, dynamic_shapes: Any = None, preserved: tuple[str, ...] = ()
) -> ExportedProgram:
    """The program of a module for arguments like these."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if dynamic_shapes is not None:
        raise NotImplementedError("torch.export: sizes that change (dynamic_shapes) are not available yet")
    named = dict(kwargs or {})
    recorder, inputs, results, out_spec = recorded(mod, args, named)
    return assembled(mod, args, named, recorder, inputs, results, out_spec, Sizes(), {}, preserved)


def assembled(
    mod: Module, args: tuple[Any, ...], named: dict[str, Any], recorder: Recorder, inputs: list[Any], results: list[Any], out_spec: Any,
    sizes: Sizes, ranges: dict[Any, Any], preserved: tuple[str, ...] = (),
) -> ExportedProgram:  # fmt: skip
    """The program of a recording."""
    names = argument_names(mod, args, named)
    made = converted(recorder, mod, leaf_names(names, args, named), inputs, results, sizes)
    whole = ModuleCallSignature([], [], tree_flatten((args, named))[1], out_spec, names)
    calls = [ModuleCallEntry("", whole)]
    for node in made.graph.nodes:
        for path, _ in (node.meta.get("nn_module_stack") or {}).values():
            if path and all(c.fqn != path for c in calls):
                calls.append(ModuleCallEntry(path))
    return ExportedProgram({}, made.graph, made.signature, made.state, ranges, calls, (args, named), made.constants)

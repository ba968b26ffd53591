"""`export`: a module and example arguments become an `ExportedProgram`."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._dynamo.exc import UserError
from .._tensor import Tensor
from ..fx import GraphModule
from ..jit._tracer import Value
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_leaves
from ._conversion import Sizes, converted, leaf_names
from ._recording import Recorder, recorded, unchanged
from ._sizes import Run, studied
from .dynamic_shapes import AdditionalInputs, ShapesCollection, argument_names, wishes_of
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature


def exported(
    mod: Any, args: Any, kwargs: Any = None, dynamic_shapes: Any = None, preserved: tuple[str, ...] = ()
) -> ExportedProgram:
    """The program of a module for arguments like these."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    args, named = tuple(args), dict(kwargs or {})  # of a named tuple
    if isinstance(dynamic_shapes, (AdditionalInputs, ShapesCollection)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, named)
    if dynamic_shapes is None:
        recorder, inputs, results, out_spec = recorded(mod, args, named, preserved=preserved)
        if not recorder.found:
            return assembled(mod, args, named, recorder, inputs, results, out_spec, Sizes(), {})
        wishes = []
    else:
        wishes = wishes_of(dynamic_shapes, mod, args, named)
    run, sizes, ranges, other = studied(mod, args, named, wishes, preserved)
    ep = assembled(mod, args, named, run.recorder, run.inputs, run.results, run.out_spec, sizes, ranges)
    if other is not None and not other.recorder.refused:
        _verify(ep, mod, other)
    return ep


def _verify(ep: ExportedProgram, mod: Module, run: Run) -> None:
    """Runs the program with sizes that nothing was found by, and compares what comes out."""
    with unchanged(mod):
        got = tree_flatten(ep.module(check_guards=False)(*run.args, **run.kwargs))[0]
    for a, value in zip(got, run.results):
        wanted = value.example if isinstance(value, Value) else value
        shape = wanted.shape if isinstance(wanted, Tensor) else wanted
        if (a.shape if isinstance(a, Tensor) else a) != shape:
            raise UserError(
                f"Constraints violated!\n  - The program found for sizes {[tuple(t.shape) for t in tree_leaves((run.args, run.kwargs)) if isinstance(t, Tensor)]} "
                f"gives {a.shape if isinstance(a, Tensor) else a}, the module {shape}: these sizes cannot change."
            )


def assembled(
    mod: Module, args: tuple[Any, ...], named: dict[str, Any], recorder: Recorder, inputs: list[Any], results: list[Any], out_spec: Any,
    sizes: Sizes, ranges: dict[Any, Any],
) -> ExportedProgram:  # fmt: skip
    """The program of a recording."""
    names = argument_names(mod, args, named)
    made = converted(recorder, mod, leaf_names(names, args, named), inputs, results, sizes)
    whole = ModuleCallSignature([], [], tree_flatten((args, named))[1], out_spec, names)
    calls = [ModuleCallEntry("", whole)]
    for node in made.graph.nodes:
        for path, _ in (node.meta.get("nn_module_stack") or {}).values():
            path = path.partition("@")[0]
            if path and path not in recorder.preserved and all(c.fqn != path for c in calls):
                calls.append(ModuleCallEntry(path))
    calls += [ModuleCallEntry(path, signature) for path, signature in made.calls.items()]
    return ExportedProgram({}, made.graph, made.signature, made.state, ranges, calls, (args, named), made.constants)


class ExportResult(NamedTuple):
    """What `torch._dynamo.export` gives: the graph as a module, and what it takes for granted (checked by that module)."""

    graph_module: GraphModule
    guards: set[Any]


class _Function(Module):
    """A function as a module."""

    def __init__(self, function: Any):
        super().__init__()
        self.forward = function


def of_function(
    f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = None, decompositions: Any = None
) -> ExportResult:
    """The graph of a function or module."""
    mod = f if isinstance(f, Module) else _Function(f)
    program = exported(mod, args, kwargs, dynamic_shapes)
    if decompositions is not None:
        program = program.run_decompositions(decompositions)
    return ExportResult(program.module(), set())

"""PyTorch's names around the recording of programs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..compiler import InvalidBackend, OptimizedModule, _Options, _state, compile, list_backends, original, reset
from . import config, eval_frame, exc, testing, utils
from . import decorators as decorators
from .decorators import (
    allow_c_slot,
    allow_in_graph,
    assume_constant_result,
    disable,
    disable_nested_graph_breaks,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    is_compiling,
    is_dynamo_disable_recursive,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    override_cudagraphs,
    override_optimization_hint,
    patch_dynamo_config,
    set_stance,
    skip_frame,
    step_unsupported,
    substitute_in_graph,
)
from .decorators import dont_skip_tracing as dont_skip_tracing
from .decorators import nonstrict_trace as nonstrict_trace
from .eval_frame import is_dynamo_supported, is_inductor_supported

__all__ = [
    "InvalidBackend", "OptimizedModule", "allow_c_slot", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disable_nested_graph_breaks", "disallow_in_graph", "error_on_graph_break", "eval_frame", "exc", "explain", "export",
    "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_disable_recursive",
    "is_dynamo_supported", "is_inductor_supported", "list_backends", "lookup_backend",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "override_cudagraphs",
    "override_optimization_hint", "patch_dynamo_config", "register_backend", "replay", "reset",
    "reset_recompile_user_contexts", "run", "set_recursion_limit", "set_stance", "skip_frame", "step_unsupported",
    "substitute_in_graph", "testing", "utils",
]  # fmt: skip


def optimize(
    backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False,
    guard_filter_fn: Any = None, **options: Any
) -> Callable[[Any], Any]:  # fmt: skip
    """The older form of `torch.compile`, a decorator."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        raise NotImplementedError(f"torch._dynamo.optimize: {', '.join(given)} cannot be had; see torch.compile")
    chosen = None if guard_filter_fn is None else {"guard_filter_fn": guard_filter_fn}
    return lambda fn: compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable, options=chosen)


def optimize_assert(backend: Any, **options: Any) -> Callable[[Any], Any]:
    """`optimize`, where all of a function must be recorded."""
    return optimize(backend, nopython=True, **options)


def run(fn: Any = None) -> Any:
    """A function whose compiled parts run as the programs that they have; what is new to them runs eagerly and is not recorded."""
    if fn is None:
        return run

    @functools.wraps(fn)
    def inside(*args: Any, **kwargs: Any) -> Any:
        before, _state["stance"] = _state["stance"], "run_only"
        try:
            return fn(*args, **kwargs)
        finally:
            _state["stance"] = before

    return inside


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Makes a backend known to `torch.compile` by a name. Also a decorator."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name, tags)
    _state["registered"][name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: str | Callable[..., Any]) -> Callable[..., Any]:
    """The backend of a name: a function of a graph module and example inputs. Those of PyTorch run the graph as it is."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn in _state["registered"]:
        return _state["registered"][compiler_fn]
    if compiler_fn not in list_backends(()):
        raise InvalidBackend(
            f"Invalid backend: {compiler_fn!r}, see `torch._dynamo.list_backends()` for available backends."
        )
    return lambda gm, example_inputs, **options: gm.forward


def set_recursion_limit(limit: int) -> None:
    """The depth of calls that captured code may have: Python's own limit."""
    sys.setrecursionlimit(limit)


def reset_recompile_user_contexts() -> None:
    """Forgets what was remembered for recompiling; there is nothing to forget."""


# -- what was recorded -----------------------------------------------------------------------------------------------


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """What is recorded of a function, and why not: call the result with its arguments."""

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        region = _Options().region(original(f))
        region(*args, **kwargs)
        graphs = [entry.program.forward_program.graph for entry in region.entries]
        reasons = [] if region.problem is None else [region.problem]
        return ExplainOutput(graphs, reasons, [guard for entry in region.entries for guard in entry.guards.texts()])

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


class ExplainOutput:
    """What `explain` found: graphs, reasons why there is none, guards."""

    def __init__(self, graphs: list[Any], break_reasons: list[Any], out_guards: list[str]):
        self.graphs, self.break_reasons, self.out_guards = graphs, break_reasons, out_guards
        self.graph_count, self.graph_break_count = len(graphs), len(break_reasons)
        self.ops_per_graph = [[node.name for node in graph.nodes] for graph in graphs]
        self.op_count = sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:"]
        lines += [f"  {reason}" for reason in self.break_reasons]
        for i, graph in enumerate(self.graphs):
            lines += [f"Graph {i}:", *[f"  {line}" for line in str(graph).splitlines()]]
        return "\n".join([*lines, "Guards:", *[f"  {guard}" for guard in self.out_guards]])


def export(
    f: Callable[..., Any],
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict[Any, Any] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    specialize_float: bool = True,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    _log_export_usage: bool = True,
    constraints: list[Any] | None = None,
    **extra_kwargs: Any,
) -> Any:
    """The graph of a function or module as a module, as `torch.export` finds it: call the result with examples.

    The graph is always one of `torch.ops.aten`, floats are constants in it, and sizes change only where `dynamic_shapes` says so.

    >>> import flambeau as torch
    >>> graph_module, guards = torch._dynamo.export(lambda x: x.relu() + 1)(torch.tensor([-1.0, 2.0]))
    >>> graph_module(torch.tensor([-3.0, 3.0]))
    tensor([1., 4.])
    """
    from ..export._export import of_function  # which needs errors of this package

    if not aten_graph and (decomposition_table is not None or tracing_mode != "symbolic"):
        raise AssertionError(
            "Specifying a decomposition_table table or tracing mode is illegal without setting aten_graph=True"
        )
    if pre_dispatch and not aten_graph:
        raise AssertionError("pre_dispatch=True can only be used when aten_graph=True")
    refused = [
        name for name, wish in (("constraints", constraints), ("specialize_float=False", not specialize_float)) if wish
    ]
    if refused or not same_signature:
        raise NotImplementedError(
            f"torch._dynamo.export: {', '.join(refused) or 'same_signature=False'} cannot be had; use dynamic_shapes for sizes that change"
        )
    if extra_args:  # an older form, with the examples at once
        return of_function(f, extra_args, extra_kwargs, dynamic_shapes, decomposition_table)
    return lambda *args, **kwargs: of_function(f, args, kwargs, dynamic_shapes, decomposition_table)


def replay(filename: str) -> None:
    """Repeats a recording that was kept in a file: refused, as recordings are not kept in files."""
    raise NotImplementedError(
        "torch._dynamo.replay: recordings are not kept in files; call the compiled function again"
    )

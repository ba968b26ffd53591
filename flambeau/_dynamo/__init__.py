"""Names of PyTorch's graph capture that programs touch. Programs run eagerly, so that these are switches without effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler import (
    InvalidBackend,
    OptimizedModule,
    _state,
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)  # fmt: skip
from . import config, eval_frame, exc, utils

__all__ = [
    "InvalidBackend", "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disallow_in_graph", "eval_frame", "exc", "forbid_in_graph", "graph_break", "is_compiling", "list_backends",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "register_backend", "reset",
    "run", "set_stance", "substitute_in_graph", "utils",
]  # fmt: skip

disallow_in_graph = forbid_in_graph = nonstrict_trace = dont_skip_tracing = allow_in_graph


def graph_break(msg: str = "") -> None:
    """Ends a captured graph; nothing is captured."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Says that a size of a tensor changes between calls."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Says that a size of a tensor may change between calls."""


def mark_static(t: Any, index: Any = None) -> None:
    """Says that the sizes of a tensor never change."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Says that a tensor's memory stays where it is."""


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """The older form of `torch.compile`, a decorator."""
    return lambda fn: compile(fn, backend=backend)


optimize_assert = optimize


def run(fn: Any = None) -> Any:
    """A function, run without capturing anything new; the function itself."""
    return (lambda given: given) if fn is None else fn


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Makes the name of a backend known to `torch.compile`; the backend itself is not called. Also a decorator."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name, tags)
    _state["registered"][name or compiler_fn.__name__] = compiler_fn
    return compiler_fn

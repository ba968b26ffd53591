"""Tracing by running: whether such a trace is under way. flambeau traces with `symbolic_trace` and `jit.trace` only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..._symbolic import SymBool, SymFloat, SymInt
from ..graph_module import GraphModule

__all__ = [
    "dispatch_trace", "get_innermost_proxy_mode", "get_proxy_mode", "make_fx", "maybe_disable_thunkify",
    "maybe_enable_thunkify", "py_sym_types",
]  # fmt: skip

py_sym_types = (SymInt, SymFloat, SymBool)


def get_proxy_mode() -> Any:
    """The mode that is recording operations now: None, as there is none."""
    return None


def get_innermost_proxy_mode() -> Any:
    """The mode that is recording operations now: None, as there is none."""
    return None


def make_fx(f: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., GraphModule]:
    """The operations of a function as they run, as a graph; not available yet."""
    raise NotImplementedError(
        "make_fx: operations are not recorded below the functions that programs call yet; torch.fx.symbolic_trace and "
        "torch.jit.trace give graphs of functions"
    )


def dispatch_trace(root: Any, tracer: Any, concrete_args: Any = None) -> GraphModule:
    """What a tracer makes of a module or function, as a module.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import dispatch_trace
    >>> dispatch_trace(lambda x: x + 1, torch.fx.Tracer())(torch.ones(1))
    tensor([2.])
    """
    graph = tracer.trace(root, concrete_args)
    name = (
        type(root).__name__
        if not callable(getattr(root, "__name__", None)) and hasattr(root, "forward")
        else root.__name__
    )
    return GraphModule(tracer.root, graph, name)


@contextlib.contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Lets sizes be computed when they are needed; they are numbers already."""
    yield


@contextlib.contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """Has sizes computed at once; they are numbers already."""
    yield

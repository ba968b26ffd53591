"""What programs say about their functions and tensors to `torch.compile`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from .._compile.breaks import strict
from .._core.state import local
from .._tensor import Tensor
from ..compiler import (
    _marks,
    allow_in_graph,
    assume_constant_result,
    is_compiling,
    is_dynamo_compiling,
    runs_as_it_is,
    set_stance,
)
from ..compiler import disable as _disable
from ..compiler import substitute_in_graph as _substitute
from . import config

__all__ = [
    "allow_c_slot", "allow_in_graph", "assume_constant_result", "disable", "disable_nested_graph_breaks", "disallow_in_graph",
    "dont_skip_tracing", "error_on_graph_break", "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_disable_recursive",
    "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace",
    "override_cudagraphs", "override_optimization_hint", "patch_dynamo_config", "set_stance", "skip_frame", "step_unsupported",
    "substitute_in_graph",
]  # fmt: skip


def _themselves(fn: Any) -> Any:
    if not all([callable(one) for one in (fn if isinstance(fn, (list, tuple)) else (fn,))]):
        raise AssertionError("only functions can be marked")
    return fn


disallow_in_graph = forbid_in_graph = _themselves


def dont_skip_tracing(fn: Any = None) -> Any:
    """Says that a function is recorded although it belongs to PyTorch: all are. The function itself."""
    return _themselves if fn is None else fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Keeps a function out of compiled programs. A wrapper is what does so: `wrapping=False` is refused."""
    if not wrapping:
        raise NotImplementedError("torch._dynamo.disable: a wrapper keeps a function out; use wrapping=True")
    return _disable(fn, recursive, reason=reason)


def substitute_in_graph(
    original_fn: Any,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Any], Any]:
    """`torch.compiler.substitute_in_graph`; with `is_embedded_type` for a class of C as well."""
    if is_embedded_type and isinstance(original_fn, type):
        return lambda fn: fn
    return _substitute(
        original_fn, can_constant_fold_through=can_constant_fold_through, skip_signature_check=skip_signature_check
    )


def nonstrict_trace(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose operations are recorded while its Python code runs; all functions are. The function itself."""
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return allow_in_graph(traceable_fn)


def graph_break(msg: str = "") -> None:
    """Says that the function that runs now cannot be recorded; one that is a step of the graph (`allow_in_graph`) can."""
    if is_dynamo_compiling() and not runs_as_it_is():
        local.captures[-1].stop(msg or "torch._dynamo.graph_break()", ours=False)


def mark_dynamic(
    t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None, max: int | None = None,
    specialize_on: Any = None,
) -> None:  # fmt: skip
    """Says that sizes of a tensor change between calls: new ones are no reason to record a function again at once.

    A compiled function that is recorded with a size that is not from `min` to `max`, or that takes no other size, raises
    `ConstraintViolationError`; after `maybe_mark_dynamic` it does not.

    >>> import flambeau as torch
    >>> x = torch.ones(3, 2)
    >>> torch._dynamo.mark_dynamic(x, 0)
    >>> torch._dynamo.mark_dynamic(x, 2)
    Traceback (most recent call last):
    IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)
    """
    for one in index if isinstance(index, (list, tuple)) else (index,):
        if not -t.dim() <= one < t.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-t.dim()}, {t.dim() - 1}], but got {one})"
            )
    _marks.mark(t, _dims(t, index), _marks.Mark(min, max, strict=True))


def _dims(t: Any, index: Any) -> set[int]:
    return {one % t.dim() for one in (index if isinstance(index, (list, tuple)) else (index,))}


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """`mark_dynamic` for dimensions that there may be: others are passed over."""
    places = index if isinstance(index, (list, tuple)) else (index,)
    there = [one for one in places if -t.dim() <= one < t.dim()]
    _marks.mark(t, _dims(t, there), _marks.Mark(None, None, strict=False))


def mark_static(t: Any, index: Any = None) -> Any:
    """Says that the sizes of a tensor never change: others are a reason to record again, and count as such. Also a decorator of modules."""
    if isinstance(t, Tensor):  # sizes of parameters are static anyway
        _marks.fixed[t] = index
        return None
    return t


def mark_unbacked(
    t: Any, index: Any, hint_override: int | None = None, strict: bool = False, specialize_on: Any = None,
    shape_id: str | None = None, min: int | None = None, max: int | None = None,
) -> None:  # fmt: skip
    """Says that a function is to do the same for all sizes: here `mark_dynamic`, as a branch on a size is a program of its own."""
    maybe_mark_dynamic(t, index)


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Says that a tensor's memory stays where it is."""


class _Marked(contextlib.ContextDecorator):
    """A `with` block or decorated function about which something is said to the capture; it runs as it is."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...


class error_on_graph_break(contextlib.ContextDecorator):
    """Whether what cannot be recorded raises `exc.Unsupported` in a block or decorated function, inside of a compiled one or around it."""

    def __init__(self, error_on_graph_break: bool):
        self._wanted, self._before = bool(error_on_graph_break), False

    def __enter__(self) -> None:
        self._before, strict.whole = strict.whole, self._wanted

    def __exit__(self, *error: Any) -> None:
        strict.whole = self._before


def override_cudagraphs(fwd: bool | None = None, bwd: bool | None = None) -> _Marked:
    """Whether a block uses CUDA graphs when compiled; without effect, as there are none."""
    return _Marked()


def disable_nested_graph_breaks(fn: Any = None) -> Any:
    """Says that a function is left as a whole if it cannot be captured; the function itself."""
    return (lambda given: given) if fn is None else fn


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """`config.patch`, for use inside of compiled functions."""
    return config.patch(arg1, arg2, **kwargs)


def override_optimization_hint(x: Any, val: int) -> None:
    """Says what size to compile for."""


def allow_c_slot(tp: type, *, tp_hash: bool = True, tp_richcompare: bool = True) -> type:
    """Lets captured code hash and compare objects of a class written in C; the class itself."""
    return tp


def is_dynamo_disable_recursive(method: Any) -> bool | None:
    """Whether `disable` was put on a function; not known here, where it changes nothing."""
    return None


def skip_frame(msg: str = "") -> None:
    """Says that the function that runs now is to run eagerly."""
    graph_break(msg or "torch._dynamo.skip_frame()")


def step_unsupported(msg: str = "") -> None:
    """Says that the function that runs now cannot be recorded from here on."""
    graph_break(msg or "torch._dynamo.step_unsupported()")

"""Differentiation: `backward`, `grad`, `Function`, checks, and higher-level derivatives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._autograd import engine
from .._autograd import functions as _functions
from .._autograd.engine import is_for_all_leaves as _is_checkpoint_valid  # noqa: F401 (old copies of `checkpoint` ask it)
from .._autograd.functions import Function, FunctionCtx
from .._autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from .._autograd.node import AccumulateGrad, edge_of, is_leaf
from .._core import dtypes as _dtypes
from .._core.state import DISPATCH, GRAD, local, modes
from .._core.submodules import submodule
from .._errors import taught
from .._interception import overrides as _overrides
from .._ops.records import rewriting as _rewriting
from .._ops.records import saved as _saved
from .._ops.records import writable as _writable
from .._ops.registry import ops as _ops
from .._tensor import Tensor, computed, detached, wrap
from .variable import Variable


def _view_as_self(t: Tensor) -> Tensor:
    """A result that is its own input gets a tensor of its own, over the same memory; a user's class has a say in it."""
    if type(t).__torch_function__ is not Tensor.__torch_function__:
        return t.view_as(t)
    return detached(t)


_functions.fit_gradient = _ops.fit_gradient
_functions.rewrite_history = _rewriting.rewrite_history
_functions.check_view = _writable.check_view
_functions.view_as_self = _view_as_self
_functions.restore_packed = _saved.unpacked
_functions.pack_saved = lambda s, node: _saved.pack(s, node) if _saved.local.saved_hooks else s


class _Root:
    """An edge of the graph in place of the tensor that it belongs to."""

    __slots__ = ("_edge", "_k", "dtype", "shape")

    def __init__(self, edge: Any):
        known = edge.node.__dict__.get("shapes", {}).get(edge.output_nr)
        if edge.node.outputs is not None:
            known = edge.node.outputs[edge.output_nr]
        self._k, self._edge = GRAD, (edge.node, edge.output_nr)
        self.shape, self.dtype = known[:2] if known is not None else (None, None)


def _root(x: Any) -> Any:
    """What the engine can start from or lead to: a tensor, or what stands for an edge."""
    if x.__class__ is not graph.GradientEdge:
        return x
    return x.node.variable if isinstance(x.node, AccumulateGrad) else _Root(x)


def _start(t: Any, g: Any, number: int = 0) -> Tensor:
    """The gradient that the walk begins with: ones for a scalar, or the one given, checked."""
    if isinstance(t, _Root):
        shape: Any = t.shape
    elif isinstance(t, Tensor):
        shape = t._array.shape
    else:
        raise TypeError(f"expected a Tensor to differentiate, got {type(t).__name__}")
    if not t._k & GRAD:
        raise taught(RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn"))
    if g is None:
        if shape is None or math.prod(shape) != 1:
            raise taught(RuntimeError("grad can be implicitly created only for scalar outputs"))
        if t.dtype.is_complex:
            raise RuntimeError("grad can be implicitly created only for real scalar outputs but got " + repr(t.dtype))
        if t._k == GRAD and not modes.on & DISPATCH:
            return wrap(np.ones(shape, t.dtype.numpy), t.dtype)
        return _ops.ones_like(detached(t))
    if not isinstance(g, Tensor):
        raise TypeError("gradients can be either Tensors or None, but got " + type(g).__name__)
    if shape is None:
        return g
    if g._array.shape != tuple(shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{number}] has a shape of {_size(g._array.shape)} and output[{number}] has a "
            f"shape of {_size(shape)}."
        )
    if g.dtype.is_complex != t.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{number}] has a dtype of {g.dtype} and output[{number}] has a dtype of {t.dtype}."
        )
    g = computed(g) if not g._k & GRAD else g
    return g if g.dtype is t.dtype else _ops.to_dtype(g, t.dtype)


_ONES = {d: np.ones((), d.numpy) for d in (_dtypes.float32, _dtypes.float64, _dtypes.float16, _dtypes.bfloat16)}


def _size(shape: Any) -> str:
    return f"torch.Size([{', '.join(map(str, shape))}])"


def _sequence(x: Any) -> list[Any]:
    if isinstance(x, Tensor):
        return [x]
    if x.__class__ is graph.GradientEdge:
        return [_root(x)]
    return [_root(t) for t in x]


def _gradients(given: Any, count: int) -> list[Any]:
    given = [None] * count if given is None else _sequence(given)
    if len(given) != count:
        raise RuntimeError(f"got {count} tensors and {len(given)} gradients")
    return given


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    >>> import flambeau as torch
    >>> x = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum()); x.grad
    tensor([4., 6.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("grad_tensors and grad_variables (deprecated) are the same; pass only grad_tensors")
        warnings.warn("grad_variables is deprecated; use grad_tensors", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables
    if modes.overrides:
        more = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
        taken = _overrides.watched(backward, (tensors, grad_tensors), more)
        if taken is not NotImplemented:
            return
    roots = _sequence(tensors)
    wanted = None
    if inputs is not None:
        wanted = _sequence(inputs.values() if isinstance(inputs, dict) else inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for t in wanted:
            if not t._k & GRAD:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
    if create_graph and inputs is None:
        warnings.warn(
            "Using backward() with create_graph=True makes a cycle between a parameter and its gradient, which can leak "
            "memory. Prefer autograd.grad, or reset .grad to None after use.",
            stacklevel=2,
        )
    given = [_start(t, g, i) for i, (t, g) in enumerate(zip(roots, _gradients(grad_tensors, len(roots))))]
    keep = create_graph if retain_graph is None else retain_graph
    found = engine.run(roots, given, keep, create_graph, wanted)
    for t in wanted or ():  # leaves got theirs in the walk
        if isinstance(t, Tensor) and not is_leaf(t):
            g = found.get((id(t._edge[0]), t._edge[1]))
            if g is not None:
                engine.accumulate(t, g, create_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` by `inputs`, returned instead of accumulated.

    Both may be edges of the graph (`graph.GradientEdge`); `inputs` may be a dict, and the result is one then.

    >>> import flambeau as torch
    >>> x = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> torch.autograd.grad((x * x).sum(), x)
    (tensor([4., 6.]),)
    """
    if modes.overrides:
        more = {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }  # fmt: skip
        taken = _overrides.watched(grad, (outputs, inputs), more)
        if taken is not NotImplemented:
            return taken
    if isinstance(inputs, dict):
        if type(inputs) is not dict:
            raise TypeError(f"the mapping of inputs must be a dict, got {type(inputs).__name__}")
        found = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
            is_grads_batched, materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, found))
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    roots, wanted = _sequence(outputs), _sequence(inputs)
    if is_grads_batched:
        from ..func import vmap

        cotangents = _gradients(grad_outputs, len(roots))
        for i, (t, g) in enumerate(zip(roots, cotangents)):
            if isinstance(t, Tensor) and isinstance(g, Tensor) and g._array.shape[1:] != t._array.shape:
                raise RuntimeError(
                    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                    f"The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                    f"mismatch was detected: grad_output[{i}] has a shape of {_size(g._array.shape)} and output[{i}] has a "
                    f"shape of {_size(t._array.shape)}."
                )
        reached: list[int] = []

        def one(*g: Any) -> tuple[Any, ...]:
            found = grad(roots, wanted, g, True, create_graph, True, allow_unused, False, materialize_grads)
            reached[:] = [i for i, part in enumerate(found) if part is not None]
            return tuple(found[i] for i in reached)

        batches = vmap(one)(*cotangents)
        return tuple(dict(zip(reached, batches)).get(i) for i in range(len(wanted)))
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for t in wanted:
        if not isinstance(t, (Tensor, _Root)):
            raise TypeError(f"expected Tensors to differentiate by, got {type(t).__name__}")
        if not t._k & GRAD:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    given = [_start(t, g, i) for i, (t, g) in enumerate(zip(roots, _gradients(grad_outputs, len(roots))))]
    keep = create_graph if retain_graph is None else retain_graph
    found = engine.run(roots, given, keep, create_graph, wanted, into_leaves=False)
    results = []
    for i, t in enumerate(wanted):
        edge = edge_of(t)
        g = None if edge is None else found.get((id(edge[0]), edge[1]))
        if g is None:
            if not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True "
                    "if this is the desired behavior."
                )
            if materialize_grads:
                if not isinstance(t, Tensor):
                    raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
                g = _ops.zeros_like(detached(t))
                if create_graph:
                    g._k |= GRAD
        results.append(g)
    return tuple(results)


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Computes the gradient of this tensor by all leaves it depends on."""
    if (
        gradient is None
        and inputs is None
        and not create_graph
        and self._k | modes.on & DISPATCH == GRAD
        and not self._array.ndim
    ):
        start = _ONES.get(self.dtype)  # the common case: a loss
        if start is not None:
            engine.run((self,), (wrap(start.copy(), self.dtype),), bool(retain_graph), False)
            return
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_tensor_backward.__name__ = "backward"
Tensor.backward = _tensor_backward
_overrides.watch("backward", _tensor_backward)

from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph  # noqa: E402
from .anomaly_mode import detect_anomaly, set_detect_anomaly  # noqa: E402
from .grad_mode import (  # noqa: E402
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enforce_grad_layout_policy,
    is_multithreading_enabled,
    is_view_replay_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck  # noqa: E402


def _profiler_enabled() -> bool:
    """Whether a profiler runs in this thread."""
    return local.profiler is not None


def __getattr__(name: str) -> Any:
    """Loads the profiler at its first use."""
    if name == "SavedTensor":
        from .._ops.records.saved_names import SavedTensor

        return SavedTensor
    if name == "DeviceType":
        from .profiler_util import DeviceType

        return DeviceType
    return submodule(__name__, name)


__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "Variable", "_force_original_view_tracking",
    "_unsafe_preserve_version_counter", "anomaly_mode", "backward", "detect_anomaly", "enable_grad",
    "enforce_grad_layout_policy", "forward_ad", "function", "functional", "grad", "grad_mode", "gradcheck",
    "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "is_view_replay_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

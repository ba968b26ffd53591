"""Gradients of nested tensors: one walk for all samples, whose graphs may share nodes."""

from __future__ import annotations

from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _samples(t: Any) -> list[Any]:
    """The samples of a nested tensor; anything else is the only one of its own."""
    return t._samples() if isinstance(t, Tensor) and t.is_nested else [t]


def _roots(tensors: Any, gradients: Any) -> tuple[list[Any], list[Any]]:
    """Samples that have a history, and what comes to each."""
    outputs = _listed(tensors)
    given = [None] * len(outputs) if gradients is None else _listed(gradients)
    pairs = [
        (sample, g if g is None else _samples(g)[i])
        for t, g in zip(outputs, given)
        for i, sample in enumerate(_samples(t))
        if not t.is_nested or sample.requires_grad
    ]
    return [sample for sample, _ in pairs], [g for _, g in pairs]


def backward(function: Any, tensors: Any, grad_tensors: Any = None, **named: Any) -> None:
    """`torch.autograd.backward` of nested tensors, plain ones among them."""
    if named.get("inputs") is not None:
        named["inputs"] = [sample for t in _listed(named["inputs"]) for sample in _samples(t)]
    function(*_roots(tensors, grad_tensors), **named)


def grad(function: Any, make: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, **named: Any) -> Any:
    """`torch.autograd.grad` of or by nested tensors: of an input that is nested, samples without a gradient have zeros."""
    by = _listed(inputs)
    optional = named.pop("allow_unused", None) or named.get("materialize_grads", False)
    roots, given = _roots(outputs, grad_outputs)
    found = iter(function(roots, [s for t in by for s in _samples(t)], given, allow_unused=True, **named))
    made = []
    for i, t in enumerate(by):
        grads = [next(found) for _ in _samples(t)]
        if all(g is None for g in grads):
            if not optional:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the graph."
                )
            made.append(None)
        else:
            made.append(make(filled(_samples(t), grads), t.layout) if t.is_nested else grads[0])
    return tuple(made)


def filled(samples: list[Tensor], grads: list[Any]) -> list[Tensor]:
    """Gradients of samples, zeros for those that have none."""
    return [ops.zeros_like(s) if g is None else g for s, g in zip(samples, grads)]

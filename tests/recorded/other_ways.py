"""Recorded calls taken another way: mapped over samples, differentiated forwards, or as a stored trace.

`vmap.txt`, `jvp.txt` and `trace.txt` list the calls for which that way exists; each holds the operand that varies, a tab
and the call.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import calls
import pytest


def parameters(name: str) -> list[Any]:
    lines = (calls.HERE / f"{name}.txt").read_text().splitlines()
    return [pytest.param(*line.split("\t"), id=f"{name}-{n}") for n, line in enumerate(lines)]


def function(torch: Any, operand: str, call: str) -> tuple[Callable[[Any], Any], Any]:
    """A call as a function of one of its operands, and that operand; the others are constants."""
    known = {name: t.detach() for name, t in calls.operands(torch, call).items()}
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "dev": "cpu", "inf": math.inf, "nan": math.nan,
             "ones": torch.ones, **known}  # fmt: skip
    code = compile(call, "call", "eval")
    return lambda x: eval(code, {**scope, operand: x}), known[operand]


def tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(torch, part)


def same(torch: Any, found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


def check_vmap(torch: Any, operand: str, call: str) -> None:
    """A mapped call gives what the samples give one by one, whatever dimension they are in."""
    f, x = function(torch, operand, call)
    samples = [x, x.flip(0) * 0.75 + 0.1 if x.dtype.is_floating_point else x.flip(0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [list(tensors(torch, f(sample))) for sample in samples]
        expected = [torch.stack(parts) for parts in zip(*alone)]
        same(torch, list(tensors(torch, torch.vmap(f)(torch.stack(samples)))), expected)
        same(torch, list(tensors(torch, torch.vmap(f, in_dims=-1)(torch.stack(samples, -1)))), expected)


def check_jvp(torch: Any, operand: str, call: str) -> None:
    """Forward and backward derivatives agree."""
    f, x = function(torch, operand, call)

    def g(x: Any) -> Any:
        return tuple(t for t in tensors(torch, f(x)) if t.dtype.is_floating_point)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tangent = torch.from_numpy(calls.weights(x.shape, 5)).to(x.dtype)
        out, moved = torch.func.jvp(g, (x,), (tangent,))
        factors = tuple(torch.from_numpy(calls.weights(t.shape, 2)).to(t.dtype) for t in out)
        (back,) = torch.func.vjp(g, x)[1](factors)
    forward = sum(float((a * b).sum()) for a, b in zip(moved, factors))
    size = sum(float((a * b).abs().sum()) for a, b in zip(moved, factors))
    backward = float((back * tangent).sum())
    assert math.isfinite(forward) and abs(forward - backward) <= 1e-3 * max(size, 0.1), (forward, backward)
    assert size > 0


def check_trace(torch: Any, operand: str, call: str) -> None:
    """A trace that was stored and loaded does the same with other numbers."""
    f, x = function(torch, operand, call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(f, (x,), check_trace=False), file)
        file.seek(0)
        other = x.flip(0) * 0.75 + 0.1 if x.dtype.is_floating_point else x.flip(0)
        same(torch, list(tensors(torch, torch.jit.load(file)(other))), list(tensors(torch, f(other))))

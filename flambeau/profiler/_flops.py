"""How many floating-point operations an operation makes, told by the shapes of its operands and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._ops.records.facts import fact
from .._tensor import Tensor


def _shape(t: Any) -> tuple[int, ...]:
    return tuple(t._array.shape)


def _product(args: Any, out: Any) -> int:
    """Any product of matrices or vectors: a multiplication and an addition for each element that is summed."""
    return 2 * math.prod(_shape(out)) * _shape(args[0])[-1]


def _added_product(args: Any, out: Any) -> int:
    return _product(args[1:], out)


def _linear(args: Any, out: Any) -> int:
    return 2 * math.prod(_shape(args[0])) * _shape(out)[-1]


def _convolution(args: Any, out: Any) -> int:
    reached = _shape(args[0] if args[6] else out)  # a transposed one reads each position once
    return 2 * reached[0] * math.prod(reached[2:]) * math.prod(_shape(args[1]))


def _convolution_weight(args: Any, out: Any) -> int:
    g = _shape(args[1])
    return 2 * g[0] * math.prod(g[2:]) * math.prod(_shape(out))


def _attention(args: Any, out: Any) -> int:
    query, key, value = (_shape(t) for t in args[:3])
    pairs = math.prod(query[:-1]) * key[-2]
    return 2 * pairs * query[-1] + 2 * pairs * value[-1]


def _each(args: Any, out: Any) -> int:
    first = out[0] if isinstance(out, (tuple, list)) else out
    return int(first._array.size) if isinstance(first, Tensor) else 0


def _attention_backward(args: Any, out: Any) -> int:
    return _attention(args[1:4], out) * 5 // 2


# By what declarations of operations say of them.
_FORMULAS: dict[str, Callable[[Any, Any], int]] = {
    "product": _product, "added_product": _added_product, "linear": _linear, "convolution": _convolution,
    "convolution_weight": _convolution_weight, "attention": _attention, "attention_backward": _attention_backward, "each": _each,
}  # fmt: skip


def flops_of(name: str, args: Any, out: Any) -> int:
    """The operations of one call; 0 where they are not known."""
    formula = _FORMULAS.get(fact(name, "flops") or "")
    return 0 if formula is None else formula(args, out)


def is_product(name: str) -> bool:
    """Whether an operation is counted by `FlopCounterMode`, too."""
    return fact(name, "flops") not in (None, "each")

"""ONNX operators that pool windows of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .layers import window
from .operators import Node, operator

__all__: list[str] = []


def _padding(node: Node, x: Tensor, kernel: Any) -> tuple[Any, Any, list[int], list[int]]:
    """Strides, dilations, and how much is padded on each side so that every window lies inside."""
    strides, dilations, before, after = window(node, x, kernel)
    if node.flag("ceil_mode"):
        sizes = zip(x.shape[2:], kernel, strides, dilations, before, after)
        more = []
        for size, k, s, d, b, a in sizes:
            reach = size + b + a - (k - 1) * d - 1
            count = -(-reach // s) + 1
            if (count - 1) * s >= size + b:  # a window must begin inside of the image or before it
                count -= 1
            more.append(a + max(0, (count - 1) * s - reach))
        after = more
    return strides, dilations, before, after


def _padded(x: Tensor, before: list[int], after: list[int], value: float) -> Tensor:
    if not any(before) and not any(after):
        return x
    return ops.pad(x, [n for pair in zip(before[::-1], after[::-1]) for n in pair], value=value)


def _of_rank(rank: int, *forms: Any) -> Any:
    if not 1 <= rank <= 3:
        raise OnnxModelError(f"pooling over {rank} axes is not supported")
    return forms[rank - 1]


@operator("MaxPool")
def max_pool(node: Node, x: Tensor) -> Any:
    kernel = node.list("kernel_shape", [])
    strides, dilations, before, after = _padding(node, x, kernel)
    whole, kind = not x.dtype.is_floating_point, x.dtype
    pool = _of_rank(len(kernel), ops.max_pool1d, ops.max_pool2d, ops.max_pool3d)
    places = len(node.outputs) > 1 and bool(node.outputs[1])
    fits = before == after and all(2 * b <= (k - 1) * d + 1 for b, k, d in zip(before, kernel, dilations))
    if whole:  # whole numbers up to eight bits, which fit a float
        x = x.float()
    if not places:
        if fits:
            made = pool(x, kernel, strides, before, dilations)
        else:
            made = pool(_padded(x, before, after, -float("inf")), kernel, strides, 0, dilations)
        return made.to(kind) if whole else made
    pool = _of_rank(len(kernel), ops.max_pool1d_with_indices, ops.max_pool2d_with_indices, ops.max_pool3d_with_indices)
    padded = _padded(x, before, after, -float("inf"))
    made, found = pool(padded, kernel, strides, 0, dilations)
    # Places count in the padded plane; ONNX counts elements of the whole tensor without it.
    sizes, wide = list(x.shape[2:]), list(padded.shape[2:])
    number, step = ops.zeros_like(found), 1
    order = range(len(sizes)) if node.flag("storage_order") else reversed(range(len(sizes)))
    for axis in order:
        along = found // math.prod(wide[axis + 1 :]) % wide[axis] - before[axis]
        number = number + along * step
        step *= sizes[axis]
    planes = ops.arange(x.shape[0] * x.shape[1], device=x.device).reshape([*x.shape[:2]] + [1] * len(sizes))
    return made.to(kind), number + planes * step


@operator("AveragePool")
def average_pool(node: Node, x: Tensor) -> Any:
    kernel = node.list("kernel_shape", [])
    strides, dilations, before, after = _padding(node, x, kernel)
    pool = _of_rank(len(kernel), ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d)
    include = node.flag("count_include_pad")
    if all(d == 1 for d in dilations):
        if not any(before) and not any(after):
            return pool(x, kernel, strides)
        if before == after and not node.flag("ceil_mode") and all(2 * b <= k for b, k in zip(before, kernel)):
            return pool(x, kernel, strides, before, False, include)
    ones = ops.ones([1, 1, *x.shape[2:]], dtype=x.dtype, device=x.device)
    if include:  # padding that the model names counts, what ceil_mode adds does not
        _, _, low, high = window(node, x, kernel)
        ones = _padded(ones, low, high, 1.0)
        counts = _padded(ones, [0] * len(low), [a - h for a, h in zip(after, high)], 0.0)
    else:
        counts = _padded(ones, before, after, 0.0)
    total = _sums(_padded(x, before, after, 0.0), kernel, strides, dilations)
    return total / _sums(counts, kernel, strides, dilations)


def _sums(x: Tensor, kernel: Any, strides: Any, dilations: Any) -> Any:
    """The sums of windows: along one axis after the other."""
    for i, (k, stride, dilation) in enumerate(zip(kernel, strides, dilations)):
        axis = i + 2
        count = (x.shape[axis] - (k - 1) * dilation - 1) // stride + 1
        parts = (
            x[(slice(None),) * axis + (slice(j * dilation, j * dilation + (count - 1) * stride + 1, stride),)]
            for j in range(k)
        )
        x = sum(parts)  # type: ignore[assignment]
    return x


@operator("LpPool")
def lp_pool(node: Node, x: Tensor) -> Any:
    kernel, power = node.list("kernel_shape", []), node.int("p", 2)
    strides, dilations, before, after = _padding(node, x, kernel)
    total = _sums(_padded(ops.abs(x) ** power, before, after, 0.0), kernel, strides, dilations)
    return total ** (1.0 / power)


def _image_axes(x: Tensor) -> list[int]:
    return list(range(2, x.ndim))


operator("GlobalAveragePool")(lambda node, x: ops.mean(x, _image_axes(x), keepdim=True))
operator("GlobalMaxPool")(lambda node, x: ops.amax(x, _image_axes(x), keepdim=True))
operator("GlobalLpPool")(lambda node, x: ops.norm(x, node.int("p", 2), _image_axes(x), keepdim=True))


@operator("MaxUnpool", lists=(2,))
def max_unpool(node: Node, x: Tensor, places: Tensor, sizes: Any = None) -> Any:
    kernel = node.list("kernel_shape", [])
    strides, _, before, after = window(node, x, kernel)
    grown = [(n - 1) * s + k - b - a for n, s, k, b, a in zip(x.shape[2:], strides, kernel, before, after)]
    made = [*x.shape[:2], *grown]
    flat = ops.zeros(math.prod(made), dtype=x.dtype, device=x.device)
    if sizes is None:
        return flat.scatter(0, places.reshape(-1), x.reshape(-1)).reshape(made)
    # Places count in the smaller tensor; the result has more room around it.
    wanted = [int(n) for n in sizes]
    number, step, rest = ops.zeros_like(places), 1, places
    for have, want in zip(reversed(made), reversed(wanted)):
        number, rest, step = number + rest % have * step, rest // have, step * want
    return ops.zeros(int(np.prod(wanted)), dtype=x.dtype).scatter(0, number.reshape(-1), x.reshape(-1)).reshape(wanted)

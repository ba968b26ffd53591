"""ONNX's Resize and Upsample: along one axis after the other, each element as a sum of weighted ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .operators import Node, axis_of, operator

__all__: list[str] = []


def _grown(size: float, scale: float) -> int:
    """A size times its scale. In single precision, as scales are stored: 5 times 1.8 is 9 there."""
    return math.floor(np.float32(size) * np.float32(scale))


@operator("Upsample", lists=(1,))
def upsample(node: Node, x: Tensor, scales: Any = None) -> Any:
    scales = node.list("scales", []) if scales is None else scales
    sizes = [_grown(n, s) for n, s in zip(x.shape, scales)]
    return _resized(
        node, x, list(range(x.ndim)), sizes, list(scales), [], node.text("mode", "nearest"), "asymmetric", "floor"
    )


@operator("Resize", lists=(1, 2, 3))
def resize(node: Node, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    if node.opset < 11:  # its second input are the scales
        wanted = [_grown(n, s) for n, s in zip(x.shape, roi)]
        mode = node.text("mode", "nearest")
        return _resized(node, x, list(range(x.ndim)), wanted, list(roi), [], mode, "asymmetric", "floor")
    axes = [axis_of(a, x.ndim) for a in node.list("axes", list(range(x.ndim)))]
    how = node.text("coordinate_transformation_mode", "half_pixel")
    old = [x.shape[a] for a in axes]
    if sizes:
        factors = [s / n for s, n in zip(sizes, old)]
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            same = min(factors) if policy == "not_larger" else max(factors)
            factors, sizes = [same] * len(old), [math.floor(same * n + 0.5) for n in old]
        wanted = list(sizes)
    elif scales:
        factors = list(scales)
        parts = [1.0] * len(old)
        if how == "tf_crop_and_resize" and roi:
            parts = [roi[i + len(old)] - roi[i] for i in range(len(old))]
        wanted = [_grown(n * p, s) for n, s, p in zip(old, factors, parts)]
    else:
        raise OnnxModelError("neither scales nor sizes are given")
    if len(wanted) != len(axes) or len(factors) != len(axes):
        raise OnnxModelError(f"{len(wanted)} sizes do not fit {len(axes)} axes")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    return _resized(node, x, axes, wanted, factors, list(roi or []), node.text("mode", "nearest"), how, rounding)


def _resized(
    node: Node, x: Tensor, axes: Any, sizes: Any, factors: Any, roi: Any, mode: str, how: str, rounding: str
) -> Any:
    outside: Any = None
    for i, axis in enumerate(axes):
        new, factor, old = int(sizes[i]), float(factors[i]), int(x.shape[axis])
        if new == old and factor == 1 and how != "tf_crop_and_resize":
            continue
        if old < 1 or new < 0:
            raise OnnxModelError(f"an axis of size {old} cannot become one of size {new}")
        ends = (roi[i], roi[i + len(axes)]) if len(roi) == 2 * len(axes) else (0.0, 1.0)
        where = _coordinates(how, new, old, factor, ends)
        places, weights = _taps(node, mode, rounding, where, old, factor)
        if how == "tf_crop_and_resize":
            beyond = (where < 0) | (where > old - 1)
            shaped = beyond.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
            outside = shaped if outside is None else outside | shaped
        x = _weighted(x, axis, places, weights)
    if outside is not None and outside.any():
        mask = ops.tensor(np.ascontiguousarray(outside), device=x.device)
        x = ops.where(mask, ops.full_like(x, node.float("extrapolation_value", 0.0)), x)
    return x


def _coordinates(how: str, new: int, old: int, factor: float, ends: Any) -> np.ndarray[Any, Any]:
    """Where each element of the new axis lies on the old one."""
    x = np.arange(new, dtype=np.float64)
    if how == "half_pixel":
        return (x + 0.5) / factor - 0.5
    if how == "half_pixel_symmetric":
        shift = new / (factor * old)
        return old / 2 * (1 - shift) + (x + 0.5) / factor - 0.5
    if how == "pytorch_half_pixel":
        return (x + 0.5) / factor - 0.5 if new > 1 else np.zeros(new)
    if how == "align_corners":
        return x * ((old - 1) / (old * factor - 1)) if old * factor != 1 else np.zeros(new)
    if how == "asymmetric":
        return x / factor
    if how == "tf_half_pixel_for_nn":
        return (x + 0.5) / factor
    if how == "tf_crop_and_resize":
        start, end = ends
        if new > 1:
            return start * (old - 1) + x * ((end - start) * (old - 1) / (new - 1))
        return np.full(new, 0.5 * (start + end) * (old - 1))
    raise OnnxModelError(f"coordinate_transformation_mode {how!r} is not supported")


def _taps(node: Node, mode: str, rounding: str, where: Any, old: int, factor: float) -> Any:
    """Numbers of elements (new × taps) and their weights; None for weights of one."""
    if mode == "nearest":
        # Coordinates that are whole but for rounding errors of their computation count as whole.
        snapped = np.where(abs(where - np.round(where)) < 1e-9 * max(old, 1), np.round(where), where)
        if rounding == "floor":
            found = np.floor(snapped)
        elif rounding == "ceil":
            found = np.ceil(snapped)
        elif rounding == "round_prefer_floor":
            found = np.ceil(snapped - 0.5)
        elif rounding == "round_prefer_ceil":
            found = np.floor(snapped + 0.5)
        else:
            raise OnnxModelError(f"nearest_mode {rounding!r} is not supported")
        return found.clip(0, old - 1).astype(np.int64)[:, None], None
    if mode not in ("linear", "cubic"):
        raise OnnxModelError(f"mode {mode!r} is not supported")
    stretch = min(factor, 1.0) if node.flag("antialias") else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    if reach > 1e6:
        raise OnnxModelError(f"a scale of {factor} is too small")
    # The elements below and above, as many as the function reaches; their distances give the weights.
    steps = np.arange(-math.ceil(reach) + 1, math.ceil(reach) + 1)
    places = np.floor(where)[:, None] + steps
    distance = abs(places - where[:, None]) * stretch
    if mode == "linear":
        weights = np.maximum(0.0, 1.0 - distance)
    else:
        a = node.float("cubic_coeff_a", -0.75)
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    if node.flag("exclude_outside"):
        weights = np.where((places < 0) | (places >= old), 0.0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    return places.clip(0, old - 1).astype(np.int64), weights


def _weighted(x: Tensor, axis: int, places: Any, weights: Any) -> Any:
    """The sum of chosen elements along an axis, each with its weight."""
    if weights is None:
        return ops.index_select(x, axis, ops.tensor(np.ascontiguousarray(places[:, 0]), device=x.device))
    kind = x.dtype
    value = x if kind.is_floating_point else x.float()
    made: Any = None
    for tap in range(places.shape[1]):
        part = ops.index_select(value, axis, ops.tensor(np.ascontiguousarray(places[:, tap]), device=x.device))
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        part = part * ops.tensor(weights[:, tap], dtype=value.dtype, device=x.device).reshape(shape)
        made = part if made is None else made + part
    return made if kind.is_floating_point else ops.round(made).to(kind)

"""Group norm and instance norm: groups of channels of each sample by their own statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.copies import row_major
from ..._core.dtypes import float32
from ..._tensor import Tensor
from ..basic import in_dtype
from ..folds import row_programs
from ..records import tangents
from ..records.batched_layers import normalized, normalized_backward
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of, same
from ..registry import labelled, ops, public, relabel
from .batch_norm import follow, with_given
from .channels import keeps_channels_last
from .normalization import check_channels, check_dtypes, gradients_of_norm, more_than_one, statistics_dtype, wide_of

_DOUBLE = np.dtype(np.float64)


def _beside(t: Tensor, x: Tensor) -> Tensor:
    """A parameter of each channel, in the shape in which it goes with (N, C, …)."""
    return ops.reshape(t, (-1, *[1] * (x._array.ndim - 2)))


def _batch_beside(t: Tensor, x: Tensor) -> Tensor:
    """The same for batches of both."""
    return ops.reshape(t, (t._array.shape[0], 1, -1, *[1] * (x._array.ndim - 3)))


def _grad(given: Any, others: Any, x: Any, weight: Any, eps: float, groups: int, rounded: bool, needs: Any) -> Any:
    if given[0] is None:
        return [None] * 3
    return norm_blocks_back(given[0], x, weight, others[0], others[1], eps, groups, rounded, tuple(needs))


def _blocks(x: Any, groups: int) -> tuple[int, int, int, int]:
    """The shape of (N, C, …) as groups of channels."""
    n, channels = x.shape[:2]
    return n, groups, channels // groups, math.prod(x.shape[2:])


def _shapes(x: Any, weight: Any, bias: Any, eps: float, groups: int, rounded: bool) -> list[Any]:
    kept = dtype_of(x if weight is None else weight)
    return [same(x), *[((x.shape[0], groups), kept)] * 3]


@primitive(
    batch=normalized(_batch_beside),
    tangent=tangents.normalized(_beside, lambda x, *rest: norm_blocks_op(x, None, None, *rest)[0]),
    meta=_shapes,
    tensors=3,
    name="norm_blocks",
    grad=_grad,
    backward_name="NativeGroupNormBackward0",
    light=True,
)
@keeps_channels_last(takes=lambda x, weight, bias, eps, groups, rounded: x.ndim > 3 and not rounded)
def norm_blocks_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float, groups: int, rounded: bool) -> Any:
    """Blocks of (N, C, …) normalized; their means, the factors they were multiplied by, and their variances."""
    x = _dense(x)
    kept, blocks = x.dtype if weight is None else weight.dtype, _blocks(x, groups)
    out = backend.empty(x.shape, x.dtype)
    stats = [backend.empty(blocks[:2], d) for d in (kept, kept, wide_of(x).numpy)]
    row_programs.groups(backend, x.reshape(blocks), weight, bias, eps, [out.reshape(blocks), *stats], rounded)
    return out, *stats


def _gradient_shapes(cotangent: Any, x: Any, weight: Any, *rest: Any) -> list[Any]:
    d = wide_of(x) if weight is None else dtype_of(weight)
    made = same(x), (x.shape[1:2], d), (x.shape[1:2], d)
    return [m if want else None for m, want in zip(made, rest[-1])]


def _backward_formula(
    cotangent: Tensor, x: Tensor, weight: Tensor | None, mean: Any, scale: Any, eps: float, groups: int, rounded: bool,
    wanted: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """What `norm_blocks_back` computes, over tensors."""
    shape = x._array.shape
    blocks = (shape[0], groups, math.prod(shape[1:]) // groups)
    over = (0, *range(2, len(shape)))
    g = ops.reshape(cotangent if weight is None else cotangent * _beside(weight, cotangent), blocks)
    values, by_x = gradients_of_norm(g, ops.reshape(x, blocks), (2,), eps)
    by_weight = ops.sum(cotangent * ops.reshape(values, shape), over) if wanted[1] else None
    return ops.reshape(by_x, shape) if wanted[0] else None, by_weight, ops.sum(cotangent, over) if wanted[2] else None


@primitive(
    batch=normalized_backward(_batch_beside, lambda x, rest: (1, *range(3, x._array.ndim))),
    formula=_backward_formula,
    meta=_gradient_shapes,
    tensors=5,
    name="norm_blocks_backward",
)
def norm_blocks_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, groups: int, rounded: bool,
    wanted: Any,
) -> Any:  # fmt: skip
    """The gradients by x, weight and bias, as far as `wanted`."""
    x = _dense(x)
    out, blocks = backend.empty(x.shape, x.dtype), _blocks(x, groups)
    kind = statistics_dtype(x, weight).numpy if rounded else _DOUBLE  # what an instance gives its parameters
    parts = [backend.empty(blocks[:3], kind) for _ in range(2)]
    row_programs.groups_backward(
        backend, cotangent.reshape(blocks), x.reshape(blocks), weight, mean, scale, [out.reshape(blocks), *parts]
    )
    d = wide_of(x).numpy if weight is None else weight.dtype
    made = [out if wanted[0] else None]
    for part, want in zip(reversed(parts), wanted[1:]):
        made.append(row_programs.down(backend, part.reshape(x.shape[:2]), d) if want else None)
    return tuple(made)


def _dense(x: Any) -> Any:
    return x if x.flags.c_contiguous else row_major(x)


@public("group_norm", method=False, planned=True)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`."""
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError("num_groups must be positive")
    if shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(shape)} "
            f"and num_groups={num_groups}"
        )
    if weight is not None or bias is not None:
        check_channels("group_norm", shape[1], weight, bias)
    check_dtypes("GroupNormKernelImpl", input, weight, bias)
    return norm_blocks_op(input, weight, bias, eps, num_groups, False)[0]


@public("nn.functional.group_norm", method=False, planned=True)
def functional_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes each group of channels of each sample."""
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    more_than_one([shape[0] * shape[1] // max(num_groups, 1), num_groups, *shape[2:]])
    return group_norm(input, num_groups, weight, bias, eps)


@public(method=False)
@labelled("NativeGroupNormBackward0")
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm with the means and the reciprocals of the standard deviations it used."""
    check_channels("native_group_norm", C, weight, bias)
    check_dtypes("GroupNormKernelImpl", input, weight, bias)
    out = norm_blocks_op(ops.reshape(input, (N, C, HxW)), weight, bias, eps, group, False)[0]
    groups = ops.reshape(input, (N, group, C // max(group, 1) * HxW))  # both statistics can be differentiated
    wide = groups if input.dtype.itemsize > 2 else ops.to_dtype(groups, float32)
    variance, mean = ops.var_mean(wide, 2, correction=0)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    return ops.reshape(out, input._array.shape), in_dtype(mean, d), in_dtype(ops.rsqrt(variance + eps), d)


@public("instance_norm", method=False, planned=True)
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm` with its arguments in another order."""
    shape = input._array.shape
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("instance_norm: without use_input_stats it needs running_mean and running_var")
    if not (weight is bias is running_mean is running_var is None):
        check_channels("instance_norm", shape[1], weight, bias, running_mean, running_var)
    check_dtypes("batch_norm", input, weight, bias)
    if not use_input_stats:
        made = with_given(input, running_mean, running_var, weight, bias, eps)  # type: ignore[arg-type]
        return relabel(made, "ViewBackward0")
    running = running_mean is not None or running_var is not None
    out, mean, _, variance = norm_blocks_op(input, weight, bias, eps, shape[1], True)
    if running:
        count = math.prod(shape[2:])
        follow(running_mean, ops.mean(ops.detach(mean), 0), momentum)
        follow(running_var, ops.mean(ops.detach(variance), 0) * (count / max(count - 1, 1)), momentum)
    return relabel(out, "ViewBackward0")


@public("nn.functional.instance_norm", method=False, planned=True)
def functional_instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalizes each channel of each sample."""
    shape = input._array.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {tuple(shape)}")
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


SCHEMAS = """
group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor  # autocast=cuda:single/whole
native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)
instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor  # autocast=whole
"""

"""Layers under the names that PyTorch's compiled core has for them (`torch._C._nn.slow_conv3d`, `torch._masked_softmax`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._ops.layers.padding import define_pads
from .._ops.records.inplace import in_place_form
from .._ops.registry import functions, ops
from .._tensor import Tensor

_LARGEST = (1 << 63) - 1


def slow_conv3d(
    self: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0
) -> Tensor:
    """A convolution over volumes; `weight` may be flat behind its first dimension."""
    kernel, step, around = (_three(*pair) for pair in (
        ("kernel_size", kernel_size), ("stride", stride), ("padding", padding),
    ))  # fmt: skip
    if max(around) > _LARGEST >> 2:
        raise ValueError(f"slow_conv3d: Padding height too large: {around}")
    if math.prod(kernel) > _LARGEST:
        raise RuntimeError(f"slow_conv3d: Kernel height x width product is too large: {kernel}")
    if weight.ndim == 2:
        weight = ops.reshape(weight, (weight.shape[0], -1, *kernel))
    return ops.conv3d(self, weight, bias, step, around)


def _three(name: str, value: Any) -> tuple[int, ...]:
    values = (value,) * 3 if isinstance(value, int) else tuple(value)
    if len(values) != 3:
        raise RuntimeError(f"It is expected {name} equals to 3, but got size {len(values)}")
    return values


def thnn_conv2d(
    self: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0
) -> Tensor:
    """A convolution over images; `weight` may be flat behind its first dimension."""
    given = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    for name, value in given.items():
        if not isinstance(value, int) and len(value) != 2:
            raise RuntimeError(f"2D {name} expected, but got {list(value)}")
    if weight.ndim == 2:
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        weight = ops.reshape(weight, (weight.shape[0], -1, *kernel))
    return ops.conv2d(self, weight, bias, stride, padding)


def _masked_softmax(self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None) -> Tensor:
    """A softmax that leaves out where `mask` is True; a line with nothing left is zero.

    `mask_type` 0 is a mask (L, L) for attention, 1 one of (B, L) for the keys, 2 one of the input's shape.
    """
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if str(mask.dtype) != "torch.bool":
        raise RuntimeError("Mask should be a boolean tensor")
    if self.ndim == 4 and mask.ndim == 2:
        batch, _, length, _ = self.shape
        mask = ops.reshape(mask, (1, 1, length, length) if mask_type == 0 else (batch, 1, 1, length))
    mask = ops.expand(mask, self.shape)
    made = ops.softmax(ops.masked_fill(self, mask, -math.inf), self.ndim - 1 if dim is None else dim)
    return ops.masked_fill(made, mask, 0)


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """The rows of (N, L, D) where a mask (N, L) is True, as one nested tensor."""
    from ..nested import nested_tensor

    if str(mask.dtype) != "torch.bool":
        raise RuntimeError("Expected mask to be of ScalarType Bool")
    if mask.ndim != 2 or t.ndim != 3:
        raise RuntimeError(f"Expected a mask of 2 and a tensor of 3 dimensions, but got {mask.ndim} and {t.ndim}")
    if mask.shape != t.shape[:2]:
        raise RuntimeError(f"Expected mask size {list(t.shape[:2])} to match, but got {list(mask.shape)}")
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise RuntimeError("Expected mask to be left-aligned without gaps")
    return nested_tensor([row[: int(kept.sum())] for row, kept in zip(t, mask)])


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether each row of a mask is True first and False then."""
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())


def _add_relu(self: Tensor, other: Tensor, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """relu(self + alpha * other)."""
    made = ops.relu(self + (other if alpha == 1 else alpha * other))
    return made if out is None else out.copy_(made)


def _add_relu_(self: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    return self.copy_(_add_relu(self, other, alpha=alpha))


def _grid_sampler_2d_cpu_fallback(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    return ops.grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)


def _quantized_max_pool(n: int) -> Any:
    def pool(
        self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Tensor:
        if min([dilation] if isinstance(dilation, int) else dilation) < 1:
            raise RuntimeError(f"Expected dilation >= 1, but got {dilation}")
        find = functions[f"nn.functional.max_pool{n}d"]  # with places, as it then takes integers of any rank
        made, _ = find(self.int_repr(), kernel_size, stride, padding, dilation, ceil_mode, True)
        return functions["_make_per_tensor_quantized_tensor"](made, self.q_scale(), self.q_zero_point())

    pool.__name__ = pool.__qualname__ = f"quantized_max_pool{n}d"
    pool.__doc__ = (
        f"The largest number of each window of a quantized tensor over {n} dimensions, with its scale and zero point."
    )
    return pool


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = (_quantized_max_pool(n) for n in (1, 2, 3))


def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of bytes, in int32."""
    for name, given in (("self", self), ("mat2", mat2)):
        if given.ndim != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {given.ndim}")
        if str(given.dtype) not in ("torch.int8", "torch.uint8"):
            raise RuntimeError(f"_int_mm: Expected {name} dtype to be int8 or uint8 but got {given.dtype}")
    if out is not None and (str(out.dtype) != "torch.int32" or tuple(out.shape) != (self.shape[0], mat2.shape[1])):
        raise RuntimeError(
            f"_int_mm: Expected result dtype to be int32 and its size {[self.shape[0], mat2.shape[1]]}, but got {out.dtype} and "
            f"{list(out.shape)}"
        )
    made = ops.mm(self.int(), mat2.int())
    return made if out is None else out.copy_(made)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    return ops.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


OF_NN: dict[str, Any] = {
    **define_pads("reflect", "reflection_pad"),
    **define_pads("replicate", "replication_pad"),
    "slow_conv3d": slow_conv3d,
    "thnn_conv2d": thnn_conv2d,
    "gelu_": in_place_form("gelu", functions["nn.functional.gelu"]),
}
_OWN: Sequence[Any] = (
    _masked_softmax, _nested_tensor_from_mask, _nested_tensor_from_mask_left_aligned, _add_relu, _add_relu_,
    _grid_sampler_2d_cpu_fallback, quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d, _int_mm, _grouped_mm,
)  # fmt: skip
FUNCTIONS: dict[str, Any] = OF_NN | {f.__name__: f for f in _OWN}


SCHEMAS = """
slow_conv3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0]) -> Tensor
thnn_conv2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0]) -> Tensor
_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor
_nested_tensor_from_mask(Tensor t, Tensor mask, bool mask_check=True) -> Tensor
_nested_tensor_from_mask_left_aligned(Tensor t, Tensor mask) -> bool
_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
_add_relu.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
_add_relu.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
_grid_sampler_2d_cpu_fallback(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
quantized_max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor
quantized_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
quantized_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor
_int_mm(Tensor self, Tensor mat2) -> Tensor
_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor
"""

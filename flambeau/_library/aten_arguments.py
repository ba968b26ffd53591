"""Operators of `torch.ops.aten` that take other arguments than the functions of the same name that programs call."""

from __future__ import annotations

from typing import Any

from .._ops.registry import functions, ops
from .._tensor import Tensor

_F = "nn.functional."


def elu(self: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    made = functions[_F + "elu"](self, alpha)
    if input_scale != 1:  # of what is negative
        made = ops.where(self > 0, self, functions[_F + "elu"](self * input_scale, alpha))
    return made * scale if scale != 1 else made


def elu_(self: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    return self.copy_(elu(self, alpha, scale, input_scale))


def tensordot(self: Tensor, other: Tensor, dims_self: Any, dims_other: Any) -> Tensor:
    return ops.tensordot(self, other, (list(dims_self), list(dims_other)))


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    return _unpooled("max_unpool2d", self, indices, output_size)


def max_unpool3d(self: Tensor, indices: Tensor, output_size: Any, stride: Any, padding: Any) -> Tensor:
    return _unpooled("max_unpool3d", self, indices, output_size)


def _unpooled(name: str, input: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    """Windows one step apart that cover just the wanted size: maxima go where the indices say."""
    sizes = zip(output_size, input._array.shape[-len(output_size) :])
    return functions[_F + name](input, indices, tuple(n - have + 1 for n, have in sizes), 1)


def fractional_max_pool2d(self: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    return functions[_F + "fractional_max_pool2d"](self, kernel_size, output_size, None, True, random_samples)


def fractional_max_pool3d(self: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    return functions[_F + "fractional_max_pool3d"](self, kernel_size, output_size, None, True, random_samples)


def adaptive_max_pool2d(self: Tensor, output_size: Any) -> Any:
    return functions[_F + "adaptive_max_pool2d"](self, output_size, True)


def adaptive_max_pool3d(self: Tensor, output_size: Any) -> Any:
    return functions[_F + "adaptive_max_pool3d"](self, output_size, True)


def unique_dim(
    self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return ops.unique(self, sorted, True, True, dim)


def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """All three; inverse and counts of elements are empty unless they are wished for."""
    if dim is not None:
        return unique_dim_consecutive(self, dim)
    found, *rest = ops.unique_consecutive(self, True, True)
    wished = zip(rest, (return_inverse, return_counts))
    return (found, *[t if wanted else ops.new_empty(t, 0) for t, wanted in wished])


def unique_dim_consecutive(self: Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False) -> Any:
    return ops.unique_consecutive(self, True, True, dim)


def stft(
    self: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    *rest: Any, **named: Any,
) -> Tensor:  # fmt: skip
    """Pieces of a signal as it is; the overload with `center` and `pad_mode` before the rest pads it."""
    if not any(isinstance(value, str) for value in rest) and not named.keys() & {"center", "pad_mode"}:
        rest = (False, "reflect", *rest)
    return ops.stft(self, n_fft, hop_length, win_length, window, *rest, **named)


FUNCTIONS = {
    f.__name__: f
    for f in (
        elu, elu_, tensordot, max_unpool2d, max_unpool3d, fractional_max_pool2d, fractional_max_pool3d, adaptive_max_pool2d,
        adaptive_max_pool3d, unique_dim, unique_consecutive, unique_dim_consecutive, stft,
    )
}  # fmt: skip


SCHEMAS = """
stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor
max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor
fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)
fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)
tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor
unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)
unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)
unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)  # python
adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
"""

"""Operators of `torch.ops.aten` that programs meet in recorded graphs: checks, and what functions in Python are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._autograd.modes import enable_grad
from .._core.state import META, local
from .._ops.layers.interpolation import upsampled
from .._ops.registry import functions, ops
from .._ops.signal.fft import fft_c2c, fft_c2r, fft_r2c
from .._tensor import Tensor
from .aten_backward import gradients

_F = "nn.functional."
_REDUCTIONS = ("none", "mean", "sum")


# -- numbers and checks ------------------------------------------------------------------------------------------------


def item(self: Tensor) -> Any:
    return self.item()


def nonzero_numpy(self: Tensor) -> list[Tensor]:
    return list(ops.nonzero(self, as_tuple=True))


def _assert_scalar(self: Any, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


def _assert_async(self: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    if not bool(self):
        raise RuntimeError(assert_msg)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:
    for name, wanted, given in (
        ("dtype", dtype, a.dtype), ("sizes", size, a.shape), ("strides", stride, a.stride()), ("device", device, a.device),
        ("layout", layout, a.layout),
    ):  # fmt: skip
        given = list(given) if isinstance(given, tuple) else given
        if wanted is not None and given != (list(wanted) if isinstance(wanted, (list, tuple)) else wanted):
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {wanted}, Got: {given}")


def lift_fresh_copy(self: Tensor) -> Tensor:
    return ops.clone(self) if local.fake is None or self._k & META else local.fake.lifted(self)


def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return ops.clone(ops.to(ops.expand(src, self.shape), dtype=self.dtype, device=self.device))


def numpy_T(self: Tensor) -> Tensor:
    return self.T


def log_sigmoid(self: Tensor) -> Tensor:
    return ops.log_sigmoid(self)


# -- layers ----------------------------------------------------------------------------------------------------------


def _upsample(mode: str, aligned: bool, antialias: bool = False) -> Callable[..., Any]:
    """Upsampling: the result's size, and factors for every dimension by which places are computed; or the factors alone."""

    def upsample(input: Tensor, output_size: Any, *rest: Any, **named: Any) -> Tensor:
        values = list(rest)
        corners = named.pop("align_corners", None)
        if aligned and corners is None and values:
            corners = values.pop(0)
        factors = values + list(named.values())  # in the order of dimensions, as the schema has them
        if output_size is None:
            (factors,) = factors
            options = {"antialias": True} if antialias else {}
            return functions[_F + "interpolate"](input, None, list(factors), mode, corners, **options)
        if factors and isinstance(factors[0], (list, tuple)):
            factors = list(factors[0])
        sizes = tuple(output_size)
        if factors == [None]:  # no list of them
            factors = []
        found = [f if f is not None and f > 0 else None for f in factors] or [None] * len(sizes)
        if input.ndim != len(sizes) + 2 or len(found) != len(sizes):
            raise RuntimeError(
                f"upsample: It is expected output_size equals to {input.ndim - 2}, but got size {len(sizes)}, with {len(found)} "
                "scales"
            )
        return upsampled(input, sizes, tuple(found), mode, bool(corners), antialias)

    return upsample


def _upsample_backward(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of an upsampling, which is linear: it needs the sizes alone, and has a derivative itself."""

    def backward(grad_output: Tensor, output_size: Any, input_size: Any, *rest: Any, **named: Any) -> Tensor:
        with enable_grad():
            x = ops.empty(tuple(input_size), dtype=grad_output.dtype, device=grad_output.device).requires_grad_()
            out = forward(x, output_size, *rest, **named)
        for d, (given, wanted) in enumerate(zip(grad_output.shape, out.shape)):
            if given != wanted or grad_output.ndim != out.ndim:
                raise RuntimeError(
                    f"Expected grad_output to have the same shape as output; output.size({d}) = {wanted} but got grad_output.size({d}) = {given}"
                )
        (made,) = gradients(out, (x,), grad_output, create_graph=grad_output.requires_grad)
        return made

    return backward


def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    given = {"reduction": _REDUCTIONS[reduction], "label_smoothing": label_smoothing}
    return functions[_F + "cross_entropy"](self, target, weight, ignore_index=ignore_index, **given)


def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    return functions[_F + "nll_loss"](self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])


def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    return functions[_F + "unfold"](self, kernel_size, dilation, padding, stride)


def col2im(self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    return functions[_F + "fold"](self, output_size, kernel_size, dilation, padding, stride)


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    dims = [d for d in range(v.dim()) if d != dim]
    return v * (g / functions["linalg.vector_norm"](v, 2, dims, True))


def _adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    return functions[_F + "adaptive_avg_pool2d"](self, output_size)


def _adaptive_avg_pool3d(self: Tensor, output_size: Any) -> Tensor:
    return functions[_F + "adaptive_avg_pool3d"](self, output_size)


def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return ops.cdist(x1, x2, p, compute_mode or 0)


def _pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    return functions[_F + "pdist"](self, p)


def _fft_c2c(self: Tensor, dim: Any, normalization: int, forward: bool) -> Tensor:
    return fft_c2c(self, _dims(self, dim), normalization, forward)


def _fft_r2c(self: Tensor, dim: Any, normalization: int, onesided: bool) -> Tensor:
    return fft_r2c(self, _dims(self, dim), normalization, onesided)


def _fft_c2r(self: Tensor, dim: Any, normalization: int, last_dim_size: int) -> Tensor:
    return fft_c2r(self, _dims(self, dim), normalization, last_dim_size)


def _dims(x: Tensor, dims: Any) -> tuple[int, ...]:
    return tuple(d % x.ndim for d in dims)


def _native_batch_norm_legit_no_training(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    out = functions[_F + "batch_norm"](input, running_mean, running_var, weight, bias, False, momentum, eps)
    return out, ops.new_zeros(input, (0,)), ops.new_zeros(input, (0,))


def _native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    running_mean, running_var, training, momentum, eps = rest if len(rest) == 5 else (None, None, *rest)
    if not training:
        return _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps)
    dims = [d for d in range(input.ndim) if d != 1]
    mean, spread = ops.mean(input, dims), 1 / ops.sqrt(ops.var(input, dims, correction=0) + eps)
    return (
        functions[_F + "batch_norm"](input, running_mean, running_var, weight, bias, True, momentum, eps),
        mean,
        spread,
    )


def _native_batch_norm_legit_functional(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, training: bool, momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    mean, var = ops.clone(running_mean), ops.clone(running_var)
    return *_native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps), mean, var


_OWN = (
    item, nonzero_numpy, _assert_scalar, _assert_async, sym_constrain_range, sym_constrain_range_for_size,
    _assert_tensor_metadata, lift_fresh_copy, copy, numpy_T, log_sigmoid,
    cross_entropy_loss, nll_loss_nd, im2col, col2im, _weight_norm, _adaptive_avg_pool2d, _adaptive_avg_pool3d, _cdist_forward,
    _pdist_forward, _fft_c2c, _fft_r2c, _fft_c2r, _native_batch_norm_legit, _native_batch_norm_legit_no_training, _native_batch_norm_legit_functional,
)  # fmt: skip
_UPSAMPLINGS = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,)}
_UPSAMPLE: dict[str, Any] = {
    **{f"upsample_{mode}{n}d": _upsample(mode, True) for mode, ranks in _UPSAMPLINGS.items() for n in ranks},
    **{f"upsample_nearest{n}d": _upsample("nearest", False) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _upsample("nearest-exact", False) for n in (1, 2, 3)},
    **{f"_upsample_{mode}2d_aa": _upsample(mode, True, antialias=True) for mode in ("bilinear", "bicubic")},
}
FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in _OWN},
    **_UPSAMPLE,
    **{f"{name}_backward": _upsample_backward(forward) for name, forward in _UPSAMPLE.items()},
}


SCHEMAS = """
item(Tensor self) -> Scalar
nonzero_numpy(Tensor self) -> Tensor[]
_assert_scalar(Scalar self, str assert_msg) -> ()
_assert_async(Tensor self) -> ()
_assert_async.msg(Tensor self, str assert_msg) -> ()
sym_constrain_range|sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()
_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()
lift_fresh_copy|log_sigmoid(Tensor self) -> Tensor
copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
numpy_T(Tensor(a) self) -> Tensor(a)
cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor
nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor
im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor
_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
_pdist_forward(Tensor self, float p=2.) -> Tensor
_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor
_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor
_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
upsample_linear1d|upsample_bilinear2d|upsample_trilinear3d|upsample_bicubic2d|_upsample_bilinear2d_aa|_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor
upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor
upsample_bilinear2d|upsample_bicubic2d|_upsample_bilinear2d_aa|_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_nearest1d|upsample_nearest2d|upsample_nearest3d|_upsample_nearest_exact1d|_upsample_nearest_exact2d|_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
upsample_nearest1d|_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
upsample_nearest2d|_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_nearest3d|_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, bool align_corners, float? scales=None) -> Tensor
upsample_bilinear2d_backward|upsample_bicubic2d_backward|_upsample_bilinear2d_aa_backward|_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_nearest1d_backward|_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None) -> Tensor
upsample_nearest2d_backward|_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor
upsample_nearest3d_backward|_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
"""

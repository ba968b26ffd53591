"""Further derivatives that PyTorch has as operators (`torch.ops.aten.mse_loss_backward`): most are what the forward operator's derivative is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.modes import enable_grad, is_grad_enabled
from .._ops.registry import ops
from .._tensor import Tensor
from .aten_backward import gradients


def _forward(name: str, *args: Any) -> Any:
    from .schema_texts import operator_of  # which reads this file

    function = operator_of(name)
    assert function is not None
    return function(*args)


def _through(function: Callable[..., Any], inputs: Sequence[Tensor], grad_output: Tensor) -> Any:
    """The gradients of a function by its inputs, which can be differentiated again if something there needs that."""
    again = is_grad_enabled() and any(t.requires_grad for t in (*inputs, grad_output))
    with enable_grad():
        given = [t if again and t.requires_grad else t.detach().requires_grad_() for t in inputs]
        return gradients(function(*given), given, grad_output, again)


def _of_argument(name: str, dropped: int = 0) -> Callable[..., Tensor]:
    """The derivative of an operator by its first argument; the last arguments, which only PyTorch's kernel needs, are `dropped`."""

    def backward(grad_output: Tensor, self: Tensor, *rest: Any) -> Tensor:
        kept = rest[: len(rest) - dropped]
        return _through(lambda x: _forward(name, x, *kept), (self,), grad_output)[0]

    return backward


def _of_size(name: str) -> Callable[..., Tensor]:
    """The derivative of an operator that only needs to know the size of its argument."""

    def backward(grad_output: Tensor, input_sizes: Any, *rest: Any) -> Tensor:
        return _through(
            lambda x: _forward(name, x, *rest), (ops.new_zeros(grad_output, tuple(input_sizes)),), grad_output
        )[0]

    return backward


def _masked(made: Sequence[Any], output_mask: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(t if asked else None for t, asked in zip(made, output_mask))


def elu_backward(
    grad_output: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Tensor
) -> Tensor:
    x = self_or_result
    inner = x + alpha * scale if is_result else alpha * scale * ops.exp(x * input_scale)
    return grad_output * ops.where(x <= 0, inner * input_scale, scale)


def leaky_relu_backward(grad_output: Tensor, self: Tensor, negative_slope: Any, self_is_result: bool) -> Tensor:
    return ops.where(self > 0, grad_output, grad_output * negative_slope)


def rrelu_with_noise_backward(
    grad_output: Tensor, self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, self_is_result: bool
) -> Tensor:
    if training and upper - lower > 1e-6:
        return grad_output * noise
    return leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask * scale


def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    return embedding_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq, False)


def embedding_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    table = ops.new_zeros(grad, (num_weights, grad.shape[-1]))
    rest = padding_idx, scale_grad_by_freq, sparse
    return _through(lambda weight: _forward("embedding", weight, indices, *rest), (table,), grad)[0]


def _grid_sampler(name: str) -> Callable[..., Any]:
    def backward(grad_output: Tensor, input: Tensor, grid: Tensor, *rest: Any) -> tuple[Any, ...]:
        *rest, output_mask = rest  # type: ignore[assignment]
        return _masked(
            _through(lambda x, places: _forward(name, x, places, *rest), (input, grid), grad_output), output_mask
        )

    return backward


def native_layer_norm_backward(
    grad_out: Tensor, input: Tensor, normalized_shape: Any, mean: Tensor, rstd: Tensor, weight: Tensor | None,
    bias: Tensor | None, output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    count = input.ndim - len(normalized_shape)
    inner, outer = list(range(count, input.ndim)), list(range(count))
    normal = (input - mean) * rstd
    g = grad_out if weight is None else grad_out * weight
    by_input = rstd * (g - ops.mean(g, inner, keepdim=True) - normal * ops.mean(g * normal, inner, keepdim=True))
    by_weight, by_bias = grad_out * normal, grad_out
    if outer:
        by_weight, by_bias = ops.sum(by_weight, outer), ops.sum(by_bias, outer)
    return _masked(
        (by_input, by_weight, by_bias), [asked and (not i or weight is not None) for i, asked in enumerate(output_mask)]
    )


def native_group_norm_backward(
    grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, N: int, C: int, HxW: int, group: int,
    output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    def grouped(t: Tensor) -> Tensor:
        return ops.reshape(t, (N, group, C // group, HxW))

    mean, rstd = (ops.reshape(t, (N, group, 1, 1)) for t in (mean, rstd))
    normal, g = (grouped(input) - mean) * rstd, grouped(grad_out)
    by_weight, by_bias = (ops.reshape(ops.sum(t, [0, 3]), (C,)) for t in (g * normal, g))
    g = g if weight is None else g * ops.reshape(weight, (1, group, C // group, 1))
    by_input = rstd * (g - ops.mean(g, [2, 3], keepdim=True) - normal * ops.mean(g * normal, [2, 3], keepdim=True))
    return _masked((ops.reshape(by_input, input.shape), by_weight, by_bias), output_mask)


def native_batch_norm_backward(
    grad_out: Tensor, input: Tensor, weight: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    save_mean: Tensor | None, save_invstd: Tensor | None, train: bool, eps: float, output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    others = [0, *range(2, input.ndim)]
    column = (-1, *[1] * (input.ndim - 2))
    mean = save_mean if train else running_mean
    scale: Any = save_invstd if train else ops.rsqrt(running_var + eps)
    scale = ops.reshape(scale, column)
    normal = (input - ops.reshape(mean, column)) * scale
    by_weight, by_bias = ops.sum(grad_out * normal, others), ops.sum(grad_out, others)
    by_input = grad_out
    if train:
        parts = [ops.reshape(t, column) / (input.numel() // input.shape[1]) for t in (by_bias, by_weight)]
        by_input = grad_out - parts[0] - normal * parts[1]
    by_input = by_input * scale * (1 if weight is None else ops.reshape(weight, column))
    return _masked((by_input, by_weight, by_bias), output_mask)


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss, and the sum of the weights of what is not ignored, if that is asked for."""
    total = ops.new_zeros(self, ())
    if reduction:
        used = target != ignore_index
        total = ops.to(ops.sum(used), self.dtype) if weight is None else ops.sum(weight[target[used]])
    return _forward("nll_loss_nd", self, target, weight, reduction, ignore_index), total


def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    return _forward("log_sigmoid", self), ops.exp(-ops.abs(self))


_OWN = (
    elu_backward, leaky_relu_backward, rrelu_with_noise_backward, native_dropout_backward, embedding_dense_backward,
    embedding_backward, native_layer_norm_backward, native_group_norm_backward,
    native_batch_norm_backward, nll_loss_forward, log_sigmoid_forward,
)  # fmt: skip
_OF_ARGUMENT = """
avg_pool2d avg_pool3d binary_cross_entropy glu hardshrink huber_loss logit mse_loss multi_margin_loss reflection_pad1d reflection_pad2d
reflection_pad3d replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss softplus softshrink masked_select
"""
_OF_SIZE = "select slice diagonal index_select unfold trace"

FUNCTIONS: dict[str, Any] = (
    {f.__name__: f for f in _OWN}
    | {f"{name}_backward": _of_argument(name) for name in _OF_ARGUMENT.split()}
    | {f"{name}_backward": _of_size(name) for name in _OF_SIZE.split()}
    | {f"{name}_backward": _grid_sampler(name) for name in ("grid_sampler_2d", "grid_sampler_3d")}
    | {
        "log_sigmoid_backward": _of_argument("log_sigmoid", 1), "cumprod_backward": _of_argument("cumprod", 1),
        "nll_loss_backward": _of_argument("nll_loss_nd", 1), "nll_loss2d_backward": _of_argument("nll_loss_nd", 1),
        "nll_loss2d_forward": nll_loss_forward, "multilabel_margin_loss_backward": _of_argument("multilabel_margin_loss", 1),
    }
)  # fmt: skip


SCHEMAS = """
avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor
cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor
diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor
elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor
embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq, bool sparse) -> Tensor
embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor
glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor
grid_sampler_2d_backward|grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor
huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor
index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor
leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor
log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor
log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor
masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor
mse_loss_backward|soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor
multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor
multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, Tensor is_target) -> Tensor
native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor
native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
nll_loss_backward|nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
nll_loss_forward|nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
reflection_pad1d_backward|replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
reflection_pad2d_backward|replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor
reflection_pad3d_backward|replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor
rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor
select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor
slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor
smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor
softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor
softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor
trace_backward(Tensor grad, SymInt[] sizes) -> Tensor
unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor
"""

"""Derivatives that PyTorch has as operators of their own (`torch.ops.aten.convolution_backward` and its like).

Each is the derivative that the forward operation has here, behind the checks that PyTorch's operator makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._autograd.modes import enable_grad, is_grad_enabled
from .._ops.layers.pooling import to_places
from .._ops.registry import functions, ops
from .._tensor import Tensor


def gradients(out: Tensor, inputs: Sequence[Tensor], grad_output: Tensor, create_graph: bool = False) -> Any:
    """The derivatives of an operation by its inputs."""
    from ..autograd import grad

    return grad(out, inputs, grad_output, create_graph=create_graph, allow_unused=True)


def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of a convolution with respect to input, weight and bias, where `output_mask` asks for them."""
    if groups <= 0:
        raise RuntimeError(f"expected groups to be greater than 0, but got groups={groups}")
    with enable_grad():
        x, w = (t.detach().requires_grad_() for t in (input, weight))
        out = ops.convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
    if grad_output.shape != out.shape:
        raise RuntimeError(
            f"convolution_backward: expected grad_output of size {list(out.shape)}, but got {list(grad_output.shape)}"
        )
    wanted = [t for t, asked in zip((x, w), output_mask) if asked]
    made = iter(gradients(out, wanted, grad_output) if wanted else ())
    by_input, by_weight = (next(made) if asked else None for asked in output_mask[:2])
    others = [0, *range(2, grad_output.ndim)]
    return by_input, by_weight, ops.sum(grad_output, others) if output_mask[2] else None


def _convolution_double_backward(
    ggI: Tensor | None, ggW: Tensor | None, ggb: Tensor | None, gO: Tensor, weight: Tensor, self: Tensor, stride: Any,
    padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The derivative of `convolution_backward` with respect to gO, input and weight."""
    with enable_grad():
        g, x, w = (t.detach().requires_grad_() for t in (gO, self, weight))
        out = ops.convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
        by_input, by_weight = gradients(out, (x, w), g, create_graph=True)
        total: Any = ops.zeros((), dtype=gO.dtype, device=gO.device)
        for first, second in ((by_input, ggI), (by_weight, ggW), (ops.sum(g, [0, *range(2, g.ndim)]), ggb)):
            if second is not None:
                total = total + ops.sum(first * second)
    if not total.requires_grad:
        return None, None, None
    made = gradients(total, (g, x, w), ops.ones_like(total))
    return tuple(t if asked else None for t, asked in zip(made, output_mask))


def _define_adaptive(rank: int) -> list[Any]:
    def avg(grad_output: Tensor, self: Tensor) -> Tensor:
        if grad_output.ndim != self.ndim:
            raise RuntimeError(
                f"adaptive_avg_pool{rank}d_backward(): Expected dimensions {self.ndim} for `grad_output` but got "
                f"dimensions {grad_output.ndim}"
            )
        with enable_grad():
            x = self.detach().requires_grad_()
            out = functions[f"nn.functional.adaptive_avg_pool{rank}d"](x, tuple(grad_output.shape[-rank:]))
        return gradients(out, (x,), grad_output)[0]

    def largest(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        name = f"adaptive_max_pool{rank}d_backward()"
        for what, t in (("grad_output", grad_output), ("indices", indices)):
            if t.ndim != self.ndim:
                raise RuntimeError(f"{name}: expected dimensions {self.ndim} for `{what}` but got dimensions {t.ndim}")
        if grad_output.shape != indices.shape:
            raise RuntimeError(
                f"{name}: expected sizes of `indices` and `grad_output` to be equal, but got {list(indices.shape)} and "
                f"{list(grad_output.shape)}"
            )
        return to_places(grad_output, indices, tuple(self.shape), rank)

    def fractional(grad_output: Tensor, self: Tensor, kernel_size: Any, output_size: Any, indices: Tensor) -> Tensor:
        wanted = [*self.shape[: self.ndim - rank], *output_size]
        if list(grad_output.shape) != wanted or indices.shape != grad_output.shape:
            raise RuntimeError(
                f"fractional_max_pool{rank}d_backward(): gradOutput sizes unexpected: wanted {wanted}, but got "
                f"{list(grad_output.shape)} with indices of {list(indices.shape)}"
            )
        return to_places(grad_output, indices, tuple(self.shape), rank)

    def with_indices(
        grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
        indices: Tensor,
    ) -> Tensor:  # fmt: skip
        wanted = functions[f"nn.functional.max_pool{rank}d"](
            self.detach(), kernel_size, stride, padding, dilation, ceil_mode
        ).shape
        for what, t in (("grad_output", grad_output), ("indices", indices)):
            if t.shape != wanted:
                raise RuntimeError(
                    f"max_pool{rank}d_with_indices_backward: Expected a tensor of dimension {len(wanted)} and size "
                    f"{list(wanted)} for {what}, but got size {list(t.shape)}"
                )
        return to_places(grad_output, indices, tuple(self.shape), rank)

    labels = (
        (avg, f"_adaptive_avg_pool{rank}d_backward"), (largest, f"adaptive_max_pool{rank}d_backward"),
        (fractional, f"fractional_max_pool{rank}d_backward"), (with_indices, f"max_pool{rank}d_with_indices_backward"),
    )  # fmt: skip
    for function, name in labels:
        function.__name__ = function.__qualname__ = name
    return [function for function, _ in labels]


def _of_activation(name: str) -> Any:
    """The derivative of an activation, given its argument."""

    def backward(grad_output: Tensor, self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        again = is_grad_enabled()
        with enable_grad():
            x = self if again and self.requires_grad else self.detach().requires_grad_()
            out = functions.get(f"nn.functional.{name}", getattr(ops, name))(x, *args, **kwargs)
            return gradients(out, (x,), grad_output, again and (self.requires_grad or grad_output.requires_grad))[0]

    return backward


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any) -> Tensor:
    return ops.where(self <= threshold, 0, grad_output)


def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * ops.conj(output * (1 - output))


def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * ops.conj(1 - output * output)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    weighed = grad_output * output
    return ops.to(weighed - output * ops.sum(weighed, dim, keepdim=True), input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    return ops.to(grad_output - ops.exp(output) * ops.sum(grad_output, dim, keepdim=True), input_dtype)


FUNCTIONS = {
    f.__name__: f
    for f in (
        convolution_backward, _convolution_double_backward, *_define_adaptive(2), *_define_adaptive(3), threshold_backward,
        sigmoid_backward, tanh_backward, _softmax_backward_data, _log_softmax_backward_data,
    )
} | {f"{name}_backward": _of_activation(name) for name in ("gelu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid")}  # fmt: skip


SCHEMAS = """
convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, Tensor self, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
_adaptive_avg_pool2d_backward|_adaptive_avg_pool3d_backward|silu_backward|mish_backward|hardswish_backward|hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor
adaptive_max_pool2d_backward|adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor indices) -> Tensor
fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices) -> Tensor
max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor
threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
sigmoid_backward|tanh_backward(Tensor grad_output, Tensor output) -> Tensor
_softmax_backward_data|_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor
"""

"""Filling parameters with their first values; every function writes into a tensor and returns it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._autograd.modes import no_grad
from .._core.dtypes import bool_
from .._core.state import META
from .._errors.frames import warn_user
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_",
    "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS: dict[str, float] = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1),
    "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4,
}  # fmt: skip
_LEAKY_SLOPE = 0.01


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights before a nonlinearity are scaled; `param` is the slope of leaky_relu.

    >>> import flambeau as torch
    >>> torch.nn.init.calculate_gain("leaky_relu", 1)
    1.0
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            param = _LEAKY_SLOPE
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    gain = _GAINS.get(nonlinearity)
    if gain is None:
        raise ValueError(f"calculate_gain: Unsupported nonlinearity {nonlinearity}")
    return gain


# -- one value or distribution for all elements --------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with uniform random numbers in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b) if generator is None else tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with normal random numbers."""
    with no_grad():
        return tensor.normal_(mean, std) if generator is None else tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with a number.

    >>> import flambeau as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with 0."""
    with no_grad():
        return tensor.zero_()


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fills with random numbers of the part of a normal distribution that lies in [a, b].

    >>> import flambeau as torch
    >>> bool((torch.nn.init.trunc_normal_(torch.empty(100), std=3.0).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warn_user(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_: the values may be distributed incorrectly"
        )
    inside = (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))) / 2
    with no_grad():
        # Where most proposals would be refused, uniform ones are accepted by the height of the density.
        if inside > 0.3:
            return _truncated_by_normal(tensor, mean, std, a, b, generator)
        return _truncated_by_uniform(tensor, mean, std, a, b, generator)


def _truncated_by_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    tensor.normal_(mean, std, generator=generator)
    if tensor._k & META:
        return tensor
    target = drawn = tensor if tensor.ndim else tensor.unsqueeze(0)  # a number has no places
    proposed = ops.empty_like(target)
    places: tuple[Any, ...] = ()  # of those that were refused
    while True:
        refused = (drawn < a) | (drawn > b)
        places = tuple([p[refused] for p in places]) if places else refused.nonzero(as_tuple=True)
        if not len(places[0]):
            return tensor
        drawn = proposed.normal_(mean, std, generator=generator)[places]
        target[places] = drawn


def _truncated_by_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    highest = ((min(max(mean, a), b) - mean) / std) ** 2
    tensor.uniform_(a, b, generator=generator)
    if tensor._k & META:
        return tensor
    refused, proposed = ops.ones_like(tensor, dtype=bool_), tensor
    while True:
        drawn = ops.empty_like(tensor).uniform_(generator=generator)
        refused = refused & ~(drawn.log() <= -0.5 * (((proposed - mean) / std) ** 2 - highest))
        if not refused.any():
            return tensor
        proposed = ops.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(ops.where(refused, proposed, tensor))


# -- patterns ------------------------------------------------------------------------------------------------------


def _check_matrix(name: str, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(f"{name}: Only tensors with 2 dimensions are supported, got {tensor.ndim}")


def eye_(tensor: Tensor) -> Tensor:
    """Makes a matrix the identity: ones on the diagonal, zeros elsewhere.

    >>> import flambeau as torch
    >>> torch.nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _check_matrix("eye_", tensor)
    with no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes the weight of a convolution pass its input channels on, as many as there are, group by group.

    >>> import flambeau as torch
    >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_: Only tensors with 3, 4, or 5 dimensions are supported, got {tensor.ndim}")
    outputs, _, *kernel = tensor.shape
    if outputs % groups:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups, got {outputs} and {groups}")
    each = outputs // groups
    with no_grad():
        centre = tensor.zero_()[(..., *[n // 2 for n in kernel])]
        for group in range(groups):
            centre[group * each : (group + 1) * each].diagonal().fill_(1)
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Makes the rows (or columns, if they are fewer) of a matrix orthonormal, times `gain`.

    Dimensions after the first count as one. Saxe, A. et al. (2013): "Exact solutions to the nonlinear dynamics of
    learning in deep linear neural networks".
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: Only tensors with 2 or more dimensions are supported, got {tensor.ndim}")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    with no_grad():
        flat = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
        wide = rows < flat.shape[1]
        q, r = ops.linalg_qr(flat.t() if wide else flat)
        q = q * r.diagonal().sign()  # makes the distribution uniform
        tensor.view_as(q.t() if wide else q).copy_(q.t() if wide else q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a matrix with normal random numbers, and sets a share of each column to zero.

    Martens, J. (2010): "Deep learning via Hessian-free optimization".
    """
    _check_matrix("sparse_", tensor)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):  # PyTorch draws the rows from the default generator, and so do we
            tensor[ops.randperm(rows)[:zeros], column] = 0
    return tensor


# -- by the numbers of inputs and outputs --------------------------------------------------------------------------


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input has."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError(
            f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got {len(shape)}"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    mode = mode.lower()
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform random numbers with the variance 2 gain² / (inputs + outputs).

    Glorot, X. & Bengio, Y. (2010): "Understanding the difficulty of training deep feedforward neural networks".
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal random numbers with the variance 2 gain² / (inputs + outputs)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """None for a tensor without elements."""
    if 0 in tensor.shape:
        warn_user("Initializing zero-element tensors is a no-op")
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform random numbers with the variance gain² / fan; `a` is the slope of leaky_relu.

    He, K. et al. (2015): "Delving deep into rectifiers".
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal random numbers with the variance gain² / fan; `a` is the slope of leaky_relu."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


# -- old spellings -------------------------------------------------------------------------------------------------


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    old = function.__name__[:-1]

    def call(*args: Any, **kwargs: Any) -> Tensor:
        warn_user(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.", FutureWarning)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"The old spelling of `{old}_`."
    return call


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

"""Dropout: elements or whole channels set to zero at random, the rest scaled up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core.dtypes import FLOATING, bool_, dtype
from ..._core.state import DISPATCH, META, local, modes
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..making import random
from ..making.random import kept
from ..records.declare import pointwise
from ..records.rules import real_floating_only, type_name
from ..registry import ops, public, relabel

_ALPHA = 1.7580993408473766  # minus the value that SELU approaches, times its scale


def _check(name: str, input: Any, p: float) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _keep(input: Tensor, p: float, shape: tuple[int, ...] | None = None) -> Tensor:
    """True with probability 1 - p, in the shape of `input` (or another) and in its order in memory."""
    array = input._array
    if local.batches:
        wanted = shape or array.shape
        return random.mapped.new(lambda lead: _keep(ops.empty((*lead, *wanted), device=input.device), p))
    if shape is not None or array.flags.c_contiguous:
        return kept(input, shape or array.shape, 1.0 - p)
    order = sorted(range(array.ndim), key=lambda i: -array.strides[i])
    mask = kept(input, tuple(array.shape[i] for i in order), 1.0 - p)
    return ops.permute(mask, sorted(range(array.ndim), key=order.__getitem__))


def _noise(input: Tensor, p: float, shape: tuple[int, ...] | None = None, scaled: bool = True) -> Tensor:
    """What an input is multiplied by: 0 with probability p, otherwise 1 / (1 - p)."""
    d = input.dtype
    if d.category < FLOATING:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {type_name(d)}")
    if (input._k | modes.on) & DISPATCH:  # who looks at operators is shown those of PyTorch
        noise = ops.empty_like(input) if shape is None else ops.new_empty(input, shape)
        ops.bernoulli_(noise, 1.0 - p)
        return ops.div_(noise, 1.0 - p) if scaled else noise
    mask = ops.to_dtype(_keep(input, p, shape), d)
    if not scaled:
        return mask
    return ops.mul_(mask, _factor(d, p))


def _factor(d: dtype, p: float) -> float:
    """1 / (1 - p) in the precision of the noise."""
    return float(np.float32(1.0) / np.float32(1.0 - p)) if d.itemsize < 8 else 1.0 / (1.0 - p)


_masked = pointwise(
    "dropout_masked", lambda m, x, keep, factor: m.where(keep, x * factor, x * 0.0), real_floating_only,
    {"x": lambda m, g, keep, factor: m.where(keep, g * factor, g * 0.0)}, params=("factor",), masks=("keep",),
    public=False, numbers="none", backward_name="MulBackward0",
)  # fmt: skip


def _channels(input: Tensor) -> tuple[int, ...]:
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *[1] * (len(shape) - 2))


def _dropped(name: str, input: Tensor, p: float, train: bool, inplace: bool, features: bool) -> Tensor:
    _check(name, input, p)
    if p == 0 or not train or not input._array.size:
        return input
    multiply = ops.mul_ if inplace else ops.mul
    if p == 1:
        return multiply(input, ops.zeros((), dtype=input.dtype, device=input.device))
    if inplace or features or input.dtype.category != FLOATING or (input._k | modes.on) & (META | DISPATCH):
        return multiply(input, _noise(input, p, _channels(input) if features else None))
    return _masked(input, _keep(input, p), _factor(input.dtype, p))


def _dropped_alpha(name: str, input: Tensor, p: float, train: bool, inplace: bool, features: bool) -> Tensor:
    _check(name, input, p)
    if p == 0 or not train or not input._array.size:
        return input
    multiply, add = (ops.mul_, ops.add_) if inplace else (ops.mul, ops.add)
    if p == 1:
        return multiply(input, ops.zeros((), dtype=input.dtype, device=input.device))
    noise = _noise(input, p, _channels(input) if features else None, scaled=False)
    scale = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1.0) * (1.0 - p))
    shift = ops.add_(ops.mul_(ops.add(noise, -1), _ALPHA * scale), _ALPHA * scale * p)
    return add(multiply(input, ops.mul_(noise, scale)), shift)


def _forms(name: str, function: Any, features: bool, doc: str) -> None:
    """The function of (input, p, train) and its form that writes into its input."""

    def call(input: Tensor, p: float, train: bool) -> Tensor:
        return function(name, input, p, train, False, features)

    def changed(input: Tensor, p: float, train: bool) -> Tensor:
        return function(name + "_", input, p, train, True, features)

    for form, made in ((name, call), (name + "_", changed)):
        made.__name__ = made.__qualname__ = form
        made.__doc__ = doc
        public(form, method=False)(made)


_forms("dropout", _dropped, False, "Zeroes elements with probability p and scales the others, if `train`.")
_forms("feature_dropout", _dropped, True, "Zeroes whole channels with probability p and scales the others, if `train`.")
_forms("alpha_dropout", _dropped_alpha, False, "Dropout that keeps mean and variance of SELU's outputs, if `train`.")
_forms("feature_alpha_dropout", _dropped_alpha, True, "Alpha dropout of whole channels, if `train`.")


@public(method=False)
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout and the mask of the elements that it kept."""
    _check("native_dropout", input, p)
    if train is False or not input._array.size:
        return ops.clone(input), ops.ones_like(input, dtype=bool_)
    if p == 1:
        return ops.mul(input, 0), ops.zeros_like(input, dtype=bool_)
    if input.dtype.category < FLOATING:
        raise RuntimeError(f"result type Float can't be cast to {type_name(input.dtype)}")
    mask = _keep(input, p)
    return relabel(ops.mul(ops.mul(input, mask), 1.0 / (1.0 - p)), "NativeDropoutBackward0"), mask


# -- nn.functional -----------------------------------------------------------------------------------------------


def _checked(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@public("nn.functional.dropout", method=False, planned=True)
def functional_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p during training and scales the others by 1 / (1 - p).

    >>> import flambeau as torch
    >>> torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    _checked(p)
    return ops.dropout_(input, p, training) if inplace else ops.dropout(input, p, training)


@public("nn.functional.alpha_dropout", method=False)
def functional_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of SELU's outputs."""
    _checked(p)
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


@public("nn.functional.feature_alpha_dropout", method=False)
def functional_feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels."""
    _checked(p)
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)


def _spatial(name: str, rank: int) -> None:
    def call(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        _checked(p)
        ndim = input._array.ndim
        if ndim not in (rank + 1, rank + 2):
            if rank == 1:
                raise RuntimeError(f"{name}: Expected 2D or 3D input, but received a {ndim}D input.")
            warn_user(
                f"{name}: Received a {ndim}-D input to {name}, which is deprecated: give {rank + 1} or {rank + 2} "
                "dimensions, or use dropout."
            )
        if rank == 2 and ndim == 3:  # PyTorch takes it for a batch of one-dimensional signals
            warn_user(
                "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired; "
                "use dropout1d for that, and 4D inputs here."
            )
        single = rank != 2 and ndim == rank + 1
        if inplace:
            result = ops.feature_dropout_(ops.unsqueeze_(input, 0) if single else input, p, training)
            return ops.squeeze_(result, 0) if single else result
        result = ops.feature_dropout(ops.unsqueeze(input, 0) if single else input, p, training)
        return ops.squeeze(result, 0) if single else result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Zeroes whole channels of {rank}-dimensional signals with probability p during training."
    public("nn.functional." + name, method=False)(call)


_spatial("dropout1d", 1)
_spatial("dropout2d", 2)
_spatial("dropout3d", 3)


SCHEMAS = """
dropout(Tensor input, float p, bool train) -> Tensor  # autocast=whole, parts
feature_dropout|alpha_dropout|feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor
dropout_|alpha_dropout_|feature_alpha_dropout_|feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)  # parts
native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
dropout_masked  # record=native_dropout
"""

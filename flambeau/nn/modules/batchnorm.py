"""Batch normalization, and the parameters and running statistics that instance normalization shares with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.dtypes import dtype as DType
from ..._core.dtypes import int64
from ..._core.state import local, modes
from ..._ops.registry import ops
from ..._tensor import Tensor, bump
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from . import _sync_norm
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


class _NormBase(Module):
    """Base of batch and instance norm: a weight and a bias for each channel, and running statistics."""

    _version = 2  # since then the number of batches is part of the state
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(ops.empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        if track_running_stats:
            self.register_buffer("running_mean", ops.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ops.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", ops.zeros((), dtype=int64, device=device))
        else:
            for name in _BUFFERS:
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the statistics: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            held = self.num_batches_tracked
            known = held is not None and held.device.type != "meta"
            state_dict[key] = held if known else ops.zeros((), dtype=int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def _counted(module: Any) -> float:
    """Counts a batch while training; how much it weighs in the running statistics (with no momentum: all alike)."""
    momentum = module.momentum
    if module.training and module.track_running_stats:
        seen = module.num_batches_tracked
        if seen is not None:
            if seen._k or modes.on or local.transforms:
                ops.add_(seen, 1)
            else:  # a plain number: the same, without the way through the operation
                np.add(seen._array, 1, seen._array)
                bump(seen)
            if momentum is None:
                return 1.0 / float(seen)
    return 0.0 if momentum is None else momentum


class _BatchNorm(_NormBase):
    """Base of the batch norm layers."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        weight_of_batch = _counted(self)
        mean, variance = self.running_mean, self.running_var
        training = self.training
        if training:
            if not self.track_running_stats:
                mean = variance = None
        elif mean is None and variance is None:
            training = True  # without running statistics the batch's own serve in evaluation too
        return F.batch_norm(input, mean, variance, self.weight, self.bias, training, weight_of_batch, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Base of the norms that take their number of channels from the first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.zeros((), dtype=int64, device=device)

    def reset_parameters(self) -> None:
        if self.num_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters and buffers for the channels of `input`."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        held = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            held += [self.running_mean, self.running_var]
        for t in held:
            if t is not None:
                t.materialize((self.num_features,))
        self.reset_parameters()


def _check_rank(input: Tensor, *ranks: int) -> None:
    ndim = input.dim()
    if ndim not in ranks:
        raise ValueError(f"expected {' or '.join(f'{n}D' for n in ranks)} input (got {ndim}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L).

    >>> import flambeau as torch
    >>> torch.nn.BatchNorm1d(1)(torch.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (N, C, D, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 5)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """`BatchNorm1d` with the number of channels of its first input."""

    cls_to_become = BatchNorm1d

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """`BatchNorm2d` with the number of channels of its first input."""

    cls_to_become = BatchNorm2d

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 4)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """`BatchNorm3d` with the number of channels of its first input."""

    cls_to_become = BatchNorm3d

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose statistics are those of the batches of all processes of a group; alone it is plain batch norm."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: DType | None = None,
        *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Tensor) -> None:
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        group = _sync_norm.group_of(self.process_group) if self.training else None
        if group is None:
            return super().forward(input)
        momentum = _counted(self)
        mean, variance = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        return _sync_norm.SyncBatchNorm.apply(input, self.weight, self.bias, mean, variance, self.eps, momentum, group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch norm in it replaced by a `SyncBatchNorm` that has the same tensors."""
        made = module
        if isinstance(module, _BatchNorm):
            made = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

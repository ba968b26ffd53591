"""Instance normalization: each channel of each sample by its own statistics."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import dtype as DType
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from .. import functional as F
from .batchnorm import _check_rank, _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Base of the instance norm layers."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        """The rank of an input without a batch dimension."""
        raise NotImplementedError

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:  # layers of that age always had running statistics
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(map(repr, found))} for {kind} with "
                    f"track_running_stats=False: take them out of the state_dict, or make the {kind} with "
                    "track_running_stats=True."
                )
                for name in found:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        own = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps
        )

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = self._get_no_batch_dim()
        dim = input.dim() - alone  # where the channels are
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                    f"but got: {input.shape[dim]}."
                )
            warn_user(
                f"input's size at dim={dim} does not match num_features ({self.num_features}), which is not used "
                "because affine=False"
            )
        return self._apply_instance_norm(input) if dim else self._handle_no_batch_input(input)


class _Signals(_InstanceNorm):
    """(N, C, L) or (C, L)."""

    def _get_no_batch_dim(self) -> int:
        return 2

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 2, 3)


class _Images(_InstanceNorm):
    """(N, C, H, W) or (C, H, W)."""

    def _get_no_batch_dim(self) -> int:
        return 3

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 3, 4)


class _Volumes(_InstanceNorm):
    """(N, C, D, H, W) or (C, D, H, W)."""

    def _get_no_batch_dim(self) -> int:
        return 4

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 4, 5)


class InstanceNorm1d(_Signals):
    """Instance norm of (N, C, L) or (C, L)."""


class InstanceNorm2d(_Images):
    """Instance norm of (N, C, H, W) or (C, H, W).

    >>> import flambeau as torch
    >>> torch.nn.InstanceNorm2d(1)(torch.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """


class InstanceNorm3d(_Volumes):
    """Instance norm of (N, C, D, H, W) or (C, D, H, W)."""


class LazyInstanceNorm1d(_LazyNormBase, _Signals):
    """`InstanceNorm1d` with the number of channels of its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _Images):
    """`InstanceNorm2d` with the number of channels of its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _Volumes):
    """`InstanceNorm3d` with the number of channels of its first input."""

    cls_to_become = InstanceNorm3d

"""The functions that PyTorch keeps in `torch.functional`; all of them are at the top too."""

# ruff: noqa: F822 (the table has them)

from importlib import import_module
from typing import Any

from ._core.sizes import broadcast_shapes
from ._ops.registry import functions as _functions
from ._tensor import Tensor

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split",
    "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip
globals().update({name: _functions[name] for name in __all__ if name in _functions})
_PRIVATE = (Tensor, broadcast_shapes)


def __getattr__(name: str) -> Any:
    if name == "F":  # some programs take `nn.functional` from here, as it is there in PyTorch's
        return import_module(".nn.functional", __package__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Names of PyTorch's compiled `vmap`, over ours."""

from __future__ import annotations

from typing import Any

from .._core.state import BATCHED
from .._tensor import Tensor
from ..func.batched import Batched, make_batched, unwrap

__all__ = [
    "_add_batch_dim", "_is_vmap_fallback_enabled", "_remove_batch_dim", "_set_vmap_fallback_enabled", "get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor",
    "is_gradtrackingtensor", "maybe_get_bdim", "maybe_get_level",
]  # fmt: skip


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for one sample of a batch inside `vmap`."""
    return isinstance(tensor, Tensor) and bool(tensor._k & BATCHED)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Never: `grad` works on plain tensors here."""
    return False


is_functorch_wrapped_tensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The whole batch behind a sample."""
    return tensor.value if isinstance(tensor, Batched) else tensor


def maybe_get_bdim(tensor: Any) -> int:
    """Which dimension of the whole is the batch; -1 outside of batches."""
    return tensor.bdim if isinstance(tensor, Batched) else -1


def maybe_get_level(tensor: Any) -> int:
    """How deep the `vmap` is that a tensor belongs to; -1 outside."""
    return tensor.level if isinstance(tensor, Batched) else -1


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    return make_batched(tensor, in_dim % tensor.ndim, level)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    value, dim = unwrap(tensor, level)
    if dim is None:
        shape = list(value.shape)
        shape.insert(out_dim % (value.ndim + 1), batch_size)
        return value.unsqueeze(out_dim).expand(shape)  # type: ignore[no-any-return]
    return value.movedim(dim, out_dim)  # type: ignore[no-any-return]


_fallback = [True]


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Whether what has no rule for whole batches may run sample by sample. Kept, without effect: there is no other way."""
    _fallback[0] = bool(enabled)


def _is_vmap_fallback_enabled() -> bool:
    """What was kept by the function above."""
    return _fallback[0]

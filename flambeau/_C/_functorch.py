"""Names of PyTorch's compiled function transforms, over ours."""

from __future__ import annotations

import enum
import threading
from typing import Any, NamedTuple

from .._core.state import BATCHED, local
from .._functorch.vmap import _add_batch_dim as _add_batch_dim
from .._functorch.vmap import _remove_batch_dim as _remove_batch_dim
from .._tensor import Tensor
from ..func.batched import Batched, next_level, opened, unwrap
from ..func.tracking import derived_in
from ..func.transforms import transform


class TransformType(enum.Enum):
    """The kinds of transforms."""

    Torch, Vmap, Grad, Jvp, Functionalize = range(5)


class RandomnessType(enum.Enum):
    """What `vmap` does with random numbers."""

    Error, Same, Different = range(3)


# -- tensors ---------------------------------------------------------------------------------------------------------


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for one sample of a batch inside `vmap`."""
    return isinstance(tensor, Tensor) and bool(tensor._k & BATCHED)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether the innermost transform that a tensor belongs to is one that differentiates."""
    derived = derived_in(tensor) if isinstance(tensor, Tensor) else []
    return bool(derived) and not (isinstance(tensor, Batched) and tensor.level > derived[-1])


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor belongs to an open transform."""
    return is_batchedtensor(tensor) or is_gradtrackingtensor(tensor)


def is_functionaltensor(tensor: Any) -> bool:
    """Never: `functionalize` works on copies here."""
    return False


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Never: there is one kind of batched tensor here."""
    return False


def get_unwrapped(tensor: Any) -> Any:
    """The whole batch behind a sample; a tensor of `grad` is its own value."""
    return tensor.value if isinstance(tensor, Batched) else tensor


def maybe_get_bdim(tensor: Any) -> int:
    """Which dimension of the whole is the batch; -1 outside of batches."""
    return tensor.bdim if isinstance(tensor, Batched) else -1


def maybe_get_level(tensor: Any) -> int:
    """The level of the innermost transform that a tensor belongs to; -1 outside."""
    mapped = tensor.level if isinstance(tensor, Batched) else -1
    return max([mapped, *derived_in(tensor)]) if isinstance(tensor, Tensor) else -1


def _unwrap_batched(tensor: Tensor, level: int) -> tuple[Tensor, int | None]:
    """(the whole batch, where it lies), or (tensor, None) if it is not batched at the level."""
    return unwrap(tensor, level)


def reshape_dim_into(src: int, dst: int, x: Tensor) -> Tensor:
    """A tensor whose dimension `src` is joined to the one that is `dst` when `src` is taken out."""
    src, dst = src % x.ndim, dst % (x.ndim - 1)
    moved = x.movedim(src, dst)
    return moved.flatten(dst, dst + 1)


def reshape_dim_outof(src: int, size1: int, x: Tensor) -> Tensor:
    """A tensor whose dimension `src` is parted into one of `size1` and the rest."""
    src %= x.ndim
    if x.shape[src] % size1:
        raise RuntimeError(f"reshape_dim_outof: a dimension of size {x.shape[src]} has no parts of {size1}")
    return x.unflatten(src, (size1, x.shape[src] // size1))


# -- open transforms -------------------------------------------------------------------------------------------------


class CInterpreter(NamedTuple):
    """An open transform: what it is and how deep."""

    kind: TransformType
    depth: int

    def key(self) -> TransformType:
        """What it is."""
        return self.kind

    def level(self) -> int:
        """How deep it is."""
        return self.depth


def get_interpreter_stack() -> list[CInterpreter] | None:
    """The open transforms, the innermost last; None if there is none."""
    found = [CInterpreter(TransformType.Vmap, level) for level, _, _ in local.batches]
    found += [CInterpreter(TransformType[kind], level) for level, kind in local.transforms]
    return sorted(found, key=lambda one: one.depth) or None


def peek_interpreter_stack() -> CInterpreter | None:
    """The innermost open transform."""
    return (get_interpreter_stack() or [None])[-1]  # type: ignore[list-item]


def get_dynamic_layer_stack_depth() -> int:
    """How many transforms are open."""
    return len(local.batches) + len(local.transforms)


def maybe_current_level() -> int | None:
    """The level of the innermost open transform."""
    return next_level() - 1 or None


def current_level() -> int:
    """The same; an error outside."""
    level = maybe_current_level()
    if level is None:
        raise RuntimeError("current_level: no function transform is open")
    return level


class _Entered(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Any] = []  # that were entered without `with`


_entered = _Entered()


def _enter(block: Any) -> int:
    block.__enter__()
    _entered.blocks.append(block)
    return current_level()


def _leave() -> int:
    level = current_level()
    _entered.blocks.pop().__exit__(None, None, None)
    return level


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Opens a `vmap`; gives its level."""
    return _enter(opened(batch_size, randomness))


def _grad_increment_nesting() -> int:
    """Opens a `grad`; gives its level."""
    return _enter(transform("Grad"))


def _jvp_increment_nesting() -> int:
    """Opens a `jvp`; gives its level."""
    return _enter(transform("Jvp"))


_vmap_decrement_nesting = _grad_decrement_nesting = _jvp_decrement_nesting = _leave


def pop_dynamic_layer_stack_and_undo_to_depth(depth: int) -> None:
    """Closes what was opened by the functions above, until `depth` transforms are open."""
    while get_dynamic_layer_stack_depth() > depth and _entered.blocks:
        _leave()


# -- switches --------------------------------------------------------------------------------------------------------

_switches = {"fallback": True, "single level": False}


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Whether what has no rule for whole batches may run sample by sample. Kept, without effect: there is no other way."""
    _switches["fallback"] = bool(enabled)


def _is_vmap_fallback_enabled() -> bool:
    """What was kept by the function above."""
    return _switches["fallback"]


def set_single_level_autograd_function_allowed(allowed: bool) -> None:
    """Kept, without effect: a Function runs at one level here, always."""
    _switches["single level"] = bool(allowed)


def get_single_level_autograd_function_allowed() -> bool:
    """What was kept by the function above."""
    return _switches["single level"]

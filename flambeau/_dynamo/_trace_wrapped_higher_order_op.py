"""`TransformGetItemToIndex`: tensors as indices inside of `vmap`."""

from __future__ import annotations

from typing import Any

from ..overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """A mode in which indexing with 0-d tensors stays a tensor operation. Ours always is, so that nothing changes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

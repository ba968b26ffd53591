"""`TransformGetItemToIndex`: tensors as indices inside of `vmap`."""

from __future__ import annotations

from .._interception.overrides import BaseTorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(BaseTorchFunctionMode):
    """A mode in which indexing with 0-d tensors stays a tensor operation. Ours always is, so that nothing changes."""

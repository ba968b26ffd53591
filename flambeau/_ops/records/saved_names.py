"""What a node kept, under the names that PyTorch's nodes have: `grad_fn._saved_self`, `grad_fn._raw_saved_self`."""

from __future__ import annotations

from typing import Any

from ..._autograd import node as nodes
from ..._autograd.engine import FREED
from ..._autograd.functions import FunctionRecord
from ..._autograd.node import Node, SavedOutput
from ..._core.sizes import Size
from ..._tensor import Tensor
from .saved import Packed, fetch, pack_with

# PyTorch's names of operands, by their place.
_PLACES = {"self": 0, "input": 0, "other": 1, "mat2": 1, "vec": 1, "exponent": 1, "index": 1}


class SavedTensor:
    """One tensor that a node keeps; hooks may be put on it once."""

    _node: Node
    _place: int

    def __init__(self, *args: Any):
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. Read one from a node, as grad_fn._raw_saved_self."
        )

    @classmethod
    def of(cls, node: Node, place: int) -> SavedTensor:
        """What a node keeps in a place."""
        saved = object.__new__(cls)
        saved._node, saved._place = node, place
        return saved

    def unpack(self) -> Any:
        """The tensor, through the hook that turns it back if it has one."""
        self._value()
        return fetch(self._node, self._place)

    def _value(self) -> Any:
        if self._node.saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph "
                "are freed when you call .backward() or autograd.grad(); specify retain_graph=True to keep them."
            )
        return self._node.saved[self._place]

    def register_hooks(self, *hooks: Any) -> None:
        """Keeps what the first function makes of the tensor; the second turns it back."""
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError("register_hooks(): incompatible function arguments: two functions are expected")
        s = self._value()
        if s is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if s.__class__ is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
                "is allowed at a time."
            )
        saved = list(self._node.saved)
        saved[self._place] = pack_with(s, self._node, *hooks)
        self._node.saved = saved

    @property
    def data(self) -> Any:
        s = self._value()
        return s.value if s.__class__ is Packed else fetch(self._node, self._place)

    @property
    def unpack_hook(self) -> Any:
        s = self._value()
        return s.unpack if s.__class__ is Packed else None


def _place(node: Node, name: str) -> int | None:
    """Where a node keeps what PyTorch calls `name`."""
    names = list(getattr(node.op, "names", ()))
    if name == "result":
        return len(names)
    if name in names and name not in ("self", "input", "other"):
        return names.index(name)
    place = _PLACES.get(name)
    return place if place is not None and place < len(names) else None


def _saved_value(node: Node, attribute: str) -> Any:
    raw = attribute.startswith("_raw")
    name = attribute.removeprefix("_raw").removeprefix("_saved_")
    if isinstance(node.op, FunctionRecord):
        if name == "tensors":
            if raw:
                if node.saved is None:
                    raise RuntimeError(FREED)
                return tuple(SavedTensor.of(node, i) for i in range(len(node.saved)))
            return node.__dict__["ctx"].saved_tensors
        raise AttributeError(attribute)
    if name == "self_sym_sizes" and node.info is not None:
        return Size(node.info[0][0])
    place = _place(node, name)
    if place is None or (node.saved is not None and place >= len(node.saved)):
        raise AttributeError(f"{node.name()!r} object has no attribute {attribute!r}")
    if raw:
        return SavedTensor.of(node, place)
    if node.saved is None:
        raise RuntimeError(FREED)
    s = node.saved[place]
    return fetch(node, place) if isinstance(s, (Tensor, SavedOutput, Packed)) else s


nodes.saved_value = _saved_value

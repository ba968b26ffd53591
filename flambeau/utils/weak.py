"""Dictionaries and references that know tensors by identity and let go of them when nobody else holds them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from .._tensor import Tensor

__all__ = [
    "TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey",
]  # fmt: skip


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that equals another one if both mean the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, its = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or its is None else mine is its


WeakTensorRefKey = WeakIdRef


class TensorWeakRef:
    """A weak reference to a tensor.

    >>> import flambeau as torch
    >>> x = torch.ones(1)
    >>> reference = TensorWeakRef(x)
    >>> reference() is x
    True
    """

    def __init__(self, tensor: Tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError("expected a tensor")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are objects by identity; an entry goes when its key does.

    >>> import flambeau as torch
    >>> x = torch.ones(1)
    >>> names = WeakIdKeyDictionary({x: "x"})
    >>> names[x], torch.ones(1) in names
    ('x', False)
    >>> del x; len(names)
    0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: type = WeakIdRef):
        self.ref_type = ref_type
        self.data: Any = {}
        data = weakref.ref(self)

        def remove(reference: Any) -> None:
            mine = data()
            if mine is not None:
                mine.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary with the same entries."""
        made = type(self)(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made


WeakTensorKeyDictionary = WeakIdKeyDictionary

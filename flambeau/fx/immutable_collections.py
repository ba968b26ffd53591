"""Lists and dictionaries that cannot be changed: what stands in the arguments of a node, so that uses stay known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. Arguments of a node are changed by assigning "
        "new ones: `node.args = (...)` or `node.kwargs = {...}`"
    )


def _frozen(names: str) -> dict[str, Callable[..., NoReturn]]:
    return dict.fromkeys(names.split(), _refuse)


class immutable_list(list):  # type: ignore[type-arg]
    """A list without methods that change it.

    >>> from flambeau.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    locals().update(
        _frozen("__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort")
    )

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(dict):  # type: ignore[type-arg]
    """A dictionary without methods that change it."""

    locals().update(_frozen("__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


register_pytree_node(immutable_list, lambda x: (list(x), None), lambda c, _: immutable_list(c))
register_pytree_node(
    immutable_dict, lambda x: (list(x.values()), list(x)), lambda c, keys: immutable_dict(zip(keys, c))
)

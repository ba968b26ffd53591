"""Objects that a run makes and returns (dataclasses, outputs of models): later runs make others like them, around their own tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .._compile.holders import plain

_HEAP = 1 << 9  # flag of classes that are made while the program runs
_CONTENTS: dict[Any, Any] = {OrderedDict: OrderedDict.items, dict: dict.items, list: enumerate}


def again(a: Any, place: Callable[[Any], Any], found: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A function of what a run gives that makes an object like `a`; `place(part)` says where a part comes from, `found` gets it."""

    def part(b: Any) -> Callable[[Any], Any]:
        where = place(b)
        return lambda sources: found(where, sources)

    kind: Any = type(a)
    own = [(name, part(b)) for name, b in getattr(a, "__dict__", {}).items()]
    if isinstance(a, tuple):
        parts = [part(b) for b in a]
        make = kind._make if hasattr(kind, "_make") else kind

        def join(sources: Any) -> Any:
            made = make([b(sources) for b in parts])
            if own:
                made.__dict__.update([(name, b(sources)) for name, b in own])
            return made

        return _once(join)
    base = next((base for base in _CONTENTS if isinstance(a, base)), object)
    held = [(key, part(b)) for key, b in _CONTENTS[base](a)] if base is not object else []

    def build(sources: Any) -> Any:
        made = kind.__new__(kind)
        if base is list:
            list.extend(made, [b(sources) for _, b in held])
        else:
            for key, b in held:
                base.__setitem__(made, key, b(sources))
        if own:
            made.__dict__.update([(name, b(sources)) for name, b in own])
        return made

    return _once(build)


def _once(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, which makes one object in each run."""

    def made(sources: Any) -> Any:
        if build not in sources[-1]:
            sources[-1][build] = build(sources)
        return sources[-1][build]

    return made


def is_made(a: Any) -> bool:
    """Whether an object has nothing but attributes, and what a dictionary or a list has: another can be made like it."""
    kind: Any = type(a)
    if isinstance(a, tuple):
        return (kind is tuple and not plain(a)) or hasattr(kind, "_make")
    bases = [base for base in kind.__mro__ if base not in (object, SimpleNamespace, *_CONTENTS)]
    return (
        bool(bases or kind in (SimpleNamespace, *_CONTENTS))
        and all([base.__flags__ & _HEAP and base.__dict__.get("__slots__", ()) == () for base in bases])
        and kind.__new__ in (object.__new__, *[base.__new__ for base in (SimpleNamespace, *_CONTENTS)])
        and not hasattr(kind, "__del__")
        and not hasattr(a, "_parameters")
        and not isinstance(a, (type, BaseException))
    )

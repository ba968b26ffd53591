"""Misspelt names: which one was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another one; None if none is."""
    import difflib

    found = difflib.get_close_matches(name, [k for k in known if isinstance(k, str)], 1, 0.6)
    return found[0] if found else None


def argument_advice(text: str) -> str:
    """What to say of an argument that a function does not have."""
    found = re.search(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'", text)
    if found is None or "Did you mean" in text:  # which Python says from 3.14 on
        return ""
    meant = nearest(found[2], [name for name in _parameters(found[1]) if name != found[2]])
    return f"did you mean {meant!r}?" if meant else ""


def _parameters(path: str) -> list[str]:
    """The names of the arguments of one of our functions or classes, as its error calls it."""
    import inspect
    import sys

    package = sys.modules[__name__.partition(".")[0]]
    names = path.split(".")
    for home in (package, package.nn, package.nn.functional, package.optim, package.Tensor, package.utils.data):
        found = getattr(home, names[0], None)
        if found is not None and not inspect.ismodule(found):
            try:
                return list(inspect.signature(found).parameters)
            except (TypeError, ValueError):
                return []
    return []

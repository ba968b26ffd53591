"""By what kernels are known whose text need not be made: the functions and constants that it depends on."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def described(value: Any, home: str | tuple[str, ...] = "") -> Any:
    """What, together with the files of `home`, says all about functions and constants; None if nothing does."""
    if isinstance(value, tuple):
        parts = [described(v, home) for v in value]
        return None if None in parts else tuple(parts)
    if not isinstance(value, FunctionType):
        return repr(value) if is_constant(value) else None
    if not value.__module__.startswith(home):
        return None
    code = value.__code__
    given = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    cells = described((*[cell.cell_contents for cell in value.__closure__ or ()], *given), home)
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    named = (
        value.__module__,
        value.__qualname__,
        code.co_firstlineno,
        code.co_code.hex(),
        code.co_names,
        repr(constants),
    )
    return None if cells is None else (*named, cells)


def is_constant(value: Any) -> bool:
    """Whether what `repr` says of a value is all there is."""
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    return value is None or isinstance(value, (bool, int, float, str))

"""How large the strings and lists of programs may grow: a short program must not take all memory with one call."""

from __future__ import annotations

import re
from typing import Any

from .._tensor import Tensor

LONGEST = 1 << 25  # characters of a string, elements of a list
_SHOWN = 1 << 20  # parts of a collection that is turned into text
_DIRECTIVE = re.compile(r"%(?:[%sdieEfFgGc]|(?=(.?)))")  # those of TorchScript, which knows no widths


def room(count: int) -> None:
    if count > LONGEST:
        raise RuntimeError(
            f"a string or list of the program grows too large: {count} elements, at most {LONGEST} are allowed"
        )


def added(a: Any, b: Any, alpha: Any = 1) -> Any:
    if a.__class__ is str or a.__class__ is list:
        room(len(a) + len(b))
    return a + b


def product(a: Any, b: Any) -> Any:
    """A list or string repeated."""
    sequence, count = (a, b) if isinstance(a, (list, str)) else (b, a)
    room(len(sequence) * count)
    return sequence * count


def justified(name: str) -> Any:
    """`ljust` and its like."""
    method = getattr(str, name)

    def call(text: str, width: int, *fill: str) -> str:
        room(width)
        return method(text, width, *fill)

    return call


def expanded(text: str, tabsize: int = 8) -> str:
    room(len(text) + text.count("\t") * max(tabsize, 0))
    return text.expandtabs(tabsize)


def replaced(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old)
    room(len(text) + (times if count < 0 else min(times, count)) * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def joined(separator: str, values: list[str]) -> str:
    room(sum(map(len, values)) + len(separator) * max(len(values) - 1, 0))
    return separator.join(values)


def as_text(value: Any) -> str:
    """`str(value)`, as PyTorch writes values. Lists may hold one list many times over: their parts are counted first."""
    if isinstance(value, (list, tuple, dict)):
        left, count = [value], 0
        while left:
            part = left.pop()
            if isinstance(part, (list, tuple, dict)):
                count += len(part) + 1
                if count > _SHOWN:
                    raise RuntimeError("a collection of the program is too large to be turned into text")
                left += [*part.keys(), *part.values()] if isinstance(part, dict) else part
            elif part.__class__ is str:
                count += len(part) >> 6
    return _text(value)


def _text(value: Any) -> str:
    if value.__class__ is float:
        return _number(value)
    if value.__class__ is complex:
        return f"{_number(value.real)}{'' if value.imag < 0 else '+'}{_number(value.imag)}j"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{_text(k)}: {_text(v)}' for k, v in value.items()])}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else str(value)


def _number(value: float) -> str:
    """A float: a whole number with a point behind it, others with all 17 digits."""
    if value.is_integer() and abs(value) < 1 << 63:
        return f"{int(value)}."
    return f"{value:.17g}"


def formatted(text: str, *values: Any) -> str:
    """`"a {} b".format(value)` with plain fields only."""
    parts = text.split("{}")
    made = [parts[0]]
    for i, part in enumerate(parts[1:]):
        made += [as_text(values[i]) if i < len(values) else "{}", part]
    return joined("", made)


def percent(text: str, *values: Any) -> str:
    """`text % values` with plain directives only."""
    if len(values) == 1 and isinstance(values[0], tuple):
        values = values[0]
    kinds = []
    for found in _DIRECTIVE.finditer(text):
        if found.group(1) is not None:
            raise RuntimeError(f"The specifier %{found.group(1)} is not supported in TorchScript format strings")
        if found.group() != "%%":
            kinds.append(found.group())
    plain = [v.item() if isinstance(v, Tensor) else v for v in values]
    shown = tuple(
        [as_text(v) if k == "%s" or not isinstance(v, (int, float, str)) else v for k, v in zip(kinds, plain)]
    ) + tuple(plain[len(kinds) :])
    room(len(text) + sum(len(v) for v in shown if isinstance(v, str)))
    return text % shown


def as_list(*values: Any) -> list[Any]:
    """`list(values)`; a range says how long it is."""
    if values and hasattr(values[0], "__len__"):
        room(len(values[0]))
    return list(*values)


def rounded(x: Any, digits: Any = None) -> Any:
    if digits is not None and abs(digits) > 400:  # Python would compute the power of ten
        raise RuntimeError(f"a program rounds to {digits} digits")
    return float(round(x)) if digits is None else round(x, digits)

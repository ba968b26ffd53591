"""Facts about operations, read from the ends of the lines in `SCHEMAS` of the families that are imported.

A line says of one operation, or of several alike with bars between their names, what PyTorch's schema is. After it, or after names
alone, two spaces and a `#` come facts, with commas between them:

    python         PyTorch has a function in Python, `torch.functional.name`, before the operator
    parsed         the function reads its arguments itself: it takes lists for tensors, or gives other results than the operator
    builtin        calls of `nn.functional.name` are recorded as they are written; those of others with all defaults named
    composite      PyTorch's operator consists of others, which traces show in its place
    parts          PyTorch's operator consists of others, which `__torch_dispatch__` sees in its place
    whole          a function that is no record and not made of such: `__torch_dispatch__` sees itself, unless it is differentiated
    autocast=…     what autocast does with the tensors: lower, single, widest; after a device and a colon if only there; `whole`: nothing,
                   and the function is made of nothing that has a policy; with slashes between several
    record=…       what PyTorch calls the record of this name (without a value: the same)
    number=…       the second operand of that operator, which the record has in it
    flops=…        the formula for its floating-point operations (`profiler/_flops.py`)
    onnx=…         the ONNX operator of one operand that it is (without a value: that of the same name)
    silent         a question about a tensor, which profiles do not show
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

_LINE = re.compile(r"([\w|]+)(.*?)(?:  # (.*))?")
_known: dict[str, dict[str, str]] = {}
_read: set[str] = set()
_BACKWARD_PART = re.compile(r"(.+_backward)_\w+$")  # the derivative by one operand
_FAMILIES = __package__.rpartition(".")[0] + "."
_modules = [0]  # how many there were when they were last looked through


def lines_in(module: Any) -> Iterator[tuple[str, str, str]]:
    """The names of operations that a module declares, each with what follows it in its schema ("" if only facts are said), and facts."""
    for line in getattr(module, "SCHEMAS", "").split("\n"):
        if line:
            names, rest, said = _LINE.fullmatch(line).groups("")  # type: ignore[union-attr]
            yield from ((name, rest, said) for name in names.split("|"))


def facts_in(module: Any) -> dict[str, dict[str, str]]:
    """By name of an operation, fact -> value ("" if it has none)."""
    found: dict[str, dict[str, str]] = {}
    for name, _, said in lines_in(module):
        for one in said.split(", ") if said else ():
            kind, _, value = one.partition("=")
            same = {"record": name, "onnx": name.capitalize()}.get(kind, "")
            found.setdefault(name, {})[kind] = value or same
    return found


def fact(name: str, kind: str) -> str | None:
    """What is said of an operation whose family is imported; None if nothing is."""
    if name not in _known and len(sys.modules) != _modules[0]:
        _look_through()
    return _known.get(name, {}).get(kind)


def _look_through() -> None:
    """Reads what families say that were imported since. Threads may do so at once: what one has noted as read is known by then."""
    count, whole = len(sys.modules), True
    for name in [n for n in list(sys.modules) if n.startswith(_FAMILIES) and n not in _read]:
        module = sys.modules.get(name)
        if hasattr(module, "SCHEMAS"):  # it is imported to its end
            _known.update(facts_in(module))
            _read.add(name)
        else:  # it may have some later, without another module being there
            whole = whole and not getattr(getattr(module, "__spec__", None), "_initializing", False)
    if whole:
        _modules[0] = count


def record_name(name: str) -> str | None:
    """What is said that PyTorch calls a record, or the derivative that it is a part of; None if nothing is."""
    part = _BACKWARD_PART.match(name)
    return fact(name if part is None else part[1], "record")


def aten_name(name: str) -> str:
    """What PyTorch calls a record."""
    part = _BACKWARD_PART.match(name)
    return record_name(name) or (name if part is None else part[1])

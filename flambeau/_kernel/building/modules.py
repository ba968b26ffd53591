"""A module of LLVM assembly as parts that are compiled each by itself: side by side, and once for all kernels that have them.

A long function that is internal and not to be inlined is a part; what is left, with the function that is wanted, is one too. Parts
may come from different compilers for different CPUs: what they give each other are words, floats and pointers, which lie in the same
registers everywhere.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

_APART = r"define internal [^@<]*@(\w+)\([^<\n]*\bnoinline\b"  # and without vectors for arguments
_GIVEN = r"declare |@\w+ = external global |!\d+ = "  # by others, or what loops are said to be like
_NODES = r"!(\d+)\b"
_FUNCTION = r"define [^@]*@(\w+)\("
_NAMES = r"@([\w.$]+)"
DIGITS = 40  # of a digest
_LONG = 6000  # characters; shorter ones are compiled faster than kept apart, unless many kernels have them
SHARED = '"shared"'  # the attribute of those


class Part(NamedTuple):
    """Functions to compile: the name of the one that is called, the digest of the text, and the text."""

    symbol: str
    digest: str
    text: str


def split(name: str, text: str) -> list[Part]:
    """The parts of a module; that of function `name`, which is wanted, comes last."""
    shared, functions = _pieces(text)
    apart = {
        own: body
        for own, body in functions.items()
        if re.match(_APART, body) and (len(body) >= _LONG or SHARED in body)
    }
    if not apart or not all(re.match(_GIVEN, line) for line in shared.values()) or _entangled(apart, functions):
        return [_part(name, text)]
    parts: dict[str, Part] = {}

    def complete(body: str, own: str) -> str:
        """With declarations of what it calls."""
        lines = []
        for other in dict.fromkeys(re.findall(_NAMES, body)):
            if other in shared:
                lines.append(shared[other])
            elif other in apart and other != own:
                symbol = parts[other].symbol
                head = apart[other].partition(" {\n")[0].replace("define internal", "declare").replace(" noinline", "")
                lines.append(head.replace(f"@{other}(", f"@{symbol}("))
                body = re.sub(rf"@{other}\b", f"@{symbol}", body)
        return "\n".join([*lines, _with_nodes(body, shared)])

    for own in _in_order(apart):
        parts[own] = _part(own, complete(apart[own], own).replace("define internal", "define"))
    rest = "\n".join([body for own, body in functions.items() if own not in apart])
    return [*parts.values(), _part(name, complete(rest, name))]


def _pieces(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The lines outside of functions by the name that they declare, and the functions by theirs."""
    shared: dict[str, str] = {}
    functions: dict[str, str] = {}
    lines: list[str] = []
    own = ""
    for line in text.split("\n"):
        if own:
            lines.append(line)
            if line == "}":
                functions[own] = "\n".join([*lines, ""])
                own = ""
        elif (found := re.match(_FUNCTION, line)) is not None:
            own, lines = found[1], [line]
        elif line.strip():
            named = re.match(_NODES, line) or re.search(_NAMES, line)
            shared[named[1] if named else f" {len(shared)}"] = line
    return shared, functions


def _with_nodes(body: str, shared: dict[str, str]) -> str:
    """Functions with the nodes that they name, and those that these name; numbered here, as they are in whatever module."""
    numbers: dict[str, int] = {}

    def numbered(text: str) -> str:
        return re.sub(_NODES, lambda found: f"!{numbers.setdefault(found[1], len(numbers))}", text)

    lines = [numbered(body)]
    for number in iter(lambda: next(iter(list(numbers)[len(lines) - 1 :]), ""), ""):
        lines.append(numbered(shared[number]))
    return "\n".join(lines)


def _needs(body: str, among: dict[str, str]) -> set[str]:
    """The functions of the module that one calls, itself included."""
    return {name for name in re.findall(_NAMES, body) if name in among}


def _entangled(apart: dict[str, str], functions: dict[str, str]) -> bool:
    """Whether a part needs what is no part, or itself by way of others."""
    if any(not _needs(body, functions) <= apart.keys() for body in apart.values()):
        return True
    return len(_in_order(apart)) < len(apart)


def _in_order(apart: dict[str, str]) -> list[str]:
    """Parts, each after those that it calls; those that call each other are left out."""
    done: dict[str, None] = {}
    while ready := [
        own for own, body in apart.items() if own not in done and _needs(body, apart) - {own} <= done.keys()
    ]:
        done.update(dict.fromkeys(ready))
    return list(done)


def _part(name: str, text: str) -> Part:
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    symbol = f"{name}_{digest}"
    return Part(symbol, digest, text.replace(f"@{name}(", f"@{symbol}("))

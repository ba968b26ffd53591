"""What a code object may read: names of attributes and globals, found in its bytecode once."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

_ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"))
_GLOBALS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "DELETE_NAME"))
_GLOBALS |= {"LOAD_FROM_DICT_OR_GLOBALS"}
_CELLS = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_CLOSURE"))
_SILENT = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP"))
_FOLLOWED = frozenset(("LOAD_ATTR", "LOAD_METHOD"))


class Names(NamedTuple):
    """What the instructions of one code object name."""

    attributes: frozenset[str]  # of any object, with texts that look like names: `getattr(x, "name")`
    globals: dict[str, frozenset[tuple[str, ...]]]  # a global -> the attributes asked of it, one after another
    cells: dict[str, frozenset[tuple[str, ...]]]  # the same of variables of outer functions
    imports: frozenset[str]
    read: frozenset[str]  # those of them that are used in another way than `name.append`
    dictionaries: frozenset[
        str
    ]  # arguments whose `__dict__` is asked for; "" if somebody else's is, or names are unknown


_kept: WeakKeyDictionary[CodeType, Names] = WeakKeyDictionary()


def names_of(code: CodeType) -> Names:
    """The names in a code object; not those in the functions that it makes."""
    found = _kept.get(code)
    if found is None:
        found = _kept[code] = _read(code)
    return found


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions that it makes."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes_in(inner)


def _read(code: CodeType) -> Names:
    attributes: set[str] = set()
    imports: set[str] = set()
    read: set[str] = set()
    named = ""  # by the instruction before
    dictionaries: set[str] = set()
    given = (*code.co_varnames[: code.co_argcount], *code.co_freevars)
    last: Any = None
    globals: dict[str, set[tuple[str, ...]]] = {}
    cells: dict[str, set[tuple[str, ...]]] = {}
    table: dict[str, set[tuple[str, ...]]] | None = None  # where the value on top of the stack comes from
    root = ""
    chain: list[str] = []

    def close() -> None:
        if table is not None:
            table.setdefault(root, set()).add(tuple(chain))

    for step in dis.get_instructions(code):
        name = step.opname
        if name in _SILENT:
            continue
        if not (name in _FOLLOWED and step.argval == "append"):
            read.add(named)
        named = step.argval if name in _ATTRIBUTES or name in _GLOBALS or name in _CELLS else ""
        if table is not None and name in _FOLLOWED:
            chain.append(step.argval)
        else:
            close()
            table, chain = None, []
        if name in _ATTRIBUTES:
            attributes.add(step.argval)
            if step.argval == "__dict__":
                local = last.argval if last is not None and last.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else ""
                local = local[-1] if isinstance(local, tuple) else local
                dictionaries.add(local if local in given else "")
        elif name in _GLOBALS:
            table, root = globals, step.argval
        elif name in _CELLS:
            table, root = cells, step.argval
        elif name == "IMPORT_NAME":
            imports.add(step.argval)
        elif name == "MATCH_CLASS":
            dictionaries.add("")  # the class says which attributes are asked for
        elif name in ("STORE_FAST", "STORE_DEREF") and step.argval in given:
            given = tuple(n for n in given if n != step.argval)
            dictionaries = {"" if n == step.argval else n for n in dictionaries}
        last = step
    close()
    attributes |= _texts(code)
    return Names(
        frozenset(attributes),
        {name: frozenset(chains) for name, chains in globals.items()},
        {name: frozenset(chains) for name, chains in cells.items()},
        frozenset(imports),
        frozenset((*read, named, *_texts(code))),
        frozenset(dictionaries),
    )


def _texts(code: CodeType) -> set[str]:
    """The constants of code that look like names."""
    texts = [t for c in code.co_consts for t in (c if c.__class__ is tuple else (c,)) if t.__class__ is str]
    return {part for t in texts for part in t.split(".") if part.isidentifier()}


@functools.lru_cache(1 << 12)
def only_counts(code: CodeType, name: str) -> bool:
    """Whether code does nothing with an attribute or variable but `name += …` or `name -= …`."""
    if name not in (*code.co_names, *code.co_freevars, *code.co_cellvars):
        return True
    steps = [s for s in dis.get_instructions(code) if s.opname not in _SILENT]
    loads = sum([s.argval == name and s.opname.startswith("LOAD_") and s.opname != "LOAD_CLOSURE" for s in steps])
    ends = [i for i, s in enumerate(steps) if s.argval == name and s.opname.startswith("STORE_")]
    before = [steps[i - 1 - (steps[i].opname == "STORE_ATTR")] for i in ends]
    added = [s.opname in _COUNTS or (s.opname == "BINARY_OP" and s.argrepr in ("+=", "-=")) for s in before]
    return all(added) and loads == len(added)


_COUNTS = ("INPLACE_ADD", "INPLACE_SUBTRACT")


@functools.cache
def catches(code: Any) -> bool:
    """Whether code goes on somewhere when there is an error."""
    return any([s.opname in ("PUSH_EXC_INFO", "SETUP_FINALLY", "SETUP_WITH") for s in dis.get_instructions(code)])

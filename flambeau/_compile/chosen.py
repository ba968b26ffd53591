"""Guards that a program may do without: a function of its own says which stay, where it knows that values do not change.

What can go are guards of values that never change themselves (numbers, texts, functions, classes). A program has them as they were, in
PyTorch, too. Tensors, modules and what containers hold are looked at in any case, as are the modes that operations ask.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from .._tensor import Tensor
from .arguments import Arguments
from .holders import Cell, External, Fields, Holder, Items, Namespace, plain
from .reach import is_ours


class Source(Enum):
    """Where a guarded value was found."""

    LOCAL = 0
    GLOBAL = 1
    LOCAL_UNSPECIALIZED_NN_MODULE = 2
    LOCAL_UNSPECIALIZED_BUILTIN_NN_MODULE = 3

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it belongs to a module of the program's."""
        return self is Source.LOCAL_UNSPECIALIZED_NN_MODULE

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether it belongs to a module of `torch.nn`."""
        return self is Source.LOCAL_UNSPECIALIZED_BUILTIN_NN_MODULE


class GuardFilterEntry(NamedTuple):
    """What a function that chooses guards is told about one."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Any


class Unchosen(Exception):
    """The function that chooses has raised, which the program is to know."""


Choice = Callable[[Sequence[GuardFilterEntry]], Sequence[bool]]


def choose(choice: Choice, arguments: Arguments, holders: list[Holder]) -> list[Holder]:
    """Asks which guards stay, and drops others from what is asked of arguments and holders; gives the holders that are left."""
    owners = {h.path: _source_of(h.owner) for h in holders if isinstance(h, Fields) and hasattr(h.owner, "_modules")}
    worlds = {name for h in holders if isinstance(h, Namespace) and not h.path for name in h.before}
    found: list[tuple[GuardFilterEntry, Callable[[], Any] | None]] = []

    def add(path: str, value: Any, drop: Callable[[], Any] | None, local: bool = False) -> None:
        known = [path[:i] for i, c in enumerate(path) if c in ".[" and path[:i] in owners]
        is_global = not local and path.replace("[", ".").partition(".")[0] in worlds
        source = owners[known[-1]] if known else Source.GLOBAL if is_global else Source.LOCAL
        root = path.replace("[", ".").partition(".")[0]
        name = f"G[{root!r}]{path[len(root) :]}" if is_global else path
        guard = types.SimpleNamespace(source=source, name=name)
        found.append((GuardFilterEntry(name, True, value, *_kinds(value), is_global, guard), drop))

    for value, path, drop in arguments.droppable():
        add(path, value, drop, local=True)
    gone: set[int] = set()
    for h in holders:
        if isinstance(h, External):
            add(h.path, h.owner, None)
        elif isinstance(h, Cell):
            add(h.path, h.before, (lambda h=h: gone.add(id(h))) if _fixed(h.before) else None, local=True)  # type: ignore[misc]
        elif isinstance(h, (Fields, Namespace, Items)):
            names = list(h.names if isinstance(h, Fields) else h.before)
            for name in [n for n in names if n in h.before and _fixed(h.before[n])]:
                label = f"[{name!r}]" if isinstance(h, Items) else f".{name}"
                path = f"{h.path}{label}".removeprefix(".")
                add(path, h.before[name], lambda h=h, name=name: _drop(h, name))  # type: ignore[misc]
    for kind in (
        "GRAD_MODE",
        "DETERMINISTIC_ALGORITHMS",
        "GLOBAL_STATE",
        "TORCH_FUNCTION_STATE",
        "DEFAULT_DEVICE",
        "SHAPE_ENV",
    ):
        guard = types.SimpleNamespace(source=Source.GLOBAL, name="")
        found.append((GuardFilterEntry("", False, object(), kind, (), False, guard), None))
    try:
        answers = list(choice([entry for entry, _ in found]))
        if len(answers) != len(found):
            raise AssertionError(f"filter_results length ({len(answers)}) != sorted_guards length ({len(found)})")
    except Exception as error:
        raise Unchosen() from error
    for stays, (_, drop) in zip(answers, found):
        if not stays and drop is not None:
            drop()
    return [h for h in holders if id(h) not in gone]


def _fixed(value: Any) -> bool:
    functions = types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type
    return plain(value) or (isinstance(value, functions) and not hasattr(value, "_torchdynamo_orig_callable"))


def _drop(holder: Any, name: Any) -> None:
    if isinstance(holder, Items):
        holder.free.add(name)
    else:
        (holder.names if isinstance(holder, Fields) else holder.before).pop(name)


def _source_of(module: Any) -> Source:
    ours = is_ours(type(module))
    return Source.LOCAL_UNSPECIALIZED_BUILTIN_NN_MODULE if ours else Source.LOCAL_UNSPECIALIZED_NN_MODULE


def _kinds(value: Any) -> tuple[str, tuple[str, ...]]:
    """What PyTorch calls the guard of a value."""
    if isinstance(value, Tensor):
        return "TENSOR_MATCH", ("TENSOR_MATCH",)
    if plain(value):
        return "CONSTANT_MATCH", (
            "NONE_MATCH" if value is None else "BOOL_MATCH" if type(value) is bool else "EQUALS_MATCH",
        )
    if isinstance(value, types.FunctionType):
        return "CLOSURE_MATCH", ("ID_MATCH",)
    kind = "MODULE_MATCH" if isinstance(value, types.ModuleType) else "CLASS_MATCH" if isinstance(value, type) else ""
    return kind or ("BUILTIN_MATCH" if isinstance(value, types.BuiltinFunctionType) else "TYPE_MATCH"), ("ID_MATCH",)

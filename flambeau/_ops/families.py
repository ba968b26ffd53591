"""Families of operations are imported when one of their names is first asked for.

Which names are whose is found out by importing them all once. It is kept beside the kernels, together with the sizes and times
of the files it holds for, or comes with flambeau, together with the digest of all files; without such a list (files that changed, or no
place to write) all are imported at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._core.state import IMPORTING, held_over_forks, unobserved
from .._kernel.building import archives
from .._kernel.building.cache import chosen_root
from .._version import __version__

_waiting: dict[str, None] = {}  # families that are not imported yet
_MISSING = object()


class Table(dict[str, Any]):
    """Something by name that families fill. Who goes through all of it gets all families imported."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, str] = {}  # names of families that wait

    def __getitem__(self, name: str) -> Any:
        family = self.owners.get(name)
        if family is not None:  # another thread may be in the middle of importing it
            load(family)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.owners

    def __iter__(self) -> Iterator[str]:
        load_all()
        return super().__iter__()

    def __len__(self) -> int:
        load_all()
        return super().__len__()

    def keys(self) -> Any:
        load_all()
        return super().keys()

    def values(self) -> Any:
        load_all()
        return super().values()

    def items(self) -> Any:
        load_all()
        return super().items()

    def loaded(self) -> list[tuple[str, Any]]:
        """What is imported: all that a function in hand can be among."""
        return list(super().items())

    def size(self) -> int:
        """How many entries are imported."""
        return super().__len__()

    def names(self) -> list[str]:
        """All names, without importing anything."""
        return list({**dict.fromkeys(dict.keys(self)), **self.owners})


class _Waiting:
    """Stands for an operation in the class of a namespace, before the operation itself, until its family is imported."""

    __slots__ = ("family", "name")

    def __init__(self, family: str, name: str):
        self.family, self.name = family, name

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        load(self.family)
        try:
            return vars(instance)[self.name]
        except KeyError:
            raise AttributeError(f"no operation {self.name!r}") from None

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


_owners: list[tuple[Any, dict[str, str]]] = []  # a namespace or None, and whose its or a table's names are that wait


class _Imports:
    """Threads that import families. A fork waits for them: in the child nobody would finish what they began."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.depth: dict[int, int] = {}  # by thread

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.depth[me] = self.depth.get(me, 0) + 1

    def __exit__(self, *error: Any) -> None:
        me = threading.get_ident()
        with self.changed:
            self.depth[me] -= 1
            if not self.depth[me]:
                del self.depth[me]
                self.changed.notify_all()

    def acquire(self) -> None:
        self.changed.acquire()
        self.changed.wait_for(lambda: not self.depth.keys() - {threading.get_ident()})

    def release(self) -> None:
        self.changed.release()


_imports = _Imports()
held_over_forks(_imports, IMPORTING)


def load(family: str) -> None:
    """Imports a family, if it waits. Only then do its names stop leading here: so no thread gets those of half a family."""
    if family not in _waiting:
        if f"{__package__}.{family}" not in sys.modules:
            raise ValueError(f"there is no family of operations {family!r}")
        return
    with _imports, unobserved():
        module = importlib.import_module(f"{__package__}.{family}")
    if getattr(module.__spec__, "_initializing", False):  # by this very thread, which needs a name of it meanwhile
        return
    _waiting.pop(family, None)
    for space, owners in _owners:
        for name in [name for name, own in list(owners.items()) if own == family]:
            if owners.pop(name, None) is not None and space is not None:
                delattr(type(space), name)


def load_all() -> None:
    """Imports all families that wait."""
    for family in list(_waiting):
        load(family)


def defer(families: Iterable[str], tables: dict[str, Table], space: Any) -> None:
    """Lets families wait until one of their names in the tables or in the namespace is asked for.

    Those whose names are not known are imported.
    """
    _waiting.update(dict.fromkeys(families))
    all_tables: dict[str, dict[str, Any]] = {"": vars(space), **tables}
    path = _place()
    state = _state() if path else ""
    found = _read(path, lambda: state, all_tables) if path else None
    if found is None and archives.in_use():
        found = _read(os.path.join(archives.FOLDER, "families"), archives.contents, all_tables)
    if found is not None:
        for kind, table in tables.items():
            table.owners = found[kind]
            _owners.append((None, found[kind]))
        for name, family in found[""].items():
            setattr(type(space), name, _Waiting(family, name))
        _owners.append((space, found[""]))
    elif path and os.access(os.path.dirname(path), os.W_OK):
        lines = [state]
        for family in list(_waiting):
            before = {name: dict(dict.items(known)) for name, known in all_tables.items()}
            load(family)
            for name, known in all_tables.items():
                own = [key for key, value in dict.items(known) if before[name].get(key, _MISSING) is not value]
                lines.append(" ".join((name, family, *own)))
        _write(path, "\n".join(lines))
    else:
        load_all()


def _place() -> str | None:
    """The file that tells the names of the families in this folder."""
    root = chosen_root()
    if root is None:
        return None
    with contextlib.suppress(OSError):
        os.makedirs(root, mode=0o700, exist_ok=True)
    number = int.from_bytes(os.path.dirname(os.path.abspath(__file__)).encode(), "big") % ((1 << 61) - 1)
    return os.path.join(root, f"families-{number:x}")


def _state() -> str:
    """What the list depends on: the versions, and the files of this folder with their sizes and times."""
    found = [f"{__version__} {sys.hexversion:x}"]
    waiting = [os.path.dirname(os.path.abspath(__file__))]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    info = entry.stat()
                    found.append(f"{entry.path}:{info.st_size}:{info.st_mtime_ns}")
                elif "." not in entry.name and entry.name != "__pycache__":
                    waiting.append(entry.path)
    return " ".join(sorted(found))


def _read(path: str, state: Callable[[], str], tables: Iterable[str]) -> dict[str, dict[str, str]] | None:
    """Whose the names in each table are, of families that wait; None if there is no list of them that is true."""
    try:
        with open(path, encoding="utf-8") as file:
            if not archives.private(os.fstat(file.fileno())):
                return None
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if lines[0] != state():
        return None
    found: dict[str, dict[str, str]] = {name: {} for name in tables}
    for line in lines[1:]:
        name, family, *own = line.split(" ")
        if name not in found or family not in _waiting:
            return None
        found[name].update(dict.fromkeys(own, family))
    return found


def _write(path: str, text: str) -> None:
    """Replaces the file as a whole; what cannot be written costs only the next start."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with contextlib.suppress(OSError):
        with open(temporary, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
        os.replace(temporary, path)

"""Sites: the functions that programs call, with the native entry before the Python function that does the same."""

from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core import allocation, devices
from ..._core.c_interface import c_address, c_function
from ..._core.dtypes import dtype
from ..._core.sizes import Size
from ..._core.state import AUTOCAST, local, modes
from ..building import ahead, elf
from ..threads import pool
from .device_entry import GPU_NAMES, Lies, compile_device_entry, gpu_words
from .direct import Method, known_layout, new_function
from .entry import BY_ELEMENT, POSITIONAL, RUNTIME, SEEN, TABLE, WAYS, compile_entry, entry_is_kept
from .interpreter import KNOWN_NAMES, Offsets, new_array
from .nodes import compile_attach
from .plan import Table, absent
from .views import compile_device_views, compile_views

_FASTCALL_WITH_NAMES = 0x0080 | 0x0002


class Site(types.ModuleType):
    """What stands behind a function that programs call. Until the first call it is called itself.

    Python takes a module for the home of a function: so it has the name that pickle and programs know it by.
    """

    __slots__ = ("missed", "names", "others", "parameters", "remember", "slow", "table", "words")
    words: array.array[int]

    def __init__(
        self, slow: Any, remember: Any, table: Table, parameters: Sequence[str], positional: int, runtime: int,
        by_element: bool, others: Mapping[str, str], makes: bool,
    ):  # fmt: skip
        super().__init__("flambeau")
        self.slow, self.remember, self.table = slow, remember, table
        self.parameters = tuple(map(sys.intern, parameters))
        self.others = {sys.intern(name): own for name, own in others.items()}
        self.names = array.array("q", map(id, self.parameters))
        further = {own: id(name) for name, own in self.others.items()}
        self.names.extend(further.get(own, 0) for own in self.parameters)

        def missed(*args: Any, **named: Any) -> Any:
            if named and self.others:
                named = {self.others.get(name, name): value for name, value in named.items()}
            out = self.slow(*args, **named)  # raises what there is to raise
            if (not modes.on or modes.on == AUTOCAST) and table.accepts():
                rest = [named.get(name, absent) for name in self.parameters[len(args) :]]
                remember([*args, *rest], out)
            return out

        self.missed = missed
        known = 0 if _entries.known is None else _entries.known.buffer_info()[0]
        words = [id(slow), id(missed), 0, runtime, by_element, known]
        words += [len(self.parameters), positional, self.names.buffer_info()[0], makes]
        self.words = array.array("q", words)
        table.serve(self)

    def go_by(self, slow: Any) -> None:
        """Takes another Python function that does the same."""
        self.slow = slow
        self.words[0] = id(slow)

    def use(self, table: array.array[int]) -> None:
        """The words of its table have moved."""
        self.words[TABLE // 8] = table.buffer_info()[0]

    def __call__(self, *args: Any, **named: Any) -> Any:
        _entries.open()
        return self.slow(*args, **named)


def _mark() -> Any:
    """What new tensors of this thread are marked with."""
    marks = modes.inferring
    return None if marks is None else marks.get(threading.get_ident())


class _Entries:
    """The machine code, made when the first site is called, and the sites that wait for it."""

    def __init__(self) -> None:
        self.waiting = True  # until there is machine code, or will be none
        self.begun = False
        self.methods: list[Any] = []
        self.kinds: Any = None
        self.known: array.array[int] | None = None
        self.seen = array.array("q", bytes(8 * SEEN * WAYS))
        self.offsets: Offsets | None = None  # of the machine code, once there is some
        self.gpu: array.array[int] | None = None
        self.device: tuple[int, int, int] | None = None
        self.address = 0
        # Python hashes a function by its address, and programs have functions for keys before they call one: so all sites begin
        # with one jump, whose aim changes.
        self.jump: tuple[int, Any] | None = None

    def prepare(
        self, tensor: Any, node: Any, kept: Any, inference: Any, sequence: Any, storage: Any, nowhere: Any
    ) -> bool:
        """Told once what tensors, nodes, what these keep, storages and the edge to nowhere are; whether there will be entries at all."""
        if not usable():
            return False
        self.kinds = tensor, node, kept
        found: dict[str, Any] = dict(
            tensor=tensor, parameter=tensor, ndarray=np.ndarray, zero=0, one=1, none=None, true=True, false=False, float=float, int=int,
            tuple=tuple, list=list, size=Size, str=str, dtype=dtype, new_tuple=tuple.__new__, modes=modes, local=local,
            grad=sys.intern("grad"), mark=_mark, node=node, kept=kept, inference=inference, sequence=sequence, two=2, three=3,
            destination=sys.intern("destination"), storage=storage, add_view=storage.add_view, inherited=sys.intern("inherited"),
            autocast=AUTOCAST, casting=sys.intern("casting"), out=sys.intern("out"), nowhere=nowhere,
            place=devices.device, usual=devices._local, where=sys.intern("device"),
        )  # fmt: skip
        self.objects = list(found.values())
        self.known = array.array("q", [id(found[name]) if name in found else 0 for name in KNOWN_NAMES])
        self.known[KNOWN_NAMES.index("seen")] = self.seen.buffer_info()[0]
        self.known[KNOWN_NAMES.index("settings")] = pool.settings.buffer_info()[0]
        self.address = c_address("PyObject_Vectorcall")
        self.jump = elf.jump(self.address)
        return True

    def also_plain(self, kind: type) -> None:
        """A subclass of tensors whose operations are those of tensors."""
        if self.known is not None:
            self.known[KNOWN_NAMES.index("parameter")] = id(kind)

    def open(self) -> None:
        """Makes the machine code, at the first call of a site. If it has to be compiled, a thread does that, and sites call their Python
        functions meanwhile."""
        if self.begun or not self.waiting:
            return
        self.begun = True
        new = new_array() if self.known is not None and known_layout() else None
        if new is not None and self.known is not None:
            tensor, node, kept = self.kinds
            offsets = Offsets(tensor, node, kept, Site)
            if offsets.hold(tensor):
                self.offsets = offsets
                self.known[KNOWN_NAMES.index("new")] = new
                if entry_is_kept(offsets):
                    self.make(offsets)
                else:
                    ahead.soon(pool.entry)
                    ahead.soon(functools.partial(self.make, offsets))
                return
        self.waiting = False

    def make(self, offsets: Offsets) -> None:
        """Has all sites go by the machine code."""
        address = compile_entry(offsets)
        if self.known is None:
            return
        self.known[KNOWN_NAMES.index("attach")] = compile_attach(offsets)
        self.known[KNOWN_NAMES.index("views")] = compile_views(offsets)
        lines = allocation.lines[0]()
        if lines is not None:
            self.objects.append(lines)
            self.known[KNOWN_NAMES.index("allocate")], self.known[KNOWN_NAMES.index("handler")] = lines[0], id(lines[1])
        self.waiting, self.address = False, address
        self.lead_to(address)

    def lead_to(self, address: int) -> None:
        """Has all sites go on at an address."""
        if self.jump is not None:
            self.jump[1].value = address
            return
        for method in self.methods:
            method.function = address

    def wait(self) -> None:
        """Until there is machine code, if there will be some."""
        self.open()
        if self.waiting:
            ahead.finish()

    def open_device(self, make: Callable[[], Any], found: dict[str, int]) -> bool:
        """Makes the machine code for tensors on a GPU, whose arrays are like those that `make` gives and whose library has
        functions at these addresses; False if it cannot be."""
        self.wait()
        if self.offsets is None or self.known is None:
            return False
        try:
            lies = Lies(make)
        except (LookupError, ValueError, AttributeError):
            return False
        self.gpu = gpu_words({**found, "array": id(type(make()))})
        self.device = id(type(make())), lies.data, lies.pointer
        self.known[KNOWN_NAMES.index("gpu")] = self.gpu.buffer_info()[0]
        self.known[KNOWN_NAMES.index("device_views")] = compile_device_views(self.offsets, lies)
        self.known[KNOWN_NAMES.index("device")] = compile_device_entry(self.offsets, lies)
        return True

    def choose(self, choice: int) -> None:
        """Of plans on a GPU those are taken from now on that were made for this choice of algorithms."""
        if self.gpu is not None:
            self.gpu[GPU_NAMES.index("choice")] = choice

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """Within it all sites call their Python functions, as they do where there is no machine code."""
        self.wait()
        self.lead_to(c_address("PyObject_Vectorcall"))
        try:
            yield
        finally:
            self.lead_to(self.address)

    def function(self, site: Site, name: str, doc: str | None) -> Any:
        """The function of a site."""
        begin = self.jump[0] if self.jump is not None else self.address
        method = Method(name.encode(), begin, _FASTCALL_WITH_NAMES, doc.encode() if doc else None)
        self.methods.append(method)
        return new_function(method, site, "flambeau")


def usable() -> bool:
    """Whether this interpreter is one whose objects the machine code knows, and nobody forbids it."""
    if os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0" or not c_address("PyObject_Vectorcall"):
        return False
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return bool(locked) and sys.implementation.name == "cpython"


_entries = _Entries()
prepare, also_plain, switched_off = _entries.prepare, _entries.also_plain, _entries.switched_off
open_device, choose, wait = _entries.open_device, _entries.choose, _entries.wait


def machine_code() -> tuple[int, Offsets] | None:
    """Where the words are that machine code knows objects by, and how these lie; None where it cannot know them."""
    _entries.open()
    if _entries.known is None or _entries.offsets is None:
        return None
    return _entries.known.buffer_info()[0], _entries.offsets


def device_layout() -> tuple[int, int, int] | None:
    """The class of arrays on a GPU, where in them memory is found, and where in that its address; None if no GPU is open."""
    return _entries.device


def forget_all() -> None:
    """Every table, and what is known of calls without a plan, is as in a new process."""
    for table in list(Table.all):
        if table.kept:
            table.forget()
        table.patience = table.refused = 0
    ctypes.memset(_entries.seen.buffer_info()[0], 0, len(_entries.seen) * _entries.seen.itemsize)


def site(
    slow: Callable[..., Any], remember: Callable[..., object], table: Table, parameters: Sequence[str],
    positional: int | None = None, runtime: int = 0, by_element: bool = False, name: str = "", doc: str | None = None,
    others: Mapping[str, str] = types.MappingProxyType({}), makes: bool = False,
) -> Any:  # fmt: skip
    """A function like `slow` that carries out plans of the table by itself.

    `remember(values, out)` is told of calls that come again and that the table does not know: the values of all parameters, `absent` where none
    was given, and the result. The first `positional` of them need not be named. Numbers in places of `runtime` (bits) are operands, of which plans know only the type.
    `others` are further names of parameters, one of each at most. If it `makes` tensors, calls with numbers alone have plans, too.
    """
    first = len(parameters) if positional is None else positional
    own = Site(slow, remember, table, parameters, first, runtime, by_element, others, makes)
    return _entries.function(own, name or slow.__name__, doc or slow.__doc__)


def another(function: Any, slow: Callable[..., Any]) -> Any:
    """A further function over the plans of a site's, such as an operator; `slow` itself where there is no site."""
    own = getattr(function, "__self__", None)
    if not isinstance(own, Site):
        return slow
    runtime, by_element = own.words[RUNTIME // 8], own.words[BY_ELEMENT // 8]
    positional = own.words[POSITIONAL // 8]
    return site(slow, own.remember, own.table, own.parameters, positional, runtime, bool(by_element), others=own.others)


def as_method(function: Any) -> Any:
    """What binds a site's function to the object it is an attribute of, as Python's own functions do by themselves."""
    if not isinstance(getattr(function, "__self__", None), Site):
        return function
    return c_function("PyInstanceMethod_New", ctypes.py_object, ctypes.py_object)(function)

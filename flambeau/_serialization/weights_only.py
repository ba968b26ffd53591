"""A reader of pickles that cannot be made to run anything: it knows data, tensors, and what users declared safe.

A pickle is a program for a small machine with a stack. This one builds plain data by itself; it looks up names only in
a table; and it calls only what stands in a second table, with arguments that are checked first.
"""

from __future__ import annotations

import _compat_pickle
import functools
import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import BuiltinMethodType, MethodType
from typing import Any

from .._core.quantizers import SCHEMES
from .._tensor import Tensor
from .._tensor.constructors import typed_classes
from . import names
from .calls import CALLS, check_attributes, check_keys, copied, encode, problem
from .options import _safe

# Never loaded by name, not even if declared safe: they give everything away.
BLOCKED = frozenset({"os", "posix", "nt", "sys", "subprocess", "builtins.eval", "builtins.exec", "builtins.compile"})
_MALFORMED = (
    ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, AssertionError, EOFError, RecursionError,
    MemoryError, struct.error,
)  # fmt: skip
# Elements that calls may copy, for each byte of the pickle and besides: a short file must not fill the memory by
# copying one long list again and again.
_COPIES, _FREE_COPIES = 4, 1 << 16


_LIBRARY = {
    "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "builtins.set": set,
    "builtins.bytearray": bytearray, "builtins.complex": complex, "_codecs.encode": encode,
}  # fmt: skip


class _Callable:
    """A function or class that pickles may call, as it lies on the stack."""

    __slots__ = ("function", "value")

    def __init__(self, value: Any, function: Callable[..., Any]):
        self.value, self.function = value, function


@functools.cache
def _named() -> frozenset[str]:
    """What may be named but not called: dtypes and classes."""
    classes = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.storage.UntypedStorage", "torch.UntypedStorage",
               "torch.storage.TypedStorage", *(f"torch.{name}" for name in typed_classes()))  # fmt: skip
    schemes = (f"torch.{scheme.name}" for scheme in SCHEMES)
    return frozenset((*classes, *names.dtypes(), *names.storage_classes(), *schemes))


_known: dict[str, Any] = {}  # what was found, by full names


def _allowed_object(full: str) -> Any:
    """What a name means that needs no declaration; None for all others."""
    found = _known.get(full)
    if found is None and allowed(full):
        found = _LIBRARY.get(full) or names.from_torch(*full.rpartition(".")[::2])
        if full in CALLS:
            found = _Callable(found, CALLS[full])
        _known[full] = found
    return found


def blocked(name: str) -> bool:
    """Whether this is never loaded, not even if it is declared safe."""
    return name.partition(".")[0] in BLOCKED or name in BLOCKED


def allowed(name: str) -> bool:
    """Whether files may name this without its being declared safe."""
    return name in CALLS or name in _named()


# -- the machine -------------------------------------------------------------------------------------------------


class Unpickler:
    """Reads one pickle from `data` (bytes or a mapped file) beginning at `position`, which is its end afterwards."""

    handlers: list[Callable[[Any], Any] | None]  # by operation

    def __init__(self, data: Any, position: int, persistent_load: Callable[[Any], Any], encoding: str = "utf-8"):
        self._data, self.position, self._end = data, position, len(data)
        self._persistent_load, self._encoding = persistent_load, encoding
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._protocol = 0
        self._copies = _COPIES * len(data) + _FREE_COPIES  # elements that calls may still copy
        self._outside: BaseException | None = None  # an error of somebody else's code, to be passed on as it is

    def load(self) -> Any:
        data, handlers = self._data, self.handlers
        try:
            while True:
                position = self.position
                if position >= self._end:
                    raise EOFError("Ran out of input")
                opcode = data[position]
                self.position = position + 1
                if opcode == _STOP:
                    (made,) = self._stack
                    if self._marks:
                        raise problem("the pickle ends inside of a collection")
                    return self._plain(made)
                handler = handlers[opcode]
                if handler is None:
                    raise problem(f"the pickle uses operation {bytes([opcode])!r}, which is not supported for weights")
                handler(self)
        except EOFError:
            raise
        except _MALFORMED as error:
            if error is self._outside:
                raise
            raise problem(f"the pickle is not in order ({type(error).__name__}: {str(error)[:200]})") from error

    def _plain(self, value: Any) -> Any:
        return value.value if value.__class__ is _Callable else value

    # Reading arguments: never beyond the end.

    def _bytes(self, count: int) -> Any:
        start, end = self.position, self.position + count
        if count < 0 or end > self._end:
            raise EOFError("the pickle is shorter than it says")
        self.position = end
        return self._data[start:end]

    def _byte(self) -> int:
        value = self._data[self.position]
        self.position += 1
        return value

    def _number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self._bytes(size), "little", signed=signed)

    def _line(self) -> str:
        end = self._data.find(b"\n", self.position, min(self._end, self.position + 1000))
        if end < 0:
            raise EOFError("the pickle is shorter than it says")
        line = self._data[self.position : end].decode("ascii")
        self.position = end + 1
        return line

    def _pop_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._marks.pop()
        return items

    # Collections.

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _append(self) -> None:
        value = self._stack.pop()
        self._list().append(self._plain(value))

    def _appends(self) -> None:
        items = self._pop_mark()
        self._list().extend([self._plain(x) for x in items])

    def _list(self) -> list[Any]:
        target = self._stack[-1]
        if target.__class__ is not list:
            raise problem("elements are added to something that is not a list")
        return target

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._put([key, value], "SETITEM")

    def _setitems(self) -> None:
        self._put(self._pop_mark(), "SETITEMS")

    def _put(self, items: list[Any], operation: str) -> None:
        target = self._stack[-1]
        if target.__class__ not in (dict, OrderedDict, Counter) and not _is_declared(target.__class__):
            raise problem(
                f"Can only {operation} for dict, collections.OrderedDict, collections.Counter, but the file adds items to an "
                f"object of {target.__class__}"
            )
        if len(items) % 2:
            raise problem("a key of a dictionary has no value")
        keys = [self._plain(key) for key in items[::2]]
        check_keys(keys)
        for key, value in zip(keys, items[1::2]):
            target[key] = self._plain(value)

    def _tuple(self) -> None:
        items = self._pop_mark()
        self._stack.append(tuple([self._plain(x) for x in items]))

    def _dict(self) -> None:
        items = self._pop_mark()
        self._stack.append({})
        self._put(items, "DICT")

    def _list_of(self) -> None:
        items = self._pop_mark()
        self._stack.append([self._plain(x) for x in items])

    def _additems(self) -> None:
        items = [self._plain(x) for x in self._pop_mark()]
        check_keys(items)
        if self._stack[-1].__class__ is not set:
            raise problem("elements are added to something that is not a set")
        self._stack[-1].update(items)

    # Names, and what is done with them.

    def _find(self, module: str, name: str) -> Any:
        if self._protocol < 3:
            module, name = _compat_pickle.NAME_MAPPING.get((module, name)) or (
                _compat_pickle.IMPORT_MAPPING.get(module, module), name)  # fmt: skip
        return self._look_up(module, name, names.canonical(module, name))

    def _look_up(self, module: str, name: str, full: str) -> Any:
        if blocked(full):
            raise problem(
                f"Trying to load unsupported GLOBAL {full:.300} whose module {module:.100} is blocked: it is never loaded as "
                "weights"
            )
        found = _allowed_object(full)
        if found is not None:
            return found
        if full in _safe:
            return _safe[full]
        raise Unsafe(full)

    def _global(self) -> None:
        module = self._line()
        self._stack.append(self._find(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if name.__class__ is not str or module.__class__ is not str:
            raise problem("a name is not a string")
        self._stack.append(self._find(module, name))

    def _reduce(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        if args.__class__ is not tuple:
            raise problem("the arguments of a call are not a tuple")
        if function.__class__ is _Callable:
            # functions as arguments are such that may be called, and are checked by the one that gets them
            self._stack.append(self._called(function, args))
        elif _is_declared(function):
            self._stack.append(self._foreign(function, *args))
        else:
            raise problem(
                f"Trying to call {_described(function)}, which is not among the functions that files of weights may call"
            )

    def _called(self, function: _Callable, args: tuple[Any, ...]) -> Any:
        self._spend(copied(args))
        return function.function(*args)

    def _spend(self, count: int) -> None:
        self._copies -= count
        if self._copies < 0:
            raise problem("the file makes far larger objects than it holds itself")

    def _newobj(self) -> None:
        args, kind = self._stack.pop(), self._stack.pop()
        self._make(kind, args, {})

    def _newobj_ex(self) -> None:
        named, args, kind = self._stack.pop(), self._stack.pop(), self._stack.pop()
        if named.__class__ is not dict:
            raise problem("the named arguments of a class are not a dictionary")
        self._make(kind, args, named)

    def _make(self, kind: Any, args: Any, named: dict[str, Any]) -> None:
        if args.__class__ is not tuple:
            raise problem("the arguments of a class are not a tuple")
        if kind.__class__ is _Callable and isinstance(kind.value, type) and not named:
            self._stack.append(self._called(kind, args))
        elif isinstance(kind, type) and _is_declared(kind):
            self._stack.append(self._foreign(kind.__new__, kind, *args, **named))
        else:
            raise problem("the file makes an object of a class that may only be named")

    def _build(self) -> None:
        state = self._plain(self._stack.pop())
        target = self._stack[-1]
        kind = target.__class__
        if _is_declared(kind):
            self._foreign(_set_state, target, state)
            return
        if kind is not OrderedDict and kind is not Counter and not isinstance(target, Tensor):
            raise problem(f"the file sets attributes of an object of type {kind.__name__}")
        check_attributes(state, Tensor if isinstance(target, Tensor) else kind)
        target.__dict__.update(state)

    def _foreign(self, function: Any, *args: Any, **named: Any) -> Any:
        """Calls what is not ours; its errors are not errors of the pickle."""
        try:
            return function(*args, **named)
        except BaseException as error:
            self._outside = error
            raise

    def _persistent(self) -> None:
        self._stack.append(self._foreign(self._persistent_load, self._stack.pop()))

    # Odds and ends.

    def _put_memo(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _set_protocol(self) -> None:
        self._protocol = self._number(1)
        if self._protocol > pickle.HIGHEST_PROTOCOL:
            raise problem(f"unsupported pickle protocol: {self._protocol}")

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _long(self, size: int) -> None:
        self._stack.append(self._number(self._number(size), signed=True))

    def _text(self, size: int) -> None:
        self._stack.append(str(self._bytes(self._number(size)), "utf-8", "surrogatepass"))

    def _old_text(self, size: int) -> None:
        data = bytes(self._bytes(self._number(size)))
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _fixed(self, count: int) -> None:
        items = self._stack[-count:]
        if len(items) < count:
            raise IndexError("too few elements for a tuple")
        self._stack[-count:] = [tuple([self._plain(x) for x in items])]


class Unsafe(pickle.UnpicklingError):
    """A name that is neither known nor declared safe."""

    def __init__(self, name: str):
        self.name = name[:300]
        super().__init__(
            f"Unsupported global: GLOBAL {self.name.removeprefix('builtins.')} was not an allowed global by default"
        )


def _is_declared(value: Any) -> bool:
    """Whether an object was declared safe; a method is another object each time it is asked for."""
    bound = isinstance(value, (MethodType, BuiltinMethodType))
    return any(
        value is safe or (bound and value.__class__ is safe.__class__ and value == safe) for safe in _safe.values()
    )


def _described(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    of = f" of {owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else ""
    return f"{function!r:.200}{of}"


def _set_state(target: Any, state: Any) -> None:
    """What pickle does to give an object its state."""
    setter = getattr(target, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for part in (state, slots):
        if part is not None and not (isinstance(part, dict) and all(name.__class__ is str for name in part)):
            raise problem("an object has attributes without names")
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


# -- the operations ----------------------------------------------------------------------------------------------

_Handler = Callable[[Unpickler], Any]
_STOP = pickle.STOP[0]


def _constant(value: Any) -> _Handler:
    return lambda u: u._stack.append(value)


_OPERATIONS: dict[bytes, _Handler] = {
    pickle.PROTO: Unpickler._set_protocol,
    pickle.FRAME: lambda u: u._bytes(8),
    pickle.MARK: Unpickler._mark,
    pickle.POP: Unpickler._pop,
    pickle.POP_MARK: lambda u: u._pop_mark() and None,
    pickle.DUP: lambda u: u._stack.append(u._stack[-1]),
    pickle.NONE: _constant(None),
    pickle.NEWTRUE: _constant(True),
    pickle.NEWFALSE: _constant(False),
    pickle.BININT: lambda u: u._stack.append(u._number(4, signed=True)),
    pickle.BININT1: lambda u: u._stack.append(u._byte()),
    pickle.BININT2: lambda u: u._stack.append(u._number(2)),
    pickle.LONG1: lambda u: u._long(1),
    pickle.LONG4: lambda u: u._long(4),
    pickle.BINFLOAT: lambda u: u._stack.append(struct.unpack(">d", u._bytes(8))[0]),
    pickle.BINUNICODE: lambda u: u._text(4),
    pickle.SHORT_BINUNICODE: lambda u: u._text(1),
    pickle.BINUNICODE8: lambda u: u._text(8),
    pickle.BINSTRING: lambda u: u._old_text(4),
    pickle.SHORT_BINSTRING: lambda u: u._old_text(1),
    pickle.BINBYTES: lambda u: u._stack.append(bytes(u._bytes(u._number(4)))),
    pickle.SHORT_BINBYTES: lambda u: u._stack.append(bytes(u._bytes(u._number(1)))),
    pickle.BINBYTES8: lambda u: u._stack.append(bytes(u._bytes(u._number(8)))),
    pickle.BYTEARRAY8: lambda u: u._stack.append(bytearray(u._bytes(u._number(8)))),
    pickle.EMPTY_LIST: lambda u: u._stack.append([]),
    pickle.EMPTY_DICT: lambda u: u._stack.append({}),
    pickle.EMPTY_SET: lambda u: u._stack.append(set()),
    pickle.EMPTY_TUPLE: _constant(()),
    pickle.LIST: Unpickler._list_of,
    pickle.DICT: Unpickler._dict,
    pickle.TUPLE: Unpickler._tuple,
    pickle.TUPLE1: lambda u: u._fixed(1),
    pickle.TUPLE2: lambda u: u._fixed(2),
    pickle.TUPLE3: lambda u: u._fixed(3),
    pickle.APPEND: Unpickler._append,
    pickle.APPENDS: Unpickler._appends,
    pickle.SETITEM: Unpickler._setitem,
    pickle.SETITEMS: Unpickler._setitems,
    pickle.ADDITEMS: Unpickler._additems,
    pickle.GLOBAL: Unpickler._global,
    pickle.STACK_GLOBAL: Unpickler._stack_global,
    pickle.REDUCE: Unpickler._reduce,
    pickle.NEWOBJ: Unpickler._newobj,
    pickle.NEWOBJ_EX: Unpickler._newobj_ex,
    pickle.BUILD: Unpickler._build,
    pickle.BINPERSID: Unpickler._persistent,
    pickle.BINPUT: lambda u: u._put_memo(u._byte()),
    pickle.LONG_BINPUT: lambda u: u._put_memo(u._number(4)),
    pickle.MEMOIZE: Unpickler._memoize,
    pickle.BINGET: lambda u: u._stack.append(u._memo[u._byte()]),
    pickle.LONG_BINGET: lambda u: u._stack.append(u._memo[u._number(4)]),
}
Unpickler.handlers = [_OPERATIONS.get(bytes([code])) for code in range(256)]

"""Pickles in TorchScript archives: modules as objects of the program's classes, tensors by reference to storages."""

from __future__ import annotations

import struct
from typing import Any

from .._core.devices import device
from .._core.dtypes import dtype
from .._serialization.pickler import Storages
from .._tensor import Tensor
from ._values import EnumValue, NamedValue, ScriptObject

__all__ = ["Pickled"]

_LISTS = {int: "int", float: "double", bool: "bool"}


class Pickled:
    """The pickle (protocol 2) of a module or of a tuple of constants. `content` are its bytes."""

    def __init__(self, value: Any):
        self._storages = Storages()
        self._out = bytearray(b"\x80\x02")
        self._kept: list[Any] = []  # typed storages, whose identity keys must stay unique
        self._memo: dict[int, int] = {}
        self._put(value)
        self.content = bytes(self._out + b".")

    def memory(self) -> list[tuple[str, Any]]:
        """(key, bytes) of every storage."""
        return [(key, data) for key, data, _ in self._storages.buffers()]

    def _put(self, value: Any) -> None:
        out = self._out
        if value is None:
            out += b"N"
        elif value is True or value is False:
            out += b"\x88" if value else b"\x89"
        elif isinstance(value, dtype):
            self._put(_code(value))
        elif isinstance(value, int):
            self._put_int(int(value))
        elif isinstance(value, float):
            out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            data = value.encode()
            out += b"X" + struct.pack("<I", len(data)) + data
        elif isinstance(value, Tensor):
            self._put_tensor(value)
        elif isinstance(value, device):
            self._call("torch", "device", (str(value),))
        elif isinstance(value, EnumValue):
            self._global(*value.script.path.rpartition(".")[::2])
            self._put(value.value)
            out += b"R"
        elif isinstance(value, (NamedValue, tuple)):
            self._put_tuple(value)
        elif isinstance(value, list):
            self._put_list(value)
        elif isinstance(value, dict):
            out += b"}("
            for key, item in value.items():
                self._put(key)
                self._put(item)
            out += b"u"
        else:
            self._put_object(value)

    def _put_int(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            self._out += b"\x8a\x08" + struct.pack("<q", value)

    def _global(self, module: str, name: str) -> None:
        self._out += f"c{module}\n{name}\n".encode()

    def _call(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self._global(module, name)
        self._put_plain(args)
        self._out += b"R"

    def _put_plain(self, values: tuple[Any, ...]) -> None:
        self._out += b"("
        for value in values:
            self._put(value)
        self._out += b"t"

    def _put_tuple(self, value: Any) -> None:
        script = getattr(type(value), "script", None)
        if script is not None:
            self._global(*script.path.rpartition(".")[::2])
            self._put_plain(tuple(value))
            self._out += b"\x81"
        else:
            self._put_plain(tuple(value))

    def _put_list(self, value: list[Any]) -> None:
        kinds = {type(v) for v in value}
        kind = _LISTS.get(next(iter(kinds))) if len(kinds) == 1 else None
        if value and all(isinstance(v, Tensor) for v in value):
            kind = "tensor"
        if kind is not None:
            self._global("torch.jit._pickle", f"build_{kind}list")
        self._out += b"]("
        for item in value:
            self._put(item)
        self._out += b"e"
        if kind is not None:
            self._out += b"\x85R"

    def _put_tensor(self, value: Tensor) -> None:
        storage = value._typed_storage()
        self._kept.append(storage)
        _, _, key, location, count = self._storages.reference(storage)
        self._global("torch._utils", "_rebuild_tensor_v2")
        self._out += b"(("
        self._put("storage")
        self._global("torch", storage._pickle_storage_type())
        for part in (key, location, count):
            self._put(part)
        self._out += b"tQ"
        self._put(value.storage_offset())
        self._put_plain(tuple(value.shape))
        self._put_plain(tuple(value.stride()))
        self._put(bool(value.requires_grad))
        self._call("collections", "OrderedDict", ())
        self._out += b"tR"

    def _put_object(self, value: Any) -> None:
        """A module or object of a class of the program. The same one is written once."""
        known = self._memo.get(id(value))
        if known is not None:
            self._out += b"j" + struct.pack("<I", known)
            return
        script = getattr(value, "_script", None)
        if script is None:
            raise RuntimeError(f"Could not convert an attribute of type {type(value).__name__} to TorchScript")
        self._global(*script.path.rpartition(".")[::2])
        self._out += b")\x81"
        self._memo[id(value)] = len(self._memo)
        self._out += b"r" + struct.pack("<I", self._memo[id(value)])
        self._put(value._attributes if isinstance(value, ScriptObject) else state_of(value))
        self._out += b"b"


def state_of(module: Any) -> dict[str, Any]:
    """What a module consists of, in the order in which its class declares it."""
    own = module.__dict__
    made: dict[str, Any] = {**own["_parameters"], **own["_buffers"], "training": module.training}
    made.update(own["_modules"])
    made.update(own["_attributes"])
    ordered = {name: made[name] for name in module._script.types if name in made}
    missing = [name for name in module._script.types if name not in made]
    return {**ordered, **dict.fromkeys(missing)}


def _code(d: dtype) -> int:
    from ._operators import dtype_code

    return dtype_code(d)

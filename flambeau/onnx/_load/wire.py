"""Reads protobuf messages, of which ONNX files consist. Nothing in a file is taken for granted: what does not fit raises."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import OnnxModelError

_DEEPEST = 64  # messages inside of messages: If and Loop nest graphs
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # how a value lies in the file


class Field(NamedTuple):
    """A field of a message: `kind` is "int", "float", "double", "uint", "text", "bytes", or the name of a message."""

    name: str
    kind: str
    many: bool = False


class Message:
    """A message that was read: a field of the schema is an attribute, an empty list or None where the file has none."""

    def __init__(self, fields: dict[int, Field]):
        for field in fields.values():
            setattr(self, field.name, [] if field.many else None)

    def __getattr__(self, name: str) -> Any:  # for type checkers: fields come from the schema
        raise AttributeError(name)


def read(data: memoryview, kind: str, schema: dict[str, dict[int, Field]], depth: int = 0) -> Message:
    """The message of a kind that some bytes hold. Fields that the schema does not name are passed over."""
    if depth > _DEEPEST:
        raise OnnxModelError(f"the file nests messages more than {_DEEPEST} deep")
    fields = schema[kind]
    made = Message(fields)
    for number, wire, value in _entries(data):
        field = fields.get(number)
        if field is None:
            continue
        found: Any
        if field.kind in schema:
            found = [read(_expect(value, wire, field), field.kind, schema, depth + 1)]
        else:
            found = _scalars(value, wire, field)
        if field.many:
            getattr(made, field.name).extend(found)
        else:
            setattr(made, field.name, found[-1] if found else None)
    return made


def _expect(value: Any, wire: int, field: Field) -> memoryview:
    if wire != _BYTES:
        raise OnnxModelError(f"the field {field.name!r} has the wrong type in the file (is this an ONNX model?)")
    return value


def _entries(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """(number of the field, how it lies there, value) of all entries of a message."""
    place, end = 0, len(data)
    while place < end:
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _NUMBER:
            value, place = _varint(data, place)
        else:
            if wire == _BYTES:
                size, place = _varint(data, place)
            elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
                size = 8 if wire == _EIGHT_BYTES else 4
            else:
                raise OnnxModelError(f"entry of an unknown kind {wire} (is this an ONNX model?)")
            if number == 0 or size > end - place:
                raise OnnxModelError("the file is damaged, cut short, or no ONNX model: an entry ends outside of it")
            value = data[place : place + size]
            place += size
        yield number, wire, value


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    result = shift = 0
    end = len(data)
    while True:
        if place >= end or shift > 63:
            raise OnnxModelError("the file is damaged, cut short, or no ONNX model: a number does not end")
        byte = data[place]
        place += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & 0xFFFF_FFFF_FFFF_FFFF, place
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _scalars(value: Any, wire: int, field: Field) -> list[Any]:
    """The values of an entry: several where numbers are packed."""
    kind = field.kind
    if kind in ("int", "uint"):
        numbers = [value] if wire == _NUMBER else list(_packed(_expect(value, wire, field)))
        return [_signed(n) for n in numbers] if kind == "int" else numbers
    if kind in ("float", "double"):
        code, size = ("f", 4) if kind == "float" else ("d", 8)
        if wire not in (_BYTES, _FOUR_BYTES if size == 4 else _EIGHT_BYTES) or len(value) % size:
            raise OnnxModelError(f"the field {field.name!r} has the wrong type in the file (is this an ONNX model?)")
        return list(struct.unpack(f"<{len(value) // size}{code}", value))
    found = _expect(value, wire, field)
    if kind == "bytes":
        return [found]
    try:
        return [str(found, "utf-8")]
    except UnicodeDecodeError:
        raise OnnxModelError(f"the field {field.name!r} is no text (is this an ONNX model?)") from None


def _packed(data: memoryview) -> Iterator[int]:
    place = 0
    while place < len(data):
        number, place = _varint(data, place)
        yield number

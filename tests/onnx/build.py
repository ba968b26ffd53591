"""Writes small ONNX files without the package onnx, sound ones and others."""

import struct


def _varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def field(number, value):
    """One entry of a message."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else bytes(value)
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def message(*entries):
    return b"".join(field(number, value) for number, value in entries)


TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


def tensor(name, array, **external):
    """A tensor with its elements, or with a place where they are."""
    dims = [(1, n) for n in array.shape]
    head = [*dims, (2, TYPES[array.dtype.name]), (8, name)]
    if not external:
        return message(*head, (9, array.tobytes()))
    entries = [(13, message((1, k), (2, str(v)))) for k, v in external.items()]
    return message(*head, *entries, (14, 1))


def attribute(name, value):
    kinds = {float: (2, 1), int: (3, 2), str: (4, 3)}
    if type(value) in kinds:
        number, kind = kinds[type(value)]
        return message((1, name), (number, value), (20, kind))
    if isinstance(value, list):
        return message((1, name), *[(8, v) for v in value], (20, 7))
    if isinstance(value, bytes):  # a graph
        return message((1, name), (6, value), (20, 5))
    return message((1, name), (5, tensor("", value)), (20, 4))


def node(kind, inputs, outputs, domain="", **attributes):
    made = [(1, i) for i in inputs.split(" ")] + [(2, o) for o in outputs.split()] + [(4, kind), (7, domain)]
    return message(*made, *[(5, attribute(k, v)) for k, v in attributes.items()])


def value(name, shape=None):
    if shape is None:
        return message((1, name))
    dims = [(1, message((1, n) if isinstance(n, int) else (2, n))) for n in shape]
    return message((1, name), (2, message((1, message((1, 1), (2, message(*dims)))))))


def graph(nodes, inputs, outputs, tensors=()):
    made = [(1, n) for n in nodes] + [(5, t) for t in tensors] + [(2, "g")]
    made += [(11, i if isinstance(i, bytes) else value(i)) for i in inputs]
    return message(*made, *[(12, value(o)) for o in outputs])


def model(nodes, inputs="x", outputs="y", tensors=(), opset=18, functions=()):
    """A whole file."""
    inputs = inputs.split() if isinstance(inputs, str) else inputs
    made = graph(nodes, inputs, outputs.split(), tensors)
    domains = [(8, message((1, ""), (2, opset))), (8, message((1, "own"), (2, 1)))]
    return message((1, 8), (7, made), *domains, *[(25, f) for f in functions])

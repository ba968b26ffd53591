"""Checkpoints whose pickles are in order but whose values have wrong types: `python confused_pickles.py COUNT SEED`.

Calls of the functions that checkpoints name are written with one to three arguments replaced by others: numbers at the
edge of 64 bits, names, tensors, storages of other sizes, states that name slots. Every file is loaded as weights; what
loads is looked at and used. An exception is right; a tensor whose parts do not fit each other is not.
"""

import copy
import io
import random
import struct
import sys
import traceback
import types

import numpy as np
from attack import limit

import flambeau as torch
from flambeau._serialization.archive import Writer

BYTES = 96  # of each storage


class Name:
    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    def __init__(self, function, *args, build=None):
        self.function, self.args, self.build = function, list(args), build


class Stored:
    def __init__(self, kind="Float", key="0", location="cpu", count=24):
        self.parts = [kind, key, location, count]


class Again:
    """What was put first."""


def written(value, out, memo):
    if value is None:
        out += b"N"
    elif value is True or value is False:
        out += b"\x88" if value else b"\x89"
    elif isinstance(value, int):
        data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
        out += b"\x8a" + bytes([len(data)]) + data
    elif isinstance(value, float):
        out += b"G" + struct.pack(">d", value)
    elif isinstance(value, str):
        out += b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    elif isinstance(value, bytes):
        out += b"B" + struct.pack("<I", len(value)) + value
    elif isinstance(value, (tuple, list)):
        out += b"("
        for item in value:
            written(item, out, memo)
        out += b"t" if isinstance(value, tuple) else b"l"
    elif isinstance(value, dict):
        out += b"("
        for item in value.items():
            written(item[0], out, memo)
            written(item[1], out, memo)
        out += b"d"
    elif isinstance(value, Name):
        out += f"c{value.module}\n{value.name}\n".encode()
    elif isinstance(value, Stored):
        kind, key, location, count = value.parts
        kind = Name("torch", f"{kind}Storage") if isinstance(kind, str) else kind
        written(("storage", kind, key, location, count), out, memo)
        out += b"Q"
    elif isinstance(value, Again):
        out += b"h\x00" if memo else b"N"
    else:
        written(value.function, out, memo)
        written(tuple(value.args), out, memo)
        out += b"R"
        if not memo:
            memo.append(1)
            out += b"q\x00"
        if value.build is not None:
            written(value.build, out, memo)
            out += b"b"


UTILS = "torch._utils"
DTYPES = [
    "float32",
    "int64",
    "bool",
    "complex64",
    "uint8",
    "quint8",
    "qint32",
    "quint4x2",
    "bfloat16",
    "bits8",
    "float64",
]
KINDS = ["Float", "Double", "Long", "Bool", "Byte", "ComplexFloat", "QUInt8", "QInt32", "Half", "Untyped"]


def dtype(rng):
    return Name("torch", rng.choice(DTYPES))


def storage(rng):
    kind = rng.choice(KINDS)
    size = {"Float": 4, "Double": 8, "Long": 8, "ComplexFloat": 8, "QInt32": 4, "Half": 2}.get(kind, 1)
    return Stored("Untyped" if kind == "Untyped" else kind, rng.choice("01"), "cpu", BYTES // size)


def tensor(rng):
    return Call(Name(UTILS, "_rebuild_tensor_v2"), storage(rng), 0, (2, 3), (3, 1), False, {})


def indices(rng, *shape):
    strides = (shape[1], 1) if len(shape) == 2 else (1,)
    return Call(Name(UTILS, "_rebuild_tensor_v2"), Stored("Long", "1", "cpu", 12), 0, shape, strides, False, {})


def calls(rng):
    """One sound call of each kind; what is replaced in it comes later."""
    place = (rng.choice([0, 1, 2]), (2, 3), (3, 1))
    v2 = Call(Name(UTILS, "_rebuild_tensor_v2"), storage(rng), *place, False, {})
    v2.args += [{"conj": True}] * rng.choice([0, 0, 1])
    yield v2
    yield Call(Name(UTILS, "_rebuild_tensor"), storage(rng), *place)
    yield Call(Name(UTILS, "_rebuild_tensor_v3"), storage(rng), *place, False, {}, dtype(rng))
    yield Call(Name(UTILS, "_rebuild_meta_tensor_no_storage"), dtype(rng), (2, 3), (3, 1), False)
    scheme = Name("torch", rng.choice(["per_tensor_affine", "per_channel_affine"]))
    for parts in ((scheme, 0.5, 3), (scheme, tensor(rng), tensor(rng), 1)):
        yield Call(Name(UTILS, "_rebuild_qtensor"), Stored("QUInt8", "0", "cpu", BYTES), *place, parts, False, {})
    layout = rng.choice(["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
    kind = Call(Name("torch.serialization", "_get_layout"), f"torch.{layout}")
    values = Call(Name(UTILS, "_rebuild_tensor_v2"), Stored(), 0, (3,), (1,), False, {})
    parts = (
        (indices(rng, 2, 3), values, (4, 5), False)
        if layout == "sparse_coo"
        else (indices(rng, 4), indices(rng, 3), values, (3, 5))
    )
    yield Call(Name(UTILS, "_rebuild_sparse_tensor"), kind, parts)
    yield Call(Name(UTILS, "_rebuild_parameter"), tensor(rng), True, {})
    yield Call(Name(UTILS, "_rebuild_parameter_with_state"), tensor(rng), True, {}, state(rng))
    yield Call(Name(UTILS, "_rebuild_device_tensor_from_cpu_tensor"), tensor(rng), dtype(rng), "cpu", False)
    inner = rng.choice([v2, Call(Name(UTILS, "_rebuild_tensor"), storage(rng), *place)])
    yield Call(
        Name("torch._tensor", "_rebuild_from_type_v2"), inner.function,
        rng.choice([Name("torch", "Tensor"), Name("torch.nn.parameter", "Parameter")]), tuple(inner.args), state(rng),
    )  # fmt: skip
    yield Call(Name("collections", "OrderedDict"), [["a", tensor(rng)]], build=state(rng))
    v2 = tensor(rng)
    v2.build = state(rng)
    yield v2
    yield Call(Name("torch", "Size"), (2, 3))
    yield Call(Name("torch", "device"), "cpu")


def state(rng):
    names = ["dtype", "_array", "_k", "_edge", "_storage", "_view", "_autograd_meta", "__class__", "__dict__", "stride", "shape",
             "data", "grad", "requires_grad", "note", "_metadata", "items", "__reduce_ex__", "_is_param", "untyped_storage"]  # fmt: skip
    made = {rng.choice(names): odd(rng, 1) for _ in range(rng.randrange(3))}
    return rng.choice([None, made, (made, None), (None, made), ({}, made), (made, made), [made], 3])


def odd(rng, depth=2):
    """A value that does not belong where it will stand."""
    numbers = [0, 1, -1, 5, 2**31, 2**32 - 1, 2**61, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 2**64 + 1, 10**30]
    kind = rng.randrange(13 if depth else 8)
    if kind < 3:
        return rng.choice(numbers)
    if kind == 3:
        return rng.choice([None, True, "cpu", "meta", "cuda", "", "torch.sparse_coo", b"abc", 0.5, float("nan"), 1e300])
    if kind == 4:
        return dtype(rng)
    if kind == 5:
        return Name(*rng.choice([("torch", "Tensor"), ("torch", "FloatTensor"), ("torch", "FloatStorage"), ("collections", "OrderedDict"),
                                 (UTILS, "_rebuild_tensor_v2"), ("torch", "UntypedStorage"), ("torch", "per_channel_affine")]))  # fmt: skip
    if kind == 6:
        return Again()
    if kind == 7:
        return storage(rng)
    if kind == 8:
        return tuple(rng.choice([*numbers, 2, 3]) for _ in range(rng.randrange(4)))
    if kind == 9:
        return [odd(rng, depth - 1) for _ in range(rng.randrange(3))]
    if kind == 10:
        return {rng.choice(["conj", "neg", "a", 1, None]): odd(rng, depth - 1)}
    if kind == 11:
        return rng.choice(list(calls(rng)))
    return rng.choice(
        [
            tensor(rng),
            Stored(rng.choice(KINDS), rng.choice("012"), rng.choice(["cpu", "meta"]), rng.choice([*numbers, 24, 12])),
        ]
    )


def confuse(value, rng, depth=0):
    """Replaces one part of a call, anywhere in it."""
    parts = value.args if isinstance(value, Call) else value.parts if isinstance(value, Stored) else None
    if isinstance(value, tuple):
        made = list(value)
        if not made or rng.random() < 0.2:
            return odd(rng)
        at = rng.randrange(len(made))
        made[at] = confuse(made[at], rng, depth + 1)
        if rng.random() < 0.05:
            del made[at]
        return tuple(made)
    if parts is None or (depth and rng.random() < 0.3):
        return odd(rng)
    at = rng.randrange(len(parts) + 1)
    if at == len(parts):
        parts.append(odd(rng))
    else:
        parts[at] = confuse(parts[at], rng, depth + 1)
    return value


def file_of(value):
    content = bytearray(b"\x80\x02")
    written(value, content, [])
    file = io.BytesIO()
    writer = Writer(file.write, "archive")
    writer.record("data.pkl", bytes(content + b"."))
    for key in range(2):
        writer.record(f"data/{key}", bytes([key, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]) * (BYTES // 16))
    writer.finish()
    file.seek(0)
    return file


def sound(t):
    """Whether a tensor's parts fit each other and its memory."""
    array = t._array
    if not isinstance(t.dtype, torch.dtype) or t._k.__class__ is not int or not isinstance(t.stride, types.MethodType):
        return False
    if t.layout is not torch.strided or t.is_meta:
        return True
    if array.dtype != t.dtype.numpy or not (t._edge is None and t._view is None):
        return False
    if not array.size:
        return True
    low, high = np.lib.array_utils.byte_bounds(array)
    first, last = np.lib.array_utils.byte_bounds(t._storage.array if t._storage is not None else array)
    return first <= low and high <= last


def used(made):
    """Does to what was loaded what programs do; errors are fine."""
    if isinstance(made, dict):
        for item in list(dict.values(made)):
            used(item)
    if not isinstance(made, torch.Tensor):
        return
    assert sound(made), "a tensor's parts do not fit each other"
    small = 0
    for step in (
        lambda: made.shape.numel(), lambda: made.numel(), lambda: repr(made), lambda: copy.deepcopy(made),
        lambda: made.sum(), lambda: made.clone(), lambda: made.to(torch.float64), lambda: made.detach().zero_(),
        lambda: torch.save(made, io.BytesIO()), lambda: made.to_dense(), lambda: made.dequantize(), lambda: made == made,
        lambda: made @ made.t(), lambda: made[1], lambda: made.detach().fill_(1), lambda: made.backward(),
        lambda: made.coalesce(), lambda: made.detach().view(-1)[-1:].add_(1), lambda: torch.ones(2, 3)[made.bool()],
    ):  # fmt: skip
        if small > (1 << 20):
            return
        try:
            step()
            small = made.numel()
        except (Exception, MemoryError):
            pass


def main(count, seed):
    limit()
    rng = random.Random(seed)
    outcomes = {"loaded": 0, "refused": 0}
    for number in range(count):
        value = rng.choice(list(calls(rng)))
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            confuse(value, rng)
        print(number, flush=True)
        try:
            made = torch.load(file_of(value))
        except MemoryError:
            raise
        except Exception as error:
            known = (RuntimeError, ValueError, EOFError, NotImplementedError)
            if not isinstance(error, known) and "Unpickling" not in type(error).__name__:
                traceback.print_exc()
                raise SystemExit(f"case {number}: {type(error).__name__}") from None
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        used(made)
    print(outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

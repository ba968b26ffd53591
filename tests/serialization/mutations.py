"""Loads a thousand damaged checkpoints in one process: each must raise an exception or give what was saved."""

import io
import pickle
import random
import resource
import sys
from collections import OrderedDict

import flambeau as torch

ROOM = 1 << 29  # bytes that damaged files must not make the process exceed
CLEAN = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError)


def things(shift):
    x = torch.arange(12.0).reshape(3, 4) + shift
    return {
        "whole": x, "row": x[1], "half": torch.ones(3, dtype=torch.bfloat16), "parameter": torch.nn.Parameter(torch.ones(2, 3)),
        "sparse": torch.eye(3).to_sparse(), "rows": torch.eye(3).to_sparse_csr(), "plain": [1, 2.5, "text", None, {"k": (1, 2)}],
        "ordered": OrderedDict(a=torch.arange(5)), "untyped": torch.zeros(3, dtype=torch.uint16), "set": {1, 2},
    }  # fmt: skip


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def shown(x):
    """All that can be said of an object, to compare it."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided:
            return (str(x.layout), x.to_dense().tolist())
        values = x.detach().to(torch.float64).tolist()
        return (type(x).__name__, str(x.dtype), tuple(x.shape), tuple(x.stride()), x.requires_grad, values)
    if isinstance(x, dict):
        return (type(x).__name__, [(key, shown(value)) for key, value in x.items()])
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, [shown(value) for value in x])
    return repr(x)


def damaged(content, other, rng):
    data = bytearray(content)
    kind = rng.randrange(5)
    at = rng.randrange(len(data))
    length = rng.randrange(1, 200)
    if kind == 0:
        for _ in range(rng.choice([1, 1, 1, 3, 10])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        start = rng.randrange(len(other))
        data[at : at + length] = other[start : start + length]
    elif kind == 3:
        data[at : at + length] = rng.randbytes(rng.choice([0, length]))
    else:
        value = rng.choice([0, 255, 127, 128])
        data[at : at + 8] = bytes([value]) * len(data[at : at + 8])
    return bytes(data)


def main(count, checked, **options):
    content, other = saved(things(0), **options), saved(things(1), **options)
    wanted = shown(torch.load(io.BytesIO(content)))
    rng = random.Random(7)
    outcomes = {"equal": 0, "refused": 0, "different": 0}
    for number in range(count):
        try:
            made = torch.load(io.BytesIO(damaged(content, other, rng)))
        except CLEAN:
            outcomes["refused"] += 1
            continue
        same = not checked or shown(made) == wanted
        outcomes["equal" if same else "different"] += 1
        assert same, f"damaged file {number} loads as something else"
    return outcomes


if __name__ == "__main__":
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    print(main(int(sys.argv[1]), True))
    print(main(int(sys.argv[1]) // 4, False, _use_new_zipfile_serialization=False))  # has no checksums

"""Files of all formats, changed operation by operation instead of byte by byte: `python confused_archives.py COUNT SEED`.

Operations of pickles are exchanged, dropped, repeated and given other arguments; headers of safetensors get values of other
types; source texts of TorchScript archives get other names and numbers. What loads is used. Exceptions of the documented kinds
are right.
"""

import contextlib
import io
import json
import pickle
import pickletools
import random
import re
import struct
import sys
import tempfile
import traceback
import zipfile
from collections import OrderedDict
from pathlib import Path

from attack import limit
from confused_pickles import used

import flambeau as torch
from flambeau._serialization.archive import Writer
from flambeau.utils import safetensors

KNOWN = (RuntimeError, ValueError, EOFError, NotImplementedError, pickle.UnpicklingError, safetensors.SafetensorError)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("steps", torch.arange(4))
        self.names = ["a", "b"]

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0.0:
            y = y * 2
        for i in range(3):
            y = y + self.steps[i]
        return y


def things():
    x = torch.arange(12.0).reshape(3, 4)
    return {"x": x, "row": x[1, ::2], "sparse": torch.eye(3).to_sparse(), "rows": torch.eye(3).to_sparse_csr(), "p": torch.nn.Parameter(torch.ones(2)),
            "plain": [1, 2.5, "text", None, (1, 2)], "ordered": OrderedDict(a=torch.arange(3)), "wide": torch.zeros(3, dtype=torch.uint16),
            "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 2, torch.quint8)}  # fmt: skip


def saved(obj, save=torch.save, **options):
    file = io.BytesIO()
    save(obj, file, **options)
    return file.getvalue()


def operations(data):
    """The operations of a pickle as pieces of bytes."""
    places = [place for _, _, place in pickletools.genops(data)]
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)])]


ODD = [b"N", b"\x88", b"]", b"}", b")", b"K\x00", b"K\xff", b"J\xff\xff\xff\xff", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x8a\x08" + b"\0" * 7 + b"\x80",
       b"\x8a\x09" + b"\0" * 8 + b"\x01", b"X\x03\0\0\0cpu", b"G" + struct.pack(">d", 1e300), b"ctorch\nfloat64\n", b"ctorch\nBoolStorage\n", b"ctorch\nUntypedStorage\n",
       b"ctorch._utils\n_rebuild_tensor_v3\n", b"ctorch\nTensor\n", b"(", b"0", b"t", b"R", b"b", b"s", b"u", b"a", b"e", b"Q", b"2", b"\x85", b"\x86", b"\x87", b"h\x00", b"h\x01",
       b"h\x05", b"h\x0a", b"h\x10", b"\x81", b"1", b"ccollections\nOrderedDict\n", b"l", b"d"]  # fmt: skip


def confused(data, rng):
    """A pickle with some operations changed."""
    parts = operations(data)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at, other = rng.randrange(1, len(parts)), rng.randrange(1, len(parts))
        kind = rng.randrange(5)
        if kind == 0:
            parts[at] = rng.choice(ODD)
        elif kind == 1:
            parts[at] = parts[other]
        elif kind == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 3:
            parts.insert(at, rng.choice([rng.choice(ODD), parts[other]]))
        elif len(parts) > 2:
            del parts[at]
    return b"".join(parts)


def records(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def archive(found):
    file = io.BytesIO()
    writer = Writer(file.write, "archive")
    for name, data in found.items():
        writer.record(name, data)
    table = b"".join(writer._central)
    writer.flush()
    start = file.tell()
    file.write(table + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(found), len(found), len(table), start, 0))
    return file.getvalue()


def confused_text(text, rng):
    words = re.findall(r"[A-Za-z_][\w.]*|\d+(?:\.\d+)?|\s+|.", text)
    useful = [i for i, word in enumerate(words) if word.strip()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, other = rng.choice(useful), rng.choice(useful)
        words[at] = rng.choice(
            [
                words[other],
                words[other],
                str(2**63),
                "-1",
                "None",
                "[]",
                "self",
                "torch",
                "__class__",
                "'a'",
                "getattr",
                "training",
                "0",
            ]
        )
    return "".join(words)


def confused_header(data, rng):
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    name = rng.choice([name for name in header if name != "__metadata__"])
    odd = [
        None,
        -1,
        0,
        1,
        2**63,
        2**64,
        1.5,
        "F32",
        "F64",
        "BOOL",
        "I64",
        "U8",
        [],
        [0],
        [0, 2**63],
        [-1, 4],
        [[1]],
        {},
        True,
        [4, 0],
        [0, 10**20],
        "BF16",
        [2**31] * 4,
    ]
    odd = [json.dumps(value) for value in odd]  # a new one each time
    for _ in range(rng.choice([1, 1, 2])):
        key = rng.choice(["dtype", "shape", "data_offsets", "more"])
        if not isinstance(header.get(name), dict) or rng.random() < 0.1:
            header[name] = json.loads(rng.choice(odd))
        elif isinstance(header[name].get(key), list) and rng.random() < 0.6 and header[name][key]:
            header[name][key][rng.randrange(len(header[name][key]))] = json.loads(rng.choice(odd))
        else:
            header[name][key] = json.loads(rng.choice(odd))
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def attempt(number, kind, load):
    print(number, kind, flush=True)
    try:
        made = load()
    except KNOWN:
        return 0
    except BaseException as error:
        traceback.print_exc()
        raise SystemExit(f"{kind} {number}: {type(error).__name__}") from None
    for value in made.values() if isinstance(made, dict) else [made]:
        with contextlib.suppress(RecursionError):
            used(value)
    return 1


def run_module(data):
    made = torch.jit.load(io.BytesIO(data))
    with contextlib.suppress(Exception):
        made(torch.ones(2, 3))
    return {name: t for name, t in made.state_dict().items()}


def main(count, seed):
    limit()
    rng = random.Random(seed)
    plain, module = records(saved(things())), records(saved(torch.jit.script(Net()), torch.jit.save))
    legacy = saved(things(), _use_new_zipfile_serialization=False)
    starts = [0]
    for _ in range(4):
        file = io.BytesIO(legacy[starts[-1] :])
        for _opcode, _, place in pickletools.genops(file):
            end = place
        starts.append(starts[-1] + end + 1)
    place = Path(tempfile.mkdtemp()) / "x.safetensors"
    safetensors.save_file({"a": torch.ones(3, 4), "b": torch.arange(5), "c": torch.ones(3, dtype=torch.bool)}, place)
    header = place.read_bytes()
    text = next(name for name in module if name.endswith(".py"))
    loaded = {}
    for number in range(count):
        kind = ("archive", "legacy", "module", "constants", "text", "safetensors")[number % 6]
        if kind == "archive":
            data = archive({**plain, "data.pkl": confused(plain["data.pkl"], rng)})
            load = lambda: torch.load(io.BytesIO(data))
        elif kind == "legacy":
            data = legacy[: starts[3]] + confused(legacy[starts[3] : starts[4]], rng) + legacy[starts[4] :]
            load = lambda: torch.load(io.BytesIO(data))
        elif kind in ("module", "constants"):
            name = "data.pkl" if kind == "module" else "constants.pkl"
            data = archive({**module, name: confused(module[name], rng)})
            load = lambda: run_module(data)
        elif kind == "text":
            data = archive({**module, text: confused_text(module[text].decode(), rng).encode()})
            load = lambda: run_module(data)
        else:
            place.write_bytes(confused_header(header, rng))
            load = lambda: safetensors.load_file(place)
        loaded[kind] = loaded.get(kind, 0) + attempt(number, kind, load)
    print("end", loaded)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

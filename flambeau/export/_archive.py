"""`.pt2` archives: a zip container with the program as JSON, the bytes of its tensors, and example arguments."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

from .. import serialization
from .._core.devices import device
from .._serialization import files
from .._serialization.archive import ArchiveError, Reader, Writer
from .._tensor import Tensor, wrap
from ..nn.parameter import Parameter
from ._deserialization import FileError, _of, _path, program_from_json, size_of
from ._schema import DTYPES
from ._serialization import program_as_json, tensor_meta
from .exported_program import ExportedProgram

_LARGEST_TEXT = 1 << 29  # bytes of JSON


def save(
    ep: ExportedProgram, f: Any, extra_files: dict[str, Any] | None = None, *, more: dict[str, bytes] | None = None
) -> None:
    """Writes a program to a path or file object, with extra files for its user and more records for others."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    text = json.dumps(program_as_json(ep), allow_nan=False).encode()
    extra = {f"extra/{path}": c.encode() if isinstance(c, str) else bytes(c) for path, c in (extra_files or {}).items()}
    records = {**extra, **(more or {})}
    if files.is_path(f):
        with files.replacing(f) as write:
            _write(ep, text, write, serialization._archive_name(f), records)
    else:
        _write(ep, text, files.writer_of(f), "archive", records)


def _write(ep: ExportedProgram, text: bytes, write: Any, name: str, records: dict[str, bytes]) -> None:
    archive = Writer(write, name)
    archive.record("archive_format", b"pt2")
    archive.record("archive_version", b"0")
    archive.record("byteorder", b"little")
    archive.record("models/model.json", text)
    _write_tensors(archive, ep.state_dict, "weights", "weight")
    _write_tensors(archive, ep.constants, "constants", "tensor")
    if ep.example_inputs is not None:
        held = io.BytesIO()
        serialization.save(ep.example_inputs, held)
        archive.record("data/sample_inputs/model.pt", held.getvalue())
    for path, content in records.items():
        archive.record(path, content)
    archive.finish()


def _write_tensors(archive: Writer, tensors: dict[str, Any], folder: str, prefix: str) -> None:
    config: dict[str, Any] = {}
    known: dict[int, str] = {}  # tensors that two names share are written once
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise NotImplementedError(f"torch.export.save: the constant {name!r} is no tensor but a {type(t).__name__}")
        dense = t.detach().cpu().contiguous()
        if id(t) not in known:
            known[id(t)] = f"{prefix}_{len(known)}"
            archive.record(f"data/{folder}/{known[id(t)]}", np.ascontiguousarray(dense._array).view(np.uint8).tobytes())
        meta = tensor_meta(dense)
        meta["requires_grad"] = bool(t.requires_grad)
        config[name] = {
            "path_name": known[id(t)], "is_param": isinstance(t, Parameter), "use_pickle": False, "tensor_meta": meta,
        }  # fmt: skip
    archive.record(f"data/{folder}/model_{folder}_config.json", json.dumps({"config": config}).encode())


# -- reading -----------------------------------------------------------------------------------------------------------------


def load(f: Any, extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """Reads a program from a path or file object; nothing of the file is executed."""
    with files.opened(f) as file:
        try:
            archive = Reader(files.FileSource(file))
        except (ArchiveError, EOFError) as error:
            raise FileError(f"torch.export.load: {error}") from None
        if "archive_format" not in archive or archive.read("archive_format") != b"pt2":
            raise FileError("torch.export.load: the file is no .pt2 archive: torch.export.save writes them")
        if "byteorder" in archive and archive.read("byteorder") != b"little":
            raise FileError("torch.export.load: the archive's numbers are in the order of another kind of machine")
        models = [n for n in archive.names() if n.startswith("models/") and n.endswith(".json")]
        name = "models/model.json" if "models/model.json" in models or not models else models[0]
        model = name.removeprefix("models/").removesuffix(".json")
        data = _text(archive, name)
        state = _read_tensors(archive, "weights", model)
        constants = _read_tensors(archive, "constants", model)
        for path in extra_files or ():
            if f"extra/{path}" in archive:
                extra_files[path] = archive.read(f"extra/{path}").decode("utf-8", "replace")  # type: ignore[index]
        examples = None
        if f"data/sample_inputs/{model}.pt" in archive:
            held = io.BytesIO(archive.read(f"data/sample_inputs/{model}.pt"))
            examples = serialization.load(held, weights_only=True)
            if not (isinstance(examples, tuple) and len(examples) == 2):
                raise FileError("torch.export.load: the archive's example arguments are no arguments")
            examples = tuple(examples[0]), dict(examples[1])
    return program_from_json(data, state, constants, examples)


def _text(archive: Reader, name: str) -> Any:
    if archive.size(name) > _LARGEST_TEXT:
        raise FileError(f"torch.export.load: {name} has more than {_LARGEST_TEXT} bytes")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError) as error:
        raise FileError(f"torch.export.load: {name} is no JSON: {error}") from None


def _read_tensors(archive: Reader, folder: str, model: str) -> dict[str, Any]:
    name = f"data/{folder}/{model}_{folder}_config.json"
    if name not in archive:
        return {}
    found: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    try:
        for path, entry in _text(archive, name)["config"].items():
            record = f"data/{folder}/{entry['path_name']}"
            key = f"{record} {entry['tensor_meta']} {entry['is_param']}"
            if key not in shared:
                shared[key] = _tensor(archive, record, entry)
            found[_path(path)] = shared[key]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"torch.export.load: {name} is not in order: {type(error).__name__}: {error}") from error
    return found


def _tensor(archive: Reader, record: str, entry: dict[str, Any]) -> Tensor:
    if entry["use_pickle"]:
        t = serialization.load(io.BytesIO(archive.read(record)), weights_only=True)
        if not isinstance(t, Tensor):
            raise FileError(f"torch.export.load: {record} holds no tensor")
    else:
        meta = entry["tensor_meta"]
        d = _of(DTYPES, meta["dtype"])
        sizes, strides = [int(size_of(n)) for n in meta["sizes"]], [int(size_of(n)) for n in meta["strides"]]
        start = int(size_of(meta["storage_offset"]))
        data = np.frombuffer(archive.read(record), np.uint8) if archive.size(record) else np.empty(0, np.uint8)
        held = data.size // d.itemsize
        last = start + sum((n - 1) * step for n, step in zip(sizes, strides)) if math.prod(sizes) else start - 1
        if len(sizes) != len(strides) or len(sizes) > 64 or last >= held:
            raise FileError(f"torch.export.load: {record} has {data.size} bytes, too few for sizes {sizes}")
        elements = data[: held * d.itemsize].view(d.numpy)[start:]
        steps = [n * d.itemsize for n in strides]
        array = (
            np.lib.stride_tricks.as_strided(elements, sizes, steps) if math.prod(sizes) else np.empty(sizes, d.numpy)
        )
        t = wrap(array.copy(order="K"), d)
        where = meta["device"]["type"]
        t = t if where in ("cpu", "meta") else t.to(device(where))
    if entry["is_param"]:
        return Parameter(
            t, requires_grad=bool(entry["tensor_meta"]["requires_grad"]) if entry.get("tensor_meta") else True
        )
    return t

"""The safetensors format: what is written is read, and nothing else is accepted."""

import json
import struct

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils import safetensors
from flambeau.utils.safetensors import (
    SafetensorError,
    load,
    load_file,
    load_model,
    safe_open,
    save,
    save_file,
    save_model,
)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_all_dtypes(tmp_path):
    made = {
        name: torch.arange(8, dtype=torch.uint8).view(getattr(torch, name))
        for name in safetensors._TYPES
        if name != "bool"
    }
    made.update(flag=torch.tensor([True, False]), scalar=torch.tensor(2.5), empty=torch.zeros(0, 3))
    path = tmp_path / "all.safetensors"
    save_file(made, path, metadata={"format": "pt"})
    for again in (load_file(path), load(save(made)), load(path.read_bytes())):
        assert again.keys() == made.keys()
        for name, x in made.items():
            assert again[name].dtype is x.dtype and again[name].shape == x.shape
            assert again[name]._array.tobytes() == x._array.tobytes()
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert length % 8 == 0  # the memory is aligned


def test_a_file_from_elsewhere():
    content = file_of(
        {"__metadata__": {"a": "b"}, "x": entry("I16", (2, 1), (0, 4))}, np.array([5, -6], np.int16).tobytes()
    )
    assert load(content)["x"].tolist() == [[5], [-6]]


def test_parts(tmp_path):
    path = tmp_path / "parts.safetensors"
    save_file({"b": torch.arange(6.0).reshape(3, 2), "a": torch.ones(1, dtype=torch.int8)}, path, {"k": "v"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == ["a", "b"] and file.offset_keys() == ["b", "a"] and file.metadata() == {"k": "v"}
        part = file.get_slice("b")
        assert part.get_shape() == [3, 2] and part.get_dtype() == "F32" and part[1:, 0].tolist() == [2, 4]
        whole = file.get_tensor("b")
        whole[0] = 9
        assert file.get_tensor("b")[0].tolist() == [0, 1]
        with pytest.raises(SafetensorError):
            file.get_tensor("none")
    with pytest.raises(SafetensorError):
        safe_open(path, framework="np")


def test_what_cannot_be_saved():
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="contiguous"):
        save({"x": x.t()})
    with pytest.raises(RuntimeError, match="share memory"):
        save({"x": x, "y": x[0]})
    with pytest.raises(ValueError, match="sparse"):
        save({"x": x.to_sparse()})
    for wrong in ([x], {"x": 1}, {1: x}, {"x": x.to(torch.complex128)}):
        with pytest.raises(ValueError):
            save(wrong)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 7, struct.pack("<Q", 1 << 60), struct.pack("<Q", 50) + b"{}", file_of(b"[]"), file_of(b" {}"), file_of(b"{"),
        file_of(b'{"x":1}'), file_of(b'{"a":' * 5000), file_of(b'{"x":{},"x":{}}'), file_of({"__metadata__": {"a": 1}}),
        file_of({"x": entry()}), file_of({"x": entry()}, bytes(5)), file_of({"x": entry("Q1")}, bytes(4)),
        file_of({"x": entry(shape=(2,))}, bytes(4)), file_of({"x": entry(shape=(-1,), offsets=(0, -4))}),
        file_of({"x": entry(shape=(1.0,))}, bytes(4)), file_of({"x": entry(offsets=(4, 8))}, bytes(8)),
        file_of({"x": entry(), "y": entry()}, bytes(4)), file_of({"x": entry(shape=(1 << 61,), offsets=(0, 1 << 63))}),
        file_of({"x": entry(offsets=(0, 4, 8))}, bytes(4)),
    ],
)  # fmt: skip
def test_damaged_files(content, tmp_path):
    with pytest.raises(SafetensorError):
        load(content)
    path = tmp_path / "bad"
    path.write_bytes(content)
    for read in (load_file, safe_open):
        with pytest.raises(SafetensorError):
            read(path)


def tied():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    return model


def test_modules_with_shared_weights(tmp_path):
    path, model, other = tmp_path / "model.safetensors", tied(), tied()
    save_model(model, path)
    assert sorted(load_file(path)) == ["0.bias", "0.weight", "1.bias"]
    assert load_model(other, path) == ([], [])
    assert torch.equal(other[1].weight, model[0].weight) and other[1].weight is other[0].weight
    larger = torch.nn.Sequential(*tied(), torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"2\.bias"):
        load_model(larger, path)
    assert load_model(larger, path, strict=False) == (["2.bias", "2.weight"], [])

"""Storages as programs make them: by the old class names, from buffers, as bytes."""

import io
import pickle

import pytest

import flambeau as torch


def test_old_names_make_typed_storages():
    s = torch.FloatStorage([1.0, 2.0])
    assert type(s) is torch.TypedStorage and isinstance(s, torch.FloatStorage) and not isinstance(s, torch.LongStorage)
    assert torch.Storage is torch.FloatStorage and torch.Storage(3).fill_(2).tolist() == [2, 2, 2]
    assert torch.LongStorage([1, 2]).float().tolist() == [1.0, 2.0]
    assert not hasattr(torch, "ComplexHalfStorage")


def test_from_buffer():
    assert torch.ShortStorage.from_buffer(bytearray([1, 0, 2, 0]), "little").tolist() == [1, 2]
    assert torch.ShortStorage.from_buffer(bytearray([0, 1, 0, 2]), "big", 1, 2).tolist() == [2]
    with pytest.raises(ValueError, match="byte_order"):
        torch.ShortStorage.from_buffer(bytearray(2), "middle")
    with pytest.raises(ValueError, match="multiple"):
        torch.IntStorage.from_buffer(bytearray(3), "native")


def test_bytes_of_untyped_storages_become_numbers():
    s = torch.tensor([1.0]).untyped_storage()
    assert s.byte().tolist() == [0, 0, 128, 63] and s.float().tolist() == [0, 0, 128, 63]


def test_storages_are_pickled():
    s = torch.LongStorage([1, 2])
    again = pickle.loads(pickle.dumps(s))
    assert again.tolist() == [1, 2] and again.dtype is torch.int64
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    assert torch.storage._load_from_bytes(buffer.getvalue())["a"].tolist() == [1, 1]


class Odd:
    """What a weights-only load refuses."""


def test_environment_variables_of_load(monkeypatch, tmp_path):
    path = tmp_path / "odd.pt"
    torch.save(Odd(), path)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert isinstance(torch.load(path), Odd)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="both"):
        torch.load(path)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=False)

"""Checkpoints of several processes, and what optimizers keep in them."""

import pickle
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import _pickles, metadata

from .world import needs_mpi, run

CHECKS = Path(__file__).parent / "checkpoint_checks.py"


@pytest.mark.slow
@needs_mpi
def test_worlds(tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    run(CHECKS, ["write", "read", "again", "published", "models", "divided_optimizer", "scaler"], 2)
    assert sorted(p.name for p in (tmp_path / "parts").iterdir()) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    run(CHECKS, ["read", "write"], 4)
    from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(tmp_path / "parts", tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt")
    assert torch.equal(whole["rows"], torch.arange(14.0).view(7, 2)) and whole["inner"]["list"][0] == 1
    assert torch.equal(whole["inner"]["columns"], torch.arange(10).view(2, 5)) and whole["step"] == 7


def test_metadata_is_not_trusted(tmp_path):
    dcp.save({"w": torch.ones(2), "step": 1}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(print))
    with pytest.raises(dcp.CheckpointException, match=r"builtins.print, which does not belong there"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(b"nonsense")
    with pytest.raises(dcp.CheckpointException, match="cannot be read"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=tmp_path)


def test_enumerations_are_written_by_value_and_read_by_name_too():
    """Python 3.11.0 to 3.11.3 would have written `getattr` of the class, as PyTorch's files from there have it."""
    kind = metadata._MEM_FORMAT_ENCODING
    data = pickle.dumps(kind.TORCH_CHANNELS_LAST, 2)
    assert b"getattr" not in data and pickle.loads(data) is kind.TORCH_CHANNELS_LAST

    def named(module, name):
        return f"cbuiltins\ngetattr\n(c{module}\nX{chr(len(name))}\0\0\0{name}tR.".encode()

    there = "torch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING"
    assert _pickles.unpack(named(there, "TORCH_CHANNELS_LAST")) is kind.TORCH_CHANNELS_LAST
    for module, name in ((there, "__class__"), ("torch\nSize", "count")):
        with pytest.raises(ValueError, match="cannot be read"):
            _pickles.unpack(named(module, name))


def test_files_stay_in_their_folder(tmp_path):
    found = dcp.save({"step": 1}, checkpoint_id=tmp_path)
    info = next(iter(found.storage_data.values()))
    info.relative_path = "../other"
    with pytest.raises(ValueError, match="outside of its folder"):
        dcp.FileSystemReader(tmp_path).bytes_of(info)

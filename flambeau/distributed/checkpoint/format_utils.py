"""From folders of parts to single files of `torch.save`, and back."""

from __future__ import annotations

from typing import Any

from ... import serialization
from . import _loading, _saving
from .filesystem import FileSystemReader

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Writes the whole state of a checkpoint's folder to one file."""
    serialization.save(_loading.load_all(FileSystemReader(dcp_checkpoint_dir)), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Writes the state in one file as a checkpoint's folder."""
    state = serialization.load(torch_save_path, map_location="cpu", weights_only=True)
    _saving.save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)

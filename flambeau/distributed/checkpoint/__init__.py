"""Checkpoints that several processes write together, which are not implemented: with one process use `torch.save`."""

from __future__ import annotations

from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter", "async_save", "load", "load_state_dict", "save", "save_state_dict"]

_WHY = "checkpoints divided among processes are not implemented: one process saves with torch.save(state_dict, file) and torch.load"


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Not available; use `torch.save` and `torch.load`."""
    raise NotImplementedError(_WHY)


save = load = async_save = save_state_dict = load_state_dict = _refuse


class FileSystemReader:
    """Not available: reads a folder that several processes wrote."""

    def __init__(self, path: Any, *args: Any, **kwargs: Any):
        raise NotImplementedError(_WHY)


class FileSystemWriter(FileSystemReader):
    """Not available: writes a folder together with other processes."""

"""Methods of everything that TorchScript's archives hold."""

from __future__ import annotations

import io
from typing import Any


class Savable:
    """A module or function that can be written as an archive."""

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes an archive that `torch.jit.load` reads, here and in PyTorch; a function as a module that calls it."""
        from ._archive import save  # it needs the classes that have this method

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes of the archive that `save` writes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

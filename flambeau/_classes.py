"""`torch.classes`: C++ classes that compiled libraries register. There are none here, and asking for one says so."""

from __future__ import annotations

import types
from typing import Any


class _ClassNamespace(types.ModuleType):
    """The classes of one library."""

    def __init__(self, name: str):
        super().__init__(f"torch.classes.{name}")
        self.name = name

    def __getattr__(self, attr: str) -> Any:
        if attr.startswith("__"):
            raise AttributeError(attr)
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{attr}', but it does not exist! Classes of C++ libraries need PyTorch's "
            "binaries, which flambeau does not load; write the class in Python"
        )


class _Classes(types.ModuleType):
    """All of them, by library."""

    def __init__(self) -> None:
        super().__init__("torch.classes")
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> _ClassNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _ClassNamespace(name)
        setattr(self, name, made)
        return made

    def load_library(self, path: str) -> None:
        """Refuses: there is nothing that could load one."""
        raise OSError(f"{path}: flambeau cannot load classes compiled for PyTorch; write them in Python")


classes = _Classes()

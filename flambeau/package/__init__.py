"""`torch.package`, of which flambeau has the names alone: archives that hold a program's source beside its tensors are refused.

Reading one means to run the Python code that is in it. What programs want of such a file is there in other forms: `torch.save` for
states, `torch.jit.save` and `torch.export.save` for models without their source.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "EmptyMatchError", "PackageExporter", "PackageImporter", "PackagingError", "is_from_package",
]  # fmt: skip

_REASON = (
    "{}: flambeau does not {} torch.package archives, which hold Python source and run it when they are read; save states "
    "with torch.save, and whole models with torch.jit.save or torch.export.save"
)


class PackagingError(Exception):
    """A module that cannot be put into an archive."""


class EmptyMatchError(Exception):
    """A pattern for modules that none of them has."""


class PackageExporter:
    """Refuses to write an archive.

    >>> import flambeau as torch
    >>> torch.package.PackageExporter("model.pt")
    Traceback (most recent call last):
    NotImplementedError: PackageExporter: flambeau does not write torch.package archives, ...
    """

    def __init__(self, f: Any, importer: Any = None, debug: bool = False):
        raise NotImplementedError(_REASON.format("PackageExporter", "write"))


class PackageImporter:
    """Refuses to read an archive; nothing of the file is looked at."""

    def __init__(self, file_or_buffer: Any, module_allowed: Any = None):
        raise NotImplementedError(_REASON.format("PackageImporter", "read"))


def is_from_package(obj: Any) -> bool:
    """Whether an object's class was defined by an archive: never, as none is read."""
    return False

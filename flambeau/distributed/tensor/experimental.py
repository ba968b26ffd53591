"""What PyTorch tries out for tensors divided among processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["implicit_replication"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors count as copies on every process; here they always are."""
    yield

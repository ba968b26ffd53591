"""What PyTorch tries out for tensors divided among processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._attention import context_parallel
from ._local import local_map
from ._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors count as copies on every process; here they always are."""
    yield

"""A group of one process: what goes to all comes back. It needs no library."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._kinds import DistBackendError


class Solo:
    """The calls of a group (see `_mpi.Channel`) over flat arrays; each is done when it returns."""

    on_device = False

    def _copy(self, out: np.ndarray, x: np.ndarray) -> None:
        if out is not x:
            out[...] = x

    def all_reduce(self, x: np.ndarray, op: Any) -> None: ...

    def broadcast(self, x: np.ndarray, root: int) -> None: ...

    def reduce(self, x: np.ndarray, root: int, op: Any) -> None: ...

    def barrier(self) -> None: ...

    def all_gather(self, out: np.ndarray, x: np.ndarray) -> None:
        self._copy(out, x)

    def gather(self, out: Any, x: np.ndarray, root: int) -> None:
        self._copy(out, x)

    def scatter(self, out: np.ndarray, x: Any, root: int) -> None:
        self._copy(out, x)

    def reduce_scatter(self, out: np.ndarray, x: np.ndarray, counts: Any, op: Any) -> None:
        self._copy(out, x)

    def all_to_all(self, out: np.ndarray, out_counts: Any, x: np.ndarray, counts: Any) -> None:
        self._copy(out, x)

    def send(self, x: np.ndarray, peer: int, tag: int) -> Any:
        raise DistBackendError("send: there is no other process")

    def recv(self, x: np.ndarray, peer: int | None, tag: int) -> Any:
        raise DistBackendError("recv: there is no other process")

    def close(self) -> None: ...

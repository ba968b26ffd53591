"""Compares what the processes of a group give to a call, by a small call beside it: MPI itself would quietly mix tensors of
different sizes or kinds.

Who gets data compares: all processes where all do, the receivers of a broadcast, the receiver of a reduction. So nobody
waits for processes that the call itself does not wait for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._kinds import DistBackendError

_KEPT = 4096  # descriptions of calls that are kept


class Checked:
    """The requests of a call: first that of the comparison beside it, then those for data. It is done when the comparison
    found no difference and all the others are done as well."""

    __slots__ = ("_compare", "pending")

    def __init__(self, comparison: Any, compare: Callable[[], None], *data: Any):
        self._compare: Callable[[], None] | None = compare
        self.pending = [comparison, *data]

    def Test(self) -> bool:
        pending = self.pending
        while pending:
            if not pending[0].Test():
                return False
            del pending[0]
            if self._compare is not None:
                compare, self._compare = self._compare, None
                compare()
        return True


class Agreement:
    """The comparisons of one group. Each starts one and gives its request, and what is to be called when that is done."""

    def __init__(self, mpi: Any, comm: Any, ranks: Sequence[int]):
        self._mpi, self._comm, self._ranks = mpi, comm, ranks
        self._rank, self._size = comm.Get_rank(), comm.Get_size()
        self._kept: dict[Any, np.ndarray] = {}

    def _words(self, call: tuple[Any, ...]) -> np.ndarray:
        """A call in numbers whose greatest and least among all processes show who differs, once each adds its rank: its
        bytes, and all else."""
        found = self._kept.get(call)
        if found is None:
            name, nbytes, *rest = call
            mark, size = zlib.crc32(f"{name} {rest}".encode()), self._size
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = np.array([nbytes * size, -nbytes * size, mark * size, -mark * size], np.int64)
            self._kept[call] = found
        return found

    def among_all(self, *call: Any) -> tuple[Any, Callable[[], None]]:
        """For calls in which every process gets data from all. `call` is its name, the number of bytes, and what else must
        be the same."""
        words = self._words(call)
        found = words + self._rank
        request = self._comm.Iallreduce(self._mpi.IN_PLACE, [found, 4, self._mpi.INT64_T], self._mpi.MAX)
        return request, lambda: self._compare(call[0], found, words, self._size - 1)

    def at_root(self, root: int, *call: Any) -> tuple[Any, Callable[[], None]]:
        """For calls in which one process gets data from all."""
        mpi, words = self._mpi, self._words(call)
        found = words + self._rank
        if self._rank != root:
            return self._comm.Ireduce([found, 4, mpi.INT64_T], None, mpi.MAX, root), lambda: None
        request = self._comm.Ireduce(mpi.IN_PLACE, [found, 4, mpi.INT64_T], mpi.MAX, root)
        return request, lambda: self._compare(call[0], found, words, self._size - 1)

    def with_root(self, root: int, *call: Any) -> tuple[Any, Callable[[], None]]:
        """For calls in which every process gets data from one."""
        words = self._words(call)
        found = words + self._rank
        request = self._comm.Ibcast([found, 4, self._mpi.INT64_T], root)
        return request, lambda: self._compare(call[0], found, words, root)

    def in_pairs(self, name: str, sent: list[int], expected: list[int]) -> tuple[Any, Callable[[], None]]:
        """For calls in which each process gets as much from another as that one sends to it."""
        mpi, mark = self._mpi, zlib.crc32(name.encode())
        given = np.array([[n, mark] for n in sent], np.int64)
        got = np.empty_like(given)

        def compare() -> None:
            for rank, wanted, (n, other) in zip(self._ranks, expected, got.tolist()):
                if other != mark:
                    self._different_calls(name, rank, self._ranks[self._rank])
                if n != wanted:
                    raise DistBackendError(
                        f"{name}: rank {rank} sends {n} bytes to rank {self._ranks[self._rank]}, which expects {wanted}"
                    )

        return self._comm.Ialltoall([given, 2, mpi.INT64_T], [got, 2, mpi.INT64_T]), compare

    def _compare(self, name: str, found: np.ndarray, words: np.ndarray, rank: int) -> None:
        """Raises unless these are the own words of a call with a rank added."""
        if (found - words).tolist() == [rank] * 4:
            return
        most, least, other, another = (divmod(n, self._size) for n in np.maximum(found, words + self._rank).tolist())
        if other[0] != -another[0]:
            self._different_calls(name, self._ranks[another[1]], self._ranks[other[1]])
        raise DistBackendError(
            f"{name}: the tensors have different sizes: rank {self._ranks[least[1]]} gave {-least[0]} bytes, "
            f"rank {self._ranks[most[1]]} gave {most[0]}"
        )

    def _different_calls(self, name: str, first: int, second: int) -> None:
        who = f"ranks {first} and {second}" if first != second else f"rank {self._ranks[self._rank]} and another"
        raise DistBackendError(
            f"{name}: {who} make different calls: another collective, "
            "dtype or reduction; all processes of a group must make the same calls in the same order"
        )

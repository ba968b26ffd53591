"""Lets a program import `mpi4py.MPI` without MPI starting at once.

Libraries ask it at their import whether mpiexec started them (`MPI.COMM_WORLD.Get_size() > 1`). MPI starts once in the life of
a process, and then as a world of one, before `init_process_group` could make it the world of all. So, unless mpiexec started
the program or it has set `mpi4py.rc.initialize`, MPI starts when it is first used for more than this question.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import sys
from typing import Any

_ALONE = {"Get_size": 1, "Get_rank": 0, "size": 1, "rank": 0}  # what is known of a world before MPI starts


class _Finder:
    """Finds `mpi4py.MPI` once, and changes what it gives."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "mpi4py.MPI":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        rc = sys.modules["mpi4py"].rc
        if spec is not None and spec.loader is not None and rc.initialize:
            rc.initialize = rc.finalize = False
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, inner: Any):
        self._inner = inner

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        for name in ("COMM_WORLD", "COMM_SELF"):
            setattr(module, name, _late(module, getattr(module, name)))


def _late(mpi: Any, comm: Any) -> Any:
    """A communicator whose use starts MPI."""

    class Late(type(comm)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if not mpi.Is_initialized():
                if name in _ALONE:
                    value = _ALONE[name]
                    return (lambda: value) if name[0].isupper() else value
                if not name.startswith("__"):
                    mpi.Init_thread()
                    atexit.register(_end, mpi)
            return super().__getattribute__(name)

    made = Late.__new__(Late)  # its constructor with an argument would ask MPI
    ctypes.memmove(mpi._addressof(made), mpi._addressof(comm), mpi._sizeof(comm))
    return made


def _end(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi.Finalize()


def postpone() -> None:
    """Has MPI wait, if the program may still import it."""
    launched = any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))
    if not launched and "mpi4py.MPI" not in sys.modules and importlib.util.find_spec("mpi4py") is not None:
        import mpi4py  # noqa: F401 (its own finder is to stand behind this one)

        sys.meta_path.insert(0, _Finder())

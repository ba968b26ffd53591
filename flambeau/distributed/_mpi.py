"""Calls between processes by MPI (MPICH through mpi4py), which works on the memory of the tensors themselves.

MPI starts once in the life of a process, at the first `init_process_group` of more than one. However the program was
started: the processes find each other by a store, rank 0 runs a PMI server (`_pmi.py`), and the variables that MPI reads
name it. Under mpiexec or srun their own server is used. Every call is a nonblocking one of MPI that is tested again and
again, so that there is always a way out: a rank that is gone, or time that is up, ends the wait with an error.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import json
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._kinds import DistBackendError, DistStoreError, RedOpType
from ._mpi_agreement import Agreement, Checked
from ._mpi_kinds import reduced
from ._mpi_late import postpone
from ._mpi_look import looking
from ._pmi import Server, part
from ._progress import progress
from ._stores import Store
from ._tcp_store import TCPStore
from ._watch import Watch
from ._work import Work

_GRACE = 1.0  # seconds that a call may still take after a rank of its group is gone: it may have done its part
_LEAVING = 5.0  # seconds to wait for the others at the end of the program
_AWAKE = 0.0005  # seconds of waiting awake
_PATIENCE = 1 / 200e6  # seconds of the shortest naps between looks, for each byte of a call
_CROWDED = 0.1, 3.0  # seconds of sleeping between looks after others have taken the core: the first time, and the most
_LOOKS = 256  # looks at a request before the interpreter asks who is gone
_NAPS = 20, 2000  # microseconds of sleep between looks: the first, and the longest
_GLANCE = 24, 4, 50  # in the background: looks, how many of them awake, and microseconds of sleep between the others
postpone()  # MPI's start, which libraries cause at their import
_PMI = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID")


def installed() -> bool:
    """Whether mpi4py can be imported."""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def library() -> Any:
    """`mpi4py.MPI`, without starting MPI."""
    try:
        import mpi4py
    except ImportError:
        raise RuntimeError(
            'a world of several processes needs MPI: pip install "flambeau[distributed]" (mpi4py and mpich), or run with '
            "one process"
        ) from None
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI

    return MPI


def started_by_launcher() -> tuple[int, int] | None:
    """Rank and size that mpiexec or srun gave this process; None if it was started in another way."""
    if "PMI_RANK" in os.environ and "PMI_SIZE" in os.environ:
        return int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    if "PMIX_RANK" in os.environ and "SLURM_NTASKS" in os.environ:
        return int(os.environ["PMIX_RANK"]), int(os.environ["SLURM_NTASKS"])
    return None


# -- starting ----------------------------------------------------------------------------------------------------------


def _host() -> str:
    """Tells machines apart: processes with the same one share memory and the loopback network."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id") as file:
            parts.append(file.read().strip())
        parts += [str(os.stat("/proc/self/ns/net").st_ino), str(os.stat("/dev/shm").st_dev)]
    return "/".join(parts)


def _gather(store: Store, name: str, rank: int, size: int, value: Any, timeout: float) -> list[Any]:
    """The values of all ranks, which rank 0 collects within the time; otherwise the error says whose are missing."""
    store.set(f"{name}/{rank}", json.dumps(value))
    keys, everything, failed = [f"{name}/{r}" for r in range(size)], f"{name}/all", f"{name}/failed"
    end, pause = time.monotonic() + timeout, 0.001
    while True:
        if rank == 0 and store.check(keys):
            store.set(everything, json.dumps([json.loads(store.get(key)) for key in keys]))
        if store.check([everything]):
            return json.loads(store.get(everything))
        if store.check([failed]):
            raise DistStoreError(store.get(failed).decode())
        if time.monotonic() > end:
            missing = [r for r in range(size) if not store.check([keys[r]])]
            text = (
                f"Timed out after {timeout:g} seconds waiting for clients. {size - len(missing)}/{size} clients joined: "
                f"{_ranks(missing)} missing"
            )
            store.set(failed, text)
            time.sleep(0.5)  # the others read it as well: the store may end with this process
            raise DistStoreError(text)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _ranks(ranks: Sequence[int]) -> str:
    return (
        ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks)) + (" is" if len(ranks) == 1 else " are")
    )


def _address(store: Store, alone: bool) -> str:
    """Where the other processes reach this one."""
    if alone:
        return "127.0.0.1"
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    own = store._connection.getsockname()[0] if isinstance(store, TCPStore) else socket.gethostname()
    return store.host if isinstance(store, TCPStore) and own.startswith(("127.", "::1")) else own


def _unlink() -> None:
    """Takes the names of MPI's shared memory away, which its processes have open: nothing is left when they are killed."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for path in {line.split()[-1] for line in maps if "/dev/shm/mpich_shm_" in line}:
            with contextlib.suppress(OSError):
                os.unlink(path)


class World:
    """MPI in this process: its communicator, who is gone, and the thread that carries calls on in the background."""

    def __init__(self, mpi: Any, key: str, watch: Watch, server: Server | None, connection: int | None):
        self.mpi, self.key, self.watch, self._server, self._connection = mpi, key, watch, server, connection
        self.comm = mpi.COMM_WORLD
        self.comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.left: list[Work] = []  # calls that will not end: MPI may still write to their tensors
        atexit.register(self.close)

    def close(self) -> None:
        """Leaves; MPI ends if all others leave as well, and is left alone otherwise: its end waits for all."""
        failed = hasattr(sys, "last_value")  # an error ends this process: the others are to hear of it now
        idle = progress.stop(0.0 if failed else _LEAVING) and not self.left  # otherwise a thread may be inside of MPI
        ends = idle and not failed
        together = self.watch.leave(_LEAVING if ends else 0.0)
        if ends and (together or self._connection is None):
            end = threading.Thread(target=_functions(self.mpi).MPI_Finalize, name="flambeau-mpi", daemon=True)
            end.start()  # rank 0's server needs the interpreter to end it
            end.join(None if self._connection is None else _LEAVING)  # one may die just now
        if self._connection is not None:
            part(self._connection)
        if self._server is not None:
            self._server.close()


_world: World | None = None
_starts = itertools.count()


def current() -> World:
    """The world that was started."""
    assert _world is not None
    return _world


def forked() -> None:
    """In a forked process: leaves its parent's world alone at the end."""
    if _world is not None:
        atexit.unregister(_world.close)


def launched_store(rank: int, size: int) -> Store:
    """A store for processes that mpiexec started and gave no address to meet at: rank 0 keeps it and tells by MPI."""
    mpi = library()
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    store = TCPStore(socket.gethostname(), 0, size, True, wait_for_workers=False) if rank == 0 else None
    host, port = mpi.COMM_WORLD.bcast((store.host, store.port) if store else None)
    return store or TCPStore(host, port, size, False)


def start(store: Store, rank: int, size: int, timeout: float, doing: Callable[[], str]) -> World:
    """The world of this process: MPI starts now, unless it runs already."""
    global _world
    mpi = library()
    launched = started_by_launcher() == (rank, size)
    facts = [_host(), _world.key if _world else "", _world.rank if _world else -1]
    name = f"mpi/{next(_starts)}"  # a store may serve several worlds, one after the other
    everyone = _gather(store, name, rank, size, facts, timeout)
    if _world is not None:
        if any(key != _world.key for _, key, _ in everyone) or [r for *_, r in everyone] != list(range(_world.size)):
            raise RuntimeError(
                "MPI runs in this process already, with other processes than those of the new world; start new processes"
            )
        return _world
    if mpi.Is_initialized() and mpi.COMM_WORLD.Get_size() != size:
        raise RuntimeError(
            f"MPI was started before init_process_group (by `from mpi4py import MPI`), as a world of "
            f"{mpi.COMM_WORLD.Get_size()}; set mpi4py.rc.initialize = False first, or call init_process_group earlier"
        )
    names = [host for host, *_ in everyone]
    hosts = [names.index(host) for host in names]
    hosts = [sorted(set(hosts)).index(host) for host in hosts]
    server = None
    if rank == 0:
        alone = len(set(hosts)) == 1
        server = Server(size, "127.0.0.1" if alone else "")
        server.start(hosts)
        store.set(f"{name}/server", f"{_address(store, alone)} {server.port} {server.key}")
    host, port, key = store.get(f"{name}/server").decode().split()
    watch = Watch(host, int(port), rank, size, doing)
    connection = None
    if not launched:
        connection = socket.create_connection((host, int(port)), timeout).detach()
        os.set_blocking(connection, True)
        peers = [r for r in range(size) if hosts[r] == hosts[rank]]
        values = (connection, rank, size, len(peers), peers.index(rank))
        os.environ.update(zip(_PMI, map(str, values)))
        os.environ.setdefault(
            "UCX_TLS", "^sm"
        )  # MPI's own shared memory serves a host; UCX's outlives killed processes
    if not mpi.Is_initialized():
        _begin(mpi, watch, timeout)
    if not launched:
        for variable in _PMI:  # not for processes that this one starts
            del os.environ[variable]
    _world = World(mpi, key, watch, server, connection)
    return _world


def _functions(mpi: Any) -> ctypes.CDLL:
    """MPI's own functions, which let other threads of the interpreter run."""
    return ctypes.CDLL(mpi.__file__)


def _begin(mpi: Any, watch: Watch, timeout: float) -> None:
    """MPI_Init in a thread: it waits for all others, and one of them may end just now."""
    given = ctypes.c_int()

    def run() -> None:
        _functions(mpi).MPI_Init_thread(None, None, int(mpi.THREAD_MULTIPLE), ctypes.byref(given))

    outside(run, watch, range(watch.size), timeout, "the start of MPI")
    if given.value < int(mpi.THREAD_MULTIPLE) or mpi.COMM_WORLD.Get_size() != watch.size:
        raise RuntimeError(
            f"MPI started as a world of {mpi.COMM_WORLD.Get_size()} instead of {watch.size}, or without threads: mpi4py must use "
            f'MPICH, pip install "flambeau[distributed]"; found {mpi.Get_library_version().split(chr(10))[0]}'
        )


def outside(function: Callable[[], Any], watch: Watch, ranks: Sequence[int], timeout: float, what: str) -> Any:
    """Runs a blocking call of MPI in a thread, so that this one can give up."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((function(), None))
        except Exception as error:
            found.append((None, error))

    thread = threading.Thread(target=run, name="flambeau-mpi", daemon=True)
    thread.start()
    end = time.monotonic() + timeout
    while not found:
        thread.join(0.02)
        if not found and (any(r in watch.gone for r in ranks) or time.monotonic() > end):
            raise DistBackendError(f"{what}: {_gone(watch, ranks) or _silent(watch, timeout)}")
    result, error = found[0]
    if error is not None:
        raise DistBackendError(f"{what}: {error}") from error
    return result


def _silent(watch: Watch, timeout: float) -> str:
    """Which ranks do not answer, in words."""
    answers = watch.ask()
    silent = [rank for rank in range(watch.size) if rank not in answers and rank != watch.rank]
    return f"not done within {timeout:g} seconds" + (f", {_ranks(silent)} missing" if silent else "")


def _gone(watch: Watch, ranks: Any) -> str:
    """Which of some ranks are gone, in words; empty if none is."""
    found = [(rank, how) for rank, (how, _) in watch.gone.items() if rank in ranks]
    if found:  # a death elsewhere may be why a rank of this group has left
        found += [(rank, how) for rank, (how, _) in watch.gone.items() if rank not in ranks and how == "died"]
    return ", ".join(
        f"rank {rank} died"
        if how == "died"
        else f"rank {rank} has left (destroy_process_group, or the end of its program)"
        for rank, how in found
    )


# -- what is sent --------------------------------------------------------------------------------------------------------


def _bytes(x: np.ndarray) -> Any:
    return x.view(np.uint8)


class _Receiving:
    """A request of `recv`, which knows who sent, how much and of which dtype: a word about that comes beside the data.

    Words of one sender come in the order of its messages. So the word is asked for together with the data, or, if any sender
    will do, when the data is there; if meanwhile others wait for the same tag, it may be the word of another message.
    """

    def __init__(self, channel: Channel, x: np.ndarray, peer: int | None, tag: int):
        comm, mpi = channel.comm, channel.mpi
        self._status, self._given, self._word = mpi.Status(), x, np.zeros(1, np.int64)
        self._ask = lambda source: comm.Irecv(_bytes(self._word), source, channel.word_tag(tag))
        self._others = channel.from_anyone.setdefault(tag, [])
        self.is_sure, self.source = not self._others, peer
        for other in self._others:
            other.is_sure = False
        self.pending = [comm.Irecv(_bytes(x), mpi.ANY_SOURCE if peer is None else peer, tag)]
        if peer is None:
            self._others.append(self)
        else:
            self.pending.append(self._ask(peer))

    def Test(self) -> bool:
        if len(self.pending) == 2 or self.source is None:
            if not self.pending[0].Test(self._status):
                return False
            if self.source is None:
                self.source = self._status.Get_source()
                self._others.remove(self)
                self.pending.append(self._ask(self.source))
            del self.pending[0]
        if not self.pending[0].Test():
            return False
        x, got = self._given, self._status.count
        wrong = f"sent {got} bytes, not the {x.nbytes} of the tensor" if got != x.nbytes else None
        if self.is_sure and self._word[0] != _word(x):
            wrong = f"sent another dtype than the {x.dtype} of the tensor"
        if wrong:
            raise DistBackendError(f"recv: rank {self.source} of the group {wrong}")
        return True


def _word(x: np.ndarray) -> int:
    """A number for a dtype."""
    return zlib.crc32(str(x.dtype).encode())


class Channel:
    """The calls of one group, over flat arrays whose memory is dense. Each returns a request of MPI.

    `ranks` are the numbers of the group's processes in the world.
    """

    on_device = False

    def __init__(self, world: World, ranks: list[int], timeout: float, tag: int):
        self.world, self.ranks, self.mpi = world, ranks, world.mpi
        self._members = frozenset(ranks)
        self._crowded = 0.0  # until when others need the core
        self._rest = _CROWDED[0]  # how long it is left to them the next time
        if ranks == list(range(world.size)):
            make = world.comm.Dup
        else:
            some = world.comm.Get_group().Incl(ranks)
            make = lambda: world.comm.Create_group(some, tag)
        self.comm = outside(make, world.watch, ranks, timeout, "a new group")
        if len(ranks) == world.size:
            _unlink()  # all have it open by now
        self.comm.Set_errhandler(self.mpi.ERRORS_RETURN)
        self._look, self._agreement = looking(self.mpi), Agreement(self.mpi, self.comm, ranks)
        self._tag = self.comm.Get_attr(
            self.mpi.TAG_UB
        )  # of messages that belong to a call of all: the greatest there is
        self.from_anyone: dict[int, list[_Receiving]] = {}  # by tags: those that wait for any sender

    def close(self) -> None:
        """Forgets the group; calls that did not end keep it."""
        if not self.world.left and not self.world.watch.gone:
            self.comm.Free()

    # -- calls --

    def all_reduce(self, x: np.ndarray, op: RedOpType) -> Any:
        values, how = reduced(self.mpi, x, op)
        check = self._agreement.among_all("all_reduce", x.nbytes, x.dtype, op)
        return Checked(*check, self.comm.Iallreduce(self.mpi.IN_PLACE, values, how))

    def broadcast(self, x: np.ndarray, root: int) -> Any:
        check = self._agreement.with_root(root, "broadcast", x.nbytes, x.dtype, root)
        if len(self.ranks) == 2:  # a message: MPI's own call takes steps more, a third of the time for 32 KB
            pass_on = self.comm.Isend if self.comm.Get_rank() == root else self.comm.Irecv
            return Checked(*check, pass_on(_bytes(x), 1 - self.comm.Get_rank(), self._tag))
        return Checked(*check, self.comm.Ibcast(_bytes(x), root))

    def reduce(self, x: np.ndarray, root: int, op: RedOpType) -> Any:
        values, how = reduced(self.mpi, x, op)
        check = self._agreement.at_root(root, "reduce", x.nbytes, x.dtype, op, root)
        if self.comm.Get_rank() == root:
            return Checked(*check, self.comm.Ireduce(self.mpi.IN_PLACE, values, how, root))
        return Checked(*check, self.comm.Ireduce(values, None, how, root))

    def barrier(self) -> Any:
        return self.comm.Ibarrier()

    def all_gather(self, out: np.ndarray, x: np.ndarray) -> Any:
        check = self._agreement.among_all("all_gather", x.nbytes, x.dtype)
        return Checked(*check, self.comm.Iallgather(_bytes(x), _bytes(out)))

    def gather(self, out: np.ndarray | None, x: np.ndarray, root: int) -> Any:
        check = self._agreement.at_root(root, "gather", x.nbytes, x.dtype, root)
        return Checked(*check, self.comm.Igather(_bytes(x), None if out is None else _bytes(out), root))

    def scatter(self, out: np.ndarray, x: np.ndarray | None, root: int) -> Any:
        check = self._agreement.with_root(root, "scatter", out.nbytes, out.dtype, root)
        return Checked(*check, self.comm.Iscatter(None if x is None else _bytes(x), _bytes(out), root))

    def reduce_scatter(self, out: np.ndarray, x: np.ndarray, counts: list[int], op: RedOpType) -> Any:
        (values, how), (result, _) = reduced(self.mpi, x, op), reduced(self.mpi, out, op)
        check = self._agreement.among_all("reduce_scatter", x.nbytes, x.dtype, op, *counts)
        if len(set(counts)) == 1:
            values[1] = counts[0]  # of each block
            return Checked(*check, self.comm.Ireduce_scatter_block(values, result, how))
        return Checked(*check, self.comm.Ireduce_scatter(values, result, counts, how))

    def all_to_all(self, out: np.ndarray, out_counts: list[int], x: np.ndarray, counts: list[int]) -> Any:
        size = x.itemsize
        check = self._agreement.in_pairs("all_to_all", [n * size for n in counts], [n * size for n in out_counts])
        if np.may_share_memory(x, out):
            x = x.copy()
        # By messages: MPI's own call for parts that may differ takes ten times as long within a machine.
        rank, ranks, tag = self.comm.Get_rank(), range(len(counts)), self._tag
        sources, targets = ([sum(each[:r]) for r in ranks] for each in (counts, out_counts))
        part = lambda flat, starts, sizes, r: _bytes(flat[starts[r] : starts[r] + sizes[r]])
        others = [(rank + r) % len(ranks) for r in ranks[1:]]
        calls = [self.comm.Irecv(part(out, targets, out_counts, r), r, tag) for r in others]
        calls += [self.comm.Isend(part(x, sources, counts, r), r, tag) for r in others]
        if counts[rank] == out_counts[rank]:  # otherwise the comparison says so
            part(out, targets, out_counts, rank)[...] = part(x, sources, counts, rank)
        return Checked(*check, *calls)

    def word_tag(self, tag: int) -> int:
        """The tag of the word that is sent beside a message."""
        if not 0 <= tag < self._tag // 2:
            raise ValueError(f"a tag is a number from 0 to {self._tag // 2 - 1}, got {tag}")
        return self._tag // 2 + tag

    def send(self, x: np.ndarray, peer: int, tag: int) -> Any:
        word = np.array([_word(x)], np.int64)
        beside = self.comm.Isend(_bytes(word), peer, self.word_tag(tag))
        return Checked(beside, lambda: None, self.comm.Isend(_bytes(x), peer, tag))

    def recv(self, x: np.ndarray, peer: int | None, tag: int) -> Any:
        return _Receiving(self, x, peer, tag)

    # -- waiting --

    def test(self, work: Work) -> bool:
        """Whether a call is done; raises if it cannot be any more."""
        if self._tested(work):
            return True
        if self.world.watch.gone:
            self._check(work)
        return False

    def _tested(self, work: Work) -> bool:
        try:
            return work.request.Test()
        except DistBackendError:
            self.forget(work)
            raise
        except self.mpi.Exception as error:
            self.forget(work)
            raise self.broken(work.name, error) from error

    def broken(self, name: str, error: Exception) -> DistBackendError:
        """The error of a call that MPI refused: most often a process is gone, of which this one hears in a moment."""
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and not _gone(self.world.watch, self._members - {self.world.rank}):
            time.sleep(0.02)
        why = _gone(self.world.watch, self._members - {self.world.rank})
        return DistBackendError(f"{name}: {why or 'do all processes give tensors of the same size?'}: {error}")

    def wait(self, work: Work, timeout: float) -> None:
        """Waits awake for a while that fits the call, giving the core to others between looks, then sleeps in between. Where
        others want the core it sleeps from the start: who has slept is preferred when there is something to do."""
        if self._tested(work):
            return
        start, gone = time.monotonic(), self.world.watch.gone
        awake, soon = start + _AWAKE, start + _AWAKE + work.nbytes * _PATIENCE
        nap, look = _NAPS[0], self._look
        while True:
            now = time.monotonic()
            if now < awake and now > self._crowded:
                if look([self.handle(work)], _LOOKS, _LOOKS, 0) == 2:
                    self._crowded, self._rest = time.monotonic() + self._rest, min(2 * self._rest, _CROWDED[1])
                else:
                    self._rest = _CROWDED[0]
            else:
                look([self.handle(work)], 4, 0, nap)
                if now >= soon:
                    nap = min(2 * nap, _NAPS[1])
            if self._tested(work):
                return
            if gone:
                self._check(work)
            if now - start > timeout:
                raise self.late(work, timeout)

    def handle(self, work: Work) -> int:
        """The number of the request that a call waits for, for looks at it without the interpreter."""
        pending = getattr(work.request, "pending", None) or [work.request]
        return int(self.mpi._handleof(pending[0]))

    def look(self, works: Sequence[Work]) -> None:
        """Lets MPI work on calls for a moment, until one is done."""
        self._look([self.handle(work) for work in works], *_GLANCE)

    def _check(self, work: Work) -> None:
        """Raises if a rank of the group has been gone for longer than its last messages take."""
        gone = [
            when
            for rank, (_, when) in self.world.watch.gone.items()
            if rank in self._members and rank != self.world.rank
        ]
        if gone and time.monotonic() - min(gone) > _GRACE:
            self.forget(work)
            raise DistBackendError(f"{work.name}: {_gone(self.world.watch, self._members)}")

    def forget(self, work: Work) -> None:
        """Gives a call up. MPI still knows the memory of its tensors, which must stay."""
        self.world.left.append(work)

    def late(self, work: Work, timeout: float) -> DistBackendError:
        """The error of a call whose time is up: it names the ranks that have not made it."""
        self.forget(work)
        group, text = work.group, f"{work.name}: Timed out waiting {timeout * 1000:g}ms"
        if work.among is not None:
            return DistBackendError(f"{text} for rank {', '.join(str(group.ranks[r]) for r in work.among)}")
        answers = self.world.watch.ask()
        found = []
        for rank in group.ranks:
            if rank == self.world.rank:
                continue
            if rank not in answers:
                found.append(f"rank {rank} {'is gone' if rank in self.world.watch.gone else 'does not answer'}")
                continue
            calls, last = _last_calls(answers[rank], group.group_name)
            if calls < work.number:
                found.append(
                    f"rank {rank} has not made this call (its last one was number {calls} of the group, {last[-1]})"
                )
            elif calls - work.number < len(last) and last[work.number - calls - 1] != work.name:
                found.append(f"rank {rank} made another call as number {work.number}: {last[work.number - calls - 1]}")
        return DistBackendError(
            f"{text} in call {work.number} of group {group.group_name}: "
            + (", ".join(found) or "all ranks have made the call, and it is not done; do they name the same root?")
        )


def _last_calls(answer: str, name: str) -> tuple[int, list[str]]:
    """How many calls a process has made in a group, and the last ones; from what it says it does."""
    for each in answer.split(";"):
        group, _, rest = each.partition(":")
        if group == name:
            calls, _, last = rest.partition(":")
            return int(calls), last.split(",") if last else ["nothing"]
    return 0, ["nothing"]

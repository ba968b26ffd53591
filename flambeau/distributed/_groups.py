"""Process groups: the world that `init_process_group` makes, its parts, and who is who in them."""

from __future__ import annotations

import os
import warnings
import zlib
from collections import deque
from datetime import timedelta
from typing import Any

from . import _mpi, _nccl
from ._backends import Backend, BackendConfig
from ._rendezvous import rendezvous
from ._solo import Solo
from ._stores import PrefixStore, Store
from .constants import default_pg_timeout

__all__ = [
    "GroupMember", "ProcessGroup", "ProcessGroupGloo", "destroy_process_group", "get_backend", "get_backend_config",
    "get_global_rank", "get_group_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_initialized",
]  # fmt: skip

_NOT_READY = "Default process group has not been initialized, please make sure to call init_process_group."


class ProcessGroup:
    """Processes that work together, by their numbers in the world (`ranks`); this one has the number `rank()` among them."""

    def __init__(
        self,
        backend: str,
        ranks: list[int],
        me: int,
        store: Store,
        timeout: timedelta,
        name: str,
        desc: str | None = None,
    ):
        self._backend, self._config = Backend(backend), BackendConfig(backend)
        self._store, self._timeout, self.ranks = store, timeout, ranks
        self.group_name, self.group_desc = name, desc or "undefined"
        self.bound_device_id: Any = None
        self.calls, self.doing = 0, deque[str](maxlen=16)  # how many collective calls were made, and the last of them
        self._rank = ranks.index(me)
        self._channels: dict[str, Any] = {}
        self._closed = ""  # why there are no channels any more

    def channel(self, kind: str) -> Any:
        """What carries calls on tensors of a device out."""
        found = self._channels.get(kind)
        if found is None:
            if self._closed:
                raise ValueError(f"Process group {self} is not initialized in the world group map: {self._closed}")
            backend = self._config.device_backend_map.get(kind)
            if backend is None:
                raise RuntimeError(f"No backend type associated with device type {kind}")
            raise RuntimeError(f"the backend {backend!r} serves no tensors on {kind} here: it is not installed")
        return found

    def open(self) -> None:
        """Connects the group's processes, for every device that its backends serve here."""
        for kind, backend in self._config.device_backend_map.items():
            if backend in (Backend.UCC, Backend.XCCL):
                raise RuntimeError(f"Distributed package doesn't have {str(backend).upper()} built in")
            if backend == Backend.NCCL:
                if self._backend != Backend.UNDEFINED or _nccl.installed():  # otherwise nobody asked for it
                    self._channels[kind] = _nccl.Channel(self._store, self._rank, len(self.ranks))
            else:
                self._channels[kind] = self._channels.get("cpu") or self._open_cpu()

    def _open_cpu(self) -> Any:
        if len(self.ranks) == 1 or self._backend == Backend.FAKE:
            return Solo()
        world = _mpi.current()
        return _mpi.Channel(world, self.ranks, self.seconds, zlib.crc32(self.group_name.encode()) & 0x3FFF)

    def close(self) -> None:
        for channel in set(self._channels.values()):
            channel.close()
        self.lose("destroy_process_group ended it")

    def lose(self, why: str) -> None:
        """Forgets what carries calls out."""
        self._channels, self._closed = {}, why

    @property
    def kind(self) -> str:
        """A device that the group serves."""
        return "cpu" if "cpu" in self._channels else next(iter(self._channels), "cpu")

    @property
    def seconds(self) -> float:
        """How long calls may take."""
        return self._timeout.total_seconds()

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes the group has."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return str(self._backend)

    def get_group_store(self) -> Store:
        """The store of the group."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """How long calls may take."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """Ends the group."""
        self.close()

    abort = shutdown

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name} ({self._backend}): rank {self._rank} of {len(self.ranks)}>"


class ProcessGroupGloo(ProcessGroup):
    """The group of the backend "gloo"."""


class _World:
    default: ProcessGroup | None = None
    groups: dict[ProcessGroup, list[int]] = {}
    made = 0  # how many groups there ever were in this world: all processes count alike


_world = _World()


def _forked() -> None:
    """In a forked process: the connections are its parent's."""
    for each in _world.groups:
        each.lose(
            "this process was forked from one of the group; start it with spawn and call init_process_group in it"
        )
    _mpi.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _world.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        _world.default = group


class group(metaclass=_GroupMeta):
    """`group.WORLD`: the group of all processes, None before `init_process_group`."""


class GroupMember(metaclass=_GroupMeta):
    """`GroupMember.NON_GROUP_MEMBER` is what processes outside of a new group get."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _world.default is not None


def _doing() -> str:
    """The last calls of this process in each group, for others that wait for it."""
    return ";".join(f"{g.group_name}:{g.calls}:{','.join(g.doing)}" for g in list(_world.groups))


def _meet(
    backend: str, init_method: str | None, store: Store | None, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    """The store, rank and size of the new world."""
    launched = _mpi.started_by_launcher()
    if init_method is None and store is None and rank < 0 and launched:
        try:
            return next(iter(rendezvous("env://", -1, -1, timeout=timeout)))
        except ValueError:  # there are none of these variables: mpiexec knows
            return _mpi.launched_store(*launched), *launched
    if store is None:
        return next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout)))
    if world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if rank < 0:
        raise AssertionError("rank must be non-negative if using store")
    return store, rank, world_size


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Makes the group of all processes. They meet at `init_method` ("env://", "tcp://host:port", "file://path") or by a
    store; RANK and WORLD_SIZE say who is who unless `rank` and `world_size` do. More than one need MPI:
    `pip install "flambeau[distributed]"`.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.ones(2); dist.all_reduce(x); x, dist.get_rank(), dist.get_world_size()
    (tensor([1., 1.]), 0, 1)
    >>> dist.destroy_process_group()
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    chosen = Backend(backend or Backend.UNDEFINED)
    BackendConfig(chosen)
    timeout = timeout or default_pg_timeout
    store, rank, world_size = _meet(chosen, init_method, store, rank, world_size, timeout)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is out of range for world_size={world_size}: ranks are 0 to {world_size - 1}")
    store = PrefixStore("default_pg", store)
    if world_size > 1 and {Backend.GLOO, Backend.MPI} & set(BackendConfig(chosen).device_backend_map.values()):
        _mpi.start(store, rank, world_size, timeout.total_seconds(), _doing)
    made = ProcessGroup(chosen, list(range(world_size)), rank, store, timeout, group_name or "0", "default_pg")
    made.bound_device_id = device_id
    made.open()
    _world.default, _world.groups, _world.made = made, {made: made.ranks}, 1


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    if group is None and _world.default is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _world.default:
        for each in reversed(list(_world.groups)):
            each.close()
        _world.default, _world.groups = None, {}
    else:
        if group not in _world.groups:
            raise ValueError("Invalid process group specified")
        del _world.groups[group]
        group.close()


def current(group: Any = None) -> ProcessGroup:
    """The group of a call: the given one, or the world."""
    if group is None:
        if _world.default is None:
            raise ValueError(_NOT_READY)
        return _world.default
    return group


def is_outside(group: Any) -> bool:
    """Whether this process is not in a group; calls then warn and do nothing."""
    if group == GroupMember.NON_GROUP_MEMBER:
        warnings.warn("Running a collective on a process group that this process is not in", stacklevel=3)
        return True
    return False


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER else current(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 if this one is not in it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER else current(group).size()


def get_backend(group: Any = None) -> Backend:
    """The name of a group's backend."""
    if group == GroupMember.NON_GROUP_MEMBER:
        raise ValueError("Invalid process group specified")
    return current(group)._backend


def get_backend_config(group: Any = None) -> str:
    """Which backend serves which device, as text."""
    return str(current(group)._config)


def get_pg_count() -> int:
    """How many groups there are."""
    return len(_world.groups)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a process of the world."""
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the world of a process of a group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The processes of a group, by their numbers in the world."""
    found = _world.groups.get(current(group))
    if found is None:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return list(found)

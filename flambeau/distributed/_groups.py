"""Process groups. The world has one process, so that every group is either this process or empty."""

from __future__ import annotations

import itertools
import os
import warnings
from datetime import timedelta
from typing import Any

from .._core.devices import device as _device
from ..futures import Future
from ._file_store import FileStore
from ._stores import HashStore, Store
from .constants import default_pg_timeout

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "ProcessGroup", "ProcessGroupGloo", "Work", "destroy_process_group",
    "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "register_rendezvous_handler", "rendezvous",
    "shrink_group", "split_group",
]  # fmt: skip

ONE_PROCESS = "only a world of one process is implemented (rank=0, world_size=1): run the program without a launcher, or on one process"
_NOT_READY = "Default process group has not been initialized, please make sure to call init_process_group."


class Backend(str):
    """The name of a backend. In a world of one process all of them do the same."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, func: Any, extended_api: bool = False, devices: Any = None) -> None:
        """Makes the name of a backend known."""
        setattr(cls, name.upper(), name.lower())
        cls.backend_list.append(name.lower())


class BackendConfig:
    """Which backend serves which device."""

    def __init__(self, backend: str):
        parts = [part.split(":") for part in str(backend).split(",")]
        if all(len(part) == 2 for part in parts):
            self.device_backend_map = {kind: Backend(name) for kind, name in parts}
        else:
            self.device_backend_map = dict.fromkeys(("cpu", "cuda"), Backend(backend))

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Backends by device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


class Work:
    """A call that runs in the background; here it is done when you get it."""

    def __init__(self, result: Any = None):
        self._result = result

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the call; it is done."""
        return True

    def is_completed(self) -> bool:
        """Whether the call is done."""
        return True

    def is_success(self) -> bool:
        """Whether the call went well."""
        return True

    def exception(self) -> None:
        """The error of the call; there is none."""
        return None

    def result(self) -> Any:
        """The tensors that the call wrote to."""
        return self._result

    def source_rank(self) -> int:
        """Where a received tensor came from."""
        return 0

    def synchronize(self) -> None:
        """Waits for the device; nothing is left to wait for."""

    block_current_stream = synchronize

    def get_future(self) -> Future:
        """The result as a future."""
        future = Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """Processes that work together: this one alone."""

    _numbers = itertools.count()

    def __init__(self, backend: str = "gloo", store: Store | None = None, group_desc: str | None = None):
        self._backend, self._store = Backend(backend), store or HashStore()
        self.group_name = str(next(self._numbers))
        self.group_desc = group_desc or "undefined"
        self.bound_device_id: Any = None
        self._timeout = default_pg_timeout

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0

    def size(self) -> int:
        """How many processes the group has."""
        return 1

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

    abort = shutdown


class ProcessGroupGloo(ProcessGroup):
    """The group of the backend "gloo"."""


class _World:
    default: ProcessGroup | None = None
    groups: dict[ProcessGroup, list[int]] = {}


_world = _World()


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


# -- the world -------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether this package can be used: yes, for a world of one process."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _world.default is not None


def is_gloo_available() -> bool:
    """Whether the backend "gloo" can be named."""
    return True


def is_nccl_available() -> bool:
    """Whether NCCL can be used: not yet."""
    return False


def is_mpi_available() -> bool:
    """Whether MPI can be used: not yet."""
    return False


is_ucc_available = is_xccl_available = is_mpi_available


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be named in `init_process_group`."""
    return backend.lower() == "gloo"


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, which launchers leave in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment; give fallback_rank")


def _from_environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    if name not in os.environ:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set"
        )
    return int(os.environ[name])


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
    """Makes the group of all processes. The world must have one process: rank 0 of 1 (or RANK and WORLD_SIZE say so).

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
    rank, world_size = _from_environment("RANK", rank), _from_environment("WORLD_SIZE", world_size)
    if world_size != 1 or rank != 0:
        raise NotImplementedError(f"init_process_group(rank={rank}, world_size={world_size}): {ONE_PROCESS}")
    made = ProcessGroup(backend or "gloo", store, "default_pg")
    made.bound_device_id = device_id
    _world.default = made
    _world.groups = {made: [0]}


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them."""
    if group is None and _world.default is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _world.default:
        _world.default = None
        _world.groups = {}
    else:
        if group not in _world.groups:
            raise ValueError("Invalid process group specified")
        del _world.groups[group]


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
    return current(group)._backend


def get_backend_config(group: Any = None) -> str:
    """Which backend serves which device, as text."""
    return str(BackendConfig(get_backend(group)))


def get_default_backend_for_device(device: Any) -> str:
    """The backend that serves a device."""
    kind = _device(device).type
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


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


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some of the processes."""
    world = current()
    wanted = [0] if ranks is None else list(ranks)
    for rank in wanted:
        if rank != 0:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to 0 (world_size=1)")
    if len(wanted) > 1:
        raise RuntimeError("new group's world size should be less or equal to the world size: a rank is named twice")
    if not wanted:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(backend or world._backend, world._store, group_desc)
    _world.groups[made] = wanted
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Groups of `group_size` processes each: the own one, and all of them."""
    current(group)
    if group_size not in (None, 1):
        raise ValueError(f"the world size 1 must be divisible by group_size={group_size}")
    made = new_group([0], backend=backend, group_desc=group_desc)
    return made, [made]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """Groups of the processes in each list: the own one, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    made = [new_group(ranks, backend=backend, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    own = next((g for g in made if isinstance(g, ProcessGroup)), None)
    return own, made


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
    backend: Any = None,
) -> Any:
    """The part of a group that this process is in."""
    current(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    return new_subgroups_by_enumeration(split_ranks, group_desc=group_desc)[0]


def shrink_group(ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0, pg_options: Any = None) -> Any:
    """A group without some processes; a world of one has none to lose."""
    current(group)
    raise ValueError(f"ranks_to_exclude={ranks_to_exclude}: a group of one process cannot be made smaller")


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Any:
    """Where processes meet: yields (store, rank, world_size) for "env://" and "file://path"."""
    scheme = url.partition("://")[0]
    handler = _handlers.get(scheme)
    if handler is None:
        raise RuntimeError(f"No rendezvous handler for {scheme}://")
    return handler(url, rank, world_size, **kwargs)


def _meet(url: str, rank: int, world_size: int, **kwargs: Any) -> Any:
    rank, world_size = _from_environment("RANK", rank), _from_environment("WORLD_SIZE", world_size)
    if world_size != 1:
        raise NotImplementedError(f"rendezvous(world_size={world_size}): {ONE_PROCESS}")
    path = url.partition("://")[2]
    yield (FileStore(path) if url.startswith("file://") else HashStore()), rank, world_size


_handlers: dict[str, Any] = {"env": _meet, "file": _meet, "tcp": _meet}


def register_rendezvous_handler(scheme: str, handler: Any) -> None:
    """Adds a way for processes to meet."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// is already registered")
    _handlers[scheme] = handler

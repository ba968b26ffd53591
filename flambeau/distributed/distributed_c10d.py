"""Groups and collective calls where PyTorch keeps them."""

# ruff: noqa: F403 (the same names, in another place)

from datetime import timedelta

from .._core.devices import device
from ._backends import *
from ._calls import *
from ._calls import _coalescing_manager as _coalescing_manager
from ._collectives import *
from ._debugging import *
from ._file_store import FileStore as FileStore
from ._groups import *
from ._groups import GroupMember, ProcessGroup, _world, current, destroy_process_group, get_global_rank
from ._kinds import *
from ._kinds import _make_nccl_premul_sum as _make_nccl_premul_sum
from ._objects import *
from ._point_to_point import *
from ._rendezvous import *
from ._stores import *
from ._subgroups import *
from ._tcp_store import TCPStore as TCPStore
from ._work import Work as Work
from .constants import default_pg_nccl_timeout, default_pg_timeout

_get_default_group, _get_global_rank = current, get_global_rank
_PRIVATE = (_world, default_pg_timeout, default_pg_nccl_timeout)


def _get_default_store() -> object:
    return current()._store


def _resolve_process_group(group_name: str) -> object:
    for group in _world.groups:
        if group.group_name == group_name:
            return group
    raise RuntimeError(f"there is no process group of the name {group_name!r}")


def _get_process_group_name(pg: ProcessGroup) -> str:
    return current(pg).group_name


def _get_process_group_store(pg: ProcessGroup) -> object:
    return current(pg)._store


def _get_group_size(group: ProcessGroup | None) -> int:
    return current(group).size()


def _get_group_size_by_name(group_name: str) -> int:
    return _resolve_process_group(group_name).size()  # type: ignore[attr-defined]


def _get_default_timeout(backend: str) -> timedelta:
    return default_pg_nccl_timeout if backend == "nccl" else default_pg_timeout


def _get_pg_default_device(group: ProcessGroup | None = None) -> device:
    return device(current(group).kind)


def _get_object_coll_device(group: ProcessGroup | None = None) -> str:
    return current(group).kind


def _rank_not_in_group(group: object) -> bool:
    return group == GroupMember.NON_GROUP_MEMBER


def _set_pg_timeout(timeout: timedelta, group: ProcessGroup | None = None) -> None:
    current(group).set_timeout(timeout)


def _abort_process_group(group: ProcessGroup | None = None) -> None:
    destroy_process_group(group)

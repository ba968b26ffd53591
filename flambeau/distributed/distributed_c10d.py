"""Groups and collective calls where PyTorch keeps them."""

# ruff: noqa: F403 (the same names, in another place)

from ._backends import *
from ._collectives import *
from ._collectives import _coalescing_manager as _coalescing_manager
from ._debugging import *
from ._file_store import FileStore as FileStore
from ._groups import *
from ._groups import _world, current
from ._kinds import *
from ._kinds import _make_nccl_premul_sum as _make_nccl_premul_sum
from ._objects import *
from ._point_to_point import *
from ._rendezvous import *
from ._stores import *
from ._subgroups import *
from ._tcp_store import TCPStore as TCPStore
from ._work import Work as Work
from .constants import default_pg_timeout

_get_default_group = current
_PRIVATE = (_world, default_pg_timeout)


def _get_default_store() -> object:
    return current()._store


def _resolve_process_group(group_name: str) -> object:
    for group in _world.groups:
        if group.group_name == group_name:
            return group
    raise RuntimeError(f"there is no process group of the name {group_name!r}")

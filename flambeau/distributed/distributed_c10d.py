"""Groups and collective calls where PyTorch keeps them."""

# ruff: noqa: F403 (the same names, in another place)

from ._collectives import *
from ._debugging import *
from ._file_store import FileStore as FileStore
from ._groups import *
from ._groups import _world, current
from ._kinds import *
from ._stores import *
from ._tcp_store import TCPStore as TCPStore
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

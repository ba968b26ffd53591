"""Groups of some of the processes."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any

from ._groups import GroupMember, ProcessGroup, _world, current
from ._stores import PrefixStore

__all__ = ["new_group", "new_subgroups", "new_subgroups_by_enumeration", "shrink_group", "split_group"]


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
    """A group of some of the processes. All processes of the world must make this call, in the same order; those that are
    not in the group get `GroupMember.NON_GROUP_MEMBER`. With `use_local_synchronization` only its members make it.
    """
    world = current()
    size = world.size()
    wanted = list(range(size)) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    for rank in wanted:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    if len(set(wanted)) != len(wanted):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(ranks or ())}")
    if use_local_synchronization:
        name = f"{zlib.crc32('_'.join(map(str, wanted)).encode()):x}_{len(_world.groups)}"
    else:
        name, _world.made = str(_world.made), _world.made + 1
    if world.rank() not in wanted:
        return GroupMember.NON_GROUP_MEMBER
    store, limit = PrefixStore(f"{name}", world._store), timeout or world._timeout
    made = ProcessGroup(backend or world._backend, wanted, world.rank(), store, limit, name, group_desc)
    made.bound_device_id = device_id
    made.open()
    _world.groups[made] = wanted
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` processes each, in the order of their numbers: the own one, and all of them."""
    ranks = current(group).ranks
    if group_size is None:
        from ..cuda import device_count

        group_size = device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if len(ranks) < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({len(ranks)})")
    if len(ranks) % group_size:
        raise ValueError(f"The world size ({len(ranks)}) must be divisible by 'group_size={group_size}'")
    lists = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the processes in each list: the own one (None if there is none), and all of them."""
    if ranks_per_subgroup_list is None or len(ranks_per_subgroup_list) == 0:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, list[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    return next((g for g in made if isinstance(g, ProcessGroup)), None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """The part of a group that this process is in; `split_ranks` are numbers in that group."""
    parent = current(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    lists = [[parent.ranks[r] for r in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)[0]


def shrink_group(ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0, pg_options: Any = None) -> Any:
    """A group without some processes, which do not make this call."""
    old = current(group)
    if not ranks_to_exclude:
        raise ValueError("ranks_to_exclude cannot be empty")
    excluded = set(ranks_to_exclude)
    for rank in excluded:
        if not 0 <= rank < old.size():
            raise ValueError(f"Rank {rank} is out of bounds for group with size {old.size()}")
    left = [rank for number, rank in enumerate(old.ranks) if number not in excluded]
    if not left:
        raise ValueError(f"ranks_to_exclude={ranks_to_exclude}: a group cannot lose all its processes")
    if old.rank() in excluded:
        raise RuntimeError(f"rank {old.rank()} is to be excluded and must not call shrink_group")
    return new_group(left, use_local_synchronization=True)

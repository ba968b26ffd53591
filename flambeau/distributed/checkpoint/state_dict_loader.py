"""Reading a checkpoint into tensors that may lie otherwise than those that were written."""

from __future__ import annotations

from typing import Any

from ._together import everyone, group_of
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .metadata import Metadata
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import stated
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills the tensors of a state in place, each process its parts; other objects are replaced.

    `planner` decides which stored names go where, `storage_reader` where they come from.
    """
    reader = _reader(checkpoint_id, storage_reader)
    state = stated(state_dict)
    _fill(state, reader, planner or DefaultLoadPlanner(), group_of(process_group, no_dist))
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(state[key])
        else:
            state_dict[key] = state[key]


def _reader(checkpoint_id: Any, reader: StorageReader | None) -> StorageReader:
    if reader is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
    found = FileSystemReader(checkpoint_id) if reader is None else reader
    found.reset(checkpoint_id)
    return found


def _fill(state: dict[str, Any], reader: StorageReader, planner: LoadPlanner, group: Any, first: int = 0) -> None:
    rank = first if group is None else group.rank()
    leads = rank == first

    def own_plan() -> LoadPlan:
        metadata: Metadata = reader.read_metadata()
        planner.set_up_planner(state, metadata, leads)
        reader.set_up_storage_reader(metadata, leads)
        return reader.prepare_local_plan(planner.create_local_plan())

    every = everyone(own_plan, group, "load")

    def whole_plan() -> Any:
        return reader.prepare_global_plan(planner.create_global_plan(every)) if leads else None

    plans = everyone(whole_plan, group, "load")[0 if group is None else first]
    plan = plans[0 if group is None else rank]
    everyone(lambda: reader.read_data(planner.finish_plan(plan), planner).wait(), group, "read")


def load_all(
    checkpoint_id: Any = None, reader: StorageReader | None = None, keys: set[str] | None = None
) -> dict[str, Any]:
    """The whole state of a checkpoint, or what is below certain names, by this process alone."""
    state: dict[str, Any] = {}
    _fill(state, _reader(checkpoint_id, reader), _EmptyStateDictLoadPlanner(keys), None)
    return state


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: Any = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """The state of a checkpoint below certain names, or all of it, in every process: nothing of it need be there before."""
    state: dict[str, Any] = {}
    wanted = {keys} if isinstance(keys, str) else keys or None
    planner = _EmptyStateDictLoadPlanner(wanted)
    _fill(state, _reader(checkpoint_id, storage_reader), planner, group_of(process_group, False))
    return state


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older form of `load`: a state of tensors and objects, none of which has a state of its own."""
    storage_reader.reset()
    group = group_of(process_group, no_dist)
    _fill(state_dict, storage_reader, planner or DefaultLoadPlanner(), group, coordinator_rank)

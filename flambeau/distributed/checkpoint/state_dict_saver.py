"""Writing a checkpoint: each process writes its parts, the coordinator writes what there is and where."""

from __future__ import annotations

import inspect
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Any

from ..._autograd.modes import no_grad
from ..._tensor import Tensor
from ...utils._pytree import tree_map
from . import _pickles
from ._together import CheckpointException, everyone, group_of
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .stateful import Stateful
from .storage import StorageWriter, WriteResult

__all__ = ["AsyncCheckpointerType", "async_save", "save", "save_state_dict"]

_LONGEST = 3600.0  # seconds that a background save waits for other processes


class AsyncCheckpointerType(Enum):
    """What writes in the background: a thread of this process, or a process of its own."""

    THREAD = "thread"
    PROCESS = "process"


def stated(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with objects that have one replaced by theirs."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state.items()}


class _Save:
    """One checkpoint as it is written; the coordinator is the process `first` of the group."""

    def __init__(
        self, checkpoint_id: Any, writer: StorageWriter | None, planner: SavePlanner | None, group: Any, first: int = 0
    ):
        if writer is None and checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
        self.writer = FileSystemWriter(checkpoint_id) if writer is None else writer
        self.writer.reset(checkpoint_id)
        self.planner = DefaultSavePlanner() if planner is None else planner
        self.group, self.first = group, first
        self.rank = first if group is None else group.rank()
        self.metadata: Any = None  # of the coordinator

    def plan(self, state: dict[str, Any]) -> tuple[SavePlan, str]:
        """This process's part of the plan that all make together, and a name that the checkpoint has in all processes."""
        leads = self.rank == self.first

        def own_plan() -> SavePlan:
            meta = self.writer.storage_meta()
            if "storage_meta" in inspect.signature(self.planner.set_up_planner).parameters:
                self.planner.set_up_planner(state, meta, leads)
            else:  # planners from the time before storages said something about themselves
                self.planner.set_up_planner(state, leads)  # type: ignore[arg-type]
            self.writer.set_up_storage_writer(leads)
            return self.writer.prepare_local_plan(self.planner.create_local_plan())

        every = everyone(own_plan, self.group, "save")

        def whole_plan() -> Any:
            if not leads:
                return None
            plans, self.metadata = self.planner.create_global_plan(every)
            return self.writer.prepare_global_plan(plans), uuid.uuid4().hex

        plans, name = everyone(whole_plan, self.group, "save")[0 if self.group is None else self.first]
        return plans[0 if self.group is None else self.rank], name

    def write(self, plan: SavePlan) -> list[WriteResult]:
        """Writes this process's part."""
        return self.writer.write_data(self.planner.finish_plan(plan), self.planner).wait()

    def finish(self, results: list[list[WriteResult]]) -> Metadata | None:
        """Makes the checkpoint count; the coordinator does."""
        if self.rank == self.first:
            self.writer.finish(self.metadata, results)
        return self.metadata


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a checkpoint together with all processes of a group: DTensors by parts, what all have once.

    `planner` decides what is written under which names, `storage_writer` where to and how; without them everything goes to files
    in the folder `checkpoint_id`.

    >>> import tempfile, flambeau as torch
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"w": torch.arange(3.0), "step": 4}, checkpoint_id=folder)
    ...     state = {"w": torch.zeros(3), "step": 0}
    ...     dcp.load(state, checkpoint_id=folder)
    ...     state
    {'w': tensor([0., 1., 2.]), 'step': 4}
    """
    return _save(
        state_dict, checkpoint_id, storage_writer, planner, group_of(process_group, no_dist), 0, use_collectives
    )


def _save(
    state_dict: dict[str, Any], checkpoint_id: Any, writer: Any, planner: Any, group: Any, first: int, together: bool
) -> Metadata:
    _refuse_alone(together)
    made = _Save(checkpoint_id, writer, planner, group, first)
    plan, _ = made.plan(stated(state_dict))
    results = everyone(lambda: made.write(plan), group, "write")
    return everyone(lambda: made.finish(results), group, "write")[0 if group is None else first]


def _refuse_alone(use_collectives: bool) -> None:
    if not use_collectives:
        raise NotImplementedError(
            "save: processes agree on what each writes; without collectives (use_collectives=False) give each process a folder of its "
            "own and no_dist=True"
        )


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """Like `save`, but files are written in the background: tensors may change when it returns, the future tells the end.

    Processes agree on the plan before it returns, so that nothing of theirs is in the way of the program's own collectives later.
    `async_stager.stage(state)` makes the copy if there is one.
    """
    _refuse_alone(use_collectives)
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("async_save: a thread writes in the background; use AsyncCheckpointerType.THREAD")
    group = group_of(process_group, no_dist)
    made = _Save(checkpoint_id, storage_writer, planner, group)
    state = stated(state_dict)
    state = _copied(state) if async_stager is None else async_stager.stage(state)
    plan, name = made.plan(state.result() if isinstance(state, Future) else state)
    future: Future[Metadata] = Future()

    def run() -> None:
        try:
            future.set_result(_write_apart(made, plan, name))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="flambeau-checkpoint").start()
    return future


def _copied(state: Any) -> Any:
    """A state whose tensors are copies."""
    with no_grad():
        return tree_map(lambda value: value.detach().clone() if isinstance(value, Tensor) else value, state)


def _write_apart(made: _Save, plan: SavePlan, name: str) -> Metadata:
    """Writes without collectives: processes tell each other through the group's store how far they are."""
    if made.group is None:
        found = made.finish([made.write(plan)])
        return found  # type: ignore[return-value]
    store, ranks = made.group.get_group_store(), range(made.group.size())
    keys = [f"checkpoint/{name}/{rank}" for rank in ranks]
    store.set(keys[made.rank], _told(lambda: [(r.index, r.size_in_bytes, r.storage_data) for r in made.write(plan)]))
    end = f"checkpoint/{name}/end"
    if made.rank == made.first:
        every = [_heard(store, key) for key in keys]
        wrong = {rank: error for rank, (_, error) in enumerate(every) if error}
        results = [[WriteResult(*one) for one in found or ()] for found, _ in every]
        store.set(end, _told(lambda: made.finish(results) if not wrong else None, wrong))
        for key in keys:
            store.delete_key(key)
    found, wrong = _heard(store, end)
    if wrong:
        raise CheckpointException(
            "CheckpointException write", wrong if isinstance(wrong, dict) else {made.first: wrong}
        )
    return found


def _told(function: Callable[[], Any], wrong: Any = None) -> bytes:
    """The result of a function, or what went wrong, for a store: nothing but metadata, numbers and texts (see `_pickles`)."""
    found = None
    try:
        found = function()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    return _pickles.pack((found, wrong))


def _heard(store: Any, key: str) -> Any:
    """What another process told. Asks again and again, so that the program may use the store meanwhile."""
    end = time.monotonic() + _LONGEST
    while not store.check([key]):
        if time.monotonic() > end:
            raise RuntimeError(f"a process did not write its part of a checkpoint within {_LONGEST:g} seconds")
        time.sleep(0.005)
    return _pickles.unpack(store.get(key))


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The older form of `save`."""
    return _save(state_dict, None, storage_writer, planner, group_of(process_group, no_dist), coordinator_rank, True)

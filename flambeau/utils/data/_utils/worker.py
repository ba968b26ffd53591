"""The worker process of a `DataLoader`: fetches batches on request and sends them through shared memory."""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...._backend.threads import set_num_threads
from ...._ops.making.generator import Generator
from ....random import manual_seed
from ..datapipes.datapipe import IterDataPipe, MapDataPipe
from ..graph_settings import apply_random_seed, apply_sharding
from . import signal_handling
from .channel import Channel
from .errors import ExceptionWrapper
from .fetch import _DatasetKind
from .memory import Arena, open_arena

_CHECK_SECONDS = 5.0  # how often an idle worker looks whether its loader is still there


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker: its `id`, `num_workers`, `seed` and copy of the `dataset`; None in the main process.

    >>> from flambeau.utils.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _worker_info


@dataclasses.dataclass
class Task:
    """Everything that a worker is started with."""

    socket: Any
    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    worker_id: int
    num_workers: int
    shared_seed: int | None


class ResumeIteration:
    """Tells a worker that stays alive to begin another epoch."""


class IterableDatasetStopIteration:
    """Tells the loader that this worker's copy of an iterable dataset has ended."""


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """A seed for NumPy that differs between workers and epochs."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


def _prepare(task: Task) -> None:
    global _worker_info
    signal_handling.set_worker_handlers()
    set_num_threads(1)
    seed = task.base_seed + task.worker_id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(task.base_seed, task.worker_id))
    _worker_info = WorkerInfo(task.worker_id, task.num_workers, seed, task.dataset)


def _requests(channel: Channel) -> Iterator[Any]:
    """What the loader asks for, until it is gone. A new epoch makes earlier requests void."""
    parent = os.getppid()
    while True:
        while not channel.read():
            if not channel.wait(_CHECK_SECONDS) and os.getppid() != parent:
                return
        if channel.ended:
            return
        requests = [pickle.loads(message) for message, _ in channel.messages()]
        epochs = [i for i, request in enumerate(requests) if request[1] is ResumeIteration]
        for i, request in enumerate(requests):
            if epochs and i < epochs[-1]:
                request = None, None, None, *request[3:]
            yield request


class _Server:
    """Answers requests one after the other."""

    def __init__(self, task: Task, arena: Arena):
        self.task, self.arena, self.where = task, arena, f"in DataLoader worker process {task.worker_id}"
        self.fetcher: Any = None
        self.problem: ExceptionWrapper | None = None
        self.ended = False
        try:
            if task.init_fn is not None:
                task.init_fn(task.worker_id)
        except Exception:
            self.problem = ExceptionWrapper(where=self.where)
        self.resume(task.shared_seed)

    def resume(self, shared_seed: int | None) -> None:
        """Begins an epoch."""
        task, self.ended = self.task, False
        if self.problem is None:
            try:
                if isinstance(task.dataset, (IterDataPipe, MapDataPipe)):
                    apply_sharding(task.dataset, task.num_workers, task.worker_id)
                if shared_seed is not None:
                    apply_random_seed(task.dataset, Generator().manual_seed(shared_seed))
                self.fetcher = _DatasetKind.create_fetcher(
                    task.dataset_kind, task.dataset, task.auto_collation, task.collate_fn, task.drop_last
                )
            except Exception:
                self.problem = ExceptionWrapper(where=self.where)

    def answer(self, index: Any, rows: bool) -> Any:
        if self.problem is not None:
            return self.problem
        try:
            return self.fetcher.fetch_rows(np.frombuffer(index, np.int64)) if rows else self.fetcher.fetch(index)
        except Exception as error:
            if isinstance(error, StopIteration) and self.task.dataset_kind == _DatasetKind.Iterable:
                self.ended = True
                return IterableDatasetStopIteration()
            return ExceptionWrapper(where=self.where)

    def packed(self, head: Any, data: Any) -> tuple[bytes, list[int]]:
        """The message for an answer; what cannot be sent becomes an error that can."""
        try:
            return self.arena.pack(head, data)
        except Exception:
            problem = data if isinstance(data, ExceptionWrapper) else ExceptionWrapper(where=self.where)
            try:
                return self.arena.pack(head, problem)
            except Exception:  # the error's type cannot be found from the other process
                problem.exc_type = RuntimeError
                return self.arena.pack(head, problem)


def _worker_loop(task: Task) -> None:
    """Runs in the worker until the loader closes its end, or is gone."""
    channel = Channel(task.socket)
    try:
        _prepare(task)
        arena = open_arena()
        server = _Server(task, arena)
        for head, index, rows, free, lost in _requests(channel):
            arena.free(free, lost)
            if index is ResumeIteration:
                server.resume(rows)
            elif head is not None and not server.ended:
                data = server.answer(index, rows)
                message, descriptors = server.packed(head, data)
                del data
                channel.send(message, descriptors)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the main process ends the same way, or has ended

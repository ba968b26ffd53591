"""One pass over a `DataLoader`: in this process, or with the help of worker processes."""

from __future__ import annotations

import itertools
import os
import pickle
import select
import sys
import time
import warnings
from typing import Any

from ... import multiprocessing
from ..._backend.placement import cuda_problem
from ..._core.state import local
from ..._errors.frames import warn_user
from ..._ops.making.generator import Generator
from ._utils import MP_STATUS_CHECK_INTERVAL, ExceptionWrapper, channel, memory, signal_handling
from ._utils.fetch import _DatasetKind
from ._utils.pin_memory import pin_memory
from ._utils.worker import IterableDatasetStopIteration, ResumeIteration, Task, _worker_loop
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .graph_settings import apply_random_seed, apply_sharding
from .sampler import BatchSampler, draw_seed

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class _BaseDataLoaderIter:
    """What every pass has: the order of the keys, a seed, and a count."""

    def __init__(self, loader: Any) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler, self._collate_fn = loader._index_sampler, loader.collate_fn
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._pin_memory = loader.pin_memory and _can_pin()
        self._pin_memory_device = loader.pin_memory_device or None
        self._begin(loader)
        self._base_seed = draw_seed(loader.generator)

    def _begin(self, loader: Any) -> None:
        """Puts the order of keys to its beginning. `_rows` says whether it comes as arrays of numbers."""
        piped = isinstance(self._dataset, IterDataPipe)
        self._shared_seed = draw_seed(loader.generator) if piped else None  # for the pipes of all workers
        rows = None
        if self._dataset_kind == _DatasetKind.Map and isinstance(self._index_sampler, BatchSampler):
            rows = self._index_sampler._rows()
        self._rows = rows is not None
        self._sampler_iter = iter(self._index_sampler) if rows is None else rows
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __next__(self) -> Any:
        profiler = local.profiler
        if profiler is None:
            data = self._next_data()
        else:
            data = profiler.labelled(f"enumerate(DataLoader)#{type(self).__name__}.__next__", self._next_data)
        if self._pin_memory:
            data = pin_memory(data, self._pin_memory_device)
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if expected is not None and self._num_yielded > expected:
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        warn_user(
            f"Length of IterableDataset {type(self._dataset).__name__} was said to be {self._IterableDataset_len_called} when the "
            f"loader's length was asked for, but {self._num_yielded} samples have been fetched. For multiprocessing "
            "data-loading, this may be because each worker gives the whole of the data: let it take its own part (see "
            "get_worker_info)"
        )

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


def _can_pin() -> bool:
    if cuda_problem() is None:
        return True
    warn_user("pin_memory is set, but there is no GPU: the batches stay in plain memory")
    return False


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0 or self._num_workers != 0:
            raise AssertionError("a timeout and workers belong to loading with several processes")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self._dataset, 1, 0)
        if self._shared_seed is not None:
            apply_random_seed(self._dataset, Generator().manual_seed(self._shared_seed))
        fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )
        self._dataset_fetcher = fetcher
        self._fetch = fetcher.fetch_rows if self._rows else fetcher.fetch

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _Lane:
    """A worker as the loader sees it: its process, the line to it, and its memory."""

    def __init__(self, context: Any, task: Task, pin: bool) -> None:
        self.channel, task.socket = channel.pair()
        self.process = context.Process(target=_worker_loop, args=(task,))
        self.process.daemon = True
        self.reader = memory.Reader(pin)
        self.active = True  # whether it gets more to do in this epoch
        self.outstanding = 0
        try:
            _start(self.process)
        except BaseException:
            self.channel.close()
            raise
        finally:
            task.socket.close()

    def ask(self, head: Any, index: Any, rows: Any) -> None:
        self.channel.post(pickle.dumps((head, index, rows, *self.reader.returned()), 5))

    def answers(self) -> list[tuple[Any, Any]]:
        """(head, data) of what has arrived."""
        return [self.reader.unpack(*message) for message in self.channel.messages()]


def _start(process: Any) -> None:
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads: ours are made again in the child where they are needed.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        process.start()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Keeps workers busy with the next batches, and hands them out in order.

    Batches have numbers: `_sent` were asked for, `_received` were handed out. `_owners` tells who works on a number,
    `_ready` has the data that came before its turn.
    """

    _shutdown = True  # until there are workers

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch_factor, self._in_order = loader.prefetch_factor, loader.in_order
        if not self._prefetch_factor:
            raise AssertionError("workers that may read nothing ahead give no batches: prefetch_factor is 0")
        self._pid, self._epoch = os.getpid(), 0
        self._lanes: list[_Lane] = []
        self._shutdown = False
        context = loader.multiprocessing_context or multiprocessing
        try:
            for i in range(self._num_workers):
                task = Task(
                    None, self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last,
                    self._base_seed, loader.worker_init_fn, i, self._num_workers, self._shared_seed,
                )  # fmt: skip
                self._lanes.append(_Lane(context, task, self._pin_memory))
        except BaseException:
            self._shutdown_workers()
            raise
        self._workers = [lane.process for lane in self._lanes]
        self._waiting = select.poll()
        for lane in self._lanes:
            self._waiting.register(lane.channel, _READABLE)
            self._waiting.register(lane.process.sentinel, _READABLE)
        self._begin(loader)
        self._prefetch()

    def _reset(self, loader: Any) -> None:
        """Begins another pass with the same workers."""
        self._begin(loader)
        self._epoch += 1
        for lane in self._lanes:
            lane.ask(None, ResumeIteration, self._shared_seed)
        self._prefetch()

    def _prefetch(self) -> None:
        self._sent = self._received = 0
        self._ready: dict[int, Any] = {}
        self._owners: dict[int, _Lane] = {}
        self._turns = itertools.cycle(self._lanes)
        for lane in self._lanes:
            lane.active, lane.outstanding = True, 0
        for _ in range(self._prefetch_factor * self._num_workers):
            self._request()

    def _request(self) -> None:
        """Asks the worker whose turn it is for one more batch."""
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        lane = self._next_lane()
        if lane is not None:
            lane.ask((self._epoch, self._sent), index.tobytes() if self._rows else index, self._rows)
            lane.outstanding += 1
            self._owners[self._sent] = lane
            self._sent += 1

    def _next_lane(self) -> _Lane | None:
        turns = itertools.islice(self._turns, self._num_workers)
        if self._in_order:
            return next((lane for lane in turns if lane.active), None)
        return min((lane for lane in turns if lane.active), key=lambda lane: lane.outstanding, default=None)

    # -- receiving -----------------------------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while True:
            number = self._next_number()
            if number in self._ready:
                return self._hand_out(number)
            self._collect(self._owners[number])

    def _next_number(self) -> int:
        """The number of the batch that is due; StopIteration if none will come."""
        if not self._in_order and self._ready:
            return next(iter(self._ready))
        if not self._in_order and self._owners:
            return next(iter(self._owners))
        while self._received < self._sent and self._received not in self._ready and self._received not in self._owners:
            self._received += 1  # of a worker whose data ended
        if self._received == self._sent or (not self._in_order and not self._owners):
            if not self._persistent_workers:
                self._shutdown_workers()
            raise StopIteration
        return self._received

    def _hand_out(self, number: int) -> Any:
        data = self._ready.pop(number)
        self._received += self._in_order
        self._request()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _collect(self, lane: _Lane) -> None:
        """Takes in answers, of this worker if it has sent one, else of any; waits for one if there are none."""
        if self._shutdown:
            raise RuntimeError("the workers of this DataLoader have been shut down")
        if lane.channel.read() and self._store(lane):
            return
        if lane.channel.ended:
            self._fail()
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            for each in self._lanes:
                if not each.channel.flush():  # it has had too much to do: go on when it has read some
                    self._waiting.modify(each.channel, _READABLE | select.POLLOUT)
                else:
                    self._waiting.modify(each.channel, _READABLE)
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not self._waiting.poll(left):
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            stored = [self._store(each) for each in self._lanes if each.channel.read()]
            if any(stored):
                return
            if any(each.channel.ended or not each.process.is_alive() for each in self._lanes):
                self._fail()

    def _store(self, lane: _Lane) -> bool:
        """Keeps a worker's answers until their turn; whether there were any."""
        found = False
        for (epoch, number), data in lane.answers():
            if epoch != self._epoch:
                continue  # of a pass that was left early
            found = True
            lane.outstanding -= 1
            del self._owners[number]
            if isinstance(data, IterableDatasetStopIteration):
                lane.active = False
                for later in [n for n, owner in self._owners.items() if owner is lane]:
                    del self._owners[later]
                self._request()
            else:
                self._ready[number] = data
        return found

    def _fail(self) -> None:
        """Raises the error for workers that are gone."""
        gone = [lane.process for lane in self._lanes if lane.channel.ended or not lane.process.is_alive()]
        for process in gone:
            process.join(MP_STATUS_CHECK_INTERVAL)
        pids = ", ".join(str(process.pid) for process in gone)
        how = "; ".join(signal_handling.how_it_ended(process.exitcode) for process in gone)
        self._shutdown_workers()
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly: it {how}")

    # -- the end -------------------------------------------------------------------------------------------------

    def _shutdown_workers(self) -> None:
        """Ends all workers: kindly, and after a while by force."""
        if self._shutdown or self._pid != os.getpid():  # a forked copy has no workers
            return
        self._shutdown = True
        for lane in self._lanes:
            lane.channel.close()  # which tells the worker to end
        deadline = time.monotonic() + MP_STATUS_CHECK_INTERVAL
        for end in (None, "terminate", "kill"):
            for lane in self._lanes:
                if end is not None and lane.process.is_alive():
                    getattr(lane.process, end)()
            for lane in self._lanes:
                lane.process.join(max(0.1, deadline - time.monotonic()))

    def __del__(self) -> None:
        if not self._shutdown and not sys.is_finalizing():
            self._shutdown_workers()

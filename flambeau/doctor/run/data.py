"""Loaders: how long the program waits for them, in which order they give samples, how large their batches are."""

from __future__ import annotations

import time
import weakref
from typing import Any

from ..._observe.frames import here
from ...utils import data as loading
from ...utils.data import _iterators
from .session import Session
from .training import Training


class Loader:
    """What is known about one DataLoader."""

    def __init__(self, loader: Any, place: Any) -> None:
        self.ref = weakref.ref(loader)
        self.place = place
        self.workers, self.size = loader.num_workers, loader.batch_size
        self.sampler = type(getattr(loader, "sampler", None)).__name__
        self.batched = type(loader.batch_sampler).__name__ == "BatchSampler"
        try:
            samples = len(loader.dataset)
            self.unequal = bool(self.size and samples > self.size and samples % self.size and not loader.drop_last)
        except (TypeError, NotImplementedError):
            self.unequal = False
        self.waited = 0.0
        self.batches = 0
        self.turns = 0
        self.steps = 0  # optimizer steps while it was iterated
        self.evaluated = 0  # batches that went into a model in eval mode
        self.loops: set[Any] = set()
        self.first = 0.0
        self.last = 0.0
        self.began_at = 0


class Data:
    """Watches DataLoader and its iterators."""

    def __init__(self, session: Session, training: Training) -> None:
        self.session = session
        self.loaders: dict[int, Loader] = {}
        self.turns = 0
        self.current: Loader | None = None
        session.patches.wrap(loading.DataLoader, "__init__", self._made)
        session.patches.wrap(loading.DataLoader, "__iter__", self._iterated)
        session.patches.wrap(_iterators._BaseDataLoaderIter, "__next__", self._next)
        training.after_step.append(self._stepped)
        self.owners: weakref.WeakKeyDictionary[Any, Loader] = weakref.WeakKeyDictionary()

    def _made(self, original: Any) -> Any:
        def init(loader: Any, *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            self.loaders[id(loader)] = Loader(loader, here())

        return init

    def _iterated(self, original: Any) -> Any:
        def iterate(loader: Any) -> Any:
            iterator = original(loader)
            known = self.loaders.get(id(loader))
            if known is not None and known.ref() is loader:
                self.turns += 1
                known.turns += 1
                known.loops.add(here())
                known.first = known.first or time.perf_counter()
                self.owners[iterator] = known
            return iterator

        return iterate

    def _next(self, original: Any) -> Any:
        def following(iterator: Any) -> Any:
            known = self.owners.get(iterator)
            if known is None:
                return original(iterator)
            self.current = known
            began = time.perf_counter()
            self.session.pausing += 1
            try:
                return original(iterator)
            finally:
                self.session.pausing -= 1
                known.last = time.perf_counter()
                known.waited += known.last - began
                known.batches += 1

        return following

    def _stepped(self, optim: Any) -> None:
        if self.current is not None:
            self.current.steps += 1

    def finish(self) -> None:
        find = self.session.find
        trained = any(known.steps for known in self.loaders.values())
        for known in self.loaders.values():
            if not known.batches or known.place is None:
                continue
            whole = max(known.last - known.first, 1e-9)
            if (
                known.workers == 0
                and known.steps
                and known.batches >= 5
                and known.waited > 0.25
                and known.waited / known.batches > 0.005
            ):
                if known.waited / whole > 0.7:
                    find(
                        "starved-by-loader",
                        known.place,
                        f"{known.waited / whole:.0%} of the time is spent waiting for this loader.",
                        0.85,
                        f"{1000 * known.waited / known.batches:.1f} ms per batch, num_workers=0",
                    )
            several = known.batches > 2 * known.turns
            if known.sampler == "SequentialSampler" and known.steps > 1 and several and known.batched:
                find("shuffle", known.place, "This loader is trained on, but it does not shuffle.", 0.75)
            elif (
                known.sampler == "RandomSampler"
                and trained
                and not known.steps
                and known.evaluated >= known.batches - known.turns
            ):
                find("shuffle", known.place, "This loader is only evaluated on, but it shuffles.", 0.75)

    def unequal(self) -> set[Any]:
        """Places of loops over loaders whose last batch is smaller."""
        return {place for known in self.loaders.values() if known.unequal for place in known.loops}

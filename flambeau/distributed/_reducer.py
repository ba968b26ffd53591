"""Gradients of several processes made one while the backward pass runs: in buckets, each sent when it is full."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from .._autograd import engine
from .._autograd.modes import no_grad
from .._core.dtypes import int32, int64
from .._core.state import SPARSE
from .._ops.registry import ops
from .._tensor import Tensor
from ._collectives import all_reduce, broadcast
from ._groups import ProcessGroup

__all__ = ["GradBucket", "Reducer"]

FIRST_BYTES, BYTES = 1 << 20, 25 << 20


class GradBucket:
    """Gradients that travel together; communication hooks of `DistributedDataParallel` get one."""

    def __init__(self, index: int, parameters: list[Tensor], last: bool, sparse: bool):
        self._index, self._parameters, self._last, self.sparse = index, parameters, last, sparse
        first = parameters[0]
        size = 0 if sparse else sum(p.numel() for p in parameters)
        self.memory = ops.zeros(size, dtype=first.dtype, device=first.device)
        self.views = [] if sparse else self._divided(self.memory)
        self.restart()

    def restart(self) -> None:
        """Nothing is here, and nothing is under way."""
        self.waits = len(self._parameters)  # gradients that are not here yet
        self.travel: Any = None  # what is waited for: a work or a future
        self._tensor = self._no_rows() if self.sparse else self.memory

    def _no_rows(self) -> Tensor:
        p = self._parameters[0]
        places = ops.zeros((1, 0), dtype=int64, device=p.device)
        return ops.sparse_coo_tensor(places, p.detach().new_zeros((0, *p.shape[1:])), p.shape)

    def _divided(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters)]

    def index(self) -> int:
        """Its number; the last layers have the lowest."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients one after the other; a sparse one is alone, as it is."""
        return self._tensor

    def gradients(self) -> list[Tensor]:
        """The gradients, each as a view of the buffer."""
        return [self._tensor] if self.sparse else self._divided(self._tensor)

    def parameters(self) -> list[Tensor]:
        """The parameters they belong to."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether no other follows."""
        return self._last

    def set_buffer(self, buffer: Tensor) -> None:
        """Replaces the gradients."""
        self._tensor = buffer


def divide(
    parameters: Sequence[Tensor], order: Iterable[int], limits: Sequence[int], alone: Container[int] = ()
) -> list[list[int]]:
    """Numbers of parameters in buckets of one dtype and device: a bucket is full when it reaches its limit, and those that
    are to be `alone` are by themselves."""
    full: list[list[int]] = []
    open_ones: dict[Any, tuple[list[int], int, int]] = {}  # numbers, bytes, which limit
    for number in order:
        p = parameters[number]
        if number in alone:
            full.append([number])
            continue
        key = p.dtype, p.device
        numbers, size, which = open_ones.get(key, ([], 0, 0))
        numbers.append(number)
        size += p.numel() * p.element_size()
        if size >= limits[which]:
            full.append(numbers)
            open_ones[key] = [], 0, min(which + 1, len(limits) - 1)
        else:
            open_ones[key] = numbers, size, which
    return full + [numbers for numbers, _, _ in open_ones.values() if numbers]


class Reducer:
    """Averages the gradients of a list of parameters over a group.

    A gradient goes into its bucket when it is complete; a full bucket is sent at once, in the same order everywhere, and the
    end of the backward pass waits for all of them. After the first pass buckets follow the order in which gradients came.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        group: ProcessGroup,
        limits: Sequence[int] = (FIRST_BYTES, BYTES),
        find_unused: bool = False,
        as_views: bool = False,
        static: bool = False,
        names: Sequence[str] = (),
        sparse: Container[int] = (),
    ):
        self._sparse = sparse  # the numbers of parameters whose gradients are sparse: they must be the same everywhere
        self.parameters, self.group, self.limits, self.names = list(parameters), group, limits, names
        self.find_unused, self.as_views, self.static = find_unused, as_views, static
        self.hook: Callable[[GradBucket], Any] | None = None
        self.working: tuple[Any, Tensor] | None = None  # in `join`: how many processes still have inputs
        self._expecting = self._begun = self._finishing = False
        self._rebuilt = find_unused and not static
        self._came: list[int] = []  # numbers of parameters in the order of their gradients
        self._used = [False] * len(self.parameters)
        self._unused: set[int] = set()  # in this pass
        self._times: list[int] | None = None  # in a static graph: how often each hook is called in one pass
        self._usage: Any = None
        self._place(range(len(self.parameters) - 1, -1, -1))
        me = weakref.ref(self)
        self._handles = [p.register_post_accumulate_grad_hook(_told(me, i)) for i, p in enumerate(self.parameters)]

    def __del__(self) -> None:
        for handle in getattr(self, "_handles", ()):
            handle.remove()

    def _place(self, order: Iterable[int]) -> None:
        groups = divide(self.parameters, order, self.limits, self._sparse)
        self.buckets = [
            GradBucket(i, [self.parameters[n] for n in numbers], i == len(groups) - 1, numbers[0] in self._sparse)
            for i, numbers in enumerate(groups)
        ]
        self._numbers = groups
        self._places = {n: (self.buckets[i], k) for i, numbers in enumerate(groups) for k, n in enumerate(numbers)}
        self._next = 0

    # -- a pass --

    def prepare_for_backward(self, outputs: Sequence[Tensor] = ()) -> None:
        """The next backward pass is one whose gradients are to be averaged."""
        if self._begun:
            raise RuntimeError(self._unfinished())
        self._expecting = True
        self._restart()
        if self.find_unused and not self.static:
            reached = engine._awaited([t for t in outputs if t.requires_grad], None)
            self._unused = {i for i, p in enumerate(self.parameters) if p not in reached}

    def _restart(self) -> None:
        self._next, self._came, self._seen = 0, [], set()
        self._left = None if self._times is None else list(self._times)
        for bucket in self.buckets:
            bucket.restart()

    def do_not_expect(self) -> None:
        """Gradients of the next backward pass stay here."""
        self._expecting = False

    @property
    def is_first_static(self) -> bool:
        return self.static and self._times is None

    def arrived(self, number: int) -> None:
        """The gradient of a parameter is complete."""
        self._used[number] = True
        if not self._expecting:
            return
        self._came.append(number)
        if self.is_first_static:
            if not self._begun:
                self._begun = True
                engine.queue_callback(self._everything, outermost=True)
            return
        if self._left is not None:
            self._left[number] -= 1
            if self._left[number] > 0:
                return
        elif number in self._seen:
            raise RuntimeError(
                f"Expected to mark a variable ready only once: the gradient of parameter {self._name(number)} came twice in "
                "one backward pass. Either the parameter is used outside of the module's forward, or parts of the module "
                "run in several nested backward passes (checkpoints with use_reentrant=True). If the graph is the same in "
                "every step, static_graph=True allows it."
            )
        self._seen.add(number)
        with no_grad():
            if not self._begun:
                self._begun = True
                for other in sorted(self._unused - {number}):
                    self._take(other)
            self._take(number)
            self._send()

    def _take(self, number: int) -> None:
        """Puts a gradient into its bucket, as a part of the mean unless a hook computes that."""
        bucket, k = self._places[number]
        p = self.parameters[number]
        g, factor = p.grad, 1.0 if self.hook is not None else 1.0 / self._divisor()
        bucket.waits -= 1
        if g is not None and bool(g._k & SPARSE) != bucket.sparse:
            found, other = ("dense", "sparse") if bucket.sparse else ("sparse", "dense")
            raise NotImplementedError(
                f"DistributedDataParallel: the gradient of {self._name(number)} is {found}, a {other} one was expected; sparse "
                "gradients come from Embedding and EmbeddingBag with sparse=True"
            )
        if bucket.sparse:
            if g is not None:
                bucket._tensor = g.detach().coalesce() * factor
            return
        view = bucket.views[k]
        if g is None:
            view.zero_()
        elif g is view:
            if factor != 1.0:
                view.mul_(factor)
        elif factor == 1.0:
            view.copy_(g)
        else:
            ops.mul(g.detach(), factor, out=view)
        if self.as_views and g is not None and g is not view:
            p.grad = view

    def _divisor(self) -> int:
        if self.working is None:
            return self.group.size()
        work, count = self.working
        work.wait()
        return int(count.item())

    def _send(self) -> None:
        while self._next < len(self.buckets) and not self.buckets[self._next].waits:
            bucket = self.buckets[self._next]
            self._next += 1
            bucket.travel = (
                all_reduce(bucket._tensor, group=self.group, async_op=True) if self.hook is None else self.hook(bucket)
            )
        if self._next == len(self.buckets) and not self._finishing:
            self._finishing = True
            self._tell_usage()
            engine.queue_callback(self._finish, outermost=True)

    def _everything(self) -> None:
        """The end of the first pass of a static graph."""
        self._times = [self._came.count(i) for i in range(len(self.parameters))]
        self._unused = {i for i, n in enumerate(self._times) if not n}
        with no_grad():
            for i in range(len(self.parameters)):
                self._take(i)
            self._send()

    def _tell_usage(self) -> None:
        if self.find_unused or self.static:
            flags = ops.tensor([int(used) for used in self._used], dtype=int32)
            self._usage = all_reduce(flags, group=self.group, async_op=True), flags

    def _finish(self) -> None:
        """Waits for all buckets, and gives the parameters their gradients."""
        with no_grad():
            for bucket in self.buckets:
                done = bucket.travel.wait()
                if isinstance(done, (list, tuple)):
                    done = done[0]
                flat = done if isinstance(done, Tensor) else bucket._tensor
                if bucket.sparse:
                    bucket._tensor = flat
                elif flat is not bucket.memory:  # of a hook
                    bucket.memory.copy_(flat)
                bucket.travel = None
            used: Any = None
            if self._usage is not None:
                self._usage[0].wait()
                used = self._usage[1].tolist()
            for number, p in enumerate(self.parameters):
                if used is not None and not used[number]:
                    continue  # nobody used it: its gradient stays what it was
                bucket, k = self._places[number]
                if bucket.sparse:
                    p.grad = bucket._tensor
                    continue
                view = bucket.views[k]
                if p.grad is None:
                    p.grad = view if self.as_views else view.clone()
                elif p.grad._array is not view._array:
                    p.grad.copy_(view)
        self._end()

    def _end(self) -> None:
        self._begun = self._finishing = self._expecting = False
        self._usage, self._used = None, [False] * len(self.parameters)
        self.working = None
        if not self._rebuilt:
            self.rebuild(self._came)

    def rebuild(self, came: Sequence[int]) -> None:
        """Makes the buckets anew, by the order in which gradients came at rank 0."""
        self._rebuilt = True
        order = list(dict.fromkeys(came))
        order += [i for i in range(len(self.parameters)) if i not in set(order)]
        shared = ops.tensor(order, dtype=int64)
        broadcast(shared, group=self.group, group_src=0)
        held = self.buckets
        self._place(shared.tolist())
        if self.as_views:  # gradients that are views of the old buckets move
            old = {id(view) for bucket in held for view in bucket.views}
            for number, p in enumerate(self.parameters):
                if id(p.grad) in old:
                    bucket, k = self._places[number]
                    bucket.views[k].copy_(p.grad)
                    p.grad = bucket.views[k]

    def shadow(self) -> None:
        """Takes part in a pass of the others with zeros, for a process that has no more inputs."""
        with no_grad():
            self._restart()
            for bucket in self.buckets:
                bucket.memory.zero_()
                travel = (
                    all_reduce(bucket._tensor, group=self.group, async_op=True)
                    if self.hook is None
                    else self.hook(bucket)
                )
                travel.wait()
            if self.find_unused or self.static:
                all_reduce(ops.zeros(len(self.parameters), dtype=int32), group=self.group)
            if not self._rebuilt:
                self.rebuild(range(len(self.parameters) - 1, -1, -1))

    def _rebuild_buckets(self) -> bool:
        """Whether the next pass has other buckets; they are made at the end of the first pass."""
        return False

    # -- errors --

    def _name(self, number: int) -> str:
        return f"{number} ({self.names[number]})" if self.names else str(number)

    def _unfinished(self) -> str:
        missing = [self._name(i) for i in range(len(self.parameters)) if i not in self._seen]
        return (
            "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters did not "
            f"get a gradient in the last backward pass of rank {self.group.rank()}: they were not used in producing the "
            "loss. Pass find_unused_parameters=True to DistributedDataParallel, and make sure that the loss uses all "
            f"outputs of forward. Parameter indices which did not receive grad for rank {self.group.rank()}: "
            f"{', '.join(missing)}"
        )


def _told(me: weakref.ref[Reducer], number: int) -> Callable[[Tensor], None]:
    def hook(_: Tensor) -> None:
        reducer = me()
        if reducer is not None:
            reducer.arrived(number)

    return hook

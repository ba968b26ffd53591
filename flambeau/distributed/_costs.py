"""What steps of distributed training cost: time of collectives by latency and bandwidth, and of strategies by these.

Every process has one link. A message of n bytes over it takes `latency + n / bandwidth`. MPI and NCCL choose among
algorithms; the formulas take the best of the usual ones. `benchmarks/network.py` measures both numbers between network
namespaces and compares; `docs/scaling.md` says what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Cluster", "Cost", "Link", "Work", "strategies"]


@dataclass(frozen=True)
class Link:
    """What joins processes: seconds before the first byte, and bytes per second in each direction."""

    latency: float
    bandwidth: float
    ring: bool = False  # whether parts are gathered from neighbour to neighbour, as NCCL does

    def message(self, nbytes: float) -> float:
        """Seconds for one message."""
        return self.latency + nbytes / self.bandwidth

    def all_reduce(self, nbytes: float, ranks: int) -> float:
        """Everything to everybody in few rounds, or in parts that are reduced and gathered: what is faster."""
        if ranks < 2:
            return 0.0
        rounds = math.ceil(math.log2(ranks))
        parts = 2 * rounds * self.latency + 2 * (ranks - 1) / ranks * nbytes / self.bandwidth
        return min(rounds * self.message(nbytes), parts)

    def all_gather(self, nbytes: float, ranks: int) -> float:
        """`nbytes` are those of the whole; the parts double with every round, or go round a ring."""
        if ranks < 2:
            return 0.0
        rounds = ranks - 1 if self.ring else math.ceil(math.log2(ranks))
        return rounds * self.latency + (ranks - 1) / ranks * nbytes / self.bandwidth

    reduce_scatter = all_gather  # the same messages, the other way round

    def broadcast(self, nbytes: float, ranks: int) -> float:
        """Down a tree, or in parts that are then gathered."""
        if ranks < 2:
            return 0.0
        rounds = math.ceil(math.log2(ranks))
        return min(rounds * self.message(nbytes), 2 * rounds * self.latency + 2 * nbytes / self.bandwidth)


@dataclass(frozen=True)
class Cluster:
    """Machines with accelerators: `inside` joins those of a machine, `between` is each one's share of the network."""

    hosts: int
    gpus: int
    inside: Link = field(default_factory=lambda: Link(5e-6, 300e9, ring=True))
    between: Link = field(default_factory=lambda: Link(15e-6, 50e9, ring=True))
    flops: float = 400e12  # that programs reach on one of them, per second
    memory: float = 80 * 2**30

    @property
    def ranks(self) -> int:
        return self.hosts * self.gpus

    def link(self, ranks: int) -> Link:
        """What joins so many neighbouring ranks: the slowest link among them counts."""
        return self.inside if ranks <= self.gpus else self.between

    def all_reduce(self, nbytes: float) -> float:
        """Over all ranks: inside of machines, between them, and inside again."""
        if self.hosts == 1:
            return self.inside.all_reduce(nbytes, self.gpus)
        share = nbytes / self.gpus
        return 2 * self.inside.all_gather(nbytes, self.gpus) + self.between.all_reduce(share, self.hosts)

    def all_gather(self, nbytes: float) -> float:
        """Of a whole of so many bytes over all ranks."""
        if self.hosts == 1:
            return self.inside.all_gather(nbytes, self.gpus)
        share = nbytes / self.gpus
        return self.between.all_gather(share, self.hosts) + self.inside.all_gather(nbytes, self.gpus)


@dataclass(frozen=True)
class Work:
    """One step of one process, as it was captured."""

    parameters: float  # bytes
    gradients: float
    state: float  # of the optimizer
    activations: float  # that the backward pass needs
    flops: float
    layers: int = 1  # in how many pieces parameters can be gathered
    largest: float = 0.0  # bytes of the largest piece


@dataclass(frozen=True)
class Cost:
    """What a strategy needs: bytes for each rank, seconds for a step, and how many of these are spent on waiting for others."""

    name: str
    memory: float
    seconds: float
    waiting: float

    def efficiency(self, alone: float) -> float:
        """The part of the time that is spent on computing."""
        return alone / self.seconds


_BACKWARD = 2 / 3  # of the time of a step; gradients can travel meanwhile


_BUCKET = 25e6  # bytes of gradients that DDP sends at once


def overlapped(compute: float, traffic: float, pieces: float) -> float:
    """What traffic in so many pieces adds to a backward pass; the last piece has nothing to hide behind."""
    return max(traffic / pieces, traffic - _BACKWARD * compute * (1 - 1 / pieces))


def strategies(work: Work, cluster: Cluster) -> list[Cost]:
    """The costs of ways to train with so many ranks; every one has the captured batch, so the whole batch grows with them."""
    n, compute = cluster.ranks, work.flops / cluster.flops
    whole = work.parameters + work.gradients + work.state
    found = [Cost("one process", whole + work.activations, compute, 0.0)]
    wait = overlapped(compute, cluster.all_reduce(work.gradients), max(1.0, work.gradients / _BUCKET)) if n > 1 else 0.0
    found.append(Cost("DDP", whole + work.activations, compute + wait, wait))
    piece = work.largest or work.parameters / work.layers
    found.append(_sharded("FSDP", work, compute, cluster.all_gather, n, piece))
    if cluster.hosts > 1:
        across = lambda nbytes: cluster.inside.all_gather(nbytes, cluster.gpus)
        hybrid = _sharded("HSDP (sharded in a host)", work, compute, across, cluster.gpus, piece)
        share = work.gradients / cluster.gpus
        more = overlapped(compute, cluster.between.all_reduce(share, cluster.hosts), work.layers)
        found.append(Cost(hybrid.name, hybrid.memory, hybrid.seconds + more, hybrid.waiting + more))
    if cluster.gpus > 1:
        found.append(_tensor_parallel(work, cluster, compute, piece))
    return found


def _sharded(name: str, work: Work, compute: float, gather: object, ranks: int, piece: float) -> Cost:
    """Parameters gathered before forward and backward of each layer, gradients scattered after it."""
    once = work.layers * gather(work.parameters / work.layers)  # type: ignore[operator]
    scatter = work.layers * gather(work.gradients / work.layers)  # type: ignore[operator]
    forward, backward = (1 - _BACKWARD) * compute, _BACKWARD * compute
    waiting = max(0.0, once - forward) + max(0.0, once + scatter - backward)
    waiting += (
        once + scatter
    ) / work.layers  # the first layer's parameters and the last gradients: nothing to do meanwhile
    memory = (work.parameters + work.gradients + work.state) / ranks + 2 * piece + work.activations
    return Cost(name, memory, compute + waiting, waiting)


def _tensor_parallel(work: Work, cluster: Cluster, compute: float, piece: float) -> Cost:
    """Layers divided inside of a host, FSDP between hosts. Each layer adds its activations up four times in a step; the host
    computes the captured batch of all its ranks together."""
    gpus = cluster.gpus
    batch = work.activations / work.layers / 8  # what a layer gives to the next, of about eight tensors that it keeps
    inside = 4 * work.layers * cluster.inside.all_reduce(batch * gpus, gpus)
    between = lambda nbytes: cluster.between.all_gather(nbytes / gpus, cluster.hosts)
    outer = _sharded("", work, compute, between, cluster.ranks, piece / gpus)
    waiting = inside + outer.waiting
    return Cost(f"2-D (tensor parallel {gpus} x FSDP {cluster.hosts})", outer.memory, compute + waiting, waiting)

"""`flambeau plan`: runs a program until it has made a training step, and says what that step would need on a cluster."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.graph import saved_tensors_hooks
from ..nn.modules.module import Module, register_module_forward_pre_hook
from ..optim.optimizer import register_optimizer_step_post_hook
from ..utils.flop_counter import FlopCounterMode
from ._costs import Cluster, Cost, Link, Work, strategies

__all__ = ["captured", "main"]


class _Enough(BaseException):
    """Ends the program: its step was seen."""


class _Step:
    """Watches a program until its second step (of the first one, part is preparation)."""

    def __init__(self) -> None:
        self.counter = FlopCounterMode(display=False)
        self.kept: dict[int, int] = {}  # bytes of tensors for backward, by their memory
        self.most = self.steps = self.before = 0
        self.going_back = False
        self.model: Module | None = None
        self.work: Work | None = None
        self.began, self.seconds = time.perf_counter(), 0.0

    def pack(self, t: Tensor) -> Tensor:
        if self.going_back:  # a new forward pass
            self.kept, self.going_back = {}, False
        storage = t.untyped_storage()
        self.kept[storage.data_ptr()] = storage.nbytes()
        return t

    def unpack(self, t: Tensor) -> Tensor:
        if not self.going_back:
            self.going_back = True
            owned = (
                {p.untyped_storage().data_ptr() for p in self.model.parameters()} if self.model is not None else set()
            )
            self.most = max(self.most, sum(n for address, n in self.kept.items() if address not in owned))
        return t

    def called(self, module: Module, args: Any) -> None:
        if self.model is None:
            self.model = module

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.steps += 1
        total = self.counter.get_total_flops()
        self.work = _described(optimizer, self.model, self.most, total - self.before)
        self.before, self.seconds, self.began = total, time.perf_counter() - self.began, time.perf_counter()
        if self.steps == 2:
            raise _Enough


def _described(optimizer: Any, model: Module | None, activations: int, flops: int) -> Work:
    parameters = list({id(p): p for group in optimizer.param_groups for p in group["params"]}.values())
    states = [v for p in parameters for v in optimizer.state.get(p, {}).values() if isinstance(v, Tensor)]
    size = sum(map(_bytes, parameters))
    pieces = [n for n in _pieces(model) if n] if model is not None else []
    return Work(
        parameters=size,
        gradients=sum(_bytes(p) for p in parameters if p.requires_grad),
        state=sum(map(_bytes, states)),
        activations=activations,
        flops=flops,
        layers=max(len(pieces), 1),
        largest=max(pieces, default=size),
    )


def _bytes(t: Tensor) -> int:
    return int(t.numel() * t.dtype.itemsize)


def _pieces(module: Module) -> list[int]:
    """The bytes of the pieces in which parameters would be gathered: those of the longest list of layers, and the rest."""
    lists = [m for m in module.modules() if len(list(m.children())) > 1]
    longest = max(lists, key=lambda m: len(list(m.children())), default=None)
    whole = sum(map(_bytes, module.parameters()))
    if longest is None:
        return [whole]
    found = [sum(map(_bytes, child.parameters())) for child in longest.children()]
    return [*found, max(whole - sum(found), 0)]


def captured(run: Callable[[], Any]) -> tuple[Work, float]:
    """The step of a program, and the seconds that it took here; runs it until its second step."""
    step = _Step()
    handles = [register_module_forward_pre_hook(step.called), register_optimizer_step_post_hook(step.stepped)]
    try:
        with step.counter, saved_tensors_hooks(step.pack, step.unpack):
            run()
    except _Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()
    if step.work is None:
        raise RuntimeError("flambeau plan: the program made no step of an optimizer of torch.optim")
    return step.work, step.seconds


_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def _size(nbytes: float) -> str:
    name, unit = next(((name, unit) for name, unit in _UNITS if nbytes >= unit), ("B", 1))
    return f"{nbytes / unit:.3g} {name}"


def _time(seconds: float) -> str:
    return (
        f"{seconds:.3g} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3g} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.3g} us"
    )


def table(work: Work, cluster: Cluster) -> list[str]:
    """The strategies, a line each."""
    alone = work.flops / cluster.flops
    lines = [f"{'strategy':34}{'memory per rank':>16}{'fits':>6}{'step':>10}{'waiting':>10}{'efficiency':>12}"]
    for cost in strategies(work, cluster):
        lines.append(_row(cost, cluster, alone))
    return lines


def _row(cost: Cost, cluster: Cluster, alone: float) -> str:
    fits = "yes" if cost.memory <= cluster.memory else "no"
    share = f"{100 * cost.efficiency(alone):.0f} %" if cost.seconds else "-"
    return (
        f"{cost.name:34}{_size(cost.memory):>16}{fits:>6}{_time(cost.seconds):>10}{_time(cost.waiting):>10}{share:>12}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "flambeau plan",
        description="Runs a PyTorch program here until its second training step, and prints what that step needs on a cluster: "
        "memory for each rank and time, for each strategy. Speeds of the cluster are assumptions; give yours.",
    )
    parser.add_argument("program", help="a file; words that are no options of plan are its arguments")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=8, help="on each host (8)")
    parser.add_argument("--tflops", type=float, default=400.0, help="that the program reaches on a GPU (400)")
    parser.add_argument("--memory", type=float, default=80.0, help="GiB of a GPU (80)")
    parser.add_argument("--inside-bandwidth", type=float, default=300.0, help="GB/s between GPUs of a host (300)")
    parser.add_argument("--inside-latency", type=float, default=5.0, help="microseconds (5)")
    parser.add_argument("--between-bandwidth", type=float, default=50.0, help="GB/s of the network for each GPU (50)")
    parser.add_argument("--between-latency", type=float, default=15.0, help="microseconds (15)")
    return parser


def main(arguments: Sequence[str], run: Callable[[str, Sequence[str]], Any]) -> int:
    """The command; `run(program, arguments)` runs a PyTorch program."""
    chosen, rest = _parser().parse_known_args(list(arguments))
    if chosen.hosts < 1 or chosen.gpus < 1:
        print("flambeau plan: there must be at least one host with one GPU", file=sys.stderr)
        return 2
    try:
        work, seconds = captured(lambda: run(chosen.program, rest))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    inside = Link(chosen.inside_latency * 1e-6, chosen.inside_bandwidth * 1e9, ring=True)
    between = Link(chosen.between_latency * 1e-6, chosen.between_bandwidth * 1e9, ring=True)
    cluster = Cluster(chosen.hosts, chosen.gpus, inside, between, chosen.tflops * 1e12, chosen.memory * 2**30)
    print(f"\nA step of {chosen.program}: {_size(work.parameters)} of parameters, {_size(work.gradients)} of gradients, "
          f"{_size(work.state)} of optimizer state, {_size(work.activations)} of activations, {work.flops / 1e12:.3g} TFLOP; "
          f"{_time(seconds)} here.")  # fmt: skip
    print(
        f"{chosen.hosts} hosts of {chosen.gpus} GPUs at {chosen.tflops:g} TFLOP/s; each rank trains the captured batch.\n"
    )
    print(*table(work, cluster), sep="\n")
    return 0

"""Backward passes and optimizer steps: what was zeroed, what is stepped, which parameters take part."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import Tensor, autograd, nn
from ..._autograd.node import sequence
from ..._observe.frames import Place, here
from ...optim import optimizer as optimizers
from .errors import Errors
from .graphs import Graphs
from .session import Session

_SAMPLED = 3  # parameters of an optimizer that are looked at closely


class Optim:
    """What is known about one optimizer."""

    def __init__(self, optimizer: Any, place: Place | None, born: int) -> None:
        self.optimizer = optimizer
        self.kind = type(optimizer).__name__
        self.place, self.born = place, born
        self.steps = 0
        self.backwards: list[Any] = []  # places of backward calls since the last step that reached its parameters
        self.rounds: list[list[Any]] = []  # such lists of the steps before
        self.clean: set[int] = set()  # sampled parameters whose gradients were cleared since the last step
        self.sample: dict[int, Any] = {}
        self.stale = 0
        self.reached = 0  # backward passes that reached its parameters
        self.scaled = False

    def takes_part(self, leaves: dict[int, Any]) -> bool:
        """Whether some of its parameters are among these leaves."""
        return any(id(p) in leaves for group in self.optimizer.param_groups for p in group["params"])

    def parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]


class Stray:
    """A parameter that gets gradients while no optimizer holds it: when, and what its values were."""

    def __init__(self, parameter: Any, step: int) -> None:
        self.parameter = parameter
        self.first = self.last = step
        self.sum = float(parameter.detach().abs().sum())

    def is_forgotten(self) -> bool:
        """Whether it stayed as it was while optimizers stepped several times between its gradients."""
        return self.last - self.first >= 2 and float(self.parameter.detach().abs().sum()) == self.sum


class Training:
    """Watches `backward`, `autograd.grad`, and all optimizers."""

    def __init__(self, session: Session, errors: Errors, graphs: Graphs) -> None:
        self.session, self.errors, self.graphs = session, errors, graphs
        self.optims: dict[int, Optim] = {}
        self.before_backward: list[Any] = []  # listeners: f(losses, reach, place)
        self.before_step: list[Any] = []  # listeners: f(optim, parameters)
        self.after_step: list[Any] = []
        self.reached: dict[int, Any] = {}  # leaves that some backward pass reached
        self.held: set[int] = set()  # parameters of optimizers
        self.strays: dict[int, Stray] = {}  # those of them that are parameters of no optimizer
        self.last_backward: Place | None = None
        self.since = 0  # the number of a node at the last backward pass
        self.reach: Any = None
        self.manual: dict[int, Any] = {}
        self.inside = False  # of a step, whose closure calls backward
        self.grown: dict[Any, list[int]] = {}
        errors.others.append(self._again)
        patches = session.patches
        patches.wrap(Tensor, "backward", self._backward)
        patches.wrap(autograd, "grad", self._grad)
        patches.wrap(autograd, "backward", self._autograd_backward)
        patches.wrap(optimizers.Optimizer, "__init__", self._made)
        self.hooks = [
            optimizers.register_optimizer_step_pre_hook(self._stepping),
            optimizers.register_optimizer_step_post_hook(self._stepped),
        ]

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()

    # -- backward -----------------------------------------------------------------------------------------------

    def _backward(self, original: Any) -> Any:
        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self.session.pausing:
                return original(tensor, *args, **kwargs)
            place = here()
            self.coming([tensor], place)
            self.session.pausing += 1
            try:
                result = original(tensor, *args, **kwargs)
            except Exception as error:
                self.session.pausing -= 1
                self.errors.failed(error)
                raise
            self.session.pausing -= 1
            self.went([tensor], place)
            return result

        return backward

    def _autograd_backward(self, original: Any) -> Any:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self.session.pausing:
                return original(tensors, *args, **kwargs)
            place, roots = here(), [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self.coming(roots, place)
            self.session.pausing += 1
            try:
                result = original(tensors, *args, **kwargs)
            except Exception as error:
                self.session.pausing -= 1
                self.errors.failed(error)
                raise
            self.session.pausing -= 1
            self.went(roots, place)
            return result

        return backward

    def _grad(self, original: Any) -> Any:
        def grad(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.session.pausing:
                roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
                self.graphs.walk(roots)  # what it reaches is used
            return original(outputs, *args, **kwargs)

        return grad

    def coming(self, roots: list[Any], place: Place | None) -> None:
        """Before a backward pass."""
        reach = self.reach = self.graphs.walk(roots, self.since)
        for optim in self.optims.values():
            for number, parameter in optim.sample.items():
                if number not in optim.clean and _is_clear(parameter):
                    optim.clean.add(number)
        if not self.optims:
            self._by_hand(reach.leaves, place)
        for listener in self.before_backward:
            listener(roots, reach, place)
        self._note_strays(reach.leaves)
        self.reached.update(reach.leaves)
        for optim in self.optims.values():
            if optim.takes_part(reach.leaves):
                optim.reached += 1
                if not self.inside:
                    optim.backwards.append(place)

    def _note_strays(self, leaves: dict[int, Any]) -> None:
        if leaves.keys() <= self.held:
            return
        held = self.held = {id(p) for optim in self.optims.values() for p in optim.parameters()}
        for number, leaf in leaves.items():
            if number not in held and isinstance(leaf, nn.Parameter):
                stray = self.strays.get(number) or self.strays.setdefault(number, Stray(leaf, self.session.steps))
                stray.last = self.session.steps

    def _by_hand(self, leaves: dict[int, Any], place: Place | None) -> None:
        """Weights that the program updates itself, with gradients that it does not clear."""
        for number, leaf in list(leaves.items())[:50]:
            version, stale = self.manual.get(number, (leaf._version, 0))
            if leaf._version > version and not _is_clear(leaf):
                stale += 1
                if stale == 2:
                    self.session.find(
                        "missing-zero-grad",
                        place,
                        "This backward adds to gradients that earlier updates already used.",
                        0.9,
                    )
            self.manual[number] = (leaf._version, stale)

    def went(self, roots: list[Any], place: Place | None) -> None:
        """After a backward pass."""
        self.session.backwards += 1
        self.last_backward = place
        self._grows(place)
        self.since = sequence()

    def _grows(self, place: Place | None) -> None:
        """A graph that reaches back over more and more steps: a state is carried over with its history."""
        known, reach = self.grown.setdefault(place, []), self.reach
        if not (reach.fresh and reach.old and (not known or reach.old > known[-1])):
            known.clear()
            return
        known.append(reach.old)
        if len(known) == 4:
            self.session.find(
                "hidden-state-not-detached", carrier(reach, place), "A state is carried on with its graph: each backward goes through all steps before.", 0.9,
                f"the graph grew from {known[0]} to {known[-1]} older nodes",
            )  # fmt: skip

    def _again(self, text: str, error: BaseException, place: Place | None) -> bool:
        """backward went through a freed graph: one of another step, or the very same again."""
        if "a second time" not in text or self.reach is None:
            return False
        if self.reach.fresh and self.reach.old:
            self.session.find(
                "hidden-state-not-detached",
                carrier(self.reach, place),
                "A state is carried on with a graph that an earlier backward freed.",
                0.95,
                str(error)[:80],
            )
        else:
            self.session.find(
                "backward-twice",
                place,
                "backward goes a second time through a graph that was freed.",
                0.97,
                str(error)[:80],
            )
        return True

    # -- optimizers ---------------------------------------------------------------------------------------------

    def _made(self, original: Any) -> Any:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            optim = self.known(optimizer)
            decays = [
                g["weight_decay"]
                for g in optimizer.param_groups
                if g.get("weight_decay") and not g.get("decoupled_weight_decay")
            ]
            if optim.kind == "Adam" and decays and not self.session.pausing:
                self.session.find(
                    "adam-weight-decay",
                    optim.place,
                    "Adam is given weight_decay; it mixes the decay into the scaled gradient.",
                    0.9,
                    f"weight_decay={decays[0]}",
                )

        return init

    def known(self, optimizer: Any) -> Optim:
        optim = self.optims.get(id(optimizer))
        if optim is None or optim.optimizer is not optimizer:
            optim = self.optims[id(optimizer)] = Optim(optimizer, here(), self.session.tick())
        return optim

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.session.pausing:
            return
        optim = self.known(optimizer)
        self.inside = True
        self._stale(optim)
        for listener in self.before_step:
            listener(optim, optim.parameters())

    def _stale(self, optim: Optim) -> None:
        """Gradients that are older than the last step, and were added to since."""
        if not optim.sample or not optim.backwards or optim.kind == "LBFGS":
            return
        old = [n for n, p in optim.sample.items() if n not in optim.clean and p.grad is not None]
        if old and len(old) == len(optim.sample):
            optim.stale += 1
            if optim.stale == 2:
                self.session.find(
                    "missing-zero-grad", optim.backwards[-1],
                    "This backward adds to gradients that earlier steps already used.", 0.95,
                    f"{optim.kind} stepped {optim.steps} times and the gradients were not cleared between the last steps",
                )  # fmt: skip

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.session.pausing:
            return
        optim = self.known(optimizer)
        self.inside = False
        optim.steps += 1
        self.session.steps += 1
        self.session.tick()
        optim.rounds.append(optim.backwards)
        del optim.rounds[:-32]
        optim.backwards = []
        optim.clean = set()
        if len(optim.sample) < _SAMPLED or optim.steps < 3:
            with_gradient = [p for p in optim.parameters() if p.grad is not None and not _is_clear(p)]
            optim.sample = {id(p): p for p in sorted(with_gradient, key=lambda p: p.numel())[:_SAMPLED]}
        for listener in self.after_step:
            listener(optim)
        self.session.enough()

    # -- at the end ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        stepped = {id(p) for o in self.optims.values() if o.steps for p in o.parameters()}
        for optim in self.optims.values():
            if optim.steps or optim.reached < 2 or not optim.backwards:
                continue
            if self.session.failed and len(set(optim.backwards)) == len(optim.backwards):
                continue  # the error came before the step of the first round
            own = optim.parameters()
            if own and not any(id(p) in stepped for p in own) and not any(p._version > 1 for p in own):
                self.session.find(
                    "missing-step", optim.backwards[-1], f"Gradients are computed, but this {optim.kind} never steps.", 0.9,
                    f"{optim.reached} backward passes reached its parameters",
                )  # fmt: skip


def carrier(reach: Any, place: Place | None) -> Place | None:
    """The line of the model's call that took the state along; of the backward pass where there is none."""
    fresh = [mark for mark in reach.marks if not mark.old]
    before = {id(mark.module) for mark in reach.marks if mark.old}
    again = [mark for mark in fresh if id(mark.module) in before]
    return again[0].line if again else fresh[-1].line if fresh else place


def accumulation(rounds: list[list[Any]]) -> tuple[Any, int] | None:
    """The line from which several backward passes come before each step, with their number."""
    full = [r for r in rounds if r]
    if len(full) < 2:
        return None
    for place in set(full[0]):
        counts = [r.count(place) for r in full]
        if min(counts[:-1]) >= 2 and sum(c >= 2 for c in counts) >= 2:
            return place, counts[0]
    return None


def _is_clear(parameter: Any) -> bool:
    """Whether a parameter has no gradient, or one of zeros."""
    gradient = parameter.grad
    if gradient is None:
        return True
    array = gradient._array
    return not np.any(array) if type(array) is np.ndarray else bool((gradient == 0).all())

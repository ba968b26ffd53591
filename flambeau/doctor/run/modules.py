"""Calls of models: in which mode they run, what becomes of their graphs, how their weights begin."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from ... import Tensor, is_grad_enabled, nn
from ..._observe.frames import here, is_user_file
from ...nn.modules import batchnorm, dropout, rnn
from ...nn.modules import loss as loss_modules
from .classes import attribute_place, place_in, read_in_methods, used_by_element
from .errors import Errors
from .graphs import Graphs, Mark
from .session import Session
from .training import Training

_NOISY = (dropout._DropoutNd, batchnorm._BatchNorm)
_MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Bilinear, nn.ConvTranspose2d, rnn.RNNBase)


class Call:
    """One call of a model by the program."""

    def __init__(self, module: Any, place: Any, argument: Any, grad: bool) -> None:
        self.module, self.place, self.grad = module, place, grad
        self.argument = weakref.ref(argument) if isinstance(argument, Tensor) else None
        self.noisy = 0  # layers that behave differently in training, and ran so
        self.quiet = 0  # such layers that ran as in evaluation
        self.batchnorms: list[Any] = []
        self.by_user = True  # not by a library


class Modules:
    """Watches `Module.__call__`."""

    def __init__(self, session: Session, errors: Errors, graphs: Graphs, training: Training) -> None:
        self.session, self.errors, self.graphs, self.training = session, errors, graphs, training
        self.roots: dict[int, Any] = {}
        self.handlers: dict[type, Any] = {}
        self.extra: list[tuple[Any, Any]] = []  # (classes, f(module, args, out)) of other observers
        self.leaf_results: list[Any] = []  # f(module, out)
        self.root_results: list[Any] = []  # f(call, args, out)
        self.call: Call | None = None  # of the outermost module that runs now
        self.last: Call | None = None
        self.marks: dict[Any, list[Mark]] = {}
        self.evidence: set[Any] = set()  # places of calls whose results were measured
        self.evaluated: dict[Any, Any] = {}  # places of calls in training mode under no_grad that are evaluation
        self.waiting: dict[Any, Any] = {}  # such calls that may be; a later step lets them go
        self.repeated: set[int] = set()  # modules that get the same input again and again (Monte Carlo dropout)
        self.in_eval: dict[Any, int] = {}
        self.trained_noisily: set[int] = set()
        session.patches.wrap(nn.Module, "__call__", self._wrapped)
        training.before_backward.append(self._backward)
        training.after_step.append(self._stepped)

    # -- calls --------------------------------------------------------------------------------------------------

    def _wrapped(self, original: Any) -> Any:
        session, stack, handlers = self.session, self.session.modules, self.handlers

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            kind = module.__class__
            handler = handlers[kind] if kind in handlers else self._handler(kind)
            if session.pausing or handler is None:
                return original(module, *args, **kwargs)
            call = None if stack else self._begin(module, args)
            stack.append(module)
            try:
                out = original(module, *args, **kwargs)
            except Exception as error:
                self.errors.failed(error)
                raise
            finally:
                stack.pop()
                if call is not None:
                    self.call = None
            if call is not None:
                return self._end(call, handler, args, out)
            for function in handler:
                function(module, args, out)
            if not module.__dict__["_modules"]:
                for function in self.leaf_results:
                    function(module, out)
            return out

        return __call__

    def _handler(self, kind: type) -> list[Any] | None:
        """What looks at the results of a class of modules; None for losses, whose functions are watched instead."""
        if issubclass(kind, loss_modules._Loss):
            found = None
        else:
            found = [self._noisy] if issubclass(kind, _NOISY) else []
            found += [function for classes, function in self.extra if issubclass(kind, classes)]
        self.handlers[kind] = found
        return found

    def _noisy(self, module: Any, args: Any, out: Any) -> None:
        call = self.call
        if call is None:
            return
        if isinstance(module, dropout._DropoutNd):
            if module.p == 0:
                return
        elif module.training and not module.track_running_stats:
            return
        elif args and isinstance(args[0], Tensor):
            call.batchnorms.append((module, args[0].shape[0], args[0].ndim))
        if module.training:
            call.noisy += 1
        else:
            call.quiet += 1

    def _begin(self, module: Any, args: Any) -> Call:
        """An outermost call begins."""
        self.session.enough()
        place = here()
        if id(module) not in self.roots and place is not None:
            self.roots[id(module)] = module
            self._first(module, place)
        call = self.call = Call(module, place, args[0] if args else None, is_grad_enabled())
        call.by_user = is_user_file(sys._getframe(2).f_code.co_filename)
        return call

    def _end(self, call: Call, handler: list[Any], args: Any, out: Any) -> Any:
        """An outermost call has ended: gives its result."""
        self.call = call
        for function in handler:
            function(call.module, args, out)
        self.call = None
        if not call.module._modules:
            for function in self.leaf_results:
                function(call.module, out)
        self.session.pausing += 1
        try:
            if call.by_user:
                self._done(call, out)
            for function in self.root_results:
                function(call, args, out)
        finally:
            self.session.pausing -= 1
        return out

    def _done(self, call: Call, out: Any) -> None:
        previous, self.last = self.last, call
        if call.grad:
            mark = Mark(call.module, call.place, call.module.training, self.session.steps)
            mark.call = call
            if self.graphs.mark(out, mark):
                known = self.marks.setdefault(call.place, [])
                if len(known) < 300:
                    known.append(mark)
            return
        if call.noisy and call.module.training:
            same = call.argument is not None and previous is not None and previous.argument is not None
            if (
                same
                and previous.module is call.module
                and previous.argument() is call.argument() is not None
                and previous.place == call.place
            ):
                self.repeated.add(id(call.module))
            elif self._is_trained(call.module):
                self.waiting[call.place] = call

    def _is_trained(self, module: Any) -> bool:
        stepped = {id(p) for o in self.training.optims.values() if o.steps for p in o.parameters()}
        return any(id(p) in stepped for p in module.parameters())

    # -- what becomes of results --------------------------------------------------------------------------------

    def measured(self) -> None:
        """A loss, an argmax, an item: the program looks at the results of the last call."""
        call = self.last
        if call is None:
            return
        if is_grad_enabled():
            self.evidence.add(call.place)
        elif call.place in self.waiting:
            self.evaluated[call.place] = self.waiting.pop(call.place)

    def _backward(self, roots: Any, reach: Any, place: Any) -> None:
        for mark in reach.marks:
            call = mark.call
            if call.noisy:
                self.trained_noisily.add(id(call.module))
            elif call.quiet and not mark.training and any(id(p) in reach.leaves for p in call.module.parameters()):
                self.in_eval.setdefault(mark.line, [0, call.module])[0] += 1

    def _stepped(self, optim: Any) -> None:
        self.waiting.clear()

    # -- the first call of a model ------------------------------------------------------------------------------

    def _first(self, root: Any, place: Any) -> None:
        self._constant(root, place)
        registered = {id(m) for m in root.modules()}
        for module in root.modules():
            kind = type(module)
            for name, value in list(vars(module).items()):
                if name.startswith("_"):
                    continue
                if isinstance(value, (list, tuple, dict)) and value:
                    items = value.values() if isinstance(value, dict) else value
                    lost = [
                        m
                        for m in items
                        if isinstance(m, nn.Module) and id(m) not in registered and any(True for _ in m.parameters())
                    ]
                    where = attribute_place(kind, name)
                    if lost and where:
                        self.session.find(
                            "layers-in-a-list", where, f"self.{name} holds {len(lost)} layers whose parameters are not registered.", 0.95
                        )  # fmt: skip
                elif isinstance(value, Tensor) and not value.requires_grad and read_in_methods(kind, name):
                    where = attribute_place(kind, name)
                    if where:
                        self.session.find(
                            "unregistered-tensor",
                            where,
                            f"self.{name} is a plain tensor: it is neither a Parameter nor a buffer.",
                            0.8,
                        )
                elif isinstance(value, Tensor) and value.requires_grad and value.grad_fn is None:
                    where = attribute_place(kind, name)
                    if where:
                        self.session.find(
                            "unregistered-tensor", where, f"self.{name} requires grad, but it is no Parameter: parameters() does not give it.", 0.9
                        )  # fmt: skip

    def _constant(self, root: Any, place: Any) -> None:
        """Weights that are all equal in layers that are not the last."""
        weights = []
        for path, module in root.named_modules():
            layer = isinstance(module, _MATRICES)
            for name, parameter in module.named_parameters(recurse=False):
                matrix = parameter.ndim >= 2 if layer else parameter.ndim == 2 and parameter.shape[0] > 1
                own = type(module).__module__.partition(".")[0] not in ("flambeau", "torch")
                if matrix and (layer or (own and not used_by_element(type(module), name))) and parameter.numel() > 3:
                    weights.append((f"{path}.{name}".strip("."), parameter))
        if len(weights) < 2:
            return
        constant = [(i, n, p) for i, (n, p) in enumerate(weights) if p.requires_grad and _is_constant(p)]
        zeros = [entry for entry in constant if not _any(entry[2])]
        others = [entry for entry in constant if entry[2].shape[0] > 1 and _any(entry[2])]
        inner = [e for e in zeros if e[0] < len(weights) - 1]
        if others or (inner and len(zeros) * 2 >= len(weights)):
            _index, name, parameter = (others or inner)[0]
            said = "zero" if not others else "equal"
            where = self.session.fills.get(address(parameter)) or place_in(root, name) or place
            self.session.find(
                "constant-initial-weights", where, f"All weights of {name} are {said} at the first forward: its units stay alike.", 0.9,
                f"{len(constant)} of {len(weights)} matrices are constant",
            )  # fmt: skip

    # -- at the end ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        find = self.session.find
        if not self.session.ended_early:
            self.evaluated.update(self.waiting)
        for place, call in self.evaluated.items():
            if id(call.module) not in self.repeated:
                find(
                    "missing-eval",
                    place,
                    "The model is evaluated in training mode.",
                    0.9,
                    f"{call.noisy} layers of dropout or batch norm were in training mode",
                )
        for place, (count, module) in self.in_eval.items():
            if count >= 2:
                sure = 0.9 if id(module) in self.trained_noisily else 0.6
                find(
                    "missing-train",
                    place,
                    "The model is trained in eval mode.",
                    sure,
                    f"{count} backward passes went through dropout or batch norm in eval mode",
                )
        for place, marks in self.marks.items():
            if not any(mark.reached for mark in marks):
                self._unused(place, marks)
        self._parameters()

    def _unused(self, place: Any, marks: list[Mark]) -> None:
        """Graphs that no backward pass ever reached."""
        find = self.session.find
        steps = {mark.step for mark in marks}
        close = len(marks) > len(steps)  # several without a step between them
        measured = place in self.evidence
        said = f"{len(marks)} graphs were built here and none was used"
        if not any(mark.training for mark in marks):
            if (len(marks) >= 2 and (close or measured)) or (measured and self.session.steps):
                find("missing-no-grad", place, "Evaluation builds graphs that nobody uses.", 0.9, said)
        elif self.session.backwards and measured and len(marks) >= 3 and close and self._is_trained(marks[0].module):
            find("missing-no-grad", place, "Evaluation builds graphs that nobody uses.", 0.65, said)
            if any(mark.call.noisy for mark in marks):
                find("missing-eval", place, "The model is evaluated in training mode.", 0.65, said)

    def _parameters(self) -> None:
        """Trained parameters in no optimizer, frozen or forgotten ones, and those of layers that were replaced."""
        optims = [o for o in self.training.optims.values() if o.steps]
        if not optims or self.session.backwards < 2:
            return
        held = {id(p): o for o in optims for p in o.parameters()}
        all_held = {id(p) for o in self.training.optims.values() for p in o.parameters()}
        reached = self.training.reached
        present: set[int] = set()
        for root in list(self.roots.values()):
            named = list(root.named_parameters())
            present.update(id(p) for _, p in named)
        for root in list(self.roots.values()):
            named = list(root.named_parameters())
            if not any(id(p) in reached for _, p in named):
                continue
            lost = [
                n
                for n, p in named
                if p.requires_grad and id(p) in reached and id(p) not in all_held and p._version <= 1
            ]
            unused = [
                n for n, p in named if p.requires_grad and id(p) in held and id(p) not in reached and p.grad is None
            ]
            frozen = [
                n for n, p in named if not p.requires_grad and id(p) in held and id(p) not in reached and isinstance(_owner(root, n), _MATRICES)
            ]  # fmt: skip
            if lost:
                self._lost(root, named, lost, optims, present)
            elif frozen:
                optim = held[id(dict(named)[frozen[0]])]
                self.session.find(
                    "optimizer-misses-parameters",
                    optim.place,
                    f"{optim.kind} holds frozen parameters: {_list(frozen)}.",
                    0.6,
                )
            if unused and root.training is not None:
                self._never_used(root, unused)
        if any(id == "layers-in-a-list" for id, _, _ in self.session.findings.by_place):
            return  # that is why parameters are in no optimizer
        for number, stray in self.training.strays.items():
            if number not in present and number not in all_held and stray.is_forgotten():
                self.session.find(
                    "optimizer-misses-parameters", optims[0].place,
                    f"A parameter of shape {tuple(stray.parameter.shape)} gets gradients, but no optimizer holds it.", 0.8,
                )  # fmt: skip

    def _lost(self, root: Any, named: Any, lost: list[str], optims: Any, present: set[int]) -> None:
        own = {id(p) for _, p in named}
        for optim in optims:
            held = optim.parameters()
            gone = [p for p in held if id(p) not in present and p.grad is None]
            if gone and (len(gone) == len(held) or any(id(p) in own for p in held)):
                self.session.find(
                    "optimizer-of-old-parameters", optim.place, f"{optim.kind} holds {len(gone)} parameters that the model no longer has; it lacks {_list(lost)}.", 0.95
                )  # fmt: skip
                return
        if root.training or any(id(p) in own for o in optims for p in o.parameters()):
            self.session.find(
                "optimizer-misses-parameters", optims[0].place, f"{_list(lost)} of {type(root).__name__} get gradients, but no optimizer holds them.", 0.85
            )  # fmt: skip

    def _never_used(self, root: Any, unused: list[str]) -> None:
        groups: dict[Any, list[str]] = {}
        for name in unused:
            groups.setdefault(place_in(root, name) or self.training.last_backward, []).append(name)
        for place, names in groups.items():
            self.session.find(
                "unused-parameter",
                place,
                f"{_list(names)} never gets a gradient.",
                0.85,
                f"{self.session.backwards} backward passes did not reach it",
            )


def address(tensor: Any) -> int:
    """Where the memory of a tensor begins: the same for its .data."""
    try:
        return int(tensor.data_ptr())
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return id(tensor)


def _owner(root: Any, path: str) -> Any:
    return root.get_submodule(path.rpartition(".")[0])


def _list(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _is_constant(parameter: Any) -> bool:
    try:
        values = parameter.detach().numpy()
    except (TypeError, RuntimeError, ValueError):
        return False
    return bool(np.all(values == values.flat[0]))


def _any(parameter: Any) -> bool:
    return bool(np.any(parameter.detach().numpy()))

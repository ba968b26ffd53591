"""Values: the first NaN or infinity, gradients that explode or vanish, units that are dead."""

from __future__ import annotations

import itertools
import math
import sys
import weakref
from typing import Any

import numpy as np

from ... import Tensor, nn
from ..._observe.arrays import alive, square
from ..._observe.frames import here, is_user_file, user_frame
from ...amp import grad_scaler
from ...nn import functional as F
from .losses import producer
from .session import Session
from .training import Training

_RISKY = "log log2 log10 log1p sqrt rsqrt exp div pow reciprocal acos asin atanh norm softmax log_softmax".split()  # noqa: SIM905
_OPERATORS = ("__truediv__", "__pow__", "__rtruediv__")
_OFTEN = 100  # steps during which every value is looked at; later every tenth


def _has_zero(array: Any) -> bool:
    return array is not None and array.size > 0 and not np.all(array)


_EDGES = {
    "sqrt": _has_zero,
    "norm": lambda array: array is not None and array.size > 0 and not np.any(array),
    "acos": lambda array: array is not None and array.size > 0 and bool(np.any(np.abs(array) == 1)),
    "asin": lambda array: array is not None and array.size > 0 and bool(np.any(np.abs(array) == 1)),
}


def _from_softmax(tensor: Any) -> bool:
    name = producer(tensor)
    if name.startswith("Add"):
        node = tensor.grad_fn.next_functions[0][0] if tensor.grad_fn.next_functions else None
        name = node.name() if node is not None else ""
    return name.startswith("Softmax")


class Values:
    """Looks at results of risky operations, of layers, at losses and at gradients."""

    def __init__(self, session: Session, training: Training, modules: Any, losses: Any) -> None:
        self.session, self.training = session, training
        self.suspects: list[tuple[Any, str]] = []  # what made infinities since the last good backward
        self.spoken = False
        self.looking = True  # whether the values of this step are looked at
        self.edges: list[tuple[Any, str]] = []  # operations whose derivative is infinite for some of their inputs
        self.norms: dict[int, list[float]] = {}
        self.places: dict[int, Any] = {}  # of the backward pass before each optimizer's last step
        self.parts: dict[int, list[float]] = {}
        self.losses: dict[Any, list[float]] = {}
        self.units: dict[Any, Any] = {}
        self.layers: dict[int, Any] = {}  # layers of ReLU, and the lines that call them
        wrap = session.patches.wrap
        for name in (*_RISKY, *_OPERATORS):
            wrap(Tensor, name, lambda original, name=name: self._risky(original, name))
        from ... import functional as _  # noqa: F401 (the package's own functions are attributes of it)

        package = sys.modules[__name__.partition(".")[0]]
        for name in _RISKY:
            wrap(package, name, lambda original, name=name: self._risky(original, name))
        for name in ("softmax", "log_softmax"):
            wrap(F, name, lambda original, name=name: self._risky(original, name))
        for owner, name in ((package, "relu"), (F, "relu"), (Tensor, "relu")):
            wrap(owner, name, self._relu)
        wrap(grad_scaler.GradScaler, "scale", self._scale)
        modules.leaf_results.append(self._layer)
        modules.extra.append((nn.ReLU, self._relu_layer))
        losses.listeners.append(self._loss)
        training.before_backward.append(self._backward)
        training.before_step.append(self._step)
        training.after_step.append(self._stepped)

    def _stepped(self, optim: Any) -> None:
        self.looking = not self.spoken and (self.session.steps < _OFTEN or self.session.steps % 10 == 0)

    # -- the first infinity -------------------------------------------------------------------------------------

    def _risky(self, original: Any, name: str) -> Any:
        edge = _EDGES.get(name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            if (
                name == "log"
                and not self.session.pausing
                and args
                and _from_softmax(args[0])
                and user_frame(2) is not None
            ):
                self.session.find("log-of-softmax", here(), "The logarithm of a softmax is taken by hand.", 0.9)
            if (
                edge is not None
                and not self.session.pausing
                and self.looking
                and args
                and edge(_array(args[0]) if isinstance(args[0], Tensor) else None)
            ):
                place = here()
                if place is not None and len(self.edges) < 50:
                    self.edges.append(
                        (
                            place,
                            f"the derivative of {name} is infinite where its input is {'0' if name in ('sqrt', 'norm') else 'at the border'}",
                        )
                    )
            if (
                self.session.pausing
                or not isinstance(out, Tensor)
                or not out.dtype.is_floating_point
                or not self.looking
            ):
                return out
            frame = user_frame(2)
            if frame is not None and not is_finite(out):
                given = next((a for a in args if isinstance(a, Tensor)), None)
                if given is None or is_finite(given):
                    self._suspect((frame.f_code.co_filename, frame.f_lineno), name.strip("_"), args)
            return out

        return operation

    def _suspect(self, place: Any, name: str, args: Any) -> None:
        if len(self.suspects) < 50:
            ranges = ", ".join(_range(a) for a in args if isinstance(a, Tensor))
            self.suspects.append((place, f"{name} gave infinity or NaN from values in {ranges}"))

    def _layer(self, module: Any, out: Any) -> None:
        if self.looking and isinstance(out, Tensor) and not is_finite(out):
            self._suspect(here(), type(module).__name__, ())

    def _loss(self, name: str, source: Any, target: Any, result: Any) -> None:
        if self.looking and isinstance(result, Tensor) and not is_finite(result) and is_finite(source):
            self._suspect(here(), name, (source,))

    def _scale(self, original: Any) -> Any:
        def scale(scaler: Any, outputs: Any) -> Any:
            if scaler.is_enabled():
                self.session.scaled = True
            return original(scaler, outputs)

        return scale

    def _backward(self, roots: Any, reach: Any, place: Any) -> None:
        loss = roots[0]
        if loss.numel() != 1 or self.session.scaled:
            return
        array = _array(loss)
        value = float(loss.detach()) if array is None else float(array.item())
        history = self.losses.setdefault(place, [])
        if len(history) < 2000:
            history.append(value)
        if math.isfinite(value):
            self.suspects.clear()
        elif not self.spoken:
            self._speak(place, f"the loss is {value}")

    def _speak(self, place: Any, said: str) -> None:
        self.spoken, self.looking = True, False
        where, how = (self.suspects or self.edges or [(place, said)])[0]
        self.session.find("first-nan", where or place, f"NaN or infinity begins here: {how}.", 0.9, said)

    # -- gradients ----------------------------------------------------------------------------------------------

    def _step(self, optim: Any, parameters: list[Any]) -> None:
        if self.session.scaled or (self.session.steps >= _OFTEN and self.session.steps % 10):
            return
        squares, parts = 0.0, []
        with np.errstate(all="ignore"):
            for parameter in parameters:
                gradient = _array(parameter.grad)
                if gradient is None:
                    continue
                own = square(gradient) if gradient.dtype.kind in "fV" else 0.0
                squares += own
                if gradient.ndim >= 2 and gradient.size:
                    parts.append(math.sqrt(own / gradient.size) if math.isfinite(own) else own)
        norms = self.norms.setdefault(id(optim), [])
        norms.append(math.sqrt(squares) if squares >= 0 else squares)
        if not math.isfinite(squares) and math.isnan(squares) and not self.spoken:
            self._speak(self.training.last_backward, "gradients are NaN")
        self.edges.clear()
        if len(parts) >= 4 and parts[-1] > 0 and parts[0] > 0:
            self.parts.setdefault(id(optim), []).append(parts[0] / parts[-1])
        self.places[id(optim)] = self.training.last_backward

    def finish(self) -> None:
        for number, norms in self.norms.items():
            place = self.places.get(number)
            if len(norms) < 4:
                continue
            begin = float(np.median(norms[:3]))
            finite = list(itertools.takewhile(math.isfinite, norms))
            if (
                len(finite) < len(norms)
                and math.isnan(norms[len(finite)])
                and (not finite or max(finite) <= 10 * finite[0])
            ):
                continue  # nothing grew before the first NaN: that is another mistake
            high = [n for n in norms if not math.isfinite(n) or (n > 1e3 * max(begin, 1e-8) and n > 1e2)]
            history = [v for v in self.losses.get(place, ()) if math.isfinite(v)]
            diverged = (
                len(history) > 3
                and history[-1] > 100 * max(abs(history[0]), 1e-6)
                and history[-1] > history[-2] > history[0]
            )
            if (len(high) >= 2 and (diverged or not math.isfinite(norms[-1]) or norms[-1] in high)) or (
                begin > 1e6 and min(norms) > 1e5
            ):
                self.session.find(
                    "exploding-gradients", place, "Gradient norms explode: the learning rate is too high, or the scale of data or weights.", 0.85,
                    f"the norm went from {norms[0]:.3g} to {max(n if math.isfinite(n) else math.inf for n in norms):.3g}",
                )  # fmt: skip
            ratios = self.parts.get(number, ())
            if len(ratios) >= 5 and max(ratios) < 1e-5:
                self.session.find(
                    "exploding-gradients", place, "Gradients vanish on the way to the first layers.", 0.75, f"the first layer's are {max(ratios):.1e} of the last's"
                )  # fmt: skip
        for place, (lit, calls) in self.units.items():
            dead = int((~lit).sum())
            if calls >= 8 and lit.size >= 4 and dead * 2 >= lit.size:
                self.session.find(
                    "dead-relu",
                    place,
                    f"{dead} of {lit.size} units were zero for every input.",
                    0.85,
                    f"over {calls} calls",
                )

    # -- units --------------------------------------------------------------------------------------------------

    def _relu(self, original: Any) -> Any:
        def relu(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            frame = sys._getframe(1)
            if not self.session.pausing and is_user_file(frame.f_code.co_filename):
                self._units((frame.f_code.co_filename, frame.f_lineno), out)
            return out

        return relu

    def _relu_layer(self, module: Any, args: Any, out: Any) -> None:
        known = self.layers.get(id(module))
        if known is None or known[0]() is not module:
            known = self.layers[id(module)] = weakref.ref(module), here()
        if known[1] is not None:
            self._units(known[1], out)

    def _units(self, place: Any, out: Any) -> None:
        known = self.units.get(place)
        if known is not None and known[1] >= 10 and self.session.steps % 5:
            return
        if not isinstance(out, Tensor) or out.ndim < 2 or out._edge is None or out.numel() > 1_000_000:
            return
        array = _array(out)
        if array is None:
            return
        seen = alive(array)
        if known is None or known[0].shape != seen.shape:
            if known is None:
                self.units[place] = [seen, 1]
            else:
                self.units[place] = [np.ones(0, bool), -(10**9)]  # layers of several widths share this line
        else:
            known[0] |= seen
            known[1] += 1


def _array(tensor: Any) -> Any:
    array = None if tensor is None else tensor._array
    return array if type(array) is np.ndarray else None  # None: on a GPU, or without elements


def is_finite(tensor: Any) -> bool:
    """Whether all elements are finite; True where that cannot be seen."""
    array = _array(tensor)
    if array is None or array.dtype.kind not in "fc":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def _range(tensor: Any) -> str:
    array = _array(tensor)
    return (
        f"[{array.min():.3g}, {array.max():.3g}]"
        if array is not None and array.size and array.dtype.kind in "fiu"
        else "…"
    )

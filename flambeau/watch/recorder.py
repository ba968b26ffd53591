"""What is seen of a run, brought to its file: every step a little, now and then a look at layers, activations and images.

The program's thread only notes numbers; a thread of the recorder writes them. Looks are spaced so that they take a hundredth of the time.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._observe.frames import is_user_file
from .._observe.steps import PHASES, Step, Steps, value_of
from .._tensor import Tensor
from ..nn import functional
from ..serialization import save
from .activations import Activations
from .control import Control
from .graph import Trace
from .images import samples
from .layers import Look, layers_of
from .memory import memory
from .output import Tee, metrics
from .store import Writer, rows
from .thinning import Thinner

_SHARE = 0.01  # of the time for looks
_PAUSE = 0.4  # seconds between two writes
_LEAST = 10  # steps between two looks
_PART = 24  # looks while the number of steps doubles: what they write grows slowly
_PICTURES = 12  # batches of images that are kept
_ROWS = 150  # of one write, where there are very many steps
_TIMES = tuple("time/" + name for name in PHASES)
_METRICS = 4096  # values of one printed name that are kept before they are thinned

_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


class Recorder:
    """Observes a program from `with` to its end, and writes what it sees to a folder."""

    def __init__(self, folder: Path, about: dict[str, Any], doctor: Any = None) -> None:
        self.folder, self.doctor = folder, doctor
        self.writer = Writer(folder)
        self.control = Control()
        self.steps = Steps()
        self.state = "running"
        self.pending: deque[Any] = deque()  # (step, lrs) of steps, or a line
        self.texts: deque[tuple[int, str]] = deque()
        self.thinner = Thinner()
        self.thinners: dict[str, Thinner] = {}
        self.activations = Activations()
        self.layers: dict[int, tuple[int, list[Any]]] = {}
        self.traced: set[int] = set()
        self.trace: Trace | None = None
        self.look: Look | None = None
        self.looking = 0  # optimizer steps until the look is over
        self.cost = 0.0
        self.last = 0.0  # seconds of the program at the last look
        self.next = self.planned = 0
        self.pictures = 0
        self.found: set[Any] = set()
        self.half = ""  # of a line that was not printed to its end
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._pump, name="flambeau watch", daemon=True)
        self.writer.write({"run": {**about, "began": time.time()}}, {"state": "running"})

    def __enter__(self) -> Recorder:
        steps = self.steps
        steps.on_step.append(self._stepped)
        steps.on_batch.append(self._batch)
        steps.__enter__()
        self._tensorboard()
        for owner in (sys.modules[__name__.partition(".")[0]], functional, Tensor):
            steps.patches.wrap(owner, "relu", self._relu)
        self.streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = Tee(sys.stdout, self._heard), Tee(sys.stderr, self._heard)
        self._arm()
        _recorders.add(self)
        self.thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        sys.stdout, sys.stderr = self.streams
        self.steps.__exit__()
        self.done.set()
        self.thread.join()
        for number, columns in self.thinner.rest():
            self.writer.write(rows([number], {name: [value] for name, value in columns.items()}))
        ended = {"state": "ended"} if kind is None or (kind is SystemExit and not error.code) else {"state": "stopped"}  # type: ignore[union-attr]
        if kind is not None and issubclass(kind, Exception):
            ended = {"state": "failed", "error": f"{kind.__name__}: {error}"[:400]}
        self.writer.write({**ended, "step": self.steps.number, "at": round(perf_counter() - self.steps.began, 3)})
        self.writer.close()

    # -- in the program's thread --------------------------------------------------------------------------------------

    def _stepped(self, step: Step) -> None:
        if self.looking:
            self._after(step)
        groups = () if step[4] is None else step[4].param_groups
        self.pending.append((step, [group.get("lr") for group in groups]))
        if step[0] >= self.next and not self.looking:
            self._arm()
        if self.control.wanted:
            began = perf_counter()
            self.control.obey(self.checkpoint, self._state)
            self.steps.forget(perf_counter() - began)

    def _arm(self) -> None:
        """From now on, to the end of one step of each optimizer, the program is looked at closely."""
        self.looking = max(1, len(self.steps.optimizers))
        self.activations.begin(self._roots())
        self.steps.inner = self._call
        self.steps.before_step.append(self._before)

    def _roots(self) -> list[Any]:
        return [module for module in (ref() for ref in self.steps.roots.values()) if module is not None]

    def _call(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module while the program is looked at."""
        if id(module) in self.steps.roots and id(module) not in self.traced:
            self.traced.add(id(module))
            self.trace = Trace(module)
            self.activations.begin(self._roots())
            try:
                out = self.trace.call(original, module, args, kwargs)
                self.pending.append({"graph": self.trace.record()})
            finally:
                self.trace = None
            return out
        if self.trace is not None:
            out = self.trace.call(original, module, args, kwargs)
        else:
            out = original(module, *args, **kwargs)
        if not module._modules:
            began = perf_counter()
            self.activations.note(module, out)
            self._account(began)
        return out

    def _relu(self, original: Any) -> Any:
        """relu as a function, which no module shows."""

        def relu(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            if self.steps.inner is not None and self.steps.depth:
                frame = sys._getframe(1)
                if is_user_file(frame.f_code.co_filename):
                    began = perf_counter()
                    self.activations.note_line((frame.f_code.co_filename, frame.f_lineno), out)
                    self._account(began)
            return out

        return relu

    def _account(self, began: float) -> None:
        passed = perf_counter() - began
        self.cost += passed
        self.steps.forget(passed)

    def _before(self, optimizer: Any) -> None:
        began = perf_counter()
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        known = self.layers.get(id(optimizer))
        if known is None or known[0] != count:
            known = self.layers[id(optimizer)] = count, layers_of(optimizer, self._roots())
        self.look = Look(known[1])
        self.look.before()
        self._account(began)

    def _after(self, step: Step) -> None:
        began = perf_counter()
        numbers = dict(self.activations.numbers)
        histograms = list(self.activations.histograms)
        if self.look is not None:
            self.look.after()
            numbers.update(self.look.numbers)
            histograms += self.look.histograms
            self.look = None
        self.activations.numbers, self.activations.histograms = {}, []
        if numbers:
            self.pending.append((step.number, numbers))
        if histograms:
            self.pending.append((step.number, histograms))
        self.looking -= 1
        if not self.looking:
            self.steps.inner = None
            self.steps.before_step.clear()
        self._account(began)
        if not self.looking:
            self._plan(step.number, step.at)

    def _plan(self, number: int, at: float) -> None:
        """When the next look is due."""
        mean = (at - self.last) / max(1, number - self.planned)
        apart = math.ceil(self.cost / (_SHARE * max(mean, 1e-6)))
        self.next, self.planned = number + max(_LEAST, number // _PART, apart), number
        self.cost, self.last = 0.0, at

    def _batch(self, batch: Any) -> None:
        """Images of a batch: the first, and then fewer and fewer."""
        if self.pictures < _PICTURES and self.steps.number >= (4**self.pictures if self.pictures else 0):
            began = perf_counter()
            found = samples(batch)
            self.pictures = self.pictures + 1 if found else _PICTURES
            if found:
                self.pending.append({"images": self.steps.number, **found})
            self.steps.forget(perf_counter() - began)

    def _heard(self, text: str) -> None:
        self.texts.append((self.steps.number, text))

    def _tensorboard(self) -> None:
        from ..utils.tensorboard import writer  # whose class needs no TensorBoard until it writes

        def noting(original: Any) -> Any:
            def add_scalar(board: Any, tag: str, value: Any, global_step: Any = None, *args: Any, **named: Any) -> Any:
                with contextlib.suppress(TypeError, ValueError):
                    self.pending.append((self.steps.number, {"metric/" + str(tag): float(value)}))
                return original(board, tag, value, global_step, *args, **named)

            return add_scalar

        self.steps.patches.wrap(writer.SummaryWriter, "add_scalar", noting)

    def checkpoint(self) -> None:
        """Saves the states of the models and optimizers that were seen."""
        number = self.steps.number
        path = self.folder / f"step-{number:07d}.pt"
        optimizers = [o for o in (ref() for ref in self.steps.optimizers.values()) if o is not None]
        models: dict[str, Any] = {}
        for module in self._roots():
            name = type(module).__name__
            models[name if name not in models else f"{name} {len(models)}"] = module.state_dict()
        try:
            save({"step": number, "models": models, "optimizers": [o.state_dict() for o in optimizers]}, path)
        except Exception as error:
            self.pending.append({"checkpoint": None, "step": number, "error": f"{type(error).__name__}: {error}"})
            return
        self.pending.append({"checkpoint": str(path), "step": number})

    def _state(self, state: str) -> None:
        self.state = state
        self.pending.append({"state": state, "step": self.steps.number})

    def forked(self) -> None:
        """In a child process: nothing is written there."""
        self.pending = deque(maxlen=0)
        self.texts = deque(maxlen=0)
        self.next = 1 << 62

    # -- in the recorder's thread -------------------------------------------------------------------------------------

    def _pump(self) -> None:
        last = False
        while not last:
            last = self.done.wait(_PAUSE)
            self.write()

    def write(self) -> None:
        """Writes what has come."""
        lines: list[Any] = []
        steps: list[tuple[Step, list[Any]]] = []
        while self.pending:
            item = self.pending.popleft()
            if isinstance(item, dict):
                lines.append(item)
            elif isinstance(item[0], Step):
                steps.append(item)
            elif isinstance(item[1], dict):
                lines.append(rows([item[0]], {name: [value] for name, value in item[1].items()}))
            else:
                lines += [
                    {"h": item[0], "n": name, "r": [float(f"{low:.5g}"), float(f"{high:.5g}")], "c": counts}
                    for name, (low, high, counts) in item[1]
                ]
        lines += self._printed()
        kept = [row for number, columns in _rows(steps) for row in self.thinner.take(number, columns)]
        if kept:
            names = dict.fromkeys(name for _, columns in kept for name in columns)
            table = {name: [columns.get(name) for _, columns in kept] for name in names}
            lines.append(rows([number for number, _ in kept], table))
            lines.append(rows([kept[-1][0]], {name: [value] for name, value in memory().items()}))
        if self.doctor is not None:
            lines += self._findings()
        self.writer.write(*lines)

    def _printed(self) -> list[str]:
        """Lines for the metrics in what was printed since."""
        lines = []
        while self.texts:
            number, text = self.texts.popleft()
            *whole, self.half = (self.half + text).replace("\r", "\n").split("\n")
            self.half = self.half[-2000:]
            for name, value in [pair for line in whole[-200:] for pair in metrics(line[:2000])]:
                if name not in self.thinners and len(self.thinners) >= 100:
                    continue
                for step, columns in self.thinners.setdefault(name, Thinner(_METRICS)).take(number, {name: value}):
                    lines.append(rows([step], {"metric/" + name: [columns[name]]}))
        return lines

    def _findings(self) -> list[Any]:
        new = [(key, f) for key, f in list(self.doctor.findings.by_place.items()) if key not in self.found]
        self.found.update(key for key, _ in new)
        return [{"finding": f.as_dict(), "step": self.steps.number} for _, f in new if f.severity != "hint"]


def _rows(steps: list[tuple[Step, list[Any]]]) -> list[tuple[int, dict[str, float]]]:
    """Numbers of steps by name; of very many, two rows for several steps, with the smallest and the largest losses."""
    together = len(steps) // _ROWS
    if together < 4:
        return [(step.number, _columns(step.losses, step.times, step.at, lrs)) for step, lrs in steps]
    found = []
    for first in range(0, len(steps), together):
        group = [step for step, _ in steps[first : first + together]]
        times, lrs = np.mean([step.times for step in group], 0).tolist(), steps[first][1]
        losses: dict[str, list[float]] = {}
        for step in group:
            for name, values in step.losses.items():
                losses.setdefault(name, []).append(value_of(values))
        for step, extreme in ((group[0], min), (group[-1], max)):
            bad = {name: [v for v in values if v != v] for name, values in losses.items()}
            chosen = {name: bad[name][:1] or [extreme(values)] for name, values in losses.items()}
            found.append((step.number, _columns(chosen, times, step.at, lrs)))
    return found


def _columns(losses: dict[str, list[Any]], times: list[float], at: float, lrs: list[Any]) -> dict[str, float]:
    """The numbers of one step, by name; times in milliseconds."""
    columns = {name: value_of(values) for name, values in losses.items()}
    for number, lr in enumerate(lrs):
        if lr is not None:
            columns["lr" if len(lrs) == 1 else f"lr/group {number}"] = float(lr)
    for name, seconds in zip(_TIMES, times):
        columns[name] = seconds * 1000
    columns["at"] = at
    return columns


def _forked() -> None:
    for recorder in _recorders:
        recorder.forked()


os.register_at_fork(after_in_child=_forked)

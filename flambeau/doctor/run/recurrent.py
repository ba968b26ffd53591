"""Recurrent layers that take the batch for time, tracing, checkpointing, whole models in files."""

from __future__ import annotations

from typing import Any

from ... import Tensor, jit, nn
from ..._observe.frames import here
from ...backends import cudnn
from ...nn.modules import batchnorm, dropout, rnn
from ...utils import checkpoint as checkpointing
from .classes import source_of
from .session import Session


class Layers:
    """Watches layers whose mistakes show in shapes and modes."""

    def __init__(self, session: Session, modules: Any, losses: Any, data: Any, errors: Any) -> None:
        self.session, self.modules, self.data = session, modules, data
        self.sequences: list[Any] = []
        self.shapes: dict[int, set[Any]] = {}
        self.dropped = 0
        modules.extra.append((rnn.RNNBase, self._recurrent))
        modules.extra.append((dropout._DropoutNd, self._dropout))
        modules.root_results.append(self._called)
        losses.listeners.append(self._loss)
        errors.others.append(self._one)
        wrap = session.patches.wrap
        wrap(checkpointing, "checkpoint", self._checkpoint)
        wrap(checkpointing, "checkpoint_sequential", self._checkpoint)
        wrap(batchnorm._NormBase, "__init__", self._made)
        wrap(jit, "trace", lambda original: self._traced(original, "traced"))
        from ... import export, onnx

        wrap(onnx, "export", lambda original: self._traced(original, "exported"))
        wrap(export, "export", lambda original: self._traced(original, "exported"))

    def _made(self, original: Any) -> Any:
        def init(module: Any, *args: Any, **kwargs: Any) -> None:
            place = here()
            if place is not None:
                self.session.made[id(module)] = place
            original(module, *args, **kwargs)

        return init

    def _recurrent(self, module: Any, args: Any, out: Any) -> None:
        given = args[0] if args else None
        if (
            not module.batch_first
            and isinstance(given, Tensor)
            and given.ndim == 3
            and given.shape[1] > 1
            and given.shape[0] > 1
        ):
            self.sequences = [(here(), tuple(given.shape))]

    def _loss(self, name: str, source: Any, target: Any, result: Any) -> None:
        for place, shape in self.sequences:
            rows = target.shape[0] if target.ndim else 0
            single = target.ndim == 1 or (target.ndim == 2 and target.shape[1] == 1)
            if single and rows == shape[0] != shape[1]:
                self.session.find(
                    "batch-first-confusion", place, "The first dimension of this input is the batch, but the layer takes it for time (no batch_first=True).", 0.85,
                    f"input {shape}, {rows} targets",
                )  # fmt: skip
        self.sequences = []
        self.modules.measured()

    def _dropout(self, module: Any, args: Any, out: Any) -> None:
        if module.training and module.p > 0:
            self.dropped += 1

    def _checkpoint(self, original: Any) -> Any:
        def checkpoint(*args: Any, **kwargs: Any) -> Any:
            before, place = self.dropped, here()
            out = original(*args, **kwargs)
            if kwargs.get("preserve_rng_state") is False and self.dropped > before:
                self.session.find(
                    "checkpoint-rng",
                    place,
                    "This segment draws dropout masks, and its second run will draw others.",
                    0.95,
                )
            return out

        return checkpoint

    def _traced(self, original: Any, said: str) -> Any:
        def trace(model: Any, *args: Any, **kwargs: Any) -> Any:
            place = here()
            if isinstance(model, nn.Module) and model.training and not self.session.pausing:
                noisy = [
                    m
                    for m in model.modules()
                    if isinstance(m, (dropout._DropoutNd, batchnorm._BatchNorm)) and m.training
                ]
                if noisy:
                    self.session.find(
                        "trace-of-branch",
                        place,
                        f"The model is {said} in training mode.",
                        0.9,
                        f"{len(noisy)} layers of dropout or batch norm",
                    )
            branches: list[Any] = []

            def asked(question: Any) -> Any:
                def answer(tensor: Any) -> Any:
                    where = here()
                    if where is not None and where != place:
                        branches.append(where)
                    return question(tensor)

                return answer

            count = len(self.session.patches.done)
            self.session.patches.wrap(Tensor, "__bool__", asked)
            try:
                return original(model, *args, **kwargs)
            finally:
                owner, name, before = self.session.patches.done.pop(count)
                setattr(owner, name, before)
                if branches and said == "traced":
                    self.session.find(
                        "trace-of-branch",
                        place,
                        "A branch that depends on values is traced: the other one is lost.",
                        0.9,
                        f"the branch is at line {branches[0][1]}",
                    )

        return trace

    def _called(self, call: Any, args: Any, out: Any) -> None:
        if self.data.current is not None and not call.module.training:
            self.data.current.evaluated += 1
        if cudnn.benchmark and args and isinstance(args[0], Tensor) and args[0].ndim >= 3:
            shapes = self.shapes.setdefault(id(call.module), set())
            shapes.add(tuple(args[0].shape[1:]))
            if len(shapes) == 4:
                self.session.find(
                    "benchmark-with-changing-shapes",
                    _switch(call.place) or call.place,
                    "cudnn.benchmark is on, but the shapes of inputs change.",
                    0.9,
                    f"shapes {sorted(shapes)[:4]}",
                )

    def _one(self, text: str, error: BaseException, place: Any) -> bool:
        """Batch norm met a single value per channel."""
        if "expected more than 1 value per channel" not in text:
            return False
        loader = self.data.current
        where = loader.place if loader is not None and loader.place is not None else place
        self.session.find("batch-of-one", where, "Batch norm meets a batch of one sample.", 0.95, str(error)[:120])
        return True


def _switch(place: Any) -> Any:
    """The line that switches benchmarking on."""
    source = source_of(place[0]) if place else None
    if source is not None:
        for number, line in enumerate(source.text.splitlines(), 1):
            if "cudnn.benchmark" in line and "True" in line and not line.lstrip().startswith("#"):
                return place[0], number
    return None

"""The part of the doctor that watches a program while it runs on flambeau."""

from __future__ import annotations

from typing import Any

from ..findings import Findings
from .data import Data
from .errors import Errors
from .files import Files
from .graphs import Graphs
from .losses import Losses
from .modules import Modules
from .recurrent import Layers
from .schedules import Schedules
from .session import Enough, Session
from .tensors import Tensors
from .training import Training
from .values import Values

__all__ = ["Enough", "Watch"]


class Watch:
    """All observers of one run; as a context manager it begins and ends the watching."""

    def __init__(self, steps: int | None = None, seconds: float | None = None) -> None:
        self.session = Session(steps, seconds)
        self.observers: list[Any] = []

    @property
    def findings(self) -> Findings:
        return self.session.findings

    def __enter__(self) -> Watch:
        session = self.session
        graphs = Graphs()
        errors = self.errors = Errors(session)
        losses = Losses(session, errors)
        training = self.training = Training(session, errors, graphs)
        modules = Modules(session, errors, graphs, training)
        data = self.data = Data(session, training)
        schedules = Schedules(session, training, modules, data)
        layers = Layers(session, modules, losses, data, errors)
        values = Values(session, training, modules, losses)
        tensors = Tensors(session, errors, training, modules)
        files = Files(session, training)
        self.observers = [losses, training, modules, data, schedules, layers, values, tensors, files]
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.session.pausing += 1
        try:
            if error is not None:
                self.session.failed = isinstance(error, Exception)
                self.errors.failed(error)
            for observer in self.observers:
                if hasattr(observer, "finish"):
                    observer.finish()
        finally:
            self.training.close()
            self.session.patches.restore()

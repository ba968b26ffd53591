"""Files: whole models that are pickled, and training that goes on without the optimizer's state."""

from __future__ import annotations

import sys
from typing import Any

from ... import Tensor, nn, optim
from ..._observe.frames import here
from .session import Session
from .training import Training


class Files:
    """Watches `save`, `load` and `load_state_dict`."""

    def __init__(self, session: Session, training: Training) -> None:
        self.session, self.training = session, training
        self.saved = 0  # files with states of trained models, but of no optimizer
        self.loaded = False  # such a file was loaded
        self.restored: list[Any] = []  # (place, parameters) of models that got its states
        package = sys.modules[__name__.partition(".")[0]]
        wrap = session.patches.wrap
        wrap(package, "save", self._save)
        wrap(package, "load", self._load)
        wrap(nn.Module, "load_state_dict", self._model)
        wrap(optim.Optimizer, "load_state_dict", self._optimizer)
        training.after_step.append(self._stepped)

    def _save(self, original: Any) -> Any:
        def save(obj: Any, *args: Any, **kwargs: Any) -> Any:
            parts = [obj, *obj.values()] if isinstance(obj, dict) else [obj]
            if any(isinstance(part, nn.Module) for part in parts):
                self.session.find("whole-model-pickled", here(), "The whole model is pickled, not its state_dict.", 0.9)
            elif self.session.steps and isinstance(obj, dict) and _has_tensors(obj) and not _has_optimizer(obj):
                self.saved += 1
            return original(obj, *args, **kwargs)

        return save

    def _load(self, original: Any) -> Any:
        def load(*args: Any, **kwargs: Any) -> Any:
            obj = original(*args, **kwargs)
            if self.saved and isinstance(obj, dict) and _has_tensors(obj) and not _has_optimizer(obj):
                self.loaded = True
            return obj

        return load

    def _model(self, original: Any) -> Any:
        def load_state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self.loaded and not self.session.pausing:
                self.restored.append((here(), {id(p) for p in module.parameters()}, self.session.clock))
            return original(module, *args, **kwargs)

        return load_state_dict

    def _optimizer(self, original: Any) -> Any:
        def load_state_dict(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.restored.clear()
            return original(optimizer, *args, **kwargs)

        return load_state_dict

    def _stepped(self, optimizer: Any) -> None:
        """The first step of a new optimizer with a state, on a model whose state came from a file of this run."""
        if not self.restored or optimizer.steps != 1:
            return
        group = optimizer.optimizer.param_groups[0]
        if "betas" not in group and not group.get("momentum"):
            return
        own = {id(p) for p in optimizer.parameters()}
        for place, parameters, _ in self.restored:
            if own & parameters:
                self.session.find(
                    "checkpoint-without-optimizer", place, "Training is resumed with the model's state, but the optimizer starts from nothing.", 0.8,
                    f"the file was saved after training steps, without the state of {optimizer.kind}",
                )  # fmt: skip
        self.restored.clear()


def _has_tensors(obj: dict[Any, Any]) -> bool:
    return any(
        isinstance(v, Tensor) or (isinstance(v, dict) and any(isinstance(t, Tensor) for t in v.values()))
        for v in obj.values()
    )


def _has_optimizer(obj: Any, depth: int = 0) -> bool:
    return isinstance(obj, dict) and (
        "param_groups" in obj or (depth < 2 and any(_has_optimizer(v, depth + 1) for v in obj.values()))
    )

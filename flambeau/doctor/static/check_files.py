"""Reads how checkpoints are saved and loaded."""

from __future__ import annotations

import ast

from .loops import Loops
from .source import Source, constant, keyword


def check(source: Source) -> None:
    loops = Loops(source)
    saves = [c for c in source.calls if source.name(c.func) in ("torch.save", "flambeau.save") and c.args]
    loads = [c for c in source.calls if source.name(c.func) in ("torch.load", "flambeau.load")]
    for call in saves:
        values = [call.args[0]]
        for v, _ in source.origins(call.args[0]):
            values.extend(v.values if isinstance(v, ast.Dict) else [v])
        if any(source.is_model(v) for v in values if v is not None):
            source.find("whole-model-pickled", call, "The whole model is pickled, not its state_dict.", 0.9)
    other_device = "cuda" in source.text or "mps" in source.text
    for call in loads:
        if keyword(call, "map_location", 1) is not None or any(k.arg is None for k in call.keywords):
            continue
        buffer = bool(call.args) and any("BytesIO" in kind for kind in source.kinds(call.args[0]))
        if (other_device or not buffer) and not _is_array(source, call):
            source.find(
                "load-without-map-location",
                call,
                "Tensors that were saved on a GPU cannot be loaded where there is none.",
                0.85 if other_device else 0.7,
            )
    if loads:
        _resumed(source, loops, saves)


def _is_array(source: Source, load: ast.Call) -> bool:
    """Whether what is loaded is a NumPy array: it goes into from_numpy, and has no device."""
    statement = source.parents.get(load)
    names = {t.id for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)}
    into = [c.args[0] for c in source.calls if source.name(c.func).endswith(".from_numpy") and c.args]
    return any(isinstance(n, ast.Name) and n.id in names for value in into for n in ast.walk(value))


_COUNTERS = ("epoch", "step", "iteration", "iter", "start_epoch", "global_step")


def _resumed(source: Source, loops: Loops, saves: list[ast.Call]) -> None:
    """A model's state and a count of epochs are loaded, training goes on, and the optimizer starts from nothing."""
    if not loops.optimizer_steps and not loops.scaler_steps:
        return
    restored = [c for c in source.calls if source.method(c) == "load_state_dict"]
    if any(loops.is_optimizer(c.func.value) for c in restored):
        return
    for call in restored:
        if not call.args or not _loaded(source, call.args[0]):
            continue
        function = source.function(call)
        later = [
            s
            for s in (*loops.optimizer_steps, *loops.scaler_steps)
            if source.function(s) is not function or s.lineno > call.lineno
        ]
        resumes = any(
            isinstance(n, ast.Subscript) and constant(n.slice) in _COUNTERS and _loaded(source, n.value)
            for n in ast.walk(source.tree)
        ) or any(
            isinstance(n, ast.Call)
            and source.method(n) == "get"
            and n.args
            and constant(n.args[0]) in _COUNTERS
            and _loaded(source, n.func.value)
            for n in ast.walk(source.tree)
        )
        named = any("resume" in t.lower() for t in (getattr(function, "name", ""), ast.unparse(call)))
        if later and (resumes or named):
            source.find(
                "checkpoint-without-optimizer",
                call,
                "Training is resumed with the model's state, but the optimizer starts from nothing.",
                0.85,
            )


def _loaded(source: Source, node: ast.expr) -> bool:
    """Whether a value comes out of torch.load."""
    for value, _ in source.origins(node):
        while isinstance(value, ast.Subscript):
            inner = value.value
            value = next((v for v, _ in source.origins(inner)), inner)
        if isinstance(value, ast.Call):
            if source.name(value.func) in ("torch.load", "flambeau.load"):
                return True
            if isinstance(value.func, ast.Name) and any(
                _loaded(source, r) for f in source.functions.get(value.func.id, ()) for r in source.returns(f)
            ):
                return True
    return False

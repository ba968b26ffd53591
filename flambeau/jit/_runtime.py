"""What surrounds compiled modules: threads, files, switches."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..futures import Future
from ._archive import load, save
from ._errors import Error
from ._script_module import ScriptModule

__all__ = ["Error", "fork", "freeze", "wait"]


_switches = {"onednn": False}


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Runs a function in another thread; gives a future of its result.

    >>> import flambeau as torch
    >>> torch.jit.wait(torch.jit.fork(lambda a, b: a + b, 1, b=2))
    3
    """
    future = Future()

    def run() -> None:
        try:
            future.set_result(func(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def wait(future: Future) -> Any:
    """The result of a future."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


save_jit_module_to_flatbuffer = save
jit_module_from_flatbuffer = load


def freeze(mod: ScriptModule, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A copy of a compiled module in evaluation whose parameters need no gradient, and whose calls run as programs, as those that
    `torch.compile` makes do: recorded in the first call, and again for arguments of other sizes.

    >>> import flambeau as torch
    >>> traced = torch.jit.trace(torch.nn.Linear(2, 1).eval(), torch.ones(1, 2))
    >>> torch.jit.freeze(traced)(torch.ones(3, 2)).requires_grad
    False
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input; make one with torch.jit.script or torch.jit.trace"
        )
    if mod.training:
        raise RuntimeError("Freezing works on modules in eval mode; call .eval() first")
    made = copy.deepcopy(mod)
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    made._freeze()
    return made


def optimize_for_inference(mod: ScriptModule, other_methods: list[str] | None = None) -> Any:
    """A compiled module for inference: in evaluation, without gradients, its calls run as programs (see `freeze`)."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("optimize_for_inference expects a ScriptModule as input")
    return freeze(mod.eval())


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing to do: `freeze` has done it."""


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Kept for programs that set it; the strategy itself."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """A switch without effect."""
    _switches["onednn"] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """The switch set by `enable_onednn_fusion`."""
    return _switches["onednn"]


def last_executed_optimized_graph() -> Any:
    """There is none: nothing is compiled."""
    raise NotImplementedError("nothing is compiled by torch.jit here; see torch.compile")


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A switch without effect, for a `with` block."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A switch without effect, for a `with` block."""
    yield


class strict_fusion:
    """A switch without effect, for a `with` block."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

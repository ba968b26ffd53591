"""What surrounds compiled modules: threads, files, switches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..futures import Future
from ._modules import SAVING, ScriptModule

__all__ = ["Error", "JITException", "fork", "freeze", "load", "save", "wait"]


class JITException(RuntimeError):
    """An error inside of compiled code."""


Error = JITException
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
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Not available; save the `state_dict` with `torch.save` instead."""
    raise NotImplementedError(SAVING)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Not available: TorchScript archives hold code for PyTorch's own interpreter."""
    raise NotImplementedError(
        "TorchScript archives cannot be loaded here: they hold code for PyTorch's own interpreter. Save the state_dict "
        "with PyTorch and load it into the Python module with torch.load"
    )


save_jit_module_to_flatbuffer = save
jit_module_from_flatbuffer = load


def freeze(mod: ScriptModule, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A scripted module in evaluation, as it is."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input; make one with torch.jit.script or torch.jit.trace"
        )
    if mod.training:
        raise RuntimeError("Freezing works on modules in eval mode; call .eval() first")
    return mod


def optimize_for_inference(mod: ScriptModule, other_methods: list[str] | None = None) -> Any:
    """A scripted module, as it is."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("optimize_for_inference expects a ScriptModule as input")
    return mod


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing to do."""


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

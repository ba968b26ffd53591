"""Where `kinds.py` finds kinds of work: makers of a call for a framework, by names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[Any], Callable[[], Any]]
KINDS: dict[str, Make] = {}


def kind(name: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        KINDS[name] = make
        return make

    return keep


def training(T: Any, loss: Callable[[], Any], parameters: list[Any]) -> Callable[[], Any]:
    """A loss and the gradients of parameters."""

    def step() -> None:
        for p in parameters:
            p.grad = None
        loss().backward()

    return step


def without_gradients(T: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with T.no_grad():
            return call()

    return run


def stepping(T: Any, model: Any, loss: Callable[[], Any], make: str = "Adam", **options: Any) -> Callable[[], Any]:
    """A training step by an optimizer of this name."""
    optimizer = getattr(T.optim, make)(model.parameters(), lr=1e-3, **options)

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.item()

    return step

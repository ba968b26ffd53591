"""Checks that metrics of every field share."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Expected argument `{name}` to be one of {allowed}, but got {value}.")


def check_same_shape(preds: Tensor, target: Tensor) -> None:
    if preds.shape != target.shape:
        raise RuntimeError(
            "Predictions and targets are expected to have the same shape, "
            f"but got {tuple(preds.shape)} and {tuple(target.shape)}."
        )

"""Checks of single options: what values they may have. Each raises an error that names the option."""

from __future__ import annotations

from typing import Any

from ...._tensor import Tensor


def check_threshold(threshold: Any) -> None:
    if not (isinstance(threshold, float) and 0 <= threshold <= 1):
        raise ValueError(f"Expected argument `threshold` to be a float in the [0,1] range, but got {threshold}.")


def check_thresholds(thresholds: Any) -> None:
    if thresholds is not None and not isinstance(thresholds, (list, int, Tensor)):
        raise ValueError(
            "Expected argument `thresholds` to either be an integer, list of floats or tensor of floats, "
            f"but got {thresholds}"
        )
    if isinstance(thresholds, int) and thresholds < 2:
        raise ValueError(
            f"If argument `thresholds` is an integer, expected it to be larger than 1, but got {thresholds}"
        )
    if isinstance(thresholds, list) and not all(isinstance(t, float) and 0 <= t <= 1 for t in thresholds):
        raise ValueError(
            f"If argument `thresholds` is a list, expected all elements to be floats in the [0,1] range, but got {thresholds}"
        )
    if isinstance(thresholds, Tensor) and thresholds.dim() != 1:
        raise ValueError("If argument `thresholds` is an tensor, expected the tensor to be 1d")


def check_share(name: str, value: Any) -> None:
    if not isinstance(value, float) or not 0 <= value <= 1:
        raise ValueError(f"Expected argument `{name}` to be a float in the [0,1] range, but got {value}")


def check_max_fpr(max_fpr: Any) -> None:
    if max_fpr is not None and not (isinstance(max_fpr, float) and 0 < max_fpr <= 1):
        raise ValueError(f"Arguments `max_fpr` should be a float in range (0, 1], but got: {max_fpr}")


def check_beta(beta: Any) -> None:
    if not (isinstance(beta, float) and beta > 0):
        raise ValueError(f"Expected argument `beta` to be a float larger than 0, but got {beta}.")


def check_bins(n_bins: Any) -> None:
    if not isinstance(n_bins, int) or n_bins < 1:
        raise ValueError(f"Expected argument `n_bins` to be an integer larger than 0, but got {n_bins}")


def check_squared(squared: Any) -> None:
    if not isinstance(squared, bool):
        raise ValueError(f"Expected argument `squared` to be an bool but got {squared}")


def check_top_k(top_k: Any) -> None:
    if not isinstance(top_k, int) or top_k < 1:
        raise ValueError(f"Expected argument `top_k` to be an integer larger than or equal to 1, but got {top_k}")


def check_ignore_index(ignore_index: Any) -> None:
    if ignore_index is not None and not isinstance(ignore_index, int):
        raise ValueError(f"Expected argument `ignore_index` to either be `None` or an integer, but got {ignore_index}")


def check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 2:
        raise ValueError(f"Expected argument `{name}` to be an integer larger than 1, but got {value}")


def task_of(task: Any, allowed: tuple[str, ...] = ("binary", "multiclass", "multilabel")) -> str:
    """The task's name, if there is such a task."""
    name = str(getattr(task, "value", task)).lower()
    if name not in allowed:
        raise ValueError(f"Expected argument `task` to be one of {allowed}, but got {task}")
    return name


def need_number(name: str, value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(f"`{name}` is expected to be `int` but `{type(value)} was passed.`")
    return value

"""The reduction of a loss as a number, and what stood for it in older programs: `size_average` and `reduce`."""

from __future__ import annotations

from .._errors.frames import warn_user

__all__: list[str] = []

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 for "none", 1 for "mean", 2 for "sum".

    >>> get_enum("mean")
    1
    """
    if reduction == "elementwise_mean":
        warn_user("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        reduction = "mean"
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the older arguments mean.

    >>> legacy_get_string(False, None, emit_warning=False)
    'sum'
    """
    kept = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warn_user(f"size_average and reduce args will be deprecated, please use reduction='{kept}' instead.")
    return kept


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of the reduction that the older arguments mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))

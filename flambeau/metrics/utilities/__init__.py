"""What authors of metrics use: reductions of states, gathering, exceptions, warnings."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from .data import dim_zero_cat, dim_zero_max, dim_zero_mean, dim_zero_min, dim_zero_sum
from .distributed import distributed

__all__ = [
    "dim_zero_cat", "dim_zero_max", "dim_zero_mean", "dim_zero_min", "dim_zero_sum", "rank_zero_debug", "rank_zero_info",
    "rank_zero_warn",
]  # fmt: skip
_log = logging.getLogger("flambeau.metrics")


def _first() -> bool:
    """Whether this is the process that speaks for all."""
    module = distributed()
    return module is None or module.get_rank() == 0


def rank_zero_warn(*args: Any, stacklevel: int = 3, **kwargs: Any) -> None:
    """`warnings.warn` in the first process only."""
    if _first():
        warnings.warn(*args, stacklevel=stacklevel, **kwargs)


def rank_zero_info(*args: Any, **kwargs: Any) -> None:
    """Logs in the first process only."""
    if _first():
        _log.info(*args, **kwargs)


def rank_zero_debug(*args: Any, **kwargs: Any) -> None:
    """Logs details in the first process only."""
    if _first():
        _log.debug(*args, **kwargs)

"""Whether mixed precision can work on a GPU here."""

from ..._backend.placement import cuda_problem

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """True without a GPU."""
    return cuda_problem() is not None

"""Tools that go through graphs."""

from ..._core.submodules import submodule
from . import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)

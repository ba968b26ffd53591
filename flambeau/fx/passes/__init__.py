"""Tools that go through graphs."""

from . import shape_prop

__all__ = ["shape_prop"]

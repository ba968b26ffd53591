"""Tools that go through graphs."""

from . import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]

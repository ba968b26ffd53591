"""The names that `functorch.experimental.control_flow` has."""

from ...._higher_order_ops import cond, map

__all__ = ["cond", "map"]

"""Collectives that are part of a graph: gradients go back through them."""

# ruff: noqa: F403 (all public names of the part)
from . import functional
from .functional import *

__all__ = functional.__all__

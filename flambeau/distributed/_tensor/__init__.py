"""The older name of `distributed.tensor`."""

# ruff: noqa: F403 (all public names of the part)
from .. import tensor
from ..tensor import *

__all__ = tensor.__all__

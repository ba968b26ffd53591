"""Metrics as functions of predictions and targets, without state."""

# ruff: noqa: F403

from . import classification, image, pairwise, regression, text
from .classification import *
from .image import *
from .pairwise import *
from .regression import *
from .text import *

__all__ = [*classification.__all__, *image.__all__, *pairwise.__all__, *regression.__all__, *text.__all__]

"""Metrics with torchmetrics' names: figures of how well a model does, gathered over batches.

A metric is called with a batch (and gives that batch's figure), updated, computed over all batches, and reset.
"""

# ruff: noqa: F403

from . import aggregation, classification, functional, image, regression, text, utilities, wrappers
from .aggregation import CatMetric, MaxMetric, MeanMetric, MinMetric, RunningMean, RunningSum, SumMetric
from .classification import *
from .collections import MetricCollection
from .compositional import CompositionalMetric
from .image import *
from .metric import Metric
from .regression import *
from .text import *
from .wrappers import *

__version__ = "1.8.0+flambeau"
__all__ = [
    "CatMetric", "CompositionalMetric", "MaxMetric", "MeanMetric", "Metric", "MetricCollection", "MinMetric",
    "RunningMean", "RunningSum", "SumMetric", "aggregation", "functional", "utilities",
    *classification.__all__, *image.__all__, *regression.__all__, *text.__all__, *wrappers.__all__,
]  # fmt: skip

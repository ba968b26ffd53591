"""Metrics around metrics."""

from .bootstrapping import BootStrapper
from .running import Running
from .simple import (
    BinaryTargetTransformer,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MetricInputTransformer,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
)
from .tracker import MetricTracker

__all__ = [
    "BinaryTargetTransformer", "BootStrapper", "ClasswiseWrapper", "LambdaInputTransformer", "MetricInputTransformer",
    "MetricTracker", "MinMaxMetric", "MultioutputWrapper", "MultitaskWrapper", "Running",
]  # fmt: skip

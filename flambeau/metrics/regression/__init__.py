"""Metrics of predicted numbers."""

from ._errors import (
    CriticalSuccessIndex,
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogError,
    MinkowskiDistance,
    NormalizedRootMeanSquaredError,
    SymmetricMeanAbsolutePercentageError,
    TweedieDevianceScore,
    WeightedMeanAbsolutePercentageError,
)
from ._relations import (
    ConcordanceCorrCoef,
    CosineSimilarity,
    ExplainedVariance,
    JensenShannonDivergence,
    KLDivergence,
    PearsonCorrCoef,
    R2Score,
    RelativeSquaredError,
    SpearmanCorrCoef,
)

__all__ = [
    "ConcordanceCorrCoef", "CosineSimilarity", "CriticalSuccessIndex", "ExplainedVariance", "JensenShannonDivergence",
    "KLDivergence", "LogCoshError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogError", "MinkowskiDistance", "NormalizedRootMeanSquaredError", "PearsonCorrCoef", "R2Score",
    "RelativeSquaredError", "SpearmanCorrCoef", "SymmetricMeanAbsolutePercentageError", "TweedieDevianceScore",
    "WeightedMeanAbsolutePercentageError",
]  # fmt: skip

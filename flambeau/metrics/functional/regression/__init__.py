"""Scores of predicted numbers as functions."""

from ._errors import (
    critical_success_index,
    log_cosh_error,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_log_error,
    minkowski_distance,
    normalized_root_mean_squared_error,
    symmetric_mean_absolute_percentage_error,
    tweedie_deviance_score,
    weighted_mean_absolute_percentage_error,
)
from ._relations import (
    concordance_corrcoef,
    cosine_similarity,
    explained_variance,
    jensen_shannon_divergence,
    kl_divergence,
    pearson_corrcoef,
    r2_score,
    relative_squared_error,
    spearman_corrcoef,
)

__all__ = [
    "concordance_corrcoef", "cosine_similarity", "critical_success_index", "explained_variance",
    "jensen_shannon_divergence", "kl_divergence", "log_cosh_error", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_log_error", "minkowski_distance",
    "normalized_root_mean_squared_error", "pearson_corrcoef", "r2_score", "relative_squared_error", "spearman_corrcoef",
    "symmetric_mean_absolute_percentage_error", "tweedie_deviance_score", "weighted_mean_absolute_percentage_error",
]  # fmt: skip

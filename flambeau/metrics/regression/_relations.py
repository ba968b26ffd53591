"""Explained variance, correlation, similarity and divergence as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.dtypes import float64
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.regression._errors import check_outputs
from ..functional.regression._relations import (
    REDUCTIONS,
    Moments,
    check_correlated,
    check_floating,
    check_multioutput,
    check_r2,
    check_vectors,
    concordance_of,
    cosine_of,
    explained_of,
    explained_sums,
    jensen_shannon_rows,
    kl_rows,
    merged_moments,
    moments,
    pearson_of,
    r2_of,
    r2_sums,
    relative_squared_of,
    spearman_of,
)
from ..metric import Metric
from ..utilities.checks import check_choice
from ..utilities.data import dim_zero_cat
from ._errors import Sums


class R2Score(Sums):
    """Share of the targets' variance that is explained; `adjusted` for so many regressors."""

    higher_is_better = True
    plot_lower_bound = None
    plot_upper_bound = 1.0

    def __init__(self, adjusted: int = 0, multioutput: str = "uniform_average", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_r2(adjusted, multioutput)
        self.adjusted, self.multioutput = adjusted, multioutput
        self._declare(("sum_squared_error", "sum_error", "residual"))

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return r2_sums(preds, target)

    def compute(self) -> Tensor:
        """The score so far."""
        return r2_of(self.sum_squared_error, self.sum_error, self.residual, self.total, self.adjusted, self.multioutput)


class RelativeSquaredError(Sums):
    """Squared error relative to that of always predicting the mean, or its root."""

    def __init__(self, num_outputs: int = 1, squared: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_outputs(num_outputs)
        self.num_outputs, self.squared = num_outputs, squared
        self._declare(("sum_squared_error", "sum_error", "residual"), "total", num_outputs)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return r2_sums(preds, target)

    def compute(self) -> Tensor:
        """The error so far."""
        return relative_squared_of(self.sum_squared_error, self.sum_error, self.residual, self.total, self.squared)


class ExplainedVariance(Sums):
    """1 - variance of the errors over variance of the targets."""

    higher_is_better = True
    plot_lower_bound = None
    plot_upper_bound = 1.0

    def __init__(self, multioutput: str = "uniform_average", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_multioutput(multioutput)
        self.multioutput = multioutput
        self._declare(("num_obs", "sum_error", "sum_squared_error", "sum_target", "sum_squared_target"), None)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return explained_sums(preds, target)

    def compute(self) -> Tensor:
        """The score so far."""
        return explained_of(*(getattr(self, name) for name in self._names), self.multioutput)


class _Correlation(Metric):
    """States are the moments of both sides, in double precision; they are merged, so samples need not be kept."""

    is_differentiable = True
    full_state_update = False
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def __init__(self, num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_outputs(num_outputs)
        self.num_outputs = num_outputs
        for name in Moments._fields:
            self.add_state(name, ops.zeros(num_outputs, dtype=float64), dist_reduce_fx=None)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets, (N,) or (N, num_outputs)."""
        check_correlated(preds, target, self.num_outputs)
        self._result_dtype = preds.dtype
        preds, target = preds.reshape(-1, self.num_outputs), target.reshape(-1, self.num_outputs)
        merged = merged_moments(Moments(**self.metric_state), moments(preds, target))
        self._set_states(merged._asdict())

    def _reduce_states(self, incoming_state: Mapping[str, Any], count: int = 1) -> None:
        merged = merged_moments(Moments(**self.metric_state), Moments(**incoming_state))
        self._set_states({name: value.detach() for name, value in merged._asdict().items()})

    def _moments(self) -> Moments:
        """The moments; those of several processes, stacked by `sync`, merged into one."""
        if self.n_total.dim() == 1:
            return Moments(**self.metric_state)
        parts = [Moments(*values) for values in zip(*(getattr(self, name) for name in Moments._fields))]
        merged = parts[0]
        for part in parts[1:]:
            merged = merged_moments(merged, part)
        return merged


class PearsonCorrCoef(_Correlation):
    """Pearson's correlation, for each of `num_outputs` columns."""

    def compute(self) -> Tensor:
        """The correlation so far."""
        return pearson_of(self._moments()).to(self._result_dtype)


class ConcordanceCorrCoef(_Correlation):
    """Concordance correlation, for each of `num_outputs` columns."""

    higher_is_better = True

    def compute(self) -> Tensor:
        """The correlation so far."""
        return concordance_of(self._moments()).to(self._result_dtype)


class _Kept(Metric):
    """States are all predictions and targets."""

    full_state_update = False
    higher_is_better = True

    def _declare(self) -> None:
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")

    def _all(self) -> tuple[Tensor, Tensor]:
        return dim_zero_cat(self.preds), dim_zero_cat(self.target)


class SpearmanCorrCoef(_Kept):
    """Correlation of the ranks, for each of `num_outputs` columns."""

    is_differentiable = False
    plot_lower_bound, plot_upper_bound = -1.0, 1.0

    def __init__(self, num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_outputs(num_outputs)
        self.num_outputs = num_outputs
        self._declare()

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets, (N,) or (N, num_outputs)."""
        check_floating(preds, target)
        check_correlated(preds, target, self.num_outputs)
        self.preds.append(preds)
        self.target.append(target)

    def compute(self) -> Tensor:
        """The correlation so far."""
        return spearman_of(*self._all())


class CosineSimilarity(_Kept):
    """Cosine of the angle between the rows of two matrices, summed, averaged or for each row."""

    is_differentiable = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(self, reduction: str | None = "sum", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction
        self._declare()

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds matrices (N, D)."""
        check_vectors(preds, target)
        self.preds.append(preds.float())
        self.target.append(target.float())

    def compute(self) -> Tensor:
        """The similarity so far."""
        return cosine_of(*self._all(), self.reduction)


class KLDivergence(Metric):
    """Kullback-Leibler divergence of q from p in each row, averaged, summed or for each row."""

    is_differentiable = True
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0
    _rows = staticmethod(kl_rows)

    def __init__(self, log_prob: bool = False, reduction: str | None = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(log_prob, bool):
            raise TypeError(f"Expected argument `log_prob` to be bool but got {log_prob}")
        check_choice("reduction", reduction, REDUCTIONS)
        self.log_prob, self.reduction = log_prob, reduction
        if reduction in ("mean", "sum"):
            self.add_state("measures", ops.tensor(0.0), dist_reduce_fx="sum")
        else:
            self.add_state("measures", [], dist_reduce_fx="cat")
        self.add_state("total", ops.tensor(0), dist_reduce_fx="sum")

    def update(self, p: Tensor, q: Tensor) -> None:
        """Adds distributions (N, D), as probabilities or their logarithms."""
        rows = self._rows(p, q, self.log_prob)
        if isinstance(self.measures, list):
            self.measures.append(rows)
        else:
            self.measures = self.measures + rows.sum()
        self.total = self.total + len(rows)

    def compute(self) -> Tensor:
        """The divergence so far."""
        measures = dim_zero_cat(self.measures)
        return measures / self.total if self.reduction == "mean" else measures


class JensenShannonDivergence(KLDivergence):
    """Jensen-Shannon divergence of p and q in each row, averaged, summed or for each row."""

    _rows = staticmethod(jensen_shannon_rows)

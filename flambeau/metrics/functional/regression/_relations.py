"""How far predictions explain or follow targets: variance, correlation, similarity, divergence of distributions."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities import rank_zero_warn
from ...utilities.checks import check_choice, check_same_shape

MULTIOUTPUT = ("raw_values", "uniform_average", "variance_weighted")


def check_multioutput(multioutput: Any) -> None:
    if multioutput not in MULTIOUTPUT:
        raise ValueError(f"Invalid input to argument `multioutput`. Choose one of the following: {MULTIOUTPUT}")


def _over_outputs(scores: Tensor, weights: Tensor, multioutput: str) -> Tensor:
    if multioutput == "raw_values":
        return scores
    return scores.mean() if multioutput == "uniform_average" else (weights / weights.sum() * scores).sum()


def _share(unexplained: Tensor, total: Tensor) -> Tensor:
    """1 - unexplained / total; constant targets are fully explained without error, and not at all with one."""
    score = 1 - unexplained / ops.where(total == 0, 1.0, total)
    return ops.where(total == 0, (unexplained == 0).to(score.dtype), score)


# Coefficient of determination


def r2_sums(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """Sums of squared targets, targets and squared errors, and the number of samples."""
    check_same_shape(preds, target)
    if preds.dim() > 2:
        raise ValueError(
            f"Expected both prediction and target to be 1D or 2D tensors, but received tensors with dimension {tuple(preds.shape)}"
        )
    return (target * target).sum(0), target.sum(0), ((target - preds) ** 2).sum(0), target.shape[0]


def check_r2(adjusted: Any, multioutput: Any) -> None:
    if not isinstance(adjusted, int) or adjusted < 0:
        raise ValueError("`adjusted` parameter should be an integer larger or equal to 0.")
    check_multioutput(multioutput)


def r2_of(
    squares: Tensor,
    total: Tensor,
    residual: Tensor,
    count: Any,
    adjusted: int = 0,
    multioutput: str = "uniform_average",
) -> Tensor:
    if count < 2:
        raise ValueError("Needs at least two samples to calculate r2 score.")
    variance = squares - total * (total / count)
    score = _over_outputs(_share(residual, variance), variance, multioutput)
    if adjusted == 0:
        return score
    if adjusted >= count - 1:
        rank_zero_warn(
            "More independent regressions than data points: falls back to the standard r2 score.", UserWarning
        )
        return score
    return 1 - (1 - score) * (count - 1) / (count - adjusted - 1)


def r2_score(preds: Tensor, target: Tensor, adjusted: int = 0, multioutput: str = "uniform_average") -> Tensor:
    """Share of the targets' variance that is explained; `adjusted` for so many regressors.

    >>> import flambeau as torch
    >>> r2_score(torch.tensor([2.5, 0.0, 2, 8]), torch.tensor([3, -0.5, 2, 7]))
    tensor(0.9486)
    """
    check_r2(adjusted, multioutput)
    return r2_of(*r2_sums(preds, target), adjusted, multioutput)


def relative_squared_of(squares: Tensor, total: Tensor, residual: Tensor, count: Any, squared: bool = True) -> Tensor:
    ratio = residual / (squares - total * (total / count)).clamp(min=1.1920929e-07)
    return (ratio if squared else ratio.sqrt()).mean()


def relative_squared_error(preds: Tensor, target: Tensor, squared: bool = True) -> Tensor:
    """Squared error relative to that of always predicting the mean, or its root."""
    return relative_squared_of(*r2_sums(preds, target), squared)


# Explained variance


def explained_sums(preds: Tensor, target: Tensor) -> tuple[int, Tensor, Tensor, Tensor, Tensor]:
    """Number of samples; sums of errors, squared errors, targets, squared targets."""
    check_same_shape(preds, target)
    error = target - preds
    return preds.shape[0], error.sum(0), (error * error).sum(0), target.sum(0), (target * target).sum(0)


def explained_of(
    count: Any,
    error: Tensor,
    squared_error: Tensor,
    total: Tensor,
    squares: Tensor,
    multioutput: str = "uniform_average",
) -> Tensor:
    unexplained = squared_error / count - (error / count) ** 2
    variance = squares / count - (total / count) ** 2
    return _over_outputs(_share(unexplained, variance), variance, multioutput)


def explained_variance(preds: Tensor, target: Tensor, multioutput: str = "uniform_average") -> Tensor:
    """1 - variance of the errors over variance of the targets."""
    check_multioutput(multioutput)
    return explained_of(*explained_sums(preds, target), multioutput)


# Correlation


class Moments(NamedTuple):
    """Means, summed squared deviations, summed products of deviations and the number of samples, for each output."""

    mean_x: Tensor
    mean_y: Tensor
    var_x: Tensor
    var_y: Tensor
    corr_xy: Tensor
    n_total: Tensor


def moments(preds: Tensor, target: Tensor) -> Moments:
    """The moments of a batch."""
    preds, target = preds.double(), target.double()
    count = ops.full(preds.shape[1:], float(preds.shape[0]), dtype=preds.dtype, device=preds.device)
    mean_x, mean_y = preds.mean(0), target.mean(0)
    x, y = preds - mean_x, target - mean_y
    return Moments(mean_x, mean_y, (x * x).sum(0), (y * y).sum(0), (x * y).sum(0), count)


def merged_moments(a: Moments, b: Moments) -> Moments:
    """The moments of two sets of samples together."""
    count = a.n_total + b.n_total
    share = b.n_total / ops.where(count == 0, 1.0, count)
    x, y = b.mean_x - a.mean_x, b.mean_y - a.mean_y
    both = a.n_total * share
    return Moments(
        a.mean_x + x * share, a.mean_y + y * share, a.var_x + b.var_x + x * x * both, a.var_y + b.var_y + y * y * both,
        a.corr_xy + b.corr_xy + x * y * both, count,
    )  # fmt: skip


def pearson_of(m: Moments) -> Tensor:
    """Correlation; nan where either side is constant."""
    spread = (m.var_x * m.var_y).sqrt()
    if (spread == 0).any():
        rank_zero_warn("The variance of predictions or target is zero: their correlation is not defined.", UserWarning)
    return ops.where(spread == 0, float("nan"), m.corr_xy / spread).clamp(-1.0, 1.0)


def concordance_of(m: Moments) -> Tensor:
    """Correlation that also counts differences of mean and scale; variances are those of a sample."""
    count = m.n_total - 1
    return 2 * m.corr_xy / count / (m.var_x / count + m.var_y / count + (m.mean_x - m.mean_y) ** 2)


def check_correlated(preds: Tensor, target: Tensor, num_outputs: int | None = None) -> None:
    check_same_shape(preds, target)
    if preds.dim() > 2 or target.dim() > 2:
        raise ValueError(
            f"Expected both predictions and target to be either 1- or 2-dimensional tensors, but got {target.dim()} and {preds.dim()}."
        )
    if num_outputs is not None and (num_outputs != 1 if preds.dim() == 1 else num_outputs != preds.shape[1]):
        raise ValueError(
            f"Expected argument `num_outputs` to match the second dimension of input, but got {num_outputs} and {tuple(preds.shape)}."
        )


def pearson_corrcoef(preds: Tensor, target: Tensor) -> Tensor:
    """Pearson's correlation, for each column.

    >>> import flambeau as torch
    >>> pearson_corrcoef(torch.tensor([2.5, 0.0, 2, 8]), torch.tensor([3, -0.5, 2, 7]))
    tensor(0.9849)
    """
    check_correlated(preds, target)
    return pearson_of(moments(preds, target)).to(preds.dtype)


def concordance_corrcoef(preds: Tensor, target: Tensor) -> Tensor:
    """Concordance correlation, for each column."""
    check_correlated(preds, target)
    return concordance_of(moments(preds, target)).to(preds.dtype)


def ranks(x: Tensor) -> Tensor:
    """Ranks from 1 on in each column of (N, C); equal values share the mean of theirs."""
    order = x.T.contiguous()
    ordered = order.sort(1).values
    below = ops.searchsorted(ordered, order)
    not_above = ops.searchsorted(ordered, order, right=True)
    return ((below + not_above + 1).double() / 2).T


def spearman_of(preds: Tensor, target: Tensor) -> Tensor:
    alone = preds.dim() == 1
    x, y = (ranks(v.unsqueeze(1) if alone else v) for v in (preds, target))
    m = moments(x, y)
    spread = (m.var_x * m.var_y).sqrt()
    found = (
        ops.where(spread == 0, 0.0, m.corr_xy / ops.where(spread == 0, 1.0, spread)).clamp(-1.0, 1.0).to(preds.dtype)
    )
    return found.squeeze(0) if alone else found


def check_floating(preds: Tensor, target: Tensor) -> None:
    if not (preds.is_floating_point() and target.is_floating_point()):
        raise TypeError(
            f"Expected `preds` and `target` both to be floating point tensors, but got {preds.dtype} and {target.dtype}"
        )


def spearman_corrcoef(preds: Tensor, target: Tensor) -> Tensor:
    """Correlation of the ranks, for each column."""
    check_floating(preds, target)
    check_correlated(preds, target)
    return spearman_of(preds, target)


# Similarity


REDUCTIONS = ("mean", "sum", "none", None)


def reduced(values: Tensor, reduction: str | None) -> Tensor:
    if reduction == "sum":
        return values.sum()
    return values.mean() if reduction == "mean" else values


def check_vectors(preds: Tensor, target: Tensor) -> None:
    check_same_shape(preds, target)
    if preds.dim() != 2:
        raise ValueError(
            f"Expected input to cosine similarity to be 2D tensors of shape `[N,D]`, but got tensor of shape {tuple(preds.shape)}"
        )


def cosine_of(preds: Tensor, target: Tensor, reduction: str | None) -> Tensor:
    return reduced((preds * target).sum(-1) / (preds.norm(dim=-1) * target.norm(dim=-1)), reduction)


def cosine_similarity(preds: Tensor, target: Tensor, reduction: str | None = "sum") -> Tensor:
    """Cosine of the angle between the rows of two matrices, summed, averaged or for each row."""
    check_vectors(preds, target)
    check_choice("reduction", reduction, REDUCTIONS)
    return cosine_of(preds.float(), target.float(), reduction)


# Divergence of distributions


def _distributions(p: Tensor, q: Tensor, log_prob: bool) -> tuple[Tensor, Tensor]:
    check_same_shape(p, q)
    if p.dim() != 2:
        raise ValueError(f"Expected both p and q distribution to be 2D but got {p.dim()} and {q.dim()} respectively")
    if log_prob:
        return p, q
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    return p, q.clamp(min=1.17e-06)


def kl_rows(p: Tensor, q: Tensor, log_prob: bool) -> Tensor:
    """Divergence of each row."""
    p, q = _distributions(p, q, log_prob)
    return (p.exp() * (p - q)).sum(-1) if log_prob else ops.xlogy(p, p / q).sum(-1)


def jensen_shannon_rows(p: Tensor, q: Tensor, log_prob: bool) -> Tensor:
    """Mean divergence of each row from the mean of both."""
    p, q = _distributions(p, q, log_prob)
    if log_prob:
        mean = ops.logaddexp(p, q) - 0.6931471805599453
        return 0.5 * ((p.exp() * (p - mean)).sum(-1) + (q.exp() * (q - mean)).sum(-1))
    mean = (p + q) / 2
    return 0.5 * (ops.xlogy(p, p / mean).sum(-1) + ops.xlogy(q, q / mean).sum(-1))


def kl_divergence(p: Tensor, q: Tensor, log_prob: bool = False, reduction: str | None = "mean") -> Tensor:
    """Kullback-Leibler divergence of q from p in each row, averaged, summed or for each row."""
    check_choice("reduction", reduction, REDUCTIONS)
    return reduced(kl_rows(p, q, log_prob), reduction)


def jensen_shannon_divergence(p: Tensor, q: Tensor, log_prob: bool = False, reduction: str | None = "mean") -> Tensor:
    """Jensen-Shannon divergence of p and q in each row, averaged, summed or for each row."""
    check_choice("reduction", reduction, REDUCTIONS)
    return reduced(jensen_shannon_rows(p, q, log_prob), reduction)

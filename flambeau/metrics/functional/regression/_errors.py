"""Errors of predicted numbers. Each function `…_sums` gives what adds up over batches, `…_of` the figure of that."""

from __future__ import annotations

from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities.checks import check_choice, check_same_shape
from ...utilities.exceptions import TorchMetricsUserError

_LEAST = 1.17e-06  # percentages are of at least this much


def outputs(preds: Tensor, target: Tensor, num_outputs: int = 1) -> tuple[Tensor, Tensor]:
    """Floating predictions and targets, as (N,), or (N, num_outputs) if there are several."""
    check_same_shape(preds, target)
    preds, target = (x if x.is_floating_point() else x.float() for x in (preds, target))
    if num_outputs == 1:
        return preds.reshape(-1), target.reshape(-1)
    if preds.dim() < 2 or preds.shape[-1] != num_outputs:
        raise ValueError(
            f"Expected the last dimension to be the number of outputs {num_outputs}, but got {tuple(preds.shape)}"
        )
    return preds.reshape(-1, num_outputs), target.reshape(-1, num_outputs)


def check_outputs(num_outputs: Any) -> None:
    if not (isinstance(num_outputs, int) and num_outputs > 0):
        raise ValueError(f"Expected num_outputs to be a positive integer but got {num_outputs}")


def squared_sums(preds: Tensor, target: Tensor, num_outputs: int = 1) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target, num_outputs)
    return ((preds - target) ** 2).sum(0), len(target)


def absolute_sums(preds: Tensor, target: Tensor, num_outputs: int = 1) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target, num_outputs)
    return (preds - target).abs().sum(0), len(target)


def percentage_sums(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target)
    return ((preds - target).abs() / target.abs().clamp(min=_LEAST)).sum(), len(target)


def symmetric_sums(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target)
    return 2 * ((preds - target).abs() / (target.abs() + preds.abs()).clamp(min=_LEAST)).sum(), len(target)


def weighted_sums(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    preds, target = outputs(preds, target)
    return (preds - target).abs().sum(), target.abs().sum()


def log_sums(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target)
    return ((preds.log1p() - target.log1p()) ** 2).sum(), len(target)


def log_cosh_sums(preds: Tensor, target: Tensor, num_outputs: int = 1) -> tuple[Tensor, int]:
    preds, target = outputs(preds, target, num_outputs)
    apart = (preds - target).abs()  # log cosh x = |x| + log(1 + exp(-2|x|)) - log 2, which cannot overflow
    return (apart + (-2 * apart).exp().log1p() - 0.6931471805599453).sum(0), len(target)


def minkowski_sums(preds: Tensor, target: Tensor, p: float) -> tuple[Tensor]:
    check_same_shape(preds, target)
    if not (isinstance(p, (float, int)) and p >= 1):
        raise TorchMetricsUserError(f"Argument ``p`` must be a float or int greater than 1, but got {p}")
    return (((preds - target).abs() ** p).sum(),)


def deviance_sums(preds: Tensor, target: Tensor, power: float) -> tuple[Tensor, Tensor]:
    """Tweedie deviance: normal (power 0), Poisson (1), gamma (2), inverse Gaussian (3) and between."""
    check_same_shape(preds, target)
    if 0 < power < 1:
        raise ValueError(f"Deviance Score is not defined for power={power}.")
    if (
        (power != 0 and (preds <= 0).any())
        or (1 <= power < 2 and (target < 0).any())
        or (power >= 2 and (target <= 0).any())
    ):
        raise ValueError(
            f"For power={power}, 'preds' has to be strictly positive and 'targets' must not be negative (or zero)."
        )
    if power == 0:
        found = (target - preds) ** 2
    elif power == 1:
        found = 2 * (ops.xlogy(target, target / preds) + preds - target)
    elif power == 2:
        found = 2 * ((preds / target).log() + target / preds - 1)
    else:
        first = target.clamp(min=0) ** (2 - power) / ((1 - power) * (2 - power))
        found = 2 * (first - target * preds ** (1 - power) / (1 - power) + preds ** (2 - power) / (2 - power))
    return found.sum(), ops.tensor(found.numel(), device=found.device)


def success_sums(
    preds: Tensor, target: Tensor, threshold: float, keep_sequence_dim: int | None = None
) -> tuple[Tensor, ...]:
    """Hits, misses and false alarms of values above the threshold."""
    check_same_shape(preds, target)
    if keep_sequence_dim is not None and not 0 <= keep_sequence_dim < preds.dim():
        raise ValueError(f"Expected keep_sequence_dim to be in range [0, {preds.dim()}] but got {keep_sequence_dim}")
    if keep_sequence_dim is None:
        preds, target = preds.reshape(1, -1), target.reshape(1, -1)
    else:
        preds, target = (
            x.movedim(keep_sequence_dim, 0).reshape(x.shape[keep_sequence_dim], -1) for x in (preds, target)
        )
    above, there = preds >= threshold, target >= threshold
    found = tuple(case.sum(1) for case in (above & there, ~above & there, above & ~there))
    return found if keep_sequence_dim is not None else tuple(x.squeeze(0) for x in found)


def success_of(hits: Tensor, misses: Tensor, false_alarms: Tensor) -> Tensor:
    total = hits + misses + false_alarms
    return ops.where(total == 0, 0.0, hits / total.clamp(min=1))


def normalizer_of(normalization: str, total: Any, mean: Tensor, low: Tensor, high: Tensor, squares: Tensor) -> Tensor:
    """What a root mean squared error is divided by."""
    if normalization == "mean":
        return mean
    if normalization == "range":
        return high - low
    return squares.sqrt() if normalization == "l2" else (squares / total - mean**2).clamp(min=0).sqrt()


def check_normalization(normalization: Any) -> None:
    check_choice("normalization", normalization, ("mean", "range", "std", "l2"))


def mean_squared_error(preds: Tensor, target: Tensor, squared: bool = True, num_outputs: int = 1) -> Tensor:
    """Mean squared error, or its root.

    >>> import flambeau as torch
    >>> mean_squared_error(torch.tensor([0.0, 1, 2, 3]), torch.tensor([0.0, 1, 2, 5]), squared=False)
    tensor(1.)
    """
    total, count = squared_sums(preds, target, num_outputs)
    return total / count if squared else (total / count).sqrt()


def mean_absolute_error(preds: Tensor, target: Tensor, num_outputs: int = 1) -> Tensor:
    """Mean absolute error."""
    total, count = absolute_sums(preds, target, num_outputs)
    return total / count


def mean_absolute_percentage_error(preds: Tensor, target: Tensor) -> Tensor:
    """Mean of |error| / |target|."""
    total, count = percentage_sums(preds, target)
    return total / count


def symmetric_mean_absolute_percentage_error(preds: Tensor, target: Tensor) -> Tensor:
    """Mean of 2 |error| / (|target| + |prediction|)."""
    total, count = symmetric_sums(preds, target)
    return total / count


def weighted_mean_absolute_percentage_error(preds: Tensor, target: Tensor) -> Tensor:
    """Sum of |error| over the sum of |target|."""
    total, scale = weighted_sums(preds, target)
    return total / scale.clamp(min=_LEAST)


def mean_squared_log_error(preds: Tensor, target: Tensor) -> Tensor:
    """Mean of (log(1 + prediction) - log(1 + target))²."""
    total, count = log_sums(preds, target)
    return total / count


def log_cosh_error(preds: Tensor, target: Tensor) -> Tensor:
    """Mean of log cosh(error), for each output."""
    total, count = log_cosh_sums(preds, target, 1 if preds.dim() == 1 else preds.shape[-1])
    return total / count


def minkowski_distance(preds: Tensor, targets: Tensor, p: float) -> Tensor:
    """(sum of |error|^p)^(1/p)."""
    return minkowski_sums(preds, targets, p)[0] ** (1.0 / p)


def tweedie_deviance_score(preds: Tensor, targets: Tensor, power: float = 0.0) -> Tensor:
    """Mean Tweedie deviance; `power` 0 is that of the normal distribution, 1 Poisson, 2 gamma."""
    total, count = deviance_sums(preds, targets, power)
    return total / count


def critical_success_index(
    preds: Tensor, target: Tensor, threshold: float, keep_sequence_dim: int | None = None
) -> Tensor:
    """Hits over hits, misses and false alarms, of values at or above the threshold."""
    return success_of(*success_sums(preds, target, threshold, keep_sequence_dim))


def normalized_root_mean_squared_error(
    preds: Tensor, target: Tensor, normalization: str = "mean", num_outputs: int = 1
) -> Tensor:
    """Root mean squared error over the target's mean, range, standard deviation or length."""
    check_normalization(normalization)
    total, count = squared_sums(preds, target, num_outputs)
    target = outputs(preds, target, num_outputs)[1]
    parts = (target.mean(0), target.amin(0), target.amax(0), (target**2).sum(0))
    return (total / count).sqrt() / normalizer_of(normalization, count, *parts)

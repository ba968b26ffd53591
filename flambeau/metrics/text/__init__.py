"""Metrics of texts: perplexity, BLEU, error rates by edit distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.dtypes import int32
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.text import (
    _references,
    bleu_of,
    bleu_sums,
    bleu_weights,
    edit_distances,
    error_sums,
    perplexity_sums,
    preserved_of,
)
from ..metric import Metric
from ..utilities.checks import check_choice
from ..utilities.data import dim_zero_cat

__all__ = [
    "BLEUScore", "CharErrorRate", "EditDistance", "MatchErrorRate", "Perplexity", "WordErrorRate", "WordInfoLost",
    "WordInfoPreserved",
]  # fmt: skip


class Perplexity(Metric):
    """exp of the mean of -log p(target), from logits (batch, length, vocabulary).

    >>> import flambeau as torch
    >>> metric = Perplexity(ignore_index=-100)
    >>> metric.update(torch.zeros(1, 3, 8), torch.tensor([[1, 2, -100]]))
    >>> metric.compute()
    tensor(8.)
    """

    is_differentiable = True
    higher_is_better = False
    full_state_update = False

    def __init__(self, ignore_index: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if ignore_index is not None and not isinstance(ignore_index, int):
            raise ValueError(f"Argument `ignore_index` expected to either be `None` or an `int` but got {ignore_index}")
        self.ignore_index = ignore_index
        self.add_state("total_log_probs", ops.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("count", ops.tensor(0.0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds logits (batch, length, vocabulary) and targets (batch, length)."""
        total, count = perplexity_sums(preds, target, self.ignore_index)
        self.total_log_probs = self.total_log_probs + total
        self.count = self.count + count

    def compute(self) -> Tensor:
        """The perplexity so far."""
        return (self.total_log_probs / self.count).exp()


class BLEUScore(Metric):
    """BLEU of translations, each against one or several references."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def __init__(
        self, n_gram: int = 4, smooth: bool = False, weights: Sequence[float] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.n_gram, self.smooth, self.weights = n_gram, smooth, bleu_weights(n_gram, weights)
        self.add_state("preds_len", ops.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("target_len", ops.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("numerator", ops.zeros(n_gram), dist_reduce_fx="sum")
        self.add_state("denominator", ops.zeros(n_gram), dist_reduce_fx="sum")

    def update(self, preds: Sequence[str], target: Sequence[str | Sequence[str]]) -> None:
        """Adds translations and their references."""
        found = bleu_sums([preds] if isinstance(preds, str) else preds, _references(target), self.n_gram)
        for name, value in zip(self._defaults, found):
            state = getattr(self, name)
            setattr(self, name, state + state.new_tensor(value))

    def compute(self) -> Tensor:
        """The score so far."""
        return bleu_of(*self.metric_state.values(), self.weights, self.smooth)


class _Rate(Metric):
    """States are numbers of edits and lengths."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    _by_word = True
    _names = ("errors", "total")
    _chosen = (0, 1)  # of what `error_sums` gives

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in self._names:
            self.add_state(name, ops.tensor(0.0), dist_reduce_fx="sum")

    def update(self, preds: str | list[str], target: str | list[str]) -> None:
        """Adds texts and what they should be."""
        found = error_sums(preds, target, self._by_word)
        for name, index in zip(self._names, self._chosen):
            setattr(self, name, getattr(self, name) + found[index])

    def compute(self) -> Tensor:
        """The rate so far."""
        return self.errors / self.total


class WordErrorRate(_Rate):
    """Edits of words over the number of words in the targets."""


class CharErrorRate(_Rate):
    """Edits of letters over the number of letters in the targets."""

    _by_word = False


class MatchErrorRate(_Rate):
    """Edits of words over the number of words in the longer of each pair."""

    _chosen = (0, 3)


class WordInfoPreserved(_Rate):
    """Share of right words in the targets times that in the predictions."""

    higher_is_better = True
    _names = ("errors", "target_total", "preds_total", "longer")
    _chosen = (0, 1, 2, 3)

    def compute(self) -> Tensor:
        """The share so far."""
        return preserved_of(self.longer - self.errors, self.target_total, self.preds_total)


class WordInfoLost(WordInfoPreserved):
    """1 - the information that is preserved."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """The share so far."""
        return 1 - super().compute()


class EditDistance(Metric):
    """Fewest insertions, deletions and substitutions of letters, averaged, summed or for each pair."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(self, substitution_cost: int = 1, reduction: str | None = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not (isinstance(substitution_cost, int) and substitution_cost >= 0):
            raise ValueError(
                f"Expected argument `substitution_cost` to be a positive integer, but got {substitution_cost}"
            )
        check_choice("reduction", reduction, ("mean", "sum", "none", None))
        self.substitution_cost, self.reduction = substitution_cost, reduction
        if reduction in ("none", None):
            self.add_state("edit_scores_list", [], dist_reduce_fx="cat")
        else:
            self.add_state("edit_scores", ops.tensor(0), dist_reduce_fx="sum")
            self.add_state("num_elements", ops.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: str | Sequence[str], target: str | Sequence[str]) -> None:
        """Adds texts and what they should be."""
        found = edit_distances(preds, target, self.substitution_cost)
        if self.reduction in ("none", None):
            self.edit_scores_list.append(ops.tensor(found, dtype=int32))
        else:
            self.edit_scores = self.edit_scores + sum(found)
            self.num_elements = self.num_elements + len(found)

    def compute(self) -> Tensor:
        """The distance so far."""
        if self.reduction in ("none", None):
            return dim_zero_cat(self.edit_scores_list)
        return self.edit_scores / self.num_elements if self.reduction == "mean" else self.edit_scores

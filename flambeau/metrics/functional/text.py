"""Scores of texts as functions: perplexity, BLEU, error rates by edit distance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ..._core.dtypes import int32, int64
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..utilities.checks import check_choice

__all__ = [
    "bleu_score", "char_error_rate", "edit_distance", "match_error_rate", "perplexity", "word_error_rate",
    "word_information_lost", "word_information_preserved",
]  # fmt: skip


# Perplexity


def perplexity_sums(preds: Tensor, target: Tensor, ignore_index: int | None = None) -> tuple[Tensor, Tensor]:
    """Sum of -log p(target), and the number of targets."""
    if preds.dim() != 3:
        raise ValueError(
            "Input tensor `preds` is expected to have 3 dimensions, [batch_size, seq_len, vocab_size], "
            f"but got {preds.dim()}."
        )
    if target.dim() != 2:
        raise ValueError(
            f"Input tensor `target` is expected to have 2 dimensions, [batch_size, seq_len], but got {target.dim()}."
        )
    if preds.shape[:2] != target.shape:
        raise ValueError(
            "Input tensors `preds` and `target` are expected to have equaling first two dimensions, [batch_size, seq_len], "
            f"but got {tuple(preds.shape[:2])} and {tuple(target.shape)}."
        )
    if not preds.is_floating_point():
        raise TypeError(f"Input tensor `preds` is expected to be of floating point type but got {preds.dtype}.")
    if target.dtype is not int64:
        raise TypeError(f"Input tensor `target` is expected to be of a type {int64} but got {target.dtype}.")
    kept = None if ignore_index is None else target != ignore_index
    safe = target if kept is None else target.masked_fill(~kept, 0)
    logs = preds.log_softmax(-1).gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    if kept is None:
        return -logs.sum(), ops.tensor(float(target.numel()), device=target.device)
    return -ops.where(kept, logs, 0.0).sum(), kept.sum().to(logs.dtype)


def perplexity(preds: Tensor, target: Tensor, ignore_index: int | None = None) -> Tensor:
    """exp of the mean of -log p(target), from logits (batch, length, vocabulary).

    >>> import flambeau as torch
    >>> perplexity(torch.zeros(1, 4, 10), torch.tensor([[1, 2, 3, 4]]))
    tensor(10.)
    """
    total, count = perplexity_sums(preds, target, ignore_index)
    return (total / count).exp()


# BLEU


def _ngrams(words: Sequence[str], n_gram: int) -> Counter[tuple[str, ...]]:
    """How often each sequence of 1 … n_gram words occurs."""
    return Counter(tuple(words[i : i + n]) for n in range(1, n_gram + 1) for i in range(len(words) - n + 1))


def bleu_sums(
    preds: Sequence[str],
    target: Sequence[Sequence[str]],
    n_gram: int,
    split: Callable[[str], Sequence[str]] = str.split,
) -> tuple[float, float, list[float], list[float]]:
    """Length of predictions and of the nearest references; matching and all n-grams for each n."""
    if len(preds) != len(target):
        raise ValueError(f"Corpus has different size {len(preds)} != {len(target)}")
    length, reference_length = 0, 0
    matching, every = [0.0] * n_gram, [0.0] * n_gram
    for sentence, references in zip(preds, target):
        words, others = split(sentence), [split(reference) for reference in references]
        length += len(words)
        reference_length += min((abs(len(words) - len(other)), i, len(other)) for i, other in enumerate(others))[2]
        mine = _ngrams(words, n_gram)
        theirs: Counter[tuple[str, ...]] = Counter()
        for other in others:
            theirs |= _ngrams(other, n_gram)
        for gram, count in mine.items():
            every[len(gram) - 1] += count
            matching[len(gram) - 1] += min(count, theirs[gram])
    return float(length), float(reference_length), matching, every


def bleu_of(
    length: Tensor, reference_length: Tensor, matching: Tensor, every: Tensor, weights: Sequence[float], smooth: bool
) -> Tensor:
    """Geometric mean of the precisions, less for predictions that are too short."""
    if not bool((matching > 0).all()):
        return matching.new_zeros(())
    precision = matching / every
    if smooth:
        precision = (matching + 1) / (every + 1)
        precision[0] = matching[0] / every[0]
    score = (precision.log() * precision.new_tensor(list(weights))).sum().exp()
    return score if length > reference_length else (1 - reference_length / length).exp() * score


def bleu_weights(n_gram: int, weights: Sequence[float] | None) -> Sequence[float]:
    if weights is not None and len(weights) != n_gram:
        raise ValueError(f"List of weights has different weights than `n_gram`: {len(weights)} != {n_gram}")
    return weights if weights is not None else [1.0 / n_gram] * n_gram


def _references(target: Sequence[str | Sequence[str]]) -> list[Sequence[str]]:
    return [[entry] if isinstance(entry, str) else entry for entry in target]


def bleu_score(
    preds: str | Sequence[str],
    target: Sequence[str] | Sequence[Sequence[str]],
    n_gram: int = 4,
    smooth: bool = False,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """BLEU of translations, each against one or several references.

    >>> bleu_score(["the cat is on the mat"], [["there is a cat on the mat", "a cat is on the mat"]])
    tensor(0.7598)
    """
    weights = bleu_weights(n_gram, weights)
    found = bleu_sums([preds] if isinstance(preds, str) else preds, _references(target), n_gram)
    return bleu_of(*map(ops.tensor, found), weights, smooth)


# Edit distance


def edits(first: Sequence[str], second: Sequence[str], substitution_cost: int = 1) -> int:
    """Fewest insertions, deletions and substitutions that turn one sequence into the other.

    A row of the table at a time: within a row, insertions are a running minimum.
    """
    numbers = {symbol: i for i, symbol in enumerate(dict.fromkeys([*first, *second]))}
    columns = np.array([numbers[symbol] for symbol in second], dtype=np.int64)
    place = np.arange(len(second) + 1)
    row = place.copy()
    for symbol in first:
        fresh = row + 1
        fresh[1:] = np.minimum(fresh[1:], row[:-1] + np.where(columns == numbers[symbol], 0, substitution_cost))
        row = np.minimum.accumulate(fresh - place) + place
    return int(row[-1])


def _pairs(preds: str | Sequence[str], target: str | Sequence[str]) -> list[tuple[str, str]]:
    preds, target = ([x] if isinstance(x, str) else list(x) for x in (preds, target))
    if len(preds) != len(target):
        raise ValueError(
            f"Expected argument `preds` and `target` to have same length, but got {len(preds)} and {len(target)}"
        )
    return list(zip(preds, target))


def error_sums(preds: str | Sequence[str], target: str | Sequence[str], by_word: bool = True) -> tuple[float, ...]:
    """Edits, length of the targets, length of the predictions, and that of the longer in each pair; by word or letter."""
    split: Callable[[str], Sequence[str]] = str.split if by_word else str
    totals = [0, 0, 0, 0]
    for said, meant in ((split(a), split(b)) for a, b in _pairs(preds, target)):
        for i, value in enumerate((edits(said, meant), len(meant), len(said), max(len(said), len(meant)))):
            totals[i] += value
    return tuple(map(float, totals))


def preserved_of(hits: Tensor, target_total: Tensor, preds_total: Tensor) -> Tensor:
    return hits / target_total * (hits / preds_total)


def word_error_rate(preds: str | list[str], target: str | list[str]) -> Tensor:
    """Edits of words over the number of words in the targets.

    >>> word_error_rate(["this is the prediction"], ["this is the reference"])
    tensor(0.2500)
    """
    errors, total, _, _ = error_sums(preds, target)
    return ops.tensor(errors) / total


def char_error_rate(preds: str | list[str], target: str | list[str]) -> Tensor:
    """Edits of letters over the number of letters in the targets."""
    errors, total, _, _ = error_sums(preds, target, by_word=False)
    return ops.tensor(errors) / total


def match_error_rate(preds: str | list[str], target: str | list[str]) -> Tensor:
    """Edits of words over the number of words in the longer of each pair."""
    errors, _, _, longer = error_sums(preds, target)
    return ops.tensor(errors) / longer


def word_information_preserved(preds: str | list[str], target: str | list[str]) -> Tensor:
    """Share of right words in the targets times that in the predictions."""
    errors, total, said, longer = error_sums(preds, target)
    return preserved_of(*map(ops.tensor, (longer - errors, total, said)))


def word_information_lost(preds: str | list[str], target: str | list[str]) -> Tensor:
    """1 - the information that is preserved."""
    return 1 - word_information_preserved(preds, target)


def edit_distances(preds: str | Sequence[str], target: str | Sequence[str], substitution_cost: int = 1) -> list[int]:
    """Edits of letters for each pair."""
    if not (isinstance(substitution_cost, int) and substitution_cost >= 0):
        raise ValueError(f"Expected argument `substitution_cost` to be a positive integer, but got {substitution_cost}")
    return [edits(said, meant, substitution_cost) for said, meant in _pairs(preds, target)]


def edit_distance(
    preds: str | Sequence[str], target: str | Sequence[str], substitution_cost: int = 1, reduction: str | None = "mean"
) -> Tensor:
    """Fewest insertions, deletions and substitutions of letters, averaged, summed or for each pair."""
    check_choice("reduction", reduction, ("mean", "sum", "none", None))
    found = ops.tensor(edit_distances(preds, target, substitution_cost), dtype=int32)
    if reduction == "mean":
        return found.float().mean()
    return found.sum() if reduction == "sum" else found

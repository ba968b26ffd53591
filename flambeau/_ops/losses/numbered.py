"""Losses that also exist at the top of the package, with a number for the reduction: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..registry import functions, public
from .elements import CODES


def _loss(name: str) -> Any:
    return functions[f"nn.functional.{name}"]


@public("binary_cross_entropy_with_logits", method=False)
def numbered_binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    function = _loss("binary_cross_entropy_with_logits")
    return function(input, target, weight, pos_weight=pos_weight, reduction=CODES[reduction])


@public("cosine_embedding_loss", method=False)
def numbered_cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return _loss("cosine_embedding_loss")(input1, input2, target, margin, reduction=CODES[reduction])


@public("hinge_embedding_loss", method=False)
def numbered_hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return _loss("hinge_embedding_loss")(input, target, margin, reduction=CODES[reduction])


@public("margin_ranking_loss", method=False)
def numbered_margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return _loss("margin_ranking_loss")(input1, input2, target, margin, reduction=CODES[reduction])


@public("triplet_margin_loss", method=False)
def numbered_triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss`."""
    function = _loss("triplet_margin_loss")
    return function(anchor, positive, negative, margin, p, eps, swap, reduction=CODES[reduction])


@public("poisson_nll_loss", method=False)
def numbered_poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    function = _loss("poisson_nll_loss")
    return function(input, target, log_input, full, eps=eps, reduction=CODES[reduction])


SCHEMAS = """
binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor  # autocast=single
cosine_embedding_loss|margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor  # autocast=single, composite
hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor  # autocast=single, composite
triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor  # autocast=single, composite
poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor  # autocast=single, composite
"""

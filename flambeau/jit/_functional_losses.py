"""Losses of `nn.functional` and attention in TorchScript, as `_functional` has the rest."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from .._ops.layers import multihead
from .._tensor import Tensor
from ._functional import aten


def declared_as(function: Any) -> Callable[[Any], Any]:
    """Gives a text the types and defaults of the function that it is the text of: they stand there alone."""

    def decorate(text: Any) -> Any:
        declared = inspect.unwrap(function)
        text.__annotations__, text.__defaults__ = declared.__annotations__, declared.__defaults__
        return text

    return decorate


def reduction_number(reduction: str, size_average: bool | None, reduce: bool | None) -> int:
    """The number that operators have for a reduction, which older programs say by two truth values."""
    if size_average is not None or reduce is not None:
        if reduce is not None and not reduce:
            return 0
        return 2 if size_average is not None and not size_average else 1
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")


def reduced(loss: Tensor, number: int) -> Tensor:
    if number == 0:
        return loss
    return loss.mean() if number == 1 else loss.sum()


def weighted(loss: Tensor, weight: Tensor, number: int) -> Tensor:
    """Losses of elements that have weights; their mean is that by weights."""
    each = loss * weight
    return each.sum() / weight.sum() if number == 1 else reduced(each, number)


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    if weight is not None:
        return weighted(aten.mse_loss(input, target, 0), weight, number)
    return aten.mse_loss(input, target, number)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    if weight is not None:
        return weighted(aten.l1_loss(input, target, 0), weight, number)
    return aten.l1_loss(input, target, number)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    number = reduction_number(reduction, None, None)
    if weight is not None:
        return reduced(aten.huber_loss(input, target, 0, delta) * weight, number)
    return aten.huber_loss(input, target, number, delta)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:  # fmt: skip
    return aten.smooth_l1_loss(input, target, reduction_number(reduction, size_average, reduce), beta)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    return aten.soft_margin_loss(input, target, reduction_number(reduction, size_average, reduce))


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    return aten.multilabel_margin_loss(input, target, reduction_number(reduction, size_average, reduce))


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    if input.size() != target.size():
        raise ValueError(f"Using a target size ({target.size()}) that is different to the input size ({input.size()})")
    each = weight
    if each is not None:
        each = each.expand_as(target)
    return aten.binary_cross_entropy(input, target, each, number)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    if input.size() != target.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return aten.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.nll_loss_nd(
        input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index
    )  # fmt: skip


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    if reduction == "batchmean" and size_average is None and reduce is None:
        return aten.kl_div(input, target, 2, log_target=log_target) / input.size(0)
    return aten.kl_div(input, target, reduction_number(reduction, size_average, reduce), log_target=log_target)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.poisson_nll_loss(input, target, log_input, full, eps, number)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    number = reduction_number(reduction, None, None)
    if isinstance(var, float):
        spread = aten.full_like(input, var)
    else:
        spread = var
    if spread.size() != input.size() and spread.dim() == input.dim() - 1:
        spread = spread.unsqueeze(-1)  # one for each row
    if bool((spread < 0).any()):
        raise ValueError("var has negative entry/entries")
    spread = spread + (spread.clamp_min(eps) - spread).detach()  # its derivative is that of what was given
    loss = 0.5 * (spread.log() + (input - target) ** 2 / spread)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, number)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return aten.hinge_embedding_loss(input, target, margin, reduction_number(reduction, size_average, reduce))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.cosine_embedding_loss(input1, input2, target, margin, number)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.margin_ranking_loss(input1, input2, target, margin, number)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    # each label is a question of its own, whose answers are averaged
    each = -(target * aten.log_sigmoid(input) + (1 - target) * aten.log_sigmoid(-input))
    if weight is not None:
        each = each * weight
    return reduced(each.mean(-1), number)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, size_average, reduce)
    return aten.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, swap: bool = False, reduction: str = "mean"
) -> Tensor:
    """With the usual distance: functions are no values of programs."""
    far = aten.pairwise_distance(anchor, negative)
    if swap:
        far = aten.minimum(far, aten.pairwise_distance(positive, negative))
    loss = (aten.pairwise_distance(anchor, positive) - far + margin).clamp_min(0.0)
    return reduced(loss, reduction_number(reduction, None, None))


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    number = reduction_number(reduction, None, None)
    return aten.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity)


# -- attention -------------------------------------------------------------------------------------------------------


def mask_of_numbers(mask: Tensor, query: Tensor) -> Tensor:
    """What is added to scores for a mask, which may say by truth values where nothing is looked at."""
    if mask.is_floating_point():
        return mask
    return aten.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -math.inf)


def heads_of(x: Tensor, heads: int) -> Tensor:
    """(L, N, heads * size) as (N * heads, L, size)."""
    return x.contiguous().view([x.size(0), x.size(1) * heads, -1]).transpose(0, 1)


@declared_as(multihead.multi_head_attention_forward)
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training, key_padding_mask, need_weights, attn_mask,
    use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v, average_attn_weights,
    is_causal,
):  # fmt: skip
    q, k, v, padding, mask = query, key, value, key_padding_mask, attn_mask
    many = query.dim() == 3
    if not many:
        q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
        if padding is not None:
            padding = padding.unsqueeze(0)
    length, batch, width = q.size(0), q.size(1), q.size(2)
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if is_causal and mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    if in_proj_bias is not None:
        biases = in_proj_bias.chunk(3)
        q_bias, k_bias, v_bias = biases[0], biases[1], biases[2]
    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
        q = aten.linear(q, q_proj_weight, q_bias)
        k = aten.linear(k, k_proj_weight, k_bias)
        v = aten.linear(v, v_proj_weight, v_bias)
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        weights = in_proj_weight.chunk(3)
        q, k, v = (
            aten.linear(q, weights[0], q_bias), aten.linear(k, weights[1], k_bias), aten.linear(v, weights[2], v_bias)
        )  # fmt: skip
    more = 0  # keys that no mask knows of
    if bias_k is not None and bias_v is not None:
        k = aten.cat([k, bias_k.repeat([1, batch, 1])])
        v = aten.cat([v, bias_v.repeat([1, batch, 1])])
        more += 1
    q = heads_of(q, num_heads)
    k = heads_of(k, num_heads) if static_k is None else static_k
    v = heads_of(v, num_heads) if static_v is None else static_v
    if add_zero_attn:
        nothing = aten.zeros([batch * num_heads, 1, k.size(2)], dtype=k.dtype, device=k.device)
        k, v = aten.cat([k, nothing], 1), aten.cat([v, nothing], 1)
        more += 1
    source = k.size(1)
    added: Tensor | None = None
    if mask is not None:
        added = aten.pad(mask_of_numbers(mask, q), [0, more])
        if added.dim() == 2:
            added = added.unsqueeze(0)
    if padding is not None:
        hidden = aten.pad(mask_of_numbers(padding, q), [0, more]).view([batch, 1, 1, source])
        hidden = hidden.expand([-1, num_heads, -1, -1]).reshape([batch * num_heads, 1, source])
        added = hidden if added is None else added + hidden
    p = dropout_p if training else 0.0
    attention: Tensor | None = None
    if need_weights:
        scores = aten.bmm(q * math.sqrt(1.0 / float(q.size(2))), k.transpose(1, 2))
        if added is not None:
            scores = scores + added
        scores = aten.dropout(aten.softmax(scores, -1), p, True)
        out = aten.bmm(scores, v)
        attention = scores.view([batch, num_heads, length, source])
        if average_attn_weights:
            attention = attention.mean(1)
        if not many:
            attention = attention.squeeze(0)
    else:
        if added is not None:
            added = added.expand([batch * num_heads, length, source]).view([batch, num_heads, length, source])
        parts = [t.view([batch, num_heads, t.size(1), t.size(2)]) for t in [q, k, v]]
        out = aten.scaled_dot_product_attention(parts[0], parts[1], parts[2], added, p)
        out = out.view([batch * num_heads, length, -1])
    out = aten.linear(out.transpose(0, 1).reshape([length, batch, width]), out_proj_weight, out_proj_bias)
    return out if many else out.squeeze(1), attention

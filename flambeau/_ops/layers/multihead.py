"""Attention in several heads between sequences: projections, masks, attention, output projection."""

from __future__ import annotations

import math
from typing import Any

from ..._core.dtypes import FLOATING, bool_
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..registry import functions, ops, public
from .attention import scaled_dot_product_attention

_ORDER = ((1, 2, 0, 3), (0, 2, 1, 3))  # from (L, N, heads, width) or (N, L, heads, width) to (N, heads, L, width)
_BACK = ((2, 0, 1, 3), (0, 2, 1, 3))


def none_or_dtype(input: Any) -> Any:
    """The dtype of a mask, if there is one."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask as numbers to be added: True means "not seen" and becomes -inf."""
    if mask is None:
        return None
    if mask.dtype is not bool_ and mask.dtype.category != FLOATING:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and other_type is not mask.dtype:
        warn_user(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead: they are "
            f"{mask.dtype} and {other_type}"
        )
    if mask.dtype is not bool_:
        return mask
    return ops.masked_fill(ops.zeros_like(mask, dtype=target_type), mask, -math.inf)


@public("nn.functional.multi_head_attention_forward", method=False)
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention in several heads between sequences (L, N, E): projections, attention, output projection."""
    return attend(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
        dropout_p if training else 0.0, out_proj_weight, out_proj_bias, key_padding_mask, need_weights, attn_mask,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None, static_k, static_v,
        average_attn_weights, is_causal, False,
    )  # fmt: skip


def attend(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, weight: Tensor | None, bias: Tensor | None,
    bias_k: Tensor | None, bias_v: Tensor | None, add_zero: bool, dropout: float, out_weight: Tensor,
    out_bias: Tensor | None, padding: Tensor | None, need_weights: bool, mask: Tensor | None, separate: Any,
    static_k: Tensor | None, static_v: Tensor | None, average: bool, causal: bool, batch_first: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The same for sequences (L, N, E) or, with `batch_first`, (N, L, E); `separate` are three projections."""
    batched = query._array.ndim == 3
    check_ranks(query, key, value, padding, mask, heads)
    if not batched:
        batch_first = True
        query, key, value = _one_batch(query, key, value)
        padding = None if padding is None else ops.unsqueeze(padding, 0)
    padding = canonical_mask(padding, "key_padding_mask", none_or_dtype(mask), "attn_mask", query.dtype)
    if causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint: it only says that attn_mask is causal "
            "(Transformer.generate_square_subsequent_mask makes one)"
        )
    if causal and padding is None and not need_weights:
        mask = None
    else:
        mask = canonical_mask(mask, "attn_mask", None, "", query.dtype, False)
        causal = causal and padding is None
    _check_sizes(query, key, value, width, heads, separate, weight)
    if separate:
        if any(w is None for w in separate):
            raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
        q, k, v = in_projection(query, key, value, *separate, *((None,) * 3 if bias is None else ops.chunk(bias, 3)))
    else:
        q, k, v = in_projection_packed(query, key, value, weight, bias)
    time = 1 if batch_first else 0
    length, batch = query._array.shape[time], query._array.shape[1 - time]
    mask = _shaped_mask(mask, length, k._array.shape[time], batch, heads)
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value")
        k, v = _with_bias(k, bias_k, time), _with_bias(v, bias_v, time)
        mask, padding = _one_more(mask), _one_more(padding)
    q = _by_heads(q, heads, time)
    k = _by_heads(k, heads, time) if static_k is None else _static(static_k, "static_k", batch, heads, width)
    v = _by_heads(v, heads, time) if static_v is None else _static(static_v, "static_v", batch, heads, width)
    if add_zero:
        k, v = (
            ops.cat([t, ops.zeros((*t._array.shape[:2], 1, t._array.shape[3]), dtype=t.dtype, device=t.device)], 2)
            for t in (k, v)
        )
        mask, padding = _one_more(mask), _one_more(padding)
    if padding is not None:
        mask = _with_padding(mask, padding, batch, k._array.shape[2])
    made, shares = _heads(q, k, v, mask, dropout, causal, need_weights)
    # PyTorch computes (L, N, E) always: after dropout the order in memory decides which elements the next dropout takes
    turned = batched and time == 1 and dropout > 0.0
    shape = (length, batch, width) if turned else (*query._array.shape[:2], width)
    back = ops.reshape(ops.permute(made, _BACK[0 if turned else time]), shape)
    out = functions["nn.functional.linear"](back, out_weight, out_bias)
    if turned:
        out = ops.transpose(out, 0, 1)
    if shares is not None and average:
        shares = ops.mean(shares, 1)
    if not batched:
        out, shares = ops.squeeze(out, 0), shares if shares is None else ops.squeeze(shares, 0)
    return out, shares


def _heads(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, causal: bool, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The attention of (N, heads, L, width), with its shares if they are wanted."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout, causal), None
    scores = ops.matmul(q * math.sqrt(1.0 / q._array.shape[3]), ops.transpose(k, 2, 3))
    shares = ops.softmax(scores if mask is None else scores + mask, -1)
    if dropout > 0.0:
        shares = functions["nn.functional.dropout"](shares, dropout)
    return ops.matmul(shares, v), shares


# -- projections ---------------------------------------------------------------------------------------------------


def in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Any, b: Tensor | None = None) -> tuple[Tensor, ...]:
    """Queries, keys and values by one stacked matrix; in as few products as there are different inputs."""
    width = q._array.shape[-1]
    linear = functions["nn.functional.linear"]
    if k is v:
        if q is k:
            return tuple(ops.chunk(linear(q, w, b), 3, -1))
        first, rest = ops.split(w, [width, 2 * width], 0)
        one, two = (None, None) if b is None else ops.split(b, [width, 2 * width], 0)
        return (linear(q, first, one), *ops.chunk(linear(k, rest, two), 2, -1))
    biases = [None] * 3 if b is None else ops.chunk(b, 3)
    return tuple([linear(t, w, b) for t, w, b in zip((q, k, v), ops.chunk(w, 3), biases)])


def in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Any = None,
    b_k: Any = None,
    b_v: Any = None,
) -> tuple[Tensor, ...]:
    """Queries, keys and values, each by its own matrix."""
    width = q._array.shape[-1]
    made = []
    for name, t, w, b in (("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v)):
        shape = (width, t._array.shape[-1])
        if w._array.shape != shape:
            raise AssertionError(f"expecting {name} weights shape of {shape}, but got {tuple(w._array.shape)}")
        if b is not None and b._array.shape != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {tuple(b._array.shape)}")
        made.append(functions["nn.functional.linear"](t, w, b))
    return tuple(made)


def _by_heads(t: Tensor, heads: int, time: int) -> Tensor:
    """(L, N, E) or (N, L, E) to (N, heads, L, E / heads), without a copy."""
    a, b, width = t._array.shape
    return ops.permute(ops.reshape(t, (a, b, heads, width // heads)), _ORDER[time])


def _with_bias(t: Tensor, bias: Tensor, time: int) -> Tensor:
    """One more key or value in every sequence."""
    shape = list(t._array.shape)
    shape[time] = 1
    return ops.cat([t, ops.expand(ops.reshape(bias, (1, 1, shape[2])), shape)], time)


def _static(t: Tensor, name: str, batch: int, heads: int, width: int) -> Tensor:
    """Keys or values that are given with their heads, (N * heads, S, width)."""
    shape = t._array.shape
    if shape[0] != batch * heads or shape[2] != width // heads:
        raise AssertionError(
            f"expecting {name} of sizes ({batch * heads}, …, {width // heads}), but got {tuple(shape)}"
        )
    return ops.reshape(t, (batch, heads, *shape[1:]))


def _one_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences without a batch dimension as a batch of one; what was the same tensor stays so."""
    made = ops.unsqueeze(query, 0)
    other = made if key is query else ops.unsqueeze(key, 0)
    return made, other, other if value is key else made if value is query else ops.unsqueeze(value, 0)


# -- masks and checks ----------------------------------------------------------------------------------------------


def _one_more(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else functions["nn.functional.pad"](mask, (0, 1))


def _shaped_mask(mask: Tensor | None, length: int, keys: int, batch: int, heads: int) -> Tensor | None:
    """An attention mask with dimensions for the batch and the heads."""
    if mask is None:
        return None
    shape = tuple(mask._array.shape)
    if len(shape) == 2:
        if shape != (length, keys):
            raise RuntimeError(f"The shape of the 2D attn_mask is {shape}, but should be {(length, keys)}.")
        return ops.reshape(mask, (1, 1, length, keys))
    if shape != (batch * heads, length, keys):
        raise RuntimeError(f"The shape of the 3D attn_mask is {shape}, but should be {(batch * heads, length, keys)}.")
    return ops.reshape(mask, (batch, heads, length, keys))


def _with_padding(mask: Tensor | None, padding: Tensor, batch: int, keys: int) -> Tensor:
    for i, wanted in enumerate((batch, keys)):
        if padding._array.shape[i] != wanted:
            raise AssertionError(
                f"Expected key_padding_mask.shape[{i}] to be {wanted}, but got {padding._array.shape[i]}"
            )
    spread = ops.reshape(padding, (batch, 1, 1, keys))
    return spread if mask is None else mask + spread


def check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    """Refuses arguments whose dimensions do not fit; whether there is a batch."""
    rank = query._array.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    if key._array.ndim != rank or value._array.ndim != rank:
        raise AssertionError(
            f"For {rank}-D query, expected `key` and `value` to be {rank}-D but found {key._array.ndim}-D and "
            f"{value._array.ndim}-D tensors respectively"
        )
    if padding is not None and padding._array.ndim != rank - 1:
        raise AssertionError(
            f"For {rank}-D query, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{padding._array.ndim}-D tensor instead"
        )
    if mask is not None and mask._array.ndim not in (2, 3):
        raise AssertionError(
            f"For {rank}-D query, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask._array.ndim}-D tensor instead"
        )
    if rank == 2 and mask is not None and mask._array.ndim == 3:
        wanted = (heads, query._array.shape[0], key._array.shape[0])
        if mask._array.shape != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {tuple(mask._array.shape)}")
    return bool(rank == 3)


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, separate: Any, weight: Any) -> None:
    found = query._array.shape[2]
    if found != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {found}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    k, v = key._array.shape, value._array.shape
    if separate is not None:
        k, v = k[:2], v[:2]
    elif weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if k != v:
        raise AssertionError(f"key shape {tuple(k)} does not match value shape {tuple(v)}")


SCHEMAS = """
multi_head_attention_forward  # composite
"""

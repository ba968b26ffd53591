"""Layers whose own code settles sizes before it runs operations: what they compute, for traces that must follow sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._ops.registry import functions, ops
from .._tensor import Tensor
from ..nn.modules.attention import MultiheadAttention
from ..nn.modules.module import Module


def form_of(module: Module) -> Callable[..., Any] | None:
    """The form of a module's `forward` for traces; None for most."""
    form = _FORMS.get(type(module))
    if form is None or module._forward_hooks or module._forward_pre_hooks:
        return None
    return form


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, need_weights: bool = True,
    attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Any]:  # fmt: skip
    if module.bias_k is not None or module.add_zero_attn or query._array.ndim != 3:
        return module.forward(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
    linear, heads, size = functions["nn.functional.linear"], module.num_heads, module.embed_dim
    if not module.batch_first:
        same = key is query, value is key
        query = query.transpose(0, 1)
        key = query if same[0] else key.transpose(0, 1)
        value = key if same[1] else value.transpose(0, 1)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    if not module._qkv_same_embed_dim:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        parts = [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
    elif query is key and key is value:
        parts = list(linear(query, module.in_proj_weight, module.in_proj_bias).chunk(3, -1))
    else:
        parts = [linear(x, w, b) for x, w, b in zip((query, key, value), module.in_proj_weight.chunk(3), biases)]
    batch, length = query.shape[0], query.shape[1]
    q, k, v = (x.reshape(batch, -1, heads, size // heads).transpose(1, 2) for x in parts)
    mask = _mask(attn_mask, key_padding_mask, batch, heads, query.dtype)
    drop = module.dropout if module.training else 0.0
    if need_weights:
        scores = (q * (1.0 / math.sqrt(size // heads))) @ k.transpose(-2, -1)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        if drop:
            weights = functions["nn.functional.dropout"](weights, drop, True)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        weights = None
        causal = is_causal and mask is None
        out = functions["nn.functional.scaled_dot_product_attention"](q, k, v, mask, drop, causal)
    out = linear(out.transpose(1, 2).reshape(batch, length, size), module.out_proj.weight, module.out_proj.bias)
    return (out if module.batch_first else out.transpose(0, 1)), weights


def _mask(attn_mask: Any, padding: Any, batch: Any, heads: int, kind: Any) -> Any:
    """Both masks as one that is added to the scores (N, heads, L, S); None without masks."""
    attn_mask, padding = _additive(attn_mask, kind), _additive(padding, kind)
    if attn_mask is not None and attn_mask._array.ndim == 3:
        attn_mask = attn_mask.reshape(batch, heads, attn_mask.shape[1], attn_mask.shape[2])
    if padding is not None:
        padding = padding.unsqueeze(1).unsqueeze(2)
    if attn_mask is None or padding is None:
        return padding if attn_mask is None else attn_mask
    return attn_mask + padding


def _additive(mask: Any, kind: Any) -> Any:
    if mask is None or mask.dtype.name != "bool":
        return mask
    return ops.zeros_like(mask, dtype=kind).masked_fill(mask, float("-inf"))


_FORMS: dict[type, Callable[..., Any]] = {MultiheadAttention: _attention}

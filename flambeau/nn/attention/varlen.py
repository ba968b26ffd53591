"""Attention over sequences of different lengths that lie one after the other, without padding."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.dtypes import float32
from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` gives besides: `lse`, the logarithms of the sums of exponentials."""

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """Attention within each sequence: tokens × heads × features, sequences between the places `cu_seq_q`.

    `window_size` is how far back and ahead a token looks, -1 for all; (-1, 0) is causal.

    >>> import flambeau as torch
    >>> from flambeau.nn.attention.varlen import varlen_attn
    >>> tokens, places = torch.randn(5, 2, 4), torch.tensor([0, 2, 5], dtype=torch.int32)
    >>> varlen_attn(tokens, tokens, tokens, places, places, 3, 3).shape
    torch.Size([5, 2, 4])
    """
    if block_table is not None:
        raise NotImplementedError("varlen_attn: keys in pages (block_table) are not supported; give them in one piece")
    if cu_seq_k is None:
        raise NotImplementedError("varlen_attn: cu_seq_k=None is for keys in pages; give the places of the sequences")
    groups = query.shape[1] // key.shape[1]
    if groups != 1 and not enable_gqa:
        raise ValueError(
            f"varlen_attn: {query.shape[1]} heads of queries and {key.shape[1]} of keys; pass enable_gqa=True"
        )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    starts_q, starts_k = cu_seq_q.tolist(), cu_seq_k.tolist()
    used = None if seqused_k is None else seqused_k.tolist()
    outs, sums = [], []
    for i, (q0, q1, k0, k1) in enumerate(zip(starts_q, starts_q[1:], starts_k, starts_k[1:])):
        k1 = k1 if used is None else k0 + used[i]
        q, k, v = query[q0:q1].transpose(0, 1), key[k0:k1].transpose(0, 1), value[k0:k1].transpose(0, 1)
        if groups != 1:
            k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
        scores = (q.to(float32) @ k.to(float32).transpose(1, 2)) * factor
        hidden = _hidden(q1 - q0, k1 - k0, window_size)
        if hidden is not None:
            scores = scores.masked_fill(hidden.to(scores.device), float("-inf"))
        lse = ops.logsumexp(scores, -1)
        # a token that sees nothing gets zeros
        weights = ops.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0).unsqueeze(-1))
        outs.append((weights @ v.to(float32)).transpose(0, 1).to(query.dtype))
        sums.append(lse)
    out = ops.cat(outs) if outs else ops.zeros_like(query)
    if return_aux is not None and return_aux.lse:
        return out, ops.cat(sums, 1)
    return out


def _hidden(queries: int, keys: int, window: tuple[int, int]) -> Tensor | None:
    """Which keys a query does not see, where the last ones of both stand at the same place; None if it sees all."""
    back, ahead = window
    if back < 0 and ahead < 0:
        return None
    distance = ops.arange(keys).unsqueeze(0) - (ops.arange(queries).unsqueeze(1) + (keys - queries))
    hidden = ops.zeros((queries, keys), dtype=distance.dtype) != 0
    if back >= 0:
        hidden = hidden | (distance < -back)
    if ahead >= 0:
        hidden = hidden | (distance > ahead)
    return hidden


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """`varlen_attn`, written into `out`."""
    made = varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=return_aux, scale=scale, window_size=window_size,
        enable_gqa=enable_gqa, seqused_k=seqused_k, block_table=block_table, num_splits=num_splits,
    )  # fmt: skip
    if isinstance(made, tuple):
        out.copy_(made[0])
        return out, made[1]
    out.copy_(made)
    return out

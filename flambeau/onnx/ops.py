"""Operators of ONNX as functions: attention, rotary embedding, and nodes of one's own that only exports see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core import dtypes as _dtypes
from .._core.dtypes import dtype as _dtype
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]

# ONNX's numbers of element types.
_NUMBERED = {
    1: _dtypes.float32, 2: _dtypes.uint8, 3: _dtypes.int8, 5: _dtypes.int16, 6: _dtypes.int32, 7: _dtypes.int64,
    9: _dtypes.bool_, 10: _dtypes.float16, 11: _dtypes.float64, 14: _dtypes.complex64, 15: _dtypes.complex128,
    16: _dtypes.bfloat16,
}  # fmt: skip


def aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operators with what they consist of. The functions here run as what they consist of: none is left to take apart."""
    return {}


def rotary_embedding(
    X: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Turns pairs of features by angles that depend on the position (ONNX's RotaryEmbedding, opset 23).

    X is batch × heads × length × features, or batch × length × (heads · features) with `num_heads`.

    >>> import flambeau as torch
    >>> x, cos, sin = torch.ones(1, 1, 2, 2), torch.zeros(1, 2, 1), torch.ones(1, 2, 1)
    >>> torch.onnx.ops.rotary_embedding(x, cos, sin)[0, 0, 0]
    tensor([-1.,  1.])
    """
    shape = X.shape
    if X.dim() == 3:
        if num_heads == 0:
            raise ValueError(f"num_heads must be provided for 3D inputs. Received input tensor with shape {shape}")
        X = X.reshape(shape[0], shape[1], num_heads, -1).transpose(1, 2)
    elif X.dim() != 4:
        raise ValueError(f"rotary_embedding: X has 3 or 4 dimensions, not {X.dim()}")
    size = rotary_embedding_dim or X.shape[-1]
    cos, sin = (cos_cache, sin_cache) if position_ids is None else (cos_cache[position_ids], sin_cache[position_ids])
    cos, sin = cos[..., : size // 2].unsqueeze(1), sin[..., : size // 2].unsqueeze(1)
    turned, rest = X[..., :size], X[..., size:]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : size // 2], turned[..., size // 2 :]
    pair = first * cos - second * sin, first * sin + second * cos
    made = ops.flatten(ops.stack(pair, -1), -2) if interleaved else ops.cat(pair, -1)
    made = ops.cat([made, rest], -1) if rest.shape[-1] else made
    return made.transpose(1, 2).reshape(shape) if len(shape) == 3 else made


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """ONNX's Attention, opset 23: the results, the keys and values with the past ones before them, and the scores.

    `qk_matmul_output_mode` says which scores: 0 the products, 1 with the mask, 2 after the soft cap, 3 the weights.

    >>> import flambeau as torch
    >>> q = torch.ones(1, 2, 3, 4)
    >>> [tuple(t.shape) for t in torch.onnx.ops.attention(q, q, q)]
    [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 3)]
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError("Cannot use both is_causal and attn_mask")
    flat = Q.dim() == 3
    if flat:
        if q_num_heads == 0 or kv_num_heads == 0:
            raise ValueError("attention: inputs of 3 dimensions need q_num_heads and kv_num_heads")
        Q, K, V = (
            t.reshape(t.shape[0], t.shape[1], n, -1).transpose(1, 2)
            for t, n in ((Q, q_num_heads), (K, kv_num_heads), (V, kv_num_heads))
        )
    if past_key is not None:
        K = ops.cat([past_key, K], 2)
    if past_value is not None:
        V = ops.cat([past_value, V], 2)
    keys, values, groups = K, V, Q.shape[1] // K.shape[1]
    if groups > 1:
        keys, values = K.repeat_interleave(groups, 1), V.repeat_interleave(groups, 1)
    factor = Q.shape[-1] ** -0.5 if scale is None else scale
    products = (Q @ keys.transpose(-2, -1)) * factor
    scores = products
    if is_causal:
        seen = ops.tril(ops.ones((Q.shape[2], keys.shape[2]), dtype=_dtypes.bool_, device=Q.device))
        scores = scores.masked_fill(~seen, float("-inf"))
    if attn_mask is not None:
        boolean = attn_mask.dtype is _dtypes.bool_
        scores = scores.masked_fill(~attn_mask, float("-inf")) if boolean else scores + attn_mask
    masked = scores
    if softcap > 0:
        scores = softcap * ops.tanh(scores / softcap)
    kind = None if softmax_precision is None else _NUMBERED[softmax_precision]
    weights = ops.softmax(scores, -1, dtype=kind).to(Q.dtype)
    made = weights @ values
    if flat:
        made = made.transpose(1, 2).reshape(made.shape[0], made.shape[2], -1)
    return made, K, V, (products, masked, scores, weights)[qk_matmul_output_mode]


def _element_type(given: Any) -> _dtype:
    if isinstance(given, _dtype):
        return given
    if given not in _NUMBERED:
        raise ValueError(f"ONNX's element type {given} has no dtype here")
    return _NUMBERED[given]


def symbolic(
    domain_op: str,
    /,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Any] | None = None,
    *,
    dtype: Any,
    shape: Sequence[int],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
) -> Tensor:
    """Stands for an ONNX node ("domain::Op"). Called in Python it gives zeros of the stated shape.

    >>> import flambeau as torch
    >>> torch.onnx.ops.symbolic("my::Op", (torch.ones(2),), dtype=torch.float32, shape=(1, 2))
    tensor([[0., 0.]])
    """
    return symbolic_multi_out(domain_op, inputs, attrs, dtypes=[dtype], shapes=[shape], version=version)[0]


def symbolic_multi_out(
    domain_op: str,
    /,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Any] | None = None,
    *,
    dtypes: Sequence[Any],
    shapes: Sequence[Sequence[int]],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
) -> list[Tensor]:
    """The same for a node with several results."""
    if len(dtypes) != len(shapes):
        raise ValueError(f"Number of dtypes ({len(dtypes)}) must match number of shapes ({len(shapes)}).")
    return [ops.zeros(tuple(shape), dtype=_element_type(kind)) for kind, shape in zip(dtypes, shapes)]

"""Scaled dot-product attention in tiles of queries, so that memory does not grow with the square of the length, and
the multi-head form built on it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._backend import blas, threads
from .._backend.cpu import cpu
from .._core.dtypes import BOOL, BY_NUMPY, FLOATING, bool_, dtype, float32, float64
from .._core.sizes import broadcast_shapes
from .._core.state import GRAD, local, modes
from .._kernel.attention import attention_rows, attention_rows_backward
from .._tensor import Tensor
from .casting import cast_array
from .primitive import primitive
from .registry import functions, ops, public
from .replay import second
from .rules import not_implemented

_QUERIES = 128  # rows of a tile
_TILE = 1 << 17  # scores that a thread works on at a time


class _Tiles:
    """How a call is cut: ranges of heads for the threads, blocks of queries, and the keys each block sees."""

    def __init__(self, q: Any, k: Any, mask: Any, scale: float, causal: bool):
        self.heads, self.length = q.shape[:2]
        self.keys, self.causal, self.mask = k.shape[1], causal, mask
        self.type = q.dtype.type
        self.scale = self.type(scale)
        tile = max(1, min(self.length, _QUERIES) * self.keys)
        self.group = max(1, min(_TILE // tile, -(-self.heads // threads.get_num_threads())))

    def run(self, work: Callable[[slice], None]) -> None:
        starts = list(range(0, self.heads, self.group))
        if len(starts) == 1:
            work(slice(0, self.heads))
            return
        cuts = threads.ranges(len(starts))
        threads.run([
            lambda a=a, b=b: [work(slice(s, min(s + self.group, self.heads))) for s in starts[a:b]] for a, b in cuts
        ])  # fmt: skip

    def blocks(self) -> Any:
        """(queries, number of keys in sight, limits of the rows) of each block."""
        for start in range(0, self.length, _QUERIES):
            stop = min(start + _QUERIES, self.length)
            if self.causal:
                limits = np.arange(start + 1, stop + 1)
                yield slice(start, stop), min(stop, self.keys), limits
            else:
                yield slice(start, stop), self.keys, np.int64(self.keys)

    def masked(self, heads: slice, rows: slice, seen: int, scores: Any) -> Any:
        if self.mask is None:
            return scores
        part = self.mask if self.mask.shape[0] == 1 else self.mask[heads]
        return part[:, rows, :seen]


def _attention_grad(
    gs: Any, outs: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, rounded: Any, needs: Any
) -> Any:
    found = attention_back(gs[0], q, k, v, mask, outs[0], outs[1], scale, causal, rounded)
    return *[f if need else None for f, need in zip(found, needs)], None


@primitive(
    tensors=4, name="attention", grad=_attention_grad,
    backward_name="ScaledDotProductFlashAttentionForCpuBackward0",
)  # fmt: skip
def attention_op(
    backend: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, rounded: dtype | None
) -> Any:
    """(B, L, E), (B, S, E), (B, S, D) to (B, L, D); and for each query the logarithm of its sum of exponentials."""
    tiles = _Tiles(q, k, mask, scale, causal)
    out = np.empty((*q.shape[:2], v.shape[2]), q.dtype)
    totals = np.empty(q.shape[:2], q.dtype)
    code = BY_NUMPY[q.dtype].code
    call = cpu.kernel(
        attention_rows,
        (code, code, code, "i64", code, code, code),
        masked=mask is not None,
        short=rounded and rounded.code,
    )

    def work(heads: slice) -> None:
        for rows, seen, limits in tiles.blocks():
            scores = blas.product(q[heads, rows], k[heads, :seen].transpose(0, 2, 1))
            mask_part = tiles.masked(heads, rows, seen, scores)
            share = call(scores, mask_part, tiles.scale, limits, scores, totals[heads, rows])[2]
            made = blas.product(scores, v[heads, :seen])
            out[heads, rows] = made * share[..., None] if rounded else made

    tiles.run(work)
    if rounded is not None:  # backward sees the result as it is given out
        out = cast_array(cast_array(out, rounded), BY_NUMPY[q.dtype])
    return out, totals


def _formula(q: Tensor, k: Tensor, v: Tensor, mask: Any, scale: float, causal: bool, dropout: float = 0.0) -> Tensor:
    """What the kernels compute, over tensors."""
    weights = _weights(q, k, mask, scale, causal)
    if dropout > 0.0:
        weights = functions["nn.functional.dropout"](weights, dropout, True)
    return ops.matmul(weights, v)  # type: ignore[no-any-return]


def _weights(q: Tensor, k: Tensor, mask: Any, scale: float, causal: bool) -> Tensor:
    scores = ops.matmul(q * math.sqrt(scale), ops.transpose(k, -2, -1) * math.sqrt(scale))
    if causal:
        length, keys = q._array.shape[-2], k._array.shape[-2]
        seen = ops.tril(ops.ones((length, keys), dtype=bool_, device=q.device))  # type: ignore[attr-defined]
        scores = ops.masked_fill(scores, ~seen, -math.inf)
    if mask is not None:
        if mask.dtype.category == BOOL:
            scores = ops.masked_fill(scores, ~mask, -math.inf)
        else:
            scores = scores + mask
    weights = ops.softmax(scores, -1)
    if mask is None and not causal:
        return weights  # type: ignore[no-any-return]
    return ops.masked_fill(weights, ops.all(scores == -math.inf, -1, True), 0)  # type: ignore[no-any-return]


def _attention_second(
    gs: Any, cotangent: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, needs: Any
) -> Any:
    def formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _formula(q, k, v, mask, scale, causal)

    return [*second(formula, [q, k, v], cotangent, (True, True, True), gs, needs[:4]), None, None, None]


@primitive(tensors=7, name="attention_backward", grad=_attention_second)
def attention_back(
    backend: Any, cotangent: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, totals: Any, scale: float, causal: bool,
    rounded: dtype | None,
) -> Any:  # fmt: skip
    """The gradients by q, k and v, from scores computed again."""
    tiles = _Tiles(q, k, mask, scale, causal)
    g = np.ascontiguousarray(cotangent)
    inner = np.einsum("ble,ble->bl", g, out)
    dq, dk, dv = np.empty(q.shape, q.dtype), np.zeros(k.shape, k.dtype), np.zeros(v.shape, v.dtype)
    code = BY_NUMPY[q.dtype].code
    types = (code, code, code, code, "i64", code, code, code, code)
    call = cpu.kernel(attention_rows_backward, types, masked=mask is not None, short=rounded and rounded.code)

    def work(heads: slice) -> None:
        for rows, seen, limits in tiles.blocks():
            keys, values = k[heads, :seen], v[heads, :seen]
            scores = blas.product(q[heads, rows], keys.transpose(0, 2, 1))
            slopes = blas.product(g[heads, rows], values.transpose(0, 2, 1))
            mask_part = tiles.masked(heads, rows, seen, scores)
            call(
                scores, slopes, mask_part, tiles.scale, limits, totals[heads, rows], inner[heads, rows], scores, slopes
            )
            dq[heads, rows] = blas.product(slopes, keys)
            dk[heads, :seen] += blas.product(slopes.transpose(0, 2, 1), q[heads, rows])
            dv[heads, :seen] += blas.product(scores.transpose(0, 2, 1), g[heads, rows])

    tiles.run(work)
    if rounded:
        dq *= tiles.scale
        dk *= tiles.scale
    return dq, dk, dv


# -- public functions ----------------------------------------------------------------------------------------------


def _check(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, is_causal: bool) -> None:
    for t in (query, key, value):
        if t.dtype is not query.dtype:
            raise RuntimeError(
                "Expected query, key, and value to have the same dtype, but got query.dtype: "
                f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
            )
        if t._array.ndim < 2:
            raise RuntimeError("Expected query, key, and value to all be at least 2 dimensional")
    if attn_mask is not None:
        if attn_mask.dtype is not bool_ and attn_mask.dtype is not query.dtype and attn_mask.dtype is not float32:
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{attn_mask.dtype} and query.dtype: {query.dtype} instead."
            )
        if is_causal:
            raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
    if query.dtype.category != FLOATING:
        raise not_implemented("scaled_dot_product_attention", query.dtype)


def _grouped(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated for the query heads that share them."""
    heads = query._array.shape[-3]
    made = []
    for t in (key, value):
        shared = t._array.shape[-3]
        if not shared or heads % shared:
            raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
        made.append(t if shared == heads else ops.repeat_interleave(t, heads // shared, dim=-3))
    return made[0], made[1]


@public("nn.functional.scaled_dot_product_attention", method=False)
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value, over the last two dimensions.

    `attn_mask` is True where a key takes part, or is added to the scores; `is_causal` lets a query see the keys up
    to its own place; `enable_gqa` lets several query heads share one head of keys and values.

    >>> import flambeau as torch
    >>> q = torch.zeros(1, 2, 4); v = torch.tensor([[[1.0], [3.0]]])
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _grouped(query, key, value)
    width = query._array.shape[-1]
    factor = (1.0 / math.sqrt(width) if width else 1.0) if scale is None else scale
    if dropout_p > 0.0 or not _fusable(query, key, value, attn_mask, factor):
        d = query.dtype
        wide = d.wide  # 16-bit floats are computed in single precision
        query, key, value = (t if t.dtype is wide else ops.to_dtype(t, wide) for t in (query, key, value))
        if attn_mask is not None and attn_mask.dtype is not bool_ and attn_mask.dtype is not wide:
            attn_mask = ops.to_dtype(attn_mask, wide)
        out = _formula(query, key, value, attn_mask, factor, is_causal, dropout_p)
        return out if out.dtype is d else ops.to_dtype(out, d)  # type: ignore[no-any-return]
    return _fused(query, key, value, attn_mask, factor, is_causal)


def _fusable(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> bool:
    k = query._k | key._k | value._k | modes.on | (mask._k if mask is not None else 0)
    if k & ~GRAD or (mask is not None and mask._k & GRAD and local.grad):
        return False
    return bool(query._array.size and key._array.size and value._array.size) and scale >= 0


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    d = query.dtype
    lead = tuple(broadcast_shapes(*[t._array.shape[:-2] for t in (query, key, value)]))
    flat = []
    for t in (query, key, value):
        shape = t._array.shape
        if shape[:-2] != lead:
            t = ops.expand(t, (*lead, *shape[-2:]))
        if t.dtype is not float32 and t.dtype is not float64:
            t = ops.to_dtype(t, float32)
        flat.append(t if len(lead) == 1 else ops.reshape(t, (-1, *shape[-2:])))
    q, k, v = flat
    if q._array.shape[2] != k._array.shape[2] or k._array.shape[1] != v._array.shape[1]:
        raise RuntimeError(
            f"scaled_dot_product_attention: sizes do not fit: query {list(query._array.shape)}, key "
            f"{list(key._array.shape)}, value {list(value._array.shape)}"
        )
    added = None if mask is None else _added(mask, lead, q, k)
    # PyTorch has a kernel for 16-bit floats that rounds in between, where nothing is broadcast
    alike = all(t._array.shape[:-2] == lead for t in (query, key, value)) and q._array.shape[2] == v._array.shape[2]
    short = d is not q.dtype and len(lead) == 2 and alike
    out, _ = attention_op(q, k, v, added, scale, causal, d if short else None)
    if len(lead) != 1:
        out = ops.reshape(out, (*lead, *out._array.shape[1:]))
    return out if out.dtype is d else ops.to_dtype(out, d)  # type: ignore[no-any-return]


def _added(mask: Tensor, lead: tuple[int, ...], q: Tensor, k: Tensor) -> Tensor:
    """A mask as numbers to be added, (1 or B, L, S)."""
    mask = ops.detach(mask)
    if mask.dtype.category == BOOL:
        nothing = ops.zeros((), dtype=q.dtype)
        mask = ops.where(mask, nothing, ops.full((), -math.inf, dtype=q.dtype))
    elif mask.dtype is not q.dtype:
        mask = ops.to_dtype(mask, q.dtype)
    shape = (q._array.shape[1], k._array.shape[1])
    before = mask._array.shape[:-2]
    if math.prod(before) == 1:
        return ops.expand(
            ops.reshape(mask, (1, *mask._array.shape[-2:])) if mask._array.ndim > 1 else mask, (1, *shape)
        )  # type: ignore[no-any-return]
    return ops.reshape(ops.expand(mask, (*lead, *shape)), (-1, *shape))  # type: ignore[no-any-return]


# -- multi-head attention ------------------------------------------------------------------------------------------


def _canonical_mask(mask: Tensor | None, name: str, other: Any, target: Any, check_other: bool = True) -> Tensor | None:
    """A mask as numbers: True means "not seen" and becomes -inf."""
    if mask is None:
        return None
    if mask.dtype is not bool_ and mask.dtype.category != FLOATING:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and other.dtype is not mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and other mask is deprecated; give both masks one dtype", stacklevel=4
        )
    if mask.dtype is bool_:
        return ops.masked_fill(ops.zeros_like(mask, dtype=target), mask, -math.inf)  # type: ignore[no-any-return]
    return mask


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    """Queries, keys and values by one stacked matrix; in one product where they are the same tensor."""
    width = query._array.shape[-1]
    linear = functions["nn.functional.linear"]
    if key is value and query is key:
        return [ops.contiguous(part) for part in ops.chunk(linear(query, weight, bias), 3, -1)]
    biases = [None] * 3 if bias is None else list(ops.split(bias, width, 0))
    return [
        linear(t, w, b) for t, w, b in zip((query, key, value), ops.split(weight, width, 0), biases)
    ]  # fmt: skip


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
    batched = query._array.ndim == 3
    _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same, other = key is value, query is key
        query = ops.unsqueeze(query, 1)
        key = query if other else ops.unsqueeze(key, 1)
        value = key if same else ops.unsqueeze(value, 1)
        if key_padding_mask is not None:
            key_padding_mask = ops.unsqueeze(key_padding_mask, 0)
    length, batch, width = query._array.shape
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention_forward: is_causal only says that attn_mask is causal; give that mask too"
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, query.dtype, False)
        if key_padding_mask is not None:
            is_causal = False
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    if head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        biases = [None] * 3 if in_proj_bias is None else ops.chunk(in_proj_bias, 3)
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        if any(w is None for w in weights):
            raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
        q, k, v = (functions["nn.functional.linear"](t, w, b) for t, w, b in zip((query, key, value), weights, biases))
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _shaped_mask(attn_mask, length, k._array.shape[0], batch * num_heads)
    if bias_k is not None and bias_v is not None:
        k, v = ops.cat([k, bias_k.repeat(1, batch, 1)]), ops.cat([v, bias_v.repeat(1, batch, 1)])  # type: ignore[attr-defined]
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    q = _by_heads(q, batch * num_heads, head)
    k = _by_heads(k, batch * num_heads, head) if static_k is None else static_k
    v = _by_heads(v, batch * num_heads, head) if static_v is None else static_v
    if add_zero_attn:
        k, v = (ops.cat([t, ops.zeros((t._array.shape[0], 1, head), dtype=t.dtype)], 1) for t in (k, v))
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    keys = k._array.shape[1]
    if key_padding_mask is not None:
        spread = ops.reshape(key_padding_mask, (batch, 1, 1, keys))
        spread = ops.reshape(ops.expand(spread, (batch, num_heads, 1, keys)), (batch * num_heads, 1, keys))
        attn_mask = spread if attn_mask is None else attn_mask + spread
    return _attend(
        q, k, v, attn_mask, dropout_p if training else 0.0, is_causal, need_weights, average_attn_weights,
        (batch, num_heads, length, keys), out_proj_weight, out_proj_bias, batched,
    )  # fmt: skip


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, causal: bool, need_weights: bool,
    average: bool, sizes: tuple[int, int, int, int], weight: Tensor, bias: Tensor | None, batched: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    batch, heads, length, keys = sizes
    head = q._array.shape[-1]
    linear = functions["nn.functional.linear"]
    if not need_weights:
        four = [ops.reshape(t, (batch, heads, -1, head)) for t in (q, k, v)]
        if mask is not None:
            mask = ops.unsqueeze(mask, 0) if mask._array.shape[0] == 1 else ops.reshape(mask, (batch, heads, -1, keys))
        made = scaled_dot_product_attention(*four, mask, dropout, causal)
        made = ops.reshape(ops.permute(made, (2, 0, 1, 3)), (length, batch, heads * head))
        out = linear(made, weight, bias)
        return (out if batched else ops.squeeze(out, 1)), None
    scores = ops.bmm(q * math.sqrt(1.0 / head), ops.transpose(k, 1, 2))
    if mask is not None:
        scores = scores + mask
    shares = ops.softmax(scores, -1)
    if dropout > 0.0:
        shares = functions["nn.functional.dropout"](shares, dropout)
    made = ops.reshape(ops.transpose(ops.bmm(shares, v), 0, 1), (length, batch, heads * head))
    out = linear(made, weight, bias)
    shares = ops.reshape(shares, (batch, heads, length, keys))
    if average:
        shares = ops.mean(shares, 1)
    if not batched:
        out, shares = ops.squeeze(out, 1), ops.squeeze(shares, 0)
    return out, shares


def _by_heads(t: Tensor, count: int, head: int) -> Tensor:
    """(L, N, E) to (N * heads, L, head)."""
    return ops.transpose(ops.reshape(t, (t._array.shape[0], count, head)), 0, 1)  # type: ignore[no-any-return]


def _one_more(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else functions["nn.functional.pad"](mask, (0, 1))


def _shaped_mask(mask: Tensor | None, length: int, keys: int, count: int) -> Tensor | None:
    """An attention mask with a dimension for the heads."""
    if mask is None:
        return None
    shape = mask._array.shape
    if len(shape) == 2:
        if shape != (length, keys):
            raise RuntimeError(f"The shape of the 2D attn_mask is {shape}, but should be {(length, keys)}.")
        return ops.unsqueeze(mask, 0)  # type: ignore[no-any-return]
    if len(shape) != 3:
        raise RuntimeError(f"attn_mask's dimension {len(shape)} is not supported")
    if shape != (count, length, keys):
        raise RuntimeError(f"The shape of the 3D attn_mask is {shape}, but should be {(count, length, keys)}.")
    return mask


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> None:
    rank = query._array.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    if key._array.ndim != rank or value._array.ndim != rank:
        raise AssertionError(f"For {rank}-D query, expected key and value to be {rank}-D as well")
    if padding is not None and padding._array.ndim != rank - 1:
        raise AssertionError(f"For {rank}-D query, expected key_padding_mask to be None or {rank - 1}-D")
    if mask is not None and mask._array.ndim not in (2, 3):
        raise AssertionError("expected attn_mask to be None, 2-D or 3-D")

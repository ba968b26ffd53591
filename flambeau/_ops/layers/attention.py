"""Scaled dot-product attention by kernels whose memory does not grow with the square of the length, and the same
composed of other operations for what the kernels leave out."""

from __future__ import annotations

import math
from typing import Any

from ..._backend.cudnn import settings
from ..._core.allocation import not_planned
from ..._core.dtypes import BOOL, BY_NUMPY, FLOATING, bool_, dtype, float32, float64
from ..._core.sizes import broadcast_shapes
from ..._core.state import BATCHED, CUDA, GRAD, META, OVERRIDE, SPARSE, local
from ..._dispatch import backend_of
from ..._tensor import Tensor
from ..making.random import kept
from ..records.batched_layers import attended
from ..records.batching import is_differentiated
from ..records.casting import cast_array
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of
from ..records.tangents import softmax_backward
from ..registry import functions, ops, public
from . import attention_arrays


class Kinds:
    """The kinds of attention that `scaled_dot_product_attention` may choose among."""

    __slots__ = ("cudnn", "flash", "math", "memory_efficient")

    def __init__(self) -> None:
        self.flash = self.memory_efficient = self.math = self.cudnn = True

    def __setattr__(self, name: str, value: bool) -> None:
        changed = getattr(self, name, value) is not value
        object.__setattr__(self, name, value)
        if name == "cudnn" and changed:
            from ..._backend.cuda import cuda  # which few programs need

            settings.attention = value
            cuda.switched()
        if plans is not None:  # which were made by another choice
            plans.forget()

    def fused(self, gpu: int) -> bool:
        """Whether one of those may be chosen that never make the matrix of scores; the CPU has one of them."""
        return self.flash or bool(gpu and (self.cudnn or self.memory_efficient))


plans: Any = None  # of scaled_dot_product_attention
kinds = Kinds()
_COMPOSED = META | OVERRIDE | BATCHED | SPARSE  # tensors that the kernels do not take


def _attention_grad(
    gs: Any, outs: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool, group: int,
    dropout: float, rounded: Any, needs: Any,
) -> Any:  # fmt: skip
    found = attention_back(gs[0], q, k, v, mask, keep, outs[0], outs[1], scale, causal, group, dropout, rounded)
    return *[f if need else None for f, need in zip(found, needs)], None, None


def _attention_name(node: Any) -> str:
    """PyTorch has one operation for batches of heads without dropout, and a product of matrices otherwise."""
    rank, dropout = len(node.info[0][0]), node.saved[8] if node.saved else 0
    if rank == 2:
        return "MmBackward0"
    return "ScaledDotProductFlashAttentionForCpuBackward0" if rank == 4 and not dropout else "UnsafeViewBackward0"


def _attention_shapes(q: Any, k: Any, v: Any, *rest: Any) -> list[Any]:
    shape, d = (*q.shape[:-1], v.shape[-1]), dtype_of(q)
    return [(shape, d, attention_arrays.result_strides(q, shape)), (q.shape[:-1], d.wide)]


def _gradient_shapes(cotangent: Any, q: Any, k: Any, v: Any, *rest: Any) -> list[Any]:
    return [(a.shape, dtype_of(a), attention_arrays.result_strides(q, a.shape, True)) for a in (q, k, v)]


def _tangent(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    q, k, v, mask, keep, scale, causal, group, _, rounded = args
    by_q, by_k, by_v = tangents[:3]
    if keep is not None or group > 1 or rounded is not None or tangents[3] is not None:
        return NotImplemented
    weights = _weights(q, k, _beside_scores(mask, q), scale, causal)
    total = None if by_v is None else ops.matmul(weights, by_v)
    scores = [
        ops.matmul(a * scale, ops.transpose(b, -2, -1))
        for a, b in ((by_q, k), (q, by_k))
        if a is not None and b is not None
    ]
    if scores:
        moved = softmax_backward(scores[0] if len(scores) == 1 else scores[0] + scores[1], weights, -1)
        made = ops.matmul(moved, v)
        total = made if total is None else total + made
    return total, None


@primitive(
    batch=attended,
    tangent=_tangent,
    meta=_attention_shapes,
    tensors=5,
    name="attention",
    grad=_attention_grad,
    backward_name=_attention_name,
)
def attention_op(
    backend: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool, group: int,
    dropout: float, rounded: dtype | None,
) -> Any:  # fmt: skip
    """(…, L, E), (…, S, E), (…, S, D) to (…, L, D); and for each query the logarithm of its sum of exponentials."""
    if backend.attention is not None:
        out = _room(backend, q, (*q.shape[:-1], v.shape[-1]))
        return out, backend.attention.forward(q, k, v, mask, out, scale, causal, group)
    short = None if rounded is None else rounded.code
    out, totals = attention_arrays.forward(q, k, v, mask, keep, scale, causal, group, dropout, short)
    if rounded is not None:  # backward sees the result as it is given out
        out = cast_array(cast_array(out, rounded), BY_NUMPY[q.dtype])
    return out, totals


def _room(backend: Any, q: Any, shape: tuple[int, ...], gradient: bool = False) -> Any:
    """Memory for a result on a GPU, laid out as it is on the CPU."""
    strides = attention_arrays.result_strides(q, shape, gradient)
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    back = sorted(range(len(shape)), key=order.__getitem__)
    return backend.empty(tuple([shape[d] for d in order]), q.dtype).transpose(back)


def _weights(q: Tensor, k: Tensor, mask: Any, scale: float, causal: bool) -> Tensor:
    scores = ops.matmul(q * scale, ops.transpose(k, -2, -1))
    if causal:
        length, keys = q._array.shape[-2], k._array.shape[-2]
        seen = ops.tril(ops.ones((length, keys), dtype=bool_, device=q.device))
        scores = ops.masked_fill(scores, ~seen, -math.inf)
    if mask is not None:
        if mask.dtype.category == BOOL:
            scores = ops.masked_fill(scores, ~mask, -math.inf)
        else:
            scores = scores + mask
    if mask is None and not causal:
        return ops.softmax(scores, -1)
    blind = ops.all(scores == -math.inf, -1, True)  # queries that see nothing: neither shares nor gradients are NaN
    return ops.masked_fill(ops.softmax(ops.masked_fill(scores, blind, 0), -1), blind, 0)


def _beside_scores(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """A kernel's mask, which has four dimensions, with those of the scores."""
    if mask is None or mask._array.ndim <= q._array.ndim:
        return mask
    return ops.reshape(mask, mask._array.shape[mask._array.ndim - q._array.ndim :])


def _backward_formula(
    cotangent: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, keep: Any, out: Any, totals: Any, scale: float, causal: bool,
    group: int, dropout: float, rounded: dtype | None,
) -> Any:  # fmt: skip
    """What `attention_back` computes, over tensors."""

    def kept(weights: Tensor) -> Tensor:
        return weights if keep is None else ops.masked_fill(weights, ~keep, 0) / (1.0 - dropout)

    def shared(gradient: Tensor) -> Tensor:
        """The sum over the query heads that have a head of keys in common."""
        return gradient if group == 1 else ops.sum(ops.unflatten(gradient, -3, (-1, group)), -3)

    if group > 1:
        k, v = (ops.repeat_interleave(t, group, dim=-3) for t in (k, v))
    weights = _weights(q, k, _beside_scores(mask, q), scale, causal)
    moved = softmax_backward(kept(ops.matmul(cotangent, ops.transpose(v, -2, -1))), weights, -1) * scale
    by_k, by_v = (
        ops.matmul(ops.transpose(moved, -2, -1), q),
        ops.matmul(ops.transpose(kept(weights), -2, -1), cotangent),
    )
    return ops.matmul(moved, k), shared(by_k), shared(by_v)


@primitive(
    batch=attended, formula=_backward_formula, meta=_gradient_shapes, tensors=8, name="attention_backward", planned=True
)
def attention_back(
    backend: Any, cotangent: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, totals: Any, scale: float,
    causal: bool, group: int, dropout: float, rounded: dtype | None,
) -> Any:  # fmt: skip
    """The gradients by q, k and v, from scores computed again."""
    if backend.attention is not None:
        made = [_room(backend, q, a.shape, True) for a in (q, k, v)]
        backend.attention.backward(cotangent, q, k, v, mask, out, totals, made, scale, causal, group)
        return tuple(made)
    short = None if rounded is None else rounded.code
    return attention_arrays.backward(
        cotangent, q, k, v, mask, keep, out, totals, scale, causal, group, dropout, short
    )  # fmt: skip


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


def _group(query: Tensor, key: Tensor, value: Tensor) -> int:
    """How many query heads share a head of keys and values."""
    if query._array.ndim < 3:
        raise RuntimeError("scaled_dot_product_attention: enable_gqa needs a dimension of heads")
    heads, shared, others = (t._array.shape[-3] if t._array.ndim > 2 else 0 for t in (query, key, value))
    if not shared or not others or heads % shared or heads % others:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    return heads // shared if shared == others else 0


@public("nn.functional.scaled_dot_product_attention", method=False, planned=True)
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
    width = query._array.shape[-1]
    factor = (1.0 / math.sqrt(width) if width else 1.0) if scale is None else scale
    group = _group(query, key, value) if enable_gqa else 1
    fused = kinds.fused(query._k & CUDA)
    if not fused:
        not_planned()
        if not kinds.math:
            raise RuntimeError(
                "No viable backend for scaled_dot_product_attention was found: both the math and the flash kind are off"
            )
    if (
        dropout_p >= 1.0
        or dropout_p < 0.0
        or (dropout_p and local.batches)
        or not fused
        or not _fusable(query, key, value, attn_mask, dropout_p, factor, group)
    ):
        if group != 1:
            key, value = _repeated(query, key, value)
        return _composed(query, key, value, attn_mask, factor, is_causal, dropout_p)
    out = _fused(query, key, value, attn_mask, factor, is_causal, group, dropout_p)
    return out if _lies_by_heads(query, key, value) else ops.contiguous(out)


plans = getattr(getattr(scaled_dot_product_attention, "site", None), "table", None)


def _lies_by_heads(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the heads of a position lie side by side in the result; otherwise it is row-major."""
    arrays = [query._array, key._array, value._array]
    return all([a.ndim == 4 and a.strides[-1] == a.itemsize for a in arrays])


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    heads = query._array.shape[-3]
    return tuple(ops.repeat_interleave(t, heads // t._array.shape[-3], dim=-3) for t in (key, value))


def _composed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool, dropout: float
) -> Tensor:
    """With the whole matrix of shares: where its random numbers or a gradient of the mask are wanted."""
    d = query.dtype
    wide = d.wide  # 16-bit floats are computed in single precision
    query, key, value = (t if t.dtype is wide else ops.to_dtype(t, wide) for t in (query, key, value))
    if mask is not None and mask.dtype is not bool_ and mask.dtype is not wide:
        mask = ops.to_dtype(mask, wide)
    weights = _weights(query, key, mask, scale, causal)
    if dropout > 0.0:
        weights = functions["nn.functional.dropout"](weights, dropout, True)
    out = ops.matmul(weights, value)
    return out if out.dtype is d else ops.to_dtype(out, d)


def _fusable(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scale: float, group: int
) -> bool:  # fmt: skip
    k = query._k | key._k | value._k
    if k & CUDA:
        takes = backend_of(k).attention.takes
        if dropout or not takes(query._array, key._array, value._array, mask, scale, group):
            return False
    if mask is not None:
        if is_differentiated(mask) or mask._array.ndim > max(query._array.ndim, 2):
            return False
        k |= mask._k
    return not k & _COMPOSED and bool(query._array.size and key._array.size and value._array.size)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool, group: int,
    dropout: float,
) -> Tensor:  # fmt: skip
    d, shape = query.dtype, query._array.shape
    lead, other = shape[:-2], key._array.shape[:-2]
    alike = other == value._array.shape[:-2] and lead[:-1] == other[:-1] and (group > 1 or lead == other)
    if not alike:
        if group != 1:
            key, value = _repeated(query, key, value)
            group = 1
        lead = tuple(broadcast_shapes(*[t._array.shape[:-2] for t in (query, key, value)]))
        query, key, value = (
            t if t._array.shape[:-2] == lead else ops.expand(t, (*lead, *t._array.shape[-2:]))
            for t in (query, key, value)
        )
    _check_sizes(query, key, value)
    merged = len(lead) > 2
    if merged:
        query, key, value = (ops.reshape(t, (-1, *t._array.shape[-3:])) for t in (query, key, value))
    q, k, v = query, key, value
    if d is not float32 and d is not float64 and not q._k & CUDA:
        q, k, v = (ops.to_dtype(t, float32) for t in (q, k, v))
    added = None if mask is None else _added(mask, lead, q, k)
    keep = _kept(q, k, dropout) if dropout else None
    # PyTorch has a kernel for 16-bit floats that rounds in between, where nothing is broadcast
    same = alike and q._array.shape[-1] == v._array.shape[-1]
    short = d if d is not q.dtype and len(lead) == 2 and same and keep is None else None
    out, _ = attention_op(q, k, v, added, keep, scale, causal, group, dropout, short)
    if merged:
        out = ops.reshape(out, (*lead, *out._array.shape[-2:]))
    return out if out.dtype is d else ops.to_dtype(out, d)


def _kept(q: Tensor, k: Tensor, dropout: float) -> Tensor:
    """Which shares dropout keeps: the numbers that it would draw for the whole matrix."""
    shape = (*q._array.shape[:-1], k._array.shape[-2])
    return kept(q, shape, 1.0 - dropout)


def _check_sizes(query: Tensor, key: Tensor, value: Tensor) -> None:
    q, k, v = query._array.shape, key._array.shape, value._array.shape
    if q[-1] != k[-1] or k[-2] != v[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: sizes do not fit: query {list(q)}, key {list(k)}, value {list(v)}"
        )


def _added(mask: Tensor, lead: tuple[int, ...], q: Tensor, k: Tensor) -> Tensor:
    """A mask as numbers to be added, with four dimensions that are those of the scores or 1."""
    shape = (*lead, q._array.shape[-2], k._array.shape[-2])
    own = mask._array.shape
    if any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1])):
        raise RuntimeError(
            f"scaled_dot_product_attention: a mask of shape {list(own)} does not fit scores of shape {list(shape)}"
        )
    if mask._k & GRAD:
        mask = ops.detach(mask)
    if mask._k & CUDA:  # it is read as it is
        pass
    elif mask.dtype.category == BOOL:
        nothing = ops.zeros((), dtype=q.dtype)
        mask = ops.where(mask, nothing, ops.full((), -math.inf, dtype=q.dtype))
    elif mask.dtype is not q.dtype:
        mask = ops.to_dtype(mask, q.dtype)
    if len(lead) > 2:
        if math.prod(own[:-2]) != 1:
            return ops.reshape(ops.expand(mask, shape), (-1, *shape[-3:]))
        own = own[-2:]
    return mask if len(own) == mask._array.ndim == 4 else ops.reshape(mask, (1,) * (4 - len(own)) + own)


SCHEMAS = """
scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor  # autocast=lower, builtin
attention  # record=_scaled_dot_product_flash_attention_for_cpu, flops=attention
attention_backward  # record=_scaled_dot_product_flash_attention_for_cpu_backward, flops=attention_backward
"""

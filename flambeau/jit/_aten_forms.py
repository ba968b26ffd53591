"""Operators whose arguments differ from those of the Python function, and fused ones, written with public operations."""

from __future__ import annotations

from typing import Any

from .._library.schema_texts import operator_of
from .._ops.registry import functions, methods, ops
from .._tensor import Tensor

_F = "nn.functional."


def _f(name: str) -> Any:
    return functions[_F + name]


def _convolution_mode(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Tensor:
    return _f(f"conv{weight.dim() - 2}d")(input, weight, bias, stride, padding, dilation, groups)


def _adaptive_max(rank: int) -> Any:
    return lambda x, output_size: _f(f"adaptive_max_pool{rank}d")(x, output_size, True)


def _numbered(name: str) -> Any:
    """A further name of an operator."""
    return lambda *args, **named: operator_of(name)(*args, **named)  # type: ignore[misc]


def einsum(equation: str, tensors: Any, path: Any = None) -> Tensor:
    return ops.einsum(equation, *tensors)


def to(self: Tensor, *args: Any, **named: Any) -> Tensor:
    """All forms of `to`: (dtype, …), (device, dtype, …), (other, …), and options by name."""
    from ._operators import _memory_format, scalar_type  # they need the table below

    values = list(args)
    options: dict[str, Any] = {}
    if values and isinstance(values[0], Tensor):
        other = values.pop(0)
        options.update(dtype=other.dtype, device=other.device)
    else:
        if values and not isinstance(values[0], (int, type(None))):
            options["device"] = values.pop(0)
        elif len(values) > 1 and values[0] is None and values[1].__class__ is not bool:
            values.pop(0)  # no device, then a dtype
        if values and values[0].__class__ is not bool:
            options["dtype"] = scalar_type(values.pop(0))
    options.update(zip(("non_blocking", "copy", "memory_format"), values))
    options.update((k, v) for k, v in named.items() if k not in ("layout", "pin_memory"))
    options["dtype"] = scalar_type(options.get("dtype"))
    options["memory_format"] = _memory_format(options.get("memory_format"))
    return ops.to(self, **{k: v for k, v in options.items() if v is not None})


to.raw = True  # type: ignore[attr-defined]


def view(self: Tensor, *size: Any) -> Tensor:
    """Another shape, or, by the number of a dtype, the same bytes as elements of another type."""
    from ._operators import scalar_type

    return methods["view"](self, *(scalar_type(n) for n in size) if len(size) == 1 else size)


def _heads(x: Tensor, heads: int) -> Tensor:
    """(N, L, E) as (N, heads, L, E / heads)."""
    batch, length, size = x.shape
    return x.view(batch, length, heads, size // heads).transpose(1, 2)


def attention_mask(mask: Any, kind: Any, x: Tensor, heads: int) -> Any:
    """A mask of the fused operators as what is added to scores. Kinds: 0 (L, L), 1 padding (N, L), 2 all dimensions."""
    if mask is None:
        return None
    if kind == 1:
        mask = mask.view(x.shape[0], 1, 1, x.shape[1])
    elif mask.dim() == 3:
        mask = mask.view(x.shape[0], heads, x.shape[1], x.shape[1])
    return ~mask if mask.dtype.name == "bool" else mask


def _native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: Any = None,
) -> tuple[Tensor, Any]:  # fmt: skip
    parts = []
    for x, w, b in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3)):
        parts.append(_heads(_f("linear")(x, w, b), num_head))
    q, k, v = parts
    bias = attention_mask(mask, mask_type, query, num_head)
    weights = None
    if need_weights:
        scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
        if bias is not None:
            scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype.name == "bool" else scores + bias
        weights = scores.softmax(-1)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = _f("scaled_dot_product_attention")(q, k, v, bias)
    out = out.transpose(1, 2).reshape(query.shape[0], query.shape[1], embed_dim)
    return _f("linear")(out, proj_weight, proj_bias), weights


def _transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor,
    norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor,
    ffn_bias_2: Tensor, mask: Any = None, mask_type: Any = None,
) -> Tensor:  # fmt: skip
    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return _f("layer_norm")(x, (embed_dim,), weight, bias, eps)

    def attend(x: Tensor) -> Tensor:
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed(x: Tensor) -> Tensor:
        hidden = _f("linear")(x, ffn_weight_1, ffn_bias_1)
        return _f("linear")(_f("gelu")(hidden) if use_gelu else ops.relu(hidden), ffn_weight_2, ffn_bias_2)

    x = src
    if norm_first:
        x = x + attend(norm(x, norm_weight_1, norm_bias_1))
        return x + feed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attend(x), norm_weight_1, norm_bias_1)
    return norm(x + feed(x), norm_weight_2, norm_bias_2)


def _added(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    return ops.add(self, other) if alpha == 1 else functions["add"](self, other, alpha=alpha)


def _subtracted(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    return ops.sub(self, other) if alpha == 1 else functions["sub"](self, other, alpha=alpha)


def _unique2(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    return methods["unique"](x, sorted, True, True)


def unique_dim(
    x: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return methods["unique"](x, sorted, True, True, dim)


FORMS: dict[str, Any] = {
    "_convolution_mode": _convolution_mode,
    "einsum": einsum,
    "to": to,
    "view": view,
    "add": _added,
    "sub": _subtracted,
    "_unique2": _unique2,
    "unique_dim": unique_dim,
    "_native_multi_head_attention": _native_multi_head_attention,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer_fwd,
    "is_autocast_enabled": lambda *kind: False,
    "_reshape_alias": lambda x, size, stride: ops.reshape(x, list(size)),
    "_shape_as_tensor": lambda x: ops.tensor(list(x.shape)),
    "nll_loss2d": _numbered("nll_loss"),
    **{f"adaptive_max_pool{n}d": _adaptive_max(n) for n in (1, 2, 3)},
}  # fmt: skip

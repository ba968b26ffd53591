"""`MultiheadAttention`: the projections and options of attention in several heads as a layer."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import bool_
from ..._core.state import local
from ..._ops.layers.multihead import attend
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..init import constant_, xavier_normal_, xavier_uniform_
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention in several heads between sequences (L, N, E) or, with `batch_first`, (N, L, E).

    Gives the result and the shares of the keys (None unless `need_weights`). In `key_padding_mask` and `attn_mask`
    True means that a key is not seen; a floating mask is added to the scores.

    >>> import flambeau as torch
    >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> out, shares = layer(*[torch.ones(3, 5, 8)] * 3)
    >>> out.shape, shares.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, got embed_dim={embed_dim} and num_heads={num_heads}"
            )

        def parameter(*shape: int) -> Parameter:
            return Parameter(ops.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # files from before there was a choice
        super().__setstate__(state)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if query.is_nested:
            return self._nested(query, key, value), None
        separate = None
        if not self._qkv_same_embed_dim:
            separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        last, bias = self.out_proj, self.in_proj_bias
        if bias is not None and bias.dtype is not last.weight.dtype:
            bias = bias.to(last.weight.dtype)
        return attend(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout if self.training else 0.0, last.weight, last.bias,
            key_padding_mask, need_weights, attn_mask, separate, None, None, average_attn_weights, is_causal,
            self.batch_first,
        )  # fmt: skip

    def _nested(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention within each sequence of a nested tensor, which has no derivative."""
        from ...nested import nested_tensor

        why = ""
        if query.dim() != 3:
            why = f"input not batched; expected query.dim() of 3 but got {query.dim()}"
        elif local.grad and any(p.requires_grad for p in (query, *self.parameters())):
            why = "some Tensor argument has_torch_function, grad is enabled and query, weights or biases requires_grad"
        if why:
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit "
                f"because {why}"
            )
        rows = zip(query.unbind(), key.unbind(), value.unbind())
        return nested_tensor([self(*row, need_weights=False)[0] for row in rows])

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, with what it is: 1 for padding alone, 2 for (N, heads, L, L), None for none."""
        merged, kind = key_padding_mask, None if key_padding_mask is None else 1
        if attn_mask is None:
            return merged, kind
        batch, length = query.shape[:2]
        shape = (batch, self.num_heads, length, length)
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(shape)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length).expand(batch, self.num_heads, 1, length)
            merged = merged | padding if merged.dtype is bool_ and padding.dtype is bool_ else merged + padding
        return merged, 2

"""Causal masks as objects that never hold the matrix: for `scaled_dot_product_attention`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..._core.dtypes import bool_
from ..._errors.frames import warn_user
from ..._interception.overrides import disabled_torch_function
from ..._ops.registry import ops
from ..._tensor import Tensor
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner the diagonal of a causal mask starts from, if queries and keys differ in number."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask for `scaled_dot_product_attention`; made by `causal_upper_left` or `causal_lower_right`.

    >>> from flambeau.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        room = ops.expand(ops.zeros(1), (1, seq_len_q, seq_len_kv))
        return Tensor._make_subclass(cls, room)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be CausalVariant, but got {type(variant).__name__}")
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warn_user("Lower right causal bias: with more queries than keys the first queries see nothing")

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a matrix of bools."""
        shift = self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0
        whole = ops.ones((self.seq_len_q, self.seq_len_kv), dtype=bool_, device=device)
        return ops.tril(whole, shift)

    @staticmethod
    def _dispatch(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        attend = F.scaled_dot_product_attention
        if attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant is CausalVariant.UPPER_LEFT:
            return attend(query, key, value, None, dropout_p, True, scale, enable_gqa)
        mask = attn_mask._materialize(query.device)
        return attend(query, key, value, mask, dropout_p, False, scale, enable_gqa)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return cls._dispatch(*args, **kwargs)
        return disabled_torch_function(cls, func, types, args, kwargs)

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """Query i sees the keys 0 to i.

    >>> from flambeau.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _made(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The last query sees all keys, the one before it all but one, and so on."""
    return _made(CausalVariant.LOWER_RIGHT, size)


def _made(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"a causal bias is 2-D, but got {len(size)} sizes")
    return CausalBias(variant, *size)

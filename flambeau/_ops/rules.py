"""Dtype rules that refuse some dtypes in words of their own, as PyTorch does."""

from __future__ import annotations

from .._core.dtypes import dtype
from .pointwise_op import Rule


class Refusing(Rule):
    """A rule that raises RuntimeError with a given message for some categories of dtypes."""

    __slots__ = ("message", "refused")

    def __init__(self, refused: str, message: str, *args: object, **options: object):
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.refused = frozenset("bifc".index(t) for t in refused)
        self.message = message

    def __call__(self, name: str, common: dtype) -> tuple[dtype, dtype]:
        if common.category in self.refused:
            raise RuntimeError(f"{name}: " + self.message)
        return super().__call__(name, common)


class Narrow(Rule):
    """A floating rule without the 16-bit types, for which PyTorch has no kernel."""

    __slots__ = ()

    def __init__(self) -> None:
        from .._core.dtypes import bfloat16, float16

        super().__init__("bif", to_float=True, excluded=(float16, bfloat16))


narrow = Narrow()
no_bool_difference = Refusing(
    "b", "subtraction of two bool tensors is not supported; use ^ or logical_xor()", "bifc"
)
no_bool_negation = Refusing("b", "negation of a bool tensor is not supported; use ~ or logical_not()", "bifc")

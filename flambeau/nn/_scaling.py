"""How the scales of quantized matrices lie beside them: kinds that programs name. Products of such matrices are not here."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """How many elements share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order of scales in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def scaled_mm(*_: Any, **__: Any) -> NoReturn:
    """Raises: products of matrices with scales are not here."""
    raise NotImplementedError(
        "scaled_mm: products of quantized matrices with scales are not available; use (a.float() * scale_a) @ (b.float() * scale_b)"
    )


def scaled_grouped_mm(*_: Any, **__: Any) -> NoReturn:
    """Raises: products of groups of matrices with scales are not here."""
    raise NotImplementedError(
        "scaled_grouped_mm: products of quantized matrices with scales are not available; multiply the groups as float32"
    )

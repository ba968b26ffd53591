"""How `linear_cross_entropy` may cut its work into chunks of the batch."""

from __future__ import annotations

import dataclasses

from ..._core.dtypes import bfloat16, dtype, float16, float32, float64

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("accurate", "balanced", "compact", "auto")


def _is_method(method: str | None) -> bool:
    """None, "auto", "aspect_ratio" or "aspect_ratio:N" with a positive N."""
    if method is None or method == "auto":
        return True
    name, colon, number = method.partition(":")
    return name == "aspect_ratio" and (not colon or (number.isdecimal() and int(number) > 0))


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Says that `linear_cross_entropy` is to work through the batch in pieces, so that the scores of all classes never
    exist for the whole batch at once.

    >>> import flambeau as torch
    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
    64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if not _is_method(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype is not None and self.acc_dtype not in (float16, bfloat16, float32, float64):
            raise ValueError(f"acc_dtype must be None or a floating dtype of 16 to 64 bits, got {self.acc_dtype}")

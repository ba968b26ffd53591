"""How `linear_cross_entropy` may cut its work into chunks of the batch."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..._core.dtypes import bfloat16, dtype, float16, float32, float64

__all__ = ["LinearCrossEntropyOptions"]

# What "auto" means on a device for a dtype: (acc_policy, chunking_method); and elsewhere.
_AUTO_DEFAULTS = {
    ("cuda", bfloat16): ("compact", "aspect_ratio:2"),
    ("cuda", float16): ("compact", "aspect_ratio:2"),
    ("cpu", bfloat16): ("accurate", "aspect_ratio"),
    ("cpu", float16): ("accurate", "aspect_ratio"),
}
_AUTO_FALLBACK = ("compact", "aspect_ratio:2")
_POLICIES = ("accurate", "balanced", "compact", "auto")


def _is_method(method: str | None) -> bool:
    """None, "auto", "aspect_ratio" or "aspect_ratio:N" with a positive N."""
    if method is None or method == "auto":
        return True
    name, colon, number = method.partition(":")
    return name == "aspect_ratio" and (not colon or (number.isdecimal() and int(number) > 0))


def _chunk(rows: int, features: int, classes: int, method: str) -> int:
    """Rows of a chunk, whose scores take up about as much memory as the input; a power of two where there are so many."""
    share = -(-rows // max(1, -(-classes // max(features, 1))))
    factor = int(method.partition(":")[2] or 1)
    return max(1, min(rows, (1 << (share - 1).bit_length()) // factor))


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

    def _adjust(
        self, num_batches: int, in_features: int, num_classes: int, dtype: dtype, device: Any = None
    ) -> LinearCrossEntropyOptions:
        """The same with everything decided: the policy, and how many rows a chunk has."""
        where = None if device is None else device.type
        policy, method = _AUTO_DEFAULTS.get((where, dtype), _AUTO_FALLBACK)
        wide = self.acc_policy == "auto" and where in ("cpu", "cuda") and dtype.itemsize == 2
        policy = policy if self.acc_policy == "auto" else self.acc_policy
        chosen = method if self.chunking_method == "auto" else self.chunking_method
        size = self.batch_chunk_size
        if chosen is not None and (size is None or self.chunking_method != "auto"):
            made = _chunk(num_batches, in_features, num_classes, chosen)
            if size not in (None, made):
                raise ValueError(
                    f"batch_chunk_size {size} and chunking_method {chosen!r}, which makes it {made}, do not agree: "
                    "give one of them"
                )
            size = made
        return dataclasses.replace(
            self, batch_chunk_size=size or num_batches, chunking_method=chosen, acc_policy=policy,
            acc_dtype=self.acc_dtype or (float32 if wide else dtype),
        )  # fmt: skip

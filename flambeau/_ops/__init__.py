"""Operations: one record each, by family. Importing this package registers them all."""

from . import (  # noqa: F401
    basic, inplace, arithmetic, powers, bounds, combined, comparison, rounding, exponential, trigonometric, activation, gates, special,
    striding, views, parts, metadata, view_copies, creation, from_data, shape, joining, conversion, reduction, statistics, softmax, cumulative, sorting, histogram,
    indexing, scatter, selection, matmul, matmul_add, einsum, random,
)  # fmt: skip

"""Operations: one record each, by family. Importing this package registers them all."""

from . import (  # noqa: F401
    basic, inplace, arithmetic, powers, bounds, combined, comparison, rounding, exponential, trigonometric, activation, gates, special,
    striding, views, parts, metadata, view_copies, creation, ranges, from_data, shape, joining, conversion, writing, reduction, statistics, softmax, norms, cumulative, differences, sorting, histogram,
    indexing, scatter, selection, embedding, matmul, matmul_add, einsum, generator, random, dropout,
)  # fmt: skip

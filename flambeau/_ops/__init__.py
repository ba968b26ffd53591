"""Operations: one record each, by family. Importing this package registers them all."""

from . import (  # noqa: F401, I001 (by family, bases first)
    basic, saved_names, inplace, arithmetic, powers, bounds, combined, postponed, comparison, rounding, exponential, trigonometric, activation, gates, special,
    striding, views, parts, metadata, view_copies, creation, ranges, from_data, shape, joining, conversion, writing, reduction, statistics, softmax, norms, cumulative, differences, sorting, histogram,
    indexing, scatter, selection, embedding, matmul, matmul_add, einsum, linalg_factors, linalg_solvers, linalg_spectra, linalg_norms, linalg_products, conv, sliding, pooling, unpooling, generator, random, dropout,
    losses, losses_distance, losses_margin, losses_class, losses_linear, losses_sequence, losses_numbered, normalization, batch_norm, group_norm, padding, attention, multihead, recurrent, recurrent_cells,
    interpolation, sampling_grid, embedding_bag, fft, windows, stft, hashing, masked, sparse, sparse_math, sparse_products, segments, resizing, grouped, foreach, quantization, fake_quantize,
)  # fmt: skip

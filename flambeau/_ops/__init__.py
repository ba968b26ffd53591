"""Operations: one record each, by family."""

from . import (  # noqa: F401, I001 (what tensors themselves need; bases first)
    basic, saved_names, inplace, out, arithmetic, powers, combined, postponed, comparison, striding, views, transposes, parts, conversion, writing, selection,
    generator, quantization,
)  # fmt: skip
from .families import defer
from .registry import functions, methods, ops, records

# Those that wait for their first use; bases first.
_FAMILIES = """
    bounds rounding exponential trigonometric activation gates special
    metadata view_copies creation ranges from_data shape joining reduction statistics softmax norms cumulative differences sorting histogram
    indexing scatter embedding matmul matmul_add einsum linalg_factors linalg_solvers linalg_spectra linalg_norms linalg_products
    conv sliding pooling unpooling random dropout losses losses_distance losses_margin losses_class losses_linear losses_sequence losses_numbered
    normalization batch_norm group_norm padding attention multihead recurrent recurrent_cells interpolation sampling_grid embedding_bag
    fft windows stft hashing masked sparse sparse_math sparse_products segments resizing grouped foreach fake_quantize
"""
defer(_FAMILIES.split(), {"functions": functions, "methods": methods, "records": records}, ops)

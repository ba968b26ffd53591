"""Operations: one record each, by family."""

from importlib import import_module  # noqa: I001
from typing import Any

# What tensors themselves need; bases first.
from . import basic  # noqa: F401
from .records import saved_names, inplace, out  # noqa: F401
from .pointwise import arithmetic, powers, combined, comparison  # noqa: F401
from .layout import postponed, striding, views, extents, transposes, parts, pieces  # noqa: F401
from .making import conversion, generator  # noqa: F401
from .places import writing  # noqa: F401
from .quantized import quantization  # noqa: F401
from .sparse import tensors  # noqa: F401
from .families import defer
from .registry import functions, methods, ops, records

# Families that wait for their first use, by room; bases first.
_FAMILIES = {
    "pointwise": "bounds rounding exponential trigonometric activation gates special foreach",
    "layout": "metadata view_copies shape joining resizing",
    "making": "creation ranges from_data random samples",
    "folds": "reduction extrema statistics softmax norms cumulative differences sorting distinct histogram hashing masked segments",
    "places": "selection searching indexing scatter rows embedding embedding_bag",
    "linear": "matmul matmul_add einsum factors solvers spectra norms matrix_functions grouped",
    "layers": "conv sliding pooling unpooling padding dropout normalization batch_norm group_norm attention multihead recurrent recurrent_cells interpolation sampling_grid",
    "losses": "elements distance margin classes linear sequence numbered",
    "signal": "fft windows stft",
    "sparse": "operations products",
    "quantized": "fake_quantize",
}
defer(
    (f"{room}.{family}" for room, families in _FAMILIES.items() for family in families.split()),
    {"functions": functions, "methods": methods, "records": records},
    ops,
)


def __getattr__(name: str) -> Any:
    """The classes of operators, which programs take from `torch._ops`."""
    if name not in ("HigherOrderOperator", "OpOverload", "OpOverloadPacket"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".._library.namespaces", __name__), name)

"""Masks that make weights sparse, chosen by a sparsifier and tightened by a scheduler."""

from .parametrization import FakeSparsity
from .scheduler import BaseScheduler, CubicSL, LambdaSL
from .sparsifier import BaseSparsifier, NearlyDiagonalSparsifier, WeightNormSparsifier
from .utils import (
    fqn_to_module,
    get_arg_info_from_tensor_fqn,
    get_dynamic_sparse_quantized_mapping,
    get_static_sparse_quantized_mapping,
    module_to_fqn,
)

__all__ = [
    "BaseScheduler", "BaseSparsifier", "CubicSL", "FakeSparsity", "LambdaSL", "NearlyDiagonalSparsifier",
    "WeightNormSparsifier", "fqn_to_module", "get_arg_info_from_tensor_fqn", "get_dynamic_sparse_quantized_mapping",
    "get_static_sparse_quantized_mapping", "module_to_fqn",
]  # fmt: skip

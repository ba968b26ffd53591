"""What programs take of the insides of `torch.nn.functional`, most of them with a copy of PyTorch's attention."""

import math
import warnings
from typing import Optional

from .. import _VF
from .._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3, _overload, boolean_dispatch
from .._ops.folds.softmax import implicit_dim as _implicit_dim
from .._ops.layers.multihead import canonical_mask as _canonical_mask
from .._ops.layers.multihead import check_ranks as _mha_shape_check
from .._ops.layers.multihead import in_projection as _in_projection
from .._ops.layers.multihead import in_projection_packed as _in_projection_packed
from .._ops.layers.multihead import none_or_dtype as _none_or_dtype
from .._tensor import Tensor
from ..overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)  # fmt: skip
from . import _reduction as _Reduction
from .modules.utils import _list_with_default, _pair, _single, _triple

__all__ = [
    "_VF", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Optional", "Tensor", "_Reduction",
    "_canonical_mask", "_get_softmax_dim", "_in_projection", "_in_projection_packed", "_list_with_default",
    "_mha_shape_check", "_none_or_dtype", "_overload", "_pair", "_single", "_triple", "boolean_dispatch",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "math",
    "warnings",
]  # fmt: skip


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension of a softmax that names none."""
    return _implicit_dim(name, ndim)

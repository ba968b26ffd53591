"""The functions that make tensors again from their parts, where other libraries look for them."""

from ._copying import (
    _rebuild_meta_tensor_no_storage,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
)
from ._serialization.rebuild import _rebuild_device_tensor_from_cpu_tensor, _rebuild_device_tensor_from_numpy
from .nn.parameter import _rebuild_parameter, _rebuild_parameter_with_state

__all__ = [
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_meta_tensor_no_storage",
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_sparse_tensor", "_rebuild_tensor", "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
]  # fmt: skip

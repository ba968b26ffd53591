"""The exporter's functions under the name of the module where PyTorch keeps them."""

from __future__ import annotations

from . import register_custom_op_symbolic, unregister_custom_op_symbolic
from ._export import export, is_in_onnx_export, select_model_mode_for_export

__all__ = [
    "export", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export",
    "unregister_custom_op_symbolic",
]  # fmt: skip

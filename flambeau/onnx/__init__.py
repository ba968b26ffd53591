"""Models as ONNX files: `export`, for which the package onnx is needed (pip install flambeau[onnx]), and `load`, which needs none."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from .._version import __version__
from . import errors, symbolic_helper
from ._export import ONNXProgram, custom, export, is_in_onnx_export, select_model_mode_for_export
from ._load import OnnxModule, load
from .errors import OnnxExporterError, OnnxModelError

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OnnxModelError", "OnnxModule", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode",
    "errors", "export", "is_in_onnx_export", "is_onnxrt_backend_supported", "load", "register_custom_op_symbolic",
    "select_model_mode_for_export", "symbolic_helper", "unregister_custom_op_symbolic",
]  # fmt: skip


class OperatorExportTypes(enum.IntEnum):
    """What becomes of operators; all are exported as ONNX's own."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of element types."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


producer_name, producer_version = "flambeau", __version__


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Gives an operator such as "aten::erfinv" or "mylib::op" a form from an opset version on: a function
    (g, arguments…) that adds nodes with `g.op("Name", …)` and gives their result.

    >>> import flambeau as torch
    >>> torch.onnx.register_custom_op_symbolic("mylib::twice", lambda g, x: g.op("Add", x, x), 11)
    >>> torch.onnx.unregister_custom_op_symbolic("mylib::twice", 11)
    """
    if "::" not in symbolic_name:
        raise ValueError(f"the operator {symbolic_name!r} must be given with its namespace, as in 'aten::relu'")
    custom[symbolic_name, int(opset_version)] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes back what `register_custom_op_symbolic` did."""
    custom.pop((symbolic_name, int(opset_version)), None)


def is_onnxrt_backend_supported() -> bool:
    """Never: models are not compiled with onnxruntime here."""
    return False

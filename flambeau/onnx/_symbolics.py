"""Rules by which programs say how operators are written in ONNX; they are kept for those who ask."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

symbolics: dict[tuple[str, int], Callable[..., Any]] = {}  # (operator, first opset) -> rule


class TensorProtoDataType(enum.IntEnum):
    """The numbers that ONNX has for dtypes."""

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(12)
    UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16 = range(12, 17)


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Keeps the rule for an operator "ns::name" from an opset on."""
    space, colons, name = symbolic_name.partition("::")
    if not (colons and space and name):
        raise ValueError(f"Failed to register operator {symbolic_name}: the symbolic name must be 'namespace::name'")
    symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forgets a rule."""
    symbolics.pop((symbolic_name, opset_version), None)

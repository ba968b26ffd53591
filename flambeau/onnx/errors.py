"""Errors of the exporter and of `load`."""

from __future__ import annotations

from typing import Any

__all__ = [
    "OnnxExporterError", "OnnxExporterWarning", "OnnxModelError", "SymbolicValueError", "UnsupportedOperatorError",
]  # fmt: skip


class OnnxExporterWarning(UserWarning):
    """A doubt about an exported model."""


class OnnxExporterError(RuntimeError):
    """A model that cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator without a counterpart in ONNX."""

    def __init__(self, name: str, version: int, supported_version: int | None = None):
        if supported_version is not None:
            text = f"Exporting the operator '{name}' to ONNX opset version {version} is not supported. Support for this operator was added in version {supported_version}; try exporting with it"
        else:
            text = (
                f"Exporting the operator '{name}' to ONNX opset version {version} is not supported. It can be given a "
                "meaning with torch.onnx.register_custom_op_symbolic"
            )
        super().__init__(text)


class SymbolicValueError(OnnxExporterError):
    """A value of a model that an operator in ONNX cannot take."""

    def __init__(self, msg: str, value: Any = None):
        super().__init__(msg)


class OnnxModelError(RuntimeError):
    """An ONNX file that is damaged, or that cannot be run here."""

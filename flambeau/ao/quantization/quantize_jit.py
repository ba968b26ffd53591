"""Quantization of scripted models, which PyTorch has given up; these say what to use."""

from __future__ import annotations

from typing import Any

__all__ = [
    "convert_dynamic_jit", "convert_jit", "fuse_conv_bn_jit", "prepare_dynamic_jit", "prepare_jit", "quantize_dynamic_jit",
    "quantize_jit", "script_qconfig", "script_qconfig_dict",
]  # fmt: skip


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name}: scripted models are not quantized here; quantize the model first (prepare and convert, or "
        "quantize_dynamic) and script it afterwards"
    )


def script_qconfig(qconfig: Any) -> Any:
    """Scripted observers of a qconfig; refused."""
    raise _refused("script_qconfig")


def script_qconfig_dict(qconfig_dict: Any) -> Any:
    """Scripted observers of qconfigs by name; refused."""
    raise _refused("script_qconfig_dict")


def fuse_conv_bn_jit(model: Any, inplace: bool = False) -> Any:
    """Folds batch normalisation in a scripted model; refused."""
    raise _refused("fuse_conv_bn_jit")


def prepare_jit(model: Any, qconfig_dict: Any, inplace: bool = False) -> Any:
    """Puts observers into a scripted model; refused."""
    raise _refused("prepare_jit")


def prepare_dynamic_jit(model: Any, qconfig_dict: Any, inplace: bool = False) -> Any:
    """Puts observers into a scripted model; refused."""
    raise _refused("prepare_dynamic_jit")


def convert_jit(model: Any, inplace: bool = False, debug: bool = False, preserved_attrs: Any = None) -> Any:
    """A quantized scripted model from an observed one; refused."""
    raise _refused("convert_jit")


def convert_dynamic_jit(model: Any, inplace: bool = False, debug: bool = False, preserved_attrs: Any = None) -> Any:
    """A quantized scripted model from an observed one; refused."""
    raise _refused("convert_dynamic_jit")


def quantize_jit(
    model: Any, qconfig_dict: Any, run_fn: Any, run_args: Any, inplace: bool = False, debug: bool = False
) -> Any:
    """A quantized scripted model; refused."""
    raise _refused("quantize_jit")


def quantize_dynamic_jit(model: Any, qconfig_dict: Any, inplace: bool = False, debug: bool = False) -> Any:
    """A scripted model with integer weights; refused."""
    raise _refused("quantize_dynamic_jit")

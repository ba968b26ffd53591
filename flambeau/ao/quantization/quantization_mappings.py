"""Which layer stands for which: in quantization-aware training, after `convert`, and after `quantize_dynamic`."""

from __future__ import annotations

from typing import Any

from ...nn import functional as F
from ...nn.modules import activation, batchnorm, dropout, instancenorm, normalization, rnn, sparse
from ...nn.modules import conv as _conv
from ...nn.modules.linear import Linear, NonDynamicallyQuantizableLinear
from ..nn import intrinsic, qat, quantized
from ..nn.intrinsic import qat as fused_qat
from ..nn.quantized import dynamic
from ..nn.quantized.functional_modules import FloatFunctional, QFunctional
from ..nn.quantized.modules import ConvReLU1d, ConvReLU2d, ConvReLU3d, DeQuantize, LinearReLU, Quantize
from .stubs import DeQuantStub, QuantStub

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list", "get_default_custom_config_dict", "get_default_dynamic_quant_module_mappings",
    "get_default_dynamic_sparse_quant_module_mappings", "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings", "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings", "get_default_static_sparse_quant_module_mappings",
    "get_dynamic_quant_module_class", "get_embedding_qat_module_mappings", "get_embedding_static_quant_module_mappings",
    "get_quantized_operator", "get_static_quant_module_class", "no_observer_set",
]  # fmt: skip

_SAME_NAME = (
    batchnorm.BatchNorm2d, batchnorm.BatchNorm3d, normalization.LayerNorm, normalization.GroupNorm,
    instancenorm.InstanceNorm1d, instancenorm.InstanceNorm2d, instancenorm.InstanceNorm3d, activation.ELU,
    activation.Hardswish, activation.LeakyReLU, activation.PReLU, activation.ReLU6, dropout.Dropout, Linear, _conv.Conv1d,
    _conv.Conv2d, _conv.Conv3d, _conv.ConvTranspose1d, _conv.ConvTranspose2d, _conv.ConvTranspose3d,
)  # fmt: skip
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[type, Any] = {
    QuantStub: Quantize, DeQuantStub: DeQuantize, **{kind: getattr(quantized, kind.__name__) for kind in _SAME_NAME},
    NonDynamicallyQuantizableLinear: quantized.Linear, FloatFunctional: QFunctional,
    sparse.Embedding: quantized.Embedding, sparse.EmbeddingBag: quantized.EmbeddingBag,
    intrinsic.LinearReLU: LinearReLU, intrinsic.ConvReLU1d: ConvReLU1d, intrinsic.ConvReLU2d: ConvReLU2d,
    intrinsic.ConvReLU3d: ConvReLU3d, qat.Linear: quantized.Linear, qat.Conv1d: quantized.Conv1d,
    qat.Conv2d: quantized.Conv2d, qat.Conv3d: quantized.Conv3d, qat.Embedding: quantized.Embedding,
    qat.EmbeddingBag: quantized.EmbeddingBag, fused_qat.ConvBn1d: quantized.Conv1d, fused_qat.ConvBn2d: quantized.Conv2d,
    fused_qat.ConvBn3d: quantized.Conv3d, fused_qat.ConvBnReLU1d: ConvReLU1d, fused_qat.ConvBnReLU2d: ConvReLU2d,
    fused_qat.ConvBnReLU3d: ConvReLU3d, fused_qat.ConvReLU1d: ConvReLU1d, fused_qat.ConvReLU2d: ConvReLU2d,
    fused_qat.ConvReLU3d: ConvReLU3d, fused_qat.LinearReLU: LinearReLU, fused_qat.LinearBn1d: quantized.Linear,
}  # fmt: skip
DEFAULT_QAT_MODULE_MAPPINGS: dict[type, Any] = {
    Linear: qat.Linear, NonDynamicallyQuantizableLinear: qat.Linear, _conv.Conv1d: qat.Conv1d, _conv.Conv2d: qat.Conv2d,
    _conv.Conv3d: qat.Conv3d,
    **{getattr(intrinsic, name): getattr(fused_qat, name) for name in fused_qat.__all__ if hasattr(intrinsic, name)},
}  # fmt: skip
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[type, Any] = {
    Linear: dynamic.Linear, NonDynamicallyQuantizableLinear: dynamic.Linear, rnn.LSTM: dynamic.LSTM, rnn.GRU: dynamic.GRU,
    rnn.LSTMCell: dynamic.LSTMCell, rnn.GRUCell: dynamic.GRUCell, rnn.RNNCell: dynamic.RNNCell, _conv.Conv1d: dynamic.Conv1d,
    _conv.Conv2d: dynamic.Conv2d, _conv.Conv3d: dynamic.Conv3d, _conv.ConvTranspose1d: dynamic.ConvTranspose1d,
    _conv.ConvTranspose2d: dynamic.ConvTranspose2d, _conv.ConvTranspose3d: dynamic.ConvTranspose3d,
    sparse.Embedding: quantized.Embedding, sparse.EmbeddingBag: quantized.EmbeddingBag,
}  # fmt: skip
_OPERATORS = {
    name: getattr(F, name) for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")
}
# What `prepare` puts observers behind; tables and dropped values have none.
OBSERVED = tuple(
    kind for kind in DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    if kind not in (sparse.Embedding, sparse.EmbeddingBag, qat.Embedding, qat.EmbeddingBag, dropout.Dropout, activation.ReLU6)
)  # fmt: skip


def get_default_static_quant_module_mappings() -> dict[type, Any]:
    """Which layer stands for which after `convert`."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> dict[type, Any]:
    """The same, with tables that trained."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[type, Any]:
    """Which layer stands for which in quantization-aware training."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> dict[type, Any]:
    """The same, with tables that train."""
    return {**DEFAULT_QAT_MODULE_MAPPINGS, sparse.Embedding: qat.Embedding, sparse.EmbeddingBag: qat.EmbeddingBag}


def get_default_dynamic_quant_module_mappings() -> dict[type, Any]:
    """Which layer stands for which after `quantize_dynamic`."""
    return dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def _sparse_refused() -> NotImplementedError:
    return NotImplementedError("layers with sparse integer weights are not there; use the mappings of dense ones")


def get_default_static_sparse_quant_module_mappings() -> dict[type, Any]:
    """Layers with sparse integer weights; there are none."""
    raise _sparse_refused()


def get_default_dynamic_sparse_quant_module_mappings() -> dict[type, Any]:
    """Layers with sparse integer weights; there are none."""
    raise _sparse_refused()


def get_default_static_quant_reference_module_mappings() -> dict[type, Any]:
    """Layers that show how quantized ones compute; there are none."""
    raise NotImplementedError("reference layers are not there; convert(is_reference=False) makes quantized ones")


def get_default_qconfig_propagation_list() -> set[Any]:
    """The layers that get a qconfig from the module they are in."""
    return {*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS, *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS}


def get_default_compare_output_module_list() -> set[Any]:
    """The layers whose results are worth comparing: quantized ones and those they come from."""
    tables = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)
    return {kind for table in tables for pair in table.items() for kind in pair}


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Functions on floats with those on quantized tensors; here the same functions do both."""
    return {function: function for function in _OPERATORS.values()}


def get_quantized_operator(float_op: Any) -> Any:
    """The function on quantized tensors for one on floats."""
    found = get_default_float_to_quantized_operator_mappings().get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _class_in(kind: Any, table: dict[type, Any], more: Any, what: str) -> Any:
    found = {**table, **(more or {})}.get(kind)
    if found is None:
        raise AssertionError(f"Floating point module class {kind} does not have a corresponding {what} module class")
    return found


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None, is_reference: bool = False
) -> Any:
    """What stands for a class after `convert`.

    >>> import flambeau as torch
    >>> torch.ao.quantization.get_static_quant_module_class(torch.nn.Linear).__name__
    'Linear'
    """
    if is_reference:
        get_default_static_quant_reference_module_mappings()
    return _class_in(
        float_module_class, DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, additional_static_quant_mapping, "quantized"
    )


def get_dynamic_quant_module_class(float_module_class: Any, additional_dynamic_quant_mapping: Any = None) -> Any:
    """What stands for a class after `quantize_dynamic`."""
    table = DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    return _class_in(float_module_class, table, additional_dynamic_quant_mapping, "dynamic quantized")


def get_default_custom_config_dict() -> dict[str, Any]:
    """Classes that are observed and quantized in ways of their own; there are none."""
    return {"float_to_observed_custom_module_class": {}, "observed_to_quantized_custom_module_class": {}}


def no_observer_set() -> set[Any]:
    """Classes that get no observers although they are converted."""
    return {sparse.Embedding, sparse.EmbeddingBag}

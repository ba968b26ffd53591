"""Quantization of models: observers, fake quantizers, and the ways from a float model to a quantized one."""

from . import fake_quantize, observer, qconfig, stubs
from .fake_quantize import *  # noqa: F403
from .fuse_modules import fuse_modules, fuse_modules_qat
from .observer import *  # noqa: F403
from .qconfig import *  # noqa: F403
from .quantize import *  # noqa: F403
from .stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = [  # noqa: F405
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FixedQParamsObserver",
    "FusedMovingAvgObsFakeQuantize", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "QConfig", "QConfigAny", "QConfigDynamic", "QuantStub", "QuantWrapper", "RecordingObserver",
    "ReuseInputObserver", "UniformQuantizationObserverBase", "add_quant_dequant", "convert",
    "default_activation_only_qconfig", "default_affine_fixed_qparams_fake_quant",
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_debug_qconfig",
    "default_dynamic_fake_quant", "default_dynamic_qat_qconfig", "default_dynamic_qconfig",
    "default_dynamic_quant_observer", "default_embedding_qat_qconfig", "default_eval_fn", "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant", "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant", "default_histogram_fake_quant", "default_histogram_observer", "default_observer",
    "default_per_channel_qconfig", "default_per_channel_symmetric_qnnpack_qconfig",
    "default_per_channel_weight_fake_quant", "default_per_channel_weight_observer", "default_placeholder_observer",
    "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_observer", "default_reuse_input_qconfig", "default_symmetric_fixed_qparams_fake_quant",
    "default_symmetric_fixed_qparams_observer", "default_symmetric_qnnpack_qconfig", "default_weight_fake_quant",
    "default_weight_observer", "default_weight_only_qconfig", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer", "fake_quantize", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "fuse_modules", "fuse_modules_qat",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127", "fused_wt_fake_quant_range_neg_127_to_127",
    "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict",
    "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings", "get_observer_state_dict",
    "is_quantized_type", "load_observer_state_dict", "observer", "per_channel_dynamic_qconfig",
    "per_channel_weight_observer_range_neg_127_to_127", "prepare", "prepare_qat", "propagate_qconfig_", "qconfig",
    "quantize", "quantize_dynamic", "quantize_qat", "stubs", "swap_module", "weight_observer_range_neg_127_to_127",
]  # fmt: skip

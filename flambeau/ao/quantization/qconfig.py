"""`QConfig`: which observers (or fake quantizers) activations and weights of a module get."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from ..._core.dtypes import float16, float32, qint8, quint8
from ..._core.quantizers import per_channel_affine_float_qparams
from ...nn.modules.linear import Identity
from ...nn.modules.module import Module
from . import fake_quantize as fakes
from . import observer as observers

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qat_qconfig", "default_dynamic_qconfig", "default_embedding_qat_qconfig",
    "default_per_channel_qconfig", "default_per_channel_symmetric_qnnpack_qconfig", "default_qat_qconfig",
    "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig", "default_reuse_input_qconfig",
    "default_symmetric_qnnpack_qconfig", "default_weight_only_qconfig", "float16_dynamic_qconfig",
    "float16_static_qconfig", "float_qparams_weight_only_qconfig", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict", "per_channel_dynamic_qconfig",
    "qconfig_equals",
]  # fmt: skip


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """Makers of the observers of a module's results and of its weight.

    >>> from flambeau.ao.quantization import MinMaxObserver, QConfig, default_weight_observer
    >>> QConfig(activation=MinMaxObserver, weight=default_weight_observer).activation.__name__
    'MinMaxObserver'
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError("QConfig takes makers of observers, not observers; use MyObserver.with_args(x=1)")
        return super().__new__(cls, activation, weight)


class QConfigDynamic(_Pair):
    """The older form for dynamic quantization."""

    __slots__ = ()

    def __new__(cls, activation: Any = Identity, weight: Any = Identity) -> QConfigDynamic:
        warnings.warn(
            "QConfigDynamic is going to be deprecated in PyTorch 1.12, please use QConfig instead", stacklevel=2
        )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

default_qconfig = QConfig(observers.default_observer, observers.default_weight_observer)
default_debug_qconfig = QConfig(observers.default_debug_observer, observers.default_weight_observer)
default_per_channel_qconfig = QConfig(observers.default_observer, observers.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(observers.default_dynamic_quant_observer, observers.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    observers.PlaceholderObserver.with_args(dtype=float16, is_dynamic=True),
    observers.PlaceholderObserver.with_args(dtype=float16),
)
float16_static_qconfig = QConfig(
    observers.PlaceholderObserver.with_args(dtype=float16), observers.PlaceholderObserver.with_args(dtype=float16)
)
per_channel_dynamic_qconfig = QConfig(
    observers.default_dynamic_quant_observer, observers.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    observers.default_placeholder_observer, observers.default_float_qparams_observer
)
default_qat_qconfig = QConfig(fakes.default_fake_quant, fakes.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fakes.default_dynamic_fake_quant, fakes.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, fakes.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fakes.default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(fakes.default_fused_act_fake_quant, fakes.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(observers.default_reuse_input_observer, observers.NoopObserver)
default_quint8_weight_qconfig = QConfig(observers.HistogramObserver, observers.MinMaxObserver)
default_embedding_qat_qconfig = QConfig(
    observers.NoopObserver.with_args(dtype=float32),
    fakes.FakeQuantize.with_args(
        observer=observers.MovingAveragePerChannelMinMaxObserver,
        qscheme=per_channel_affine_float_qparams, dtype=quint8, quant_min=0, quant_max=255, ch_axis=0,
        averaging_constant=1,
    ),
)  # fmt: skip
default_symmetric_qnnpack_qconfig = QConfig(
    observers.HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12),
    observers.weight_observer_range_neg_127_to_127,
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    observers.HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12),
    observers.per_channel_weight_observer_range_neg_127_to_127,
)

# Which engines leave one bit of activations free, and which quantize weights as a whole.
_REDUCED, _WHOLE = ("fbgemm", "x86"), ("qnnpack",)
_ENGINES = ("fbgemm", "x86", "qnnpack", "onednn")


def _check_engine(backend: str) -> None:
    if backend not in _ENGINES:
        raise AssertionError(f"backend {backend!r} is not supported; choose one of {', '.join(_ENGINES)}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The usual observers for quantization after training, by the engine's name."""
    _check_engine(backend)
    activation = observers.HistogramObserver.with_args(reduce_range=backend in _REDUCED)
    by_channel = observers.default_per_channel_weight_observer
    return QConfig(activation, observers.default_weight_observer if backend in _WHOLE else by_channel)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The usual fake quantizers for quantization-aware training, by the engine's name."""
    _check_engine(backend)
    whole = backend in _WHOLE
    if version == 0:
        activation = fakes.FakeQuantize.with_args(
            observer=observers.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=backend in _REDUCED
        )
        return QConfig(
            activation, fakes.default_weight_fake_quant if whole else fakes.default_per_channel_weight_fake_quant
        )
    named = {} if backend == "onednn" else {"reduce_range": backend in _REDUCED}
    activation = fakes.FusedMovingAvgObsFakeQuantize.with_args(
        observer=observers.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **named
    )
    return QConfig(
        activation, fakes.default_fused_wt_fake_quant if whole else fakes.default_fused_per_channel_wt_fake_quant
    )


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """The default mapping as a dict of its parts, "" for all modules."""
    from .qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """The default mapping of training as a dict of its parts, "" for all modules."""
    from .qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two qconfigs make the same observers.

    >>> from flambeau.ao.quantization import get_default_qconfig, qconfig_equals
    >>> qconfig_equals(get_default_qconfig("x86"), get_default_qconfig("x86"))
    True
    """
    if q1 is None or q2 is None:
        return q1 is q2
    return all(_same_maker(getattr(q1, part), getattr(q2, part)) for part in ("activation", "weight"))


def _same_maker(first: Any, second: Any) -> bool:
    if isinstance(first, observers._PartialWrapper) and isinstance(second, observers._PartialWrapper):
        return first.p.func is second.p.func and first.p.keywords == second.p.keywords
    return bool(first == second)

"""Modules that round values as quantization will, so that a model can be trained for it."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import int32, int64, qint8, quint4x2, quint8, uint8
from ..._core.quantizers import (
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.module import Module
from .observer import (
    BY_CHANNEL,
    SYMMETRIC,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    ResizedBuffers,
    WithArgs,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant", "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant",
    "default_histogram_fake_quant", "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant", "default_weight_fake_quant", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer", "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip


class FakeQuantizeBase(WithArgs, Module):
    """Base of modules that round; observing and rounding are switched on and off apart."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", ops.tensor([1], dtype=uint8))
        self.register_buffer("observer_enabled", ops.tensor([1], dtype=uint8))

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point)."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Rounds from now on, or not."""
        self.fake_quant_enabled.fill_(1 if enabled else 0)

    def disable_fake_quant(self) -> None:
        """Rounds no more."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Looks at values from now on, or not."""
        self.observer_enabled.fill_(1 if enabled else 0)

    def disable_observer(self) -> None:
        """Looks at values no more: scale and zero point stay."""
        self.enable_observer(False)


class FakeQuantize(ResizedBuffers, FakeQuantizeBase):
    """Rounds values to those that integers from quant_min to quant_max stand for, as an observer chooses them.

    >>> import flambeau as torch
    >>> fake = torch.ao.quantization.FakeQuantize(quant_min=0, quant_max=3)
    >>> fake(torch.tensor([0.0, 0.4, 3.0]))
    tensor([0., 0., 3.])
    """

    scale: Tensor
    zero_point: Tensor
    _resized = ("scale", "zero_point")

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError(f"quant_min {quant_min} must be at most quant_max {quant_max}")
            wanted = observer_kwargs.get("dtype", quint8)
            if observer_kwargs.get("reduce_range") and wanted is quint8 and (quant_min, quant_max) == (0, 255):
                quant_max = 127
            observer_kwargs.pop("reduce_range", None)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.activation_post_process = observer(is_dynamic=is_dynamic, **observer_kwargs)
        watched = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = watched.quant_min, watched.quant_max, is_dynamic
        self.register_buffer("scale", ops.tensor([1.0]))
        self.register_buffer("zero_point", ops.tensor([0], dtype=int32))
        self.dtype, self.qscheme = watched.dtype, watched.qscheme
        self.ch_axis = watched.ch_axis if hasattr(watched, "ch_axis") else -1
        self.is_per_channel = self.qscheme in BY_CHANNEL

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """(scale, zero point) that the observer chose."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled.item():
            self.activation_post_process(X.detach())
            self._keep(*self.calculate_qparams())
        if not self.fake_quant_enabled.item():
            return X
        if self.is_per_channel:
            return ops.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return ops.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds with a scale and a zero point that are known from the start."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        self._keep(self.activation_post_process.scale, self.activation_post_process.zero_point)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The scale and the zero point."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Observes with moving averages and rounds in one operation."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        self.reduce_range = bool(observer_kwargs.get("reduce_range", False))
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        ):
            raise AssertionError("FusedMovingAvgObsFakeQuantize takes moving average observers only")
        self.register_buffer("fake_quant_enabled", ops.tensor([1], dtype=int64))
        self.register_buffer("observer_enabled", ops.tensor([1], dtype=int64))
        self.is_symmetric_quant = self.qscheme in SYMMETRIC

    def forward(self, X: Tensor) -> Tensor:
        watched = self.activation_post_process
        return ops.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, watched.min_val, watched.max_val, self.scale,
            self.zero_point, watched.averaging_constant, self.quant_min, self.quant_max, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.quant_min}, quant_max={self.quant_max}, "
            f"qscheme={self.qscheme}, reduce_range={self.reduce_range}"
        )


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8, qscheme=per_tensor_affine,
    reduce_range=True,
)  # fmt: skip
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric,
    reduce_range=False,
)  # fmt: skip
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=0,
    quant_max=255,
    is_dynamic=True,
    dtype=quint8,
    averaging_constant=1,
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric, reduce_range=False, ch_axis=0,
)  # fmt: skip
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=quint8, qscheme=per_tensor_affine, reduce_range=True
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams, dtype=quint8,
    quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1,
)  # fmt: skip
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams, ch_axis=0, dtype=quint4x2,
    averaging_constant=1,
)  # fmt: skip
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric,
)  # fmt: skip
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric,
    eps=2**-12,
)  # fmt: skip
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-127, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric, eps=2**-12,
)  # fmt: skip


def _is_fake_quant(mod: Module) -> bool:
    return isinstance(mod, FakeQuantizeBase)


def disable_fake_quant(mod: Module) -> None:
    """For `model.apply`: such modules round no more."""
    if _is_fake_quant(mod):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Module) -> None:
    """For `model.apply`: such modules round."""
    if _is_fake_quant(mod):
        mod.enable_fake_quant()


def disable_observer(mod: Module) -> None:
    """For `model.apply`: such modules keep their scale."""
    if _is_fake_quant(mod):
        mod.disable_observer()


def enable_observer(mod: Module) -> None:
    """For `model.apply`: such modules choose their scale anew."""
    if _is_fake_quant(mod):
        mod.enable_observer()

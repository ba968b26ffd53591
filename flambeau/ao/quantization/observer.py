"""Observers: modules that look at values and choose a scale and a zero point for them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from ..._core.dtypes import (
    QUANTIZED,
    dtype,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint32,
    quint4x2,
    quint8,
    uint8,
)
from ..._core.quantizers import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from ..._ops.making.conversion import host_array
from ..._ops.registry import ops
from ..._tensor import Tensor, wrap
from ...nn.modules.module import Module

__all__ = [
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase",
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer",
    "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_observer_state_dict",
    "is_quantized_type", "load_observer_state_dict", "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]  # fmt: skip

_EPSILON = float(np.finfo(np.float32).eps)
BY_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)
SYMMETRIC = (per_tensor_symmetric, per_channel_symmetric)
_RANGES = {
    quint8: (0, 255), quint4x2: (0, 15), uint8: (0, 255), qint8: (-128, 127), int8: (-128, 127), int16: (-(2**15), 2**15 - 1),
    qint32: (-(2**31), 2**31 - 1), int32: (-(2**31), 2**31 - 1),
}  # fmt: skip


class _PartialWrapper:
    """A class with some of its arguments; `with_args` adds more."""

    def __init__(self, made: partial[Any]):
        self.p = made
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        given = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **given, **keywords)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **named: Any) -> _PartialWrapper:
        """The same with further arguments."""
        made = _PartialWrapper(partial(self.p, **named))
        made.callable_args = dict(self.callable_args)
        return made

    def with_callable_args(self, **named: Any) -> _PartialWrapper:
        """The same with arguments that are made anew for each object."""
        made = _PartialWrapper(partial(self.p))
        made.callable_args = {**self.callable_args, **named}
        return made


def _before_options_of(
    base: type[Module], leave_out: tuple[str, ...] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates an `__init__` whose own arguments stand before those of a base class.

    The body finds all of the base's options, given or not, in `options`; `defaults` are those that differ here.
    """

    def decorate(initialize: Callable[..., None]) -> Callable[..., None]:
        *own, _ = inspect.signature(initialize).parameters.values()
        names = [p.name for p in own]
        theirs = [
            p.replace(default=defaults.get(p.name, p.default))
            for p in list(inspect.signature(base.__init__).parameters.values())[1:]
            if p.name not in leave_out
        ]
        signature = inspect.Signature([*own, *theirs], return_annotation=None)

        @wraps(initialize)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            options = {**given.arguments, **given.arguments["kwargs"]}
            del options["kwargs"]
            first = [options.pop(name) for name in names]
            initialize(*first, **options)

        wrapped.__signature__ = signature  # type: ignore[attr-defined]
        return wrapped

    return decorate


class WithArgs:
    """Gives a class `with_args`: a maker of its objects that knows some of the arguments."""

    @classmethod
    def with_args(cls, **named: Any) -> _PartialWrapper:
        """A maker of such objects with these arguments.

        >>> from flambeau.ao.quantization import MinMaxObserver
        >>> MinMaxObserver.with_args(quant_min=0, quant_max=127)().quant_max
        127
        """
        return _PartialWrapper(partial(cls, **named))

    @classmethod
    def with_callable_args(cls, **named: Any) -> _PartialWrapper:
        """A maker of such objects, whose arguments are made anew for each."""
        return _PartialWrapper(partial(cls)).with_callable_args(**named)


class ObserverBase(WithArgs, Module):
    """Base of observers: `forward` looks at a tensor and gives it back, `calculate_qparams` tells what was found."""

    def __init__(self, dtype: dtype, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point)."""
        raise NotImplementedError


class ResizedBuffers(Module):
    """A module with buffers that have one entry, or one for each channel: their sizes are known only later."""

    _resized: tuple[str, str]

    def _keep(self, *values: Tensor) -> None:
        for name, value in zip(self._resized, values):
            held = getattr(self, name)
            if held.shape == value.shape:
                held.copy_(value)
            else:
                setattr(self, name, value.to(held.dtype).clone())

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in self._resized:
            if prefix + name in state_dict:
                setattr(self, name, ops.empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *args)


class UniformQuantizationObserverBase(ObserverBase):
    """Base of observers that choose one distance between neighbouring values, by the smallest and largest seen."""

    eps: Tensor
    min_val: Tensor
    max_val: Tensor
    ch_axis: int = -1

    def __init__(
        self,
        dtype: dtype = quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = _EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        if dtype not in _RANGES:
            raise AssertionError(f"{type(self).__name__} is for quantized or integer dtypes, not {dtype}")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        if reduce_range:
            warnings.warn(
                "reduce_range leaves one bit free, which only some CPUs need; set quant_min and quant_max instead",
                stacklevel=2,
            )
        self.register_buffer("eps", ops.tensor([eps], dtype=float32))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            self.quant_min, self.quant_max = quant_min, quant_max
            if not quant_min <= 0 <= quant_max or quant_min >= quant_max:  # type: ignore[operator]
                raise AssertionError(f"the range from quant_min {quant_min} to quant_max {quant_max} must include zero")
        else:
            low, high = _RANGES[dtype]
            if reduce_range:
                low, high = low // 2, high // 2
            self.quant_min, self.quant_max = low, high

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        low, high = np.atleast_1d(min_val._array), np.atleast_1d(max_val._array)
        if not low.size or bool((np.isinf(low) & np.isinf(high)).any()):
            warnings.warn(
                "must run observer before calling calculate_qparams; scale 1 and zero point 0 are given", stacklevel=3
            )
            return ops.tensor([1.0]), ops.tensor([0])
        qmin, qmax = self.quant_min, self.quant_max
        eps = np.float32(self.eps.item())
        below, above = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
        if self.qscheme in SYMMETRIC:
            largest = np.maximum(-below, above)
            scale = np.maximum(largest / np.float32((qmax - qmin) / 2), eps)
            middle = 0
            if self.dtype in (quint8, uint8):
                middle = (qmin + qmax) // 2 if self.has_customized_qrange else 128
            return wrap(scale, float32), wrap(np.full(scale.shape, middle, np.int64), int64)
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (high - low) / np.float32(qmax - qmin)
            scale = np.where(scale > eps, scale, np.float32(1))
            return wrap(scale, float32), wrap(-low / scale, float32)
        scale = np.maximum((above - below) / np.float32(qmax - qmin), eps)
        zero = np.clip(qmin - np.rint(below / scale).astype(np.int32), qmin, qmax)
        return wrap(scale, float32), wrap(zero.astype(np.int32), int32)

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        raise NotImplementedError


class MinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the smallest and the largest value of all tensors it saw.

    >>> import flambeau as torch
    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> _ = observer(torch.tensor([-1.0, 4.1]))
    >>> observer.calculate_qparams()
    (tensor([0.0200]), tensor([50], dtype=torch.int32))
    """

    @_before_options_of(UniformQuantizationObserverBase)
    def __init__(self, **options: Any) -> None:
        if options["qscheme"] in BY_CHANNEL:
            raise NotImplementedError(
                f"{type(self).__name__} is for whole tensors; {options['qscheme']} needs PerChannelMinMaxObserver"
            )
        super().__init__(**options)
        self.register_buffer("min_val", ops.tensor(float("inf")))
        self.register_buffer("max_val", ops.tensor(float("-inf")))

    def _seen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest and the largest value of one tensor."""
        return ops.aminmax(x)

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """These, and those of the tensors before."""
        return ops.minimum(low, self.min_val), ops.maximum(high, self.max_val)

    def _keep(self, low: Tensor, high: Tensor) -> None:
        self.min_val.copy_(low)
        self.max_val.copy_(high)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            self._keep(*self._merged(*self._seen(x_orig.detach().to(self.min_val.dtype))))
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """(scale, zero point) for the values seen so far."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.item()}, max_val={self.max_val.item()}"

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


def _averaged(observer: Any, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Moving averages of the smallest and the largest value, which the observer holds."""
    rate = observer.averaging_constant
    return observer.min_val + rate * (low - observer.min_val), observer.max_val + rate * (high - observer.max_val)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Keeps moving averages of the smallest and the largest value.

    >>> import flambeau as torch
    >>> observer = torch.ao.quantization.MovingAverageMinMaxObserver(averaging_constant=0.5)
    >>> _ = observer(torch.tensor([-1.0, 2.0])), observer(torch.tensor([-3.0, 4.0]))
    >>> observer.min_val, observer.max_val
    (tensor(-2.), tensor(3.))
    """

    @_before_options_of(UniformQuantizationObserverBase, leave_out=("factory_kwargs",))
    def __init__(self, averaging_constant: float = 0.01, **options: Any) -> None:
        if options["is_dynamic"] and averaging_constant != 1:
            raise NotImplementedError("a dynamic observer looks at each tensor anew: averaging_constant must be 1")
        self.averaging_constant = averaging_constant
        super().__init__(**options)

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return _averaged(self, low, high) if self.min_val.item() != float("inf") else (low, high)


class PerChannelMinMaxObserver(ResizedBuffers, UniformQuantizationObserverBase):
    """Keeps the smallest and the largest value for each index of dimension `ch_axis`.

    >>> import flambeau as torch
    >>> observer = torch.ao.quantization.PerChannelMinMaxObserver(ch_axis=0)
    >>> _ = observer(torch.tensor([[-1.0, 2.0], [0.0, 5.0]]))
    >>> observer.min_val, observer.max_val
    (tensor([-1.,  0.]), tensor([2., 5.]))
    """

    _resized = ("min_val", "max_val")

    @_before_options_of(UniformQuantizationObserverBase, qscheme=per_channel_affine)
    def __init__(self, ch_axis: int = 0, **options: Any) -> None:
        if options["qscheme"] not in BY_CHANNEL:
            raise NotImplementedError(f"{type(self).__name__} is by channel; {options['qscheme']} needs MinMaxObserver")
        if options["is_dynamic"]:
            raise NotImplementedError("PerChannelMinMaxObserver cannot be dynamic")
        super().__init__(**options)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", ops.tensor([]))
        self.register_buffer("max_val", ops.tensor([]))

    def _seen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = ops.flatten(ops.movedim(x, self.ch_axis, 0), 1) if x.dim() > 1 else x.unsqueeze(1)
        return ops.aminmax(rows, dim=1)

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return ops.minimum(low, self.min_val), ops.maximum(high, self.max_val)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            found = self._seen(x_orig.detach().to(self.min_val.dtype))
            self._keep(*(self._merged(*found) if self.min_val.numel() else found))
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """(scales, zero points) for the values seen so far."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        self.min_val, self.max_val = ops.tensor([]), ops.tensor([])


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Keeps moving averages of the smallest and the largest value for each channel."""

    @_before_options_of(PerChannelMinMaxObserver, leave_out=("factory_kwargs",))
    def __init__(self, averaging_constant: float = 0.01, **options: Any) -> None:
        super().__init__(**options)
        self.averaging_constant = averaging_constant

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return _averaged(self, low, high)


_PARTS = 16  # of a bin whose count goes to other bins
_SHARE = 1e-5  # of the values that are left out at a time


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 1.0, low + 1.0)


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts values in bins, and chooses the bounds between which rounding loses least (in squares)."""

    histogram: Tensor

    @_before_options_of(UniformQuantizationObserverBase)
    def __init__(self, bins: int = 2048, **options: Any) -> None:
        if options["qscheme"] in BY_CHANNEL:
            raise NotImplementedError("HistogramObserver is for whole tensors")
        if options["is_dynamic"]:
            raise NotImplementedError("HistogramObserver cannot be dynamic")
        super().__init__(**options)
        self.bins = bins
        self.register_buffer("histogram", ops.zeros(bins))
        self.register_buffer("min_val", ops.tensor(float("inf")))
        self.register_buffer("max_val", ops.tensor(float("-inf")))

    def forward(self, x_orig: Tensor) -> Tensor:
        if not x_orig.numel():
            return x_orig
        x = host_array(x_orig.detach().to(float32)).reshape(-1)
        low, high = min(float(x.min()), self.min_val.item()), max(float(x.max()), self.max_val.item())
        counts = np.histogram(x, self.bins, _widened(low, high))[0].astype(np.float32)
        held = host_array(self.histogram)
        if held.any():
            counts += self._moved(held, low, high)
        self.histogram.copy_(wrap(counts, float32))
        self.min_val.fill_(low)
        self.max_val.fill_(high)
        return x_orig

    def _moved(self, held: Any, low: float, high: float) -> Any:
        """The counts so far in bins of new bounds: each old bin is cut into parts, which go where their middles lie."""
        before = self.min_val.item(), self.max_val.item()
        if before == (low, high):
            return held
        if before[0] == before[1]:
            return np.histogram(before[0], self.bins, (low, high))[0] * held.sum()
        edges = np.linspace(*before, self.bins * _PARTS + 1, dtype=np.float32)
        middles = edges[:-1] + np.float32((before[1] - before[0]) / (self.bins * _PARTS) / 2)
        return np.histogram(middles, self.bins, (low, high), weights=np.repeat(held / _PARTS, _PARTS))[0]

    def _error(self, counts: Any, width: float, first: int, last: int) -> float:
        """What rounding to the middles of equal steps between two bins loses, in squares; values are taken to be
        spread evenly in their bins, and those outside are rounded to the nearest step."""
        levels = 2 ** (8 * self.dtype.itemsize)
        step = width * (last - first + 1) / levels
        if not step:
            return 0.0
        begin = (np.arange(self.bins) - first) * width
        end = begin + width
        steps = [np.clip(np.floor(place / step), 0, levels - 1) for place in (begin, end)]
        half = step / 2
        cubes = half**3 - (begin - (steps[0] * step + half)) ** 3  # up to the end of the first step
        cubes += (steps[1] - steps[0] - 1) * 2 * half**3
        cubes += (end - (steps[1] * step + half)) ** 3 + half**3  # from the beginning of the last
        return float((counts / width * cubes / 3).sum())

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """The bounds to use: bins are left out, from the side where more bins hold a hundred-thousandth of the values,
        until rounding loses more than before."""
        low, high = self.min_val.item(), self.max_val.item()
        counts = host_array(self.histogram).astype(np.float64)
        width, total, sums = (high - low) / self.bins, counts.sum(), counts.cumsum()
        left, right, first, last, least = 0.0, 1.0, 0, self.bins - 1, np.inf
        while left < right:
            more, less = left + _SHARE, right - _SHARE
            to_first = min(max(first, int(np.searchsorted(sums, more * total))), last)
            to_last = max(min(last, int(np.searchsorted(sums, less * total, "right")) - 1), first)
            if to_first - first > last - to_last:
                bounds, left = (to_first, last), more
            else:
                bounds, right = (first, to_last), less
            if bounds == (first, last):
                continue
            error = self._error(counts, width, *bounds)
            if error > least:
                break
            least, (first, last) = error, bounds
        return ops.tensor(low + width * first), ops.tensor(low + width * (last + 1))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """(scale, zero point) for the bounds that lose least."""
        if self.min_val.item() >= self.max_val.item():
            return self._calculate_qparams(self.min_val, self.max_val)
        return self._calculate_qparams(*self._non_linear_param_search())

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.item()}, max_val={self.max_val.item()}"

    def reset_min_max_vals(self) -> None:
        self.histogram.zero_()
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


class FixedQParamsObserver(ObserverBase):
    """Has a scale and a zero point from the start, for values whose range is known."""

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: dtype = quint8,
        qscheme: qscheme = per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver cannot be dynamic")
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", ops.tensor([scale], dtype=float32))
        self.register_buffer("zero_point", ops.tensor([zero_point], dtype=int32))

    scale: Tensor
    zero_point: Tensor

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The scale and the zero point it was made with."""
        return self.scale, self.zero_point


class _Choiceless(ObserverBase):
    """Gives values back and chooses no scale for them."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise RuntimeError(f"calculate_qparams should not be called for {type(self).__name__}")


class PlaceholderObserver(_Choiceless):
    """Looks at nothing: says only which dtype is wanted, where the scale is chosen while the model runs."""

    def __init__(
        self,
        dtype: dtype = float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: qscheme | None = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.qscheme = per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max, self.eps, self.custom_op = quant_min, quant_max, eps, custom_op_name

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class NoopObserver(_Choiceless):
    """Looks at nothing, for values that are not quantized."""

    def __init__(self, dtype: dtype = float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Choiceless):
    """Stands for the observer of the input, for operations that keep its scale."""

    def __init__(self) -> None:
        super().__init__(quint8)


class RecordingObserver(_Choiceless):
    """Keeps every tensor it saw, for people to look at them; chooses nothing."""

    def __init__(self, dtype: dtype = quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        """What was seen."""
        return self.tensor_val


def is_quantized_type(d: Any) -> bool:
    """Whether values of a dtype are integers with a scale."""
    return d in QUANTIZED or d in _RANGES


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=qint8, qscheme=per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """The part of a model's state that belongs to observers."""
    return {key: value for key, value in mod.state_dict().items() if "activation_post_process" in key}


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Gives observers a state that `get_observer_state_dict` made."""
    mod.load_state_dict(obs_dict, strict=False)

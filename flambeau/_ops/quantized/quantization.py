"""Quantized tensors: integers with a scale and a zero point, and the few operations that they take part in.

The array of such a tensor is a `QuantizedArray`, which carries its quantizer; the bit QUANTIZED in `_k` sends every
operation through `_handle`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._backend.quantized import dequantize as dequantized_array
from ..._backend.quantized import quantize as quantized_array
from ..._core.devices import CPU
from ..._core.dtypes import dtype, float16, float32, float64, int8, int32, int64, qint8, qint32, quint8, uint8
from ..._core.printing import tensor_repr
from ..._core.quantizers import (
    LIMITS,
    Quantizer,
    choose_scale,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_tensor_affine,
    qscheme,
)
from ..._core.state import CUDA, META, QUANTIZED, modes
from ..._dispatch import handlers, tensors_in
from ..._tensor import Tensor, wrap
from ..records.rules import type_name
from ..registry import expose, ops, public

_INTEGERS = {quint8: uint8, qint8: int8, qint32: int32}
_QUANTIZED_OF = {integer: d for d, integer in _INTEGERS.items()}


class QuantizedArray(np.ndarray[Any, Any]):
    """Integers in memory, and the quantizer that says which numbers they stand for."""

    quantizer: Quantizer
    packed: Any = None  # what `quantized_linear` made of it

    def __array_finalize__(self, source: Any) -> None:
        self.quantizer = getattr(source, "quantizer", None)  # type: ignore[assignment]

    def dequantized(self) -> Any:
        """The numbers as a float32 array."""
        return dequantized_array(self.integers(), self.quantizer)

    def integers(self) -> Any:
        """The same memory as a plain array."""
        return self.view(np.ndarray)


def with_quantizer(array: Any, quantizer: Quantizer) -> Any:
    """The array of a quantized tensor."""
    modes.overrides |= QUANTIZED  # from now on public functions ask `take_over`
    made = array.view(QuantizedArray)
    made.quantizer = quantizer
    return made


def quantized(array: Any, d: dtype, quantizer: Quantizer) -> Tensor:
    """A tensor of integers that stand for numbers."""
    return wrap(with_quantizer(array, quantizer), d, QUANTIZED)


def _expect(name: str, t: Any) -> Any:
    if not t._k & QUANTIZED:
        raise NotImplementedError(f"{name}: expected a quantized tensor, got {t.dtype}; quantize_per_tensor makes one")
    return t._array


def _check_input(input: Any, d: dtype) -> None:
    if input.dtype is not float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {type_name(input.dtype)}")
    if input._k & (CUDA | META):
        raise NotImplementedError("quantized tensors are only implemented on the CPU")
    if d not in _INTEGERS:
        raise RuntimeError(f"ScalarType {type_name(d)} is not supported; use quint8, qint8 or qint32")


def _check_zero_point(zero_point: Any, d: dtype) -> None:
    low, high = LIMITS[d]
    least, largest = (zero_point, zero_point) if isinstance(zero_point, int) else (zero_point.min(), zero_point.max())
    if largest > high:
        raise RuntimeError(f"quantize: zero_point {zero_point} is above upper bound {high} of {d}")
    if least < low:
        raise RuntimeError(f"quantize: zero_point {zero_point} is below lower bound {low} of {d}")


# -- making them ---------------------------------------------------------------------------------------------------


@public(method=False)
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """A tensor rounded to integers: value ≈ (integer - zero_point) * scale. A list of tensors takes lists of both.

    >>> import flambeau as torch
    >>> q = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 0.1, 10, torch.quint8)
    >>> q.int_repr()
    tensor([ 0, 10, 30], dtype=torch.uint8)
    """
    if isinstance(input, (list, tuple)):
        return tuple(
            quantize_per_tensor(t, s, z, dtype) for t, s, z in zip(input, _numbers(scale), _numbers(zero_point))
        )
    scale = float(scale.item()) if isinstance(scale, Tensor) else float(scale)
    zero_point = int(zero_point.item()) if isinstance(zero_point, Tensor) else int(zero_point)
    _check_input(input, dtype)
    _check_zero_point(zero_point, dtype)
    quantizer = Quantizer(per_tensor_affine, scale, zero_point)
    return quantized(quantized_array(input._array, quantizer, dtype), dtype, quantizer)


def _numbers(values: Any) -> Any:
    return values.tolist() if isinstance(values, Tensor) else values


def _range(t: Tensor) -> tuple[float, float]:
    array = t._array
    return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


@public(method=False)
def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Tensor:
    """A tensor rounded to integers with a scale that just fits its values; `reduce_range` leaves one bit free."""
    if dtype is float16:
        return ops.to(input, float16)
    if dtype not in (quint8, qint8):
        raise RuntimeError(f"dtype {dtype} not supported; use quint8, qint8 or float16")
    low, high = LIMITS[dtype]
    if reduce_range:
        low, high = low // 2, high // 2
    scale, zero_point = choose_scale(*_range(input), low, high)
    return quantize_per_tensor(input, scale, zero_point, dtype)


@public(method=False)
def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> Tensor:
    """A tensor rounded to integers, with a scale and a zero point for each index of dimension `axis`."""
    _check_input(input, dtype)
    quantizer = _channels(input._array.shape, scales, zero_points, axis)
    if quantizer.scheme is per_channel_affine and quantizer.zero_point.size:
        _check_zero_point(quantizer.zero_point, dtype)
    return quantized(quantized_array(input._array, quantizer, dtype), dtype, quantizer)


def _channels(shape: Any, scales: Tensor, zero_points: Tensor, axis: int) -> Quantizer:
    if not 0 <= axis < len(shape):
        raise RuntimeError(f"Channel axis out of range: got {axis}, expected [0, {len(shape)})")
    for name, t in (("scales", scales), ("zero_points", zero_points)):
        if t._array.shape != (shape[axis],):
            raise RuntimeError(f"length of {name} must equal to channel, expected {shape[axis]} got, {t._array.size}")
    if zero_points.dtype.is_floating_point:
        given = scales._array.astype(np.float32), zero_points._array.astype(np.float32)
        return Quantizer(per_channel_affine_float_qparams, *given, axis)
    return Quantizer(per_channel_affine, scales._array.astype(np.float64), zero_points._array.astype(np.int64), axis)


@public("_make_per_tensor_quantized_tensor", method=False)
def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """A quantized tensor of given integers."""
    quantizer = Quantizer(per_tensor_affine, float(scale), int(zero_point))
    return quantized(input._array.copy(), _QUANTIZED_OF[input.dtype], quantizer)


@public("_make_per_channel_quantized_tensor", method=False)
def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor:
    """A quantized tensor of given integers, with a scale for each channel."""
    quantizer = _channels(input._array.shape, scale, zero_point, axis)
    return quantized(input._array.copy(), _QUANTIZED_OF[input.dtype], quantizer)


@public("_empty_affine_quantized", method=False)
def _empty_affine_quantized(
    size: Any,
    *,
    scale: float = 1,
    zero_point: int = 0,
    dtype: Any = None,
    device: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """A quantized tensor whose elements are left open."""
    if device is not None and str(device) != str(CPU):
        raise NotImplementedError("quantized tensors are only implemented on the CPU")
    return quantized(
        np.zeros(tuple(size), dtype.numpy), dtype, Quantizer(per_tensor_affine, float(scale), int(zero_point))
    )


@public("_empty_per_channel_affine_quantized", method=False)
def _empty_per_channel_affine_quantized(
    size: Any, *, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any = None, device: Any = None
) -> Tensor:
    """A tensor quantized by channel, whose elements are left open."""
    return quantized(np.zeros(tuple(size), dtype.numpy), dtype, _channels(tuple(size), scales, zero_points, axis))


@public(method=False)
def empty_quantized(size: Any, qtensor: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor quantized like another one, whose elements are left open."""
    array = _expect("empty_quantized", qtensor)
    d = qtensor.dtype if dtype is None else dtype
    return quantized(np.zeros(tuple(size), d.numpy), d, array.quantizer)


# -- what they are -------------------------------------------------------------------------------------------------


@public()
def dequantize(input: Any) -> Any:
    """The numbers that a quantized tensor stands for, as float32; of a list, those of each tensor.

    >>> import flambeau as torch
    >>> torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8).dequantize()
    tensor([0.3000])
    """
    if isinstance(input, (list, tuple)):
        return tuple(dequantize(t) for t in input)
    if not input._k & QUANTIZED:
        return input if input.dtype is float32 else ops.to(input, float32)
    return wrap(input._array.dequantized(), float32)


@public()
def int_repr(input: Tensor) -> Tensor:
    """The integers of a quantized tensor."""
    return wrap(_expect("int_repr", input).integers().copy(), _INTEGERS[input.dtype])


def _whole(name: str, input: Any) -> Quantizer:
    quantizer: Quantizer = _expect(name, input).quantizer
    if quantizer.axis is not None:
        raise RuntimeError(f"{name}: the tensor is quantized by channel; use q_per_channel_scales and the like")
    return quantizer


def _by_channel(name: str, input: Any) -> Quantizer:
    quantizer: Quantizer = _expect(name, input).quantizer
    if quantizer.axis is None:
        raise RuntimeError(f"{name}: the tensor is quantized as a whole; use q_scale and q_zero_point")
    return quantizer


@public()
def q_scale(input: Tensor) -> float:
    """The scale of a quantized tensor."""
    return _whole("q_scale", input).scale


@public()
def q_zero_point(input: Tensor) -> int:
    """The integer that stands for zero."""
    return _whole("q_zero_point", input).zero_point


@public()
def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scales of a tensor that is quantized by channel."""
    scale = _by_channel("q_per_channel_scales", input).scale
    return wrap(scale.copy(), float64 if scale.dtype == np.float64 else float32)


@public()
def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero points of a tensor that is quantized by channel."""
    zero_point = _by_channel("q_per_channel_zero_points", input).zero_point
    return wrap(zero_point.copy(), int64 if zero_point.dtype == np.int64 else float32)


@public()
def q_per_channel_axis(input: Tensor) -> int:
    """The dimension along which a tensor is quantized by channel."""
    return _by_channel("q_per_channel_axis", input).axis  # type: ignore[return-value]


def _qscheme(self: Tensor) -> qscheme:
    """The kind of a tensor's quantization."""
    return _expect("qscheme", self).quantizer.scheme


expose("qscheme", _qscheme, None)  # at the top the name is the class


def quantizer_parts(t: Tensor) -> tuple[Any, ...]:
    """What checkpoints say of a quantizer."""
    quantizer = t._array.quantizer
    if quantizer.axis is None:
        return quantizer.scheme, quantizer.scale, quantizer.zero_point
    return quantizer.scheme, q_per_channel_scales(t), q_per_channel_zero_points(t), quantizer.axis


def quantizer_from(d: dtype, shape: Any, parts: Any, when_filled: Any) -> Quantizer:
    """A quantizer from what a checkpoint says of it, checked; tensors in it may be filled only later."""
    if (
        d not in _INTEGERS
        or not isinstance(parts, tuple)
        or len(parts) not in (3, 4)
        or not isinstance(parts[0], qscheme)
    ):
        raise RuntimeError("a saved quantized tensor does not say how it is quantized")
    if len(parts) == 3:
        return Quantizer(per_tensor_affine, float(parts[1]), int(parts[2]))
    _, scales, zero_points, axis = parts
    quantizer = _channels(shape, scales, zero_points, axis)

    def fill() -> None:
        filled = _channels(shape, scales, zero_points, axis)
        quantizer.scale, quantizer.zero_point = filled.scale, filled.zero_point

    when_filled(fill)
    return quantizer


def quantized_text(t: Tensor) -> str:
    """How a quantized tensor prints."""
    quantizer = t._array.quantizer
    facts = [f"size={tuple(t._array.shape)}", f"dtype={t.dtype}", f"quantization_scheme={quantizer.scheme}"]
    if quantizer.axis is None:
        facts += [f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
    else:
        facts += [
            f"scale={q_per_channel_scales(t)}",
            f"zero_point={q_per_channel_zero_points(t)}",
            f"axis={quantizer.axis}",
        ]
    array = t._array.dequantized()
    if not array.size:
        return tensor_repr(None, shape=(0,), dtype_name="float32", is_meta=True, device="cpu", extra=facts).replace(
            "..., device='cpu', size=(0,)", "[]"
        )
    return tensor_repr(array, dtype_name="float32", extra=facts)


def quantized_source(t: Tensor, src: Tensor) -> Any:
    """What `t.copy_(src)` writes if one of both is quantized."""
    if not t._k & QUANTIZED:
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed; dequantize() it first"
        )
    if src._k & QUANTIZED:
        if src.dtype is not t.dtype:
            raise RuntimeError(f"Quantized copy only works between tensors of one dtype, got {t.dtype} and {src.dtype}")
        t._array.quantizer = src._array.quantizer
        return src._array.integers()
    if src.dtype is not float32:
        raise RuntimeError(f"Quantized copy only works with float Tensors, got {src.dtype}")
    return quantized_array(src._array, t._array.quantizer, t.dtype)


# -- operations on them --------------------------------------------------------------------------------------------

# Records that only move elements: they run on the integers.
_MOVING = frozenset(
    [
        "clone",
        "clone_format",
        "stack",
        "flip",
        "index_select",
        "index",
        "index_2",
        "gather",
        "cat",
        "topk",
        "repeat",
        "roll",
        "where",
        "take",
    ]
)
# Records whose results are rounded again with the operand's quantizer.
_ROUNDED = frozenset(
    ["relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "masked_fill", "leaky_relu", "relu6", "elu", "hardswish"]
)
_COMPARING = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
# Public functions that check their operands before any record: they run on the values, and are rounded again.
_BY_VALUES = frozenset(
    [
        "max",
        "min",
        "sort",
        "mean",
        "interpolate",
        "pad",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "upsample_nearest2d",
        "upsample_bilinear2d",
    ]
)
# (scale, zero point) of results whose range is known.
_FIXED = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}


def take_over(function: Any, args: Any, named: Any) -> Any:
    """The result of a public function whose first operand is quantized; NotImplemented if it runs by itself."""
    first = args[0] if args else None
    if not isinstance(first, Tensor) or not first._k & QUANTIZED:
        return NotImplemented
    if getattr(function, "__name__", "").removeprefix("functional_").removesuffix("_with_indices") not in _BY_VALUES:
        return NotImplemented
    return _requantized(function(dequantize(first), *args[1:], **named), first, float32)


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs an operation one of whose operands is quantized."""
    if getattr(op, "view", False):
        return _view(op, args)
    name = op.name
    quantizers = [t._array.quantizer for t in tensors_in(args) if t._k & QUANTIZED]
    first = next(t for t in tensors_in(args) if t._k & QUANTIZED)
    if name in _COMPARING:
        return op.call(*_plain(args, dequantize))
    if name in _MOVING:
        if any(t.dtype is not first.dtype for t in tensors_in(args) if t._k & QUANTIZED):
            raise RuntimeError(f"{name}: all quantized tensors must have the same dtype")
        if all(q == quantizers[0] for q in quantizers):
            return _requantized(op.call(*_plain(args, int_repr)), first, _INTEGERS[first.dtype])
    if name in _MOVING or name in _ROUNDED:
        return _requantized(op.call(*_plain(args, dequantize)), first, float32)
    if name in _FIXED:
        scale, zero_point = _FIXED[name]
        zero_point = zero_point if first.dtype is quint8 else zero_point - 128
        return quantize_per_tensor(op.call(*_plain(args, dequantize)), scale, zero_point, first.dtype)
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend; dequantize() the tensor first"
    )


def _plain(args: tuple[Any, ...], change: Any) -> list[Any]:
    def one(a: Any) -> Any:
        if isinstance(a, Tensor):
            return change(a) if a._k & QUANTIZED else a
        return [one(b) for b in a] if isinstance(a, list) and any(isinstance(b, Tensor) for b in a) else a

    return [one(a) for a in args]


def _requantized(out: Any, like: Tensor, d: dtype) -> Any:
    """Results of dtype `d` as tensors quantized like an operand."""
    if isinstance(out, (tuple, list)):
        return type(out)(_requantized(o, like, d) for o in out)
    if not isinstance(out, Tensor) or out.dtype is not d:
        return out
    quantizer = like._array.quantizer
    array = quantized_array(out._array, quantizer, like.dtype) if d is float32 else out._array
    return quantized(array, like.dtype, quantizer)


def _view(op: Any, args: tuple[Any, ...]) -> Any:
    """A view of the integers; by channel, a probe tells along which dimension the channels lie then."""
    parent = args[0]
    quantizer = parent._array.quantizer
    made = op.compute(args, 0)
    parts = made if isinstance(made, tuple) else (made,)
    chosen = [quantizer] * len(parts)
    if quantizer.axis is not None:
        chosen = _followed(op, parent, args[1:], quantizer)
    for part, q in zip(parts, chosen):
        part._array = with_quantizer(part._array, q)
        part._k |= QUANTIZED
        part.dtype = parent.dtype
    return made


def _followed(op: Any, parent: Tensor, static: tuple[Any, ...], quantizer: Quantizer) -> list[Quantizer]:
    shape, axis = parent._array.shape, quantizer.axis
    channels = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    probe = np.broadcast_to(channels, shape)
    try:
        seen = op.forward(cpu, probe, *static)
    except (ValueError, RuntimeError):
        seen = None
    found = []
    for part in seen if isinstance(seen, (tuple, list)) else (seen,):
        moving = [] if part is None else [i for i, s in enumerate(part.strides) if s and part.shape[i] > 1]
        if part is None or len(moving) > 1:
            raise RuntimeError(f"{op.name}: the result would not have one dimension of channels; dequantize() it first")
        if part.ndim and moving:
            index = part[tuple(slice(None) if i == moving[0] else 0 for i in range(part.ndim))]
            found.append(Quantizer(quantizer.scheme, quantizer.scale[index], quantizer.zero_point[index], moving[0]))
        else:
            only = int(part.flat[0]) if part.size else 0
            found.append(Quantizer(per_tensor_affine, float(quantizer.scale[only]), int(quantizer.zero_point[only])))
    return found


handlers[QUANTIZED] = _handle
for _name, _function in (("quantized_text", quantized_text), ("quantized_source", quantized_source)):
    setattr(ops, _name, _function)


SCHEMAS = """
quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor
quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor
quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> Tensor[]
quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor
quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor
_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor
_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor
_empty_affine_quantized(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, float scale=1., int zero_point=0, MemoryFormat? memory_format=0) -> Tensor
_empty_per_channel_affine_quantized(SymInt[] size, *, Tensor scales, Tensor zero_points, int axis, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=0) -> Tensor
empty_quantized(int[] size, Tensor qtensor, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
dequantize.self(Tensor self) -> Tensor
dequantize.tensors(Tensor[] tensors) -> Tensor[]
dequantize.tensor(Tensor qtensor) -> Tensor
dequantize.list(Tensor[] qtensors) -> Tensor[]
int_repr|q_per_channel_scales|q_per_channel_zero_points(Tensor self) -> Tensor
q_scale(Tensor self) -> float
q_zero_point|q_per_channel_axis(Tensor self) -> int
qscheme(Tensor self) -> QScheme
"""

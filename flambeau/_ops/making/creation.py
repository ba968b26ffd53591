"""New tensors filled with values: constants, ranges, like another tensor."""

from __future__ import annotations

from typing import Any

from ..._backend.placement import pinned
from ..._core.allocation import fill as fill_memory
from ..._core.allocation import fresh
from ..._core.allocation import zeros as _zeros
from ..._core.dtypes import BY_NUMPY, default, dtype, scalar_dtype
from ..._core.layouts import (
    in_rows,
    joint_strides,
    like_strides,
    preserve_format,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strides_in_order,
)
from ..._core.sizes import broadcast_shapes, size_argument
from ..._core.state import CUDA, META, QUANTIZED, SPARSE
from ..._tensor import Tensor
from ..plans.making import makes_memory, makes_the_same
from ..records.batching import broadcast
from ..records.out import into_out, write_out
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.shape_rules import dtype_of, joint
from ..records.tangents import linear
from ..registry import labelled, ops, public
from .factory import (
    as_dtype,
    check_layout,
    device_bits,
    fill,
    finished,
    formatted_memory,
    made_there,
    memory,
    number_of,
    remembered,
    shape_argument,
    strided_memory,
    unwritten,
)  # fmt: skip

_SPARSE = sparse_coo, sparse_csr, sparse_csc  # of which zeros are made without further settings

# -- constants ---------------------------------------------------------------------------------------------------


def _filled(
    name: str, size: tuple[Any, ...], value: Any, out: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool,
    pin_memory: Any, memory_format: Any, named: dict[str, Any],
) -> Tensor:  # fmt: skip
    shape = shape_argument(name, size, named)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    d = as_dtype(dtype, name)
    if layout in _SPARSE and not value and out is None and not device_bits(device)[0] & CUDA:
        return _sparse_zeros(shape, d or default.float, layout, device, requires_grad)
    if layout is not None or pin_memory:
        check_layout(layout, pin_memory)
    if out is not None:
        check_out_dtype(out, d)
        d = d or out.dtype
    d = d or default.float
    k, index = device_bits(device) if device is not None or out is None else (out._k & (CUDA | META), None)
    array = formatted_memory(shape, d, k, index, memory_format, value == 0)
    if pin_memory:
        array = _pinned(array, k)
    if value is None:
        unwritten(array, d, k)
    elif value and not k & META:
        fill_memory(array, value)
    if out is not None:
        return write_out(out, finished(array, d, k), name)
    return finished(array, d, k, requires_grad)


def _pinned(array: Any, k: int) -> Any:
    if k:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return pinned(array)


def check_out_dtype(out: Tensor, d: dtype | None) -> None:
    if d is not None and out.dtype is not d:
        raise RuntimeError(f"dtype {d} does not match dtype of out parameter ({out.dtype})")


@makes_the_same
@made_there
@public(method=False)
def zeros(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor of zeros.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled("zeros", size, 0, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@makes_the_same
@made_there
@public(method=False)
def ones(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor of ones.

    >>> import flambeau as torch
    >>> torch.ones(2)
    tensor([1., 1.])
    """
    return _filled("ones", size, 1, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@makes_memory
@made_there
@public(method=False)
def empty(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor whose memory is not filled."""
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by empty: there is no tensor to take it from")
    return _filled("empty", size, None, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@makes_the_same
@made_there
@public(method=False)
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A tensor filled with one number.

    >>> import flambeau as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, (int, float, str)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    shape = shape_argument("full", (size,))
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "full")
    value = number_of(fill_value, "full", "fill_value")
    if out is not None:
        check_out_dtype(out, d)
        d = d or out.dtype
    d = d or scalar_dtype(value)
    k, index = device_bits(device)
    array = memory(shape, d, k, index)
    if pin_memory:
        array = _pinned(array, k)
    if not k & META:
        fill(array, value, d)
    if out is not None:
        return write_out(out, finished(array, d, k), "full")
    return finished(array, d, k, requires_grad)


@public(method=False)
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A tensor with given strides whose memory is not filled."""
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "empty_strided") or default.float
    k, index = device_bits(device)
    return finished(unwritten(_strided("empty_strided", size, stride, d, k, index), d, k), d, k, requires_grad)


def _strided(name: str, size: Any, stride: Any, d: dtype, k: int, index: Any) -> Any:
    shape, strides = shape_argument(name, (size,)), size_argument((stride,), "stride")
    if len(shape) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(f"{name}: strides must not be negative, got {list(strides)}")
    return strided_memory(shape, strides, d, k, index)


@public(method=False)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A dense tensor whose dimensions lie in memory in the order given, outermost first."""
    check_layout(layout, pin_memory)
    shape, order = shape_argument("empty_permuted", (size,)), size_argument((physical_layout,), "physical_layout")
    if len(order) != len(shape):
        raise RuntimeError(f"physical_layout orders {len(order)} dimensions, but size has {len(shape)}")
    for d_ in order:
        if not 0 <= d_ < len(shape):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d_})")
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    d = as_dtype(dtype, "empty_permuted") or default.float
    k, index = device_bits(device)
    array = strided_memory(shape, strides_in_order(shape, order), d, k, index)
    return finished(unwritten(array, d, k), d, k, requires_grad)


# -- like another tensor -----------------------------------------------------------------------------------------


def like(
    input: Tensor, dtype: Any = None, device: Any = None, memory_format: Any = None, name: str = "empty_like",
    zeros: bool = False, layout: Any = None, pin_memory: Any = False,
) -> tuple[Any, dtype, int]:  # fmt: skip
    """Memory like a tensor's: the array, its dtype, and the bits of its device."""
    if pin_memory:
        check_layout(layout, pin_memory)
        array, made, k = like(input, dtype, device, memory_format, name, zeros, layout)
        return _pinned(array, k), made, k
    x = input._array
    d: Any = input.dtype if dtype is None else as_dtype(dtype, name)
    if layout is not None:
        check_layout(layout, False)
    if input._k & QUANTIZED and dtype is None:
        raise NotImplementedError(f"{name}: not implemented for quantized tensors; use empty_quantized")
    if input._k & SPARSE:
        if layout is None:
            raise NotImplementedError(
                f"{name}: not implemented for tensors of layout {x.layout}; give layout=torch.strided"
            )
        return memory(x.shape, d, 0, None, zeros), d, 0
    if device is None and not input._k & (CUDA | META) and memory_format is None:
        if in_rows(x):
            return (_zeros if zeros else fresh)(x.shape, d.numpy), d, 0
        return strided_memory(x.shape, like_strides(x.shape, x.strides, x.itemsize), d, 0, None, zeros), d, 0
    k, index = (
        (input._k & (CUDA | META), int(x.device.id) if input._k & CUDA else None)
        if device is None
        else device_bits(device)
    )
    if memory_format is not None and memory_format is not preserve_format:
        return formatted_memory(x.shape, d, k, index, memory_format, zeros), d, k
    if in_rows(x):
        return memory(x.shape, d, k, index, zeros), d, k
    return strided_memory(x.shape, like_strides(x.shape, x.strides, x.itemsize), d, k, index, zeros), d, k


@public(method=False)
def zeros_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros in the shape, dtype and memory order of `input`."""
    if isinstance(input, Tensor) and input._k & SPARSE and layout is None:
        if memory_format is not None:
            raise RuntimeError("memory format option is only supported by strided tensors")
        return ops.sparse_zeros_like(input, dtype or input.dtype, device)
    if layout in _SPARSE and isinstance(input, Tensor):
        return zeros(input.shape, dtype=dtype or input.dtype, layout=layout, device=device, requires_grad=requires_grad)
    return finished(*like(input, dtype, device, memory_format, "zeros_like", True, layout, pin_memory), requires_grad)


@public(method=False)
def empty_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Memory that is not filled, in the shape, dtype and memory order of `input`."""
    if isinstance(input, Tensor) and input._k & SPARSE and layout is None:
        if memory_format is not None:
            raise RuntimeError("memory format option is only supported by strided tensors")
        return ops.sparse_zeros_like(input, dtype or input.dtype, device)
    array, d, k = like(input, dtype, device, memory_format, "empty_like", False, layout, pin_memory)
    return finished(unwritten(array, d, k), d, k, requires_grad)


@public(method=False, planned=True)
def ones_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Ones in the shape, dtype and memory order of `input`."""
    array, d, k = like(input, dtype, device, memory_format, "ones_like", False, layout, pin_memory)
    if not k & META:
        fill_memory(array, 1)
    return finished(array, d, k, requires_grad)


@public(method=False)
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """One number in the shape, dtype and memory order of `input`.

    >>> import flambeau as torch
    >>> torch.full_like(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    array, d, k = like(input, dtype, device, memory_format, "full_like", False, layout, pin_memory)
    value = number_of(fill_value, "full_like", "fill_value")
    if not k & META:
        fill(array, value, d)
    return finished(array, d, k, requires_grad)


def _device_for(input: Tensor, device: Any) -> tuple[int, int | None]:
    if device is not None:
        return device_bits(device)
    k = input._k & (CUDA | META)
    return k, int(input._array.device.id) if k & CUDA else None


def _sparse_zeros(shape: tuple[int, ...], d: Any, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    made = ops.sparse_coo_tensor(shape, dtype=d, requires_grad=requires_grad)
    made = made if layout is sparse_coo else ops.to_sparse(made, layout=layout)
    return ops.sparse_zeros_like(made, d, device) if device_bits(device)[0] else made


def _new(name: str, input: Tensor, size: Any, value: Any, options: dict[str, Any]) -> Tensor:
    shape = shape_argument(name, size, options)
    d = as_dtype(options.pop("dtype", None), name) or input.dtype
    device = options.pop("device", None)
    k, index = _device_for(input, device)
    layout, requires_grad = options.pop("layout", None), options.pop("requires_grad", False)
    if layout is None and not value and input._k & SPARSE and name != "new_full":
        layout = input._array.layout
    if layout in _SPARSE and not value and not k & CUDA:
        return _sparse_zeros(shape, d, layout, device or ("meta" if k & META else None), requires_grad)
    check_layout(layout, options.pop("pin_memory", False))
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
    array = memory(shape, d, k, index, value == 0)
    if value is None:
        unwritten(array, d, k)
    elif value and not k & META:
        fill(array, value, d)
    return finished(array, d, k, requires_grad)


@public("Tensor.new_zeros")
def new_zeros(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Zeros of a shape, in the dtype and on the device of `input`."""
    return _new("new_zeros", input, size, 0, options)


@public("Tensor.new_ones")
def new_ones(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Ones of a shape, in the dtype and on the device of `input`."""
    return _new("new_ones", input, size, 1, options)


@public("Tensor.new_empty")
def new_empty(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Memory of a shape that is not filled, in the dtype and on the device of `input`."""
    return _new("new_empty", input, size, None, options)


@public("Tensor.new_full")
def new_full(input: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    """One number in a shape, in the dtype and on the device of `input`."""
    value = number_of(fill_value, "new_full", "fill_value")
    made = _new("new_full", input, (size,), None, {**options, "requires_grad": False})
    if not made._k & META:
        fill(made._array, value, made.dtype)
    return ops.requires_grad_(made) if options.get("requires_grad") else made


@public("Tensor.new_empty_strided")
def new_empty_strided(
    input: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Memory with given strides that is not filled, in the dtype and on the device of `input`."""
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "new_empty_strided") or input.dtype
    k, index = _device_for(input, device)
    return finished(unwritten(_strided("new_empty_strided", size, stride, d, k, index), d, k), d, k, requires_grad)


# -- matrices and numbers ----------------------------------------------------------------------------------------


@remembered
@public(method=False)
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal.

    >>> import flambeau as torch
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_layout(layout, pin_memory)
    n = n.__index__() if not isinstance(n, int) and hasattr(n, "__index__") else n
    m = n if m is None else m.__index__() if not isinstance(m, int) and hasattr(m, "__index__") else m
    for name, value in (("n", n), ("m", m)):
        if not isinstance(value, int):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(value).__name__}")
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    d = as_dtype(dtype, "eye") or (out.dtype if out is not None else default.float)
    k, index = device_bits(device)
    array = memory((n, m), d, k, index, True)
    if not k & META and min(n, m):
        array.reshape(-1)[:: m + 1][: min(n, m)] = 1
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else write_out(out, made, "eye")


@remembered
@public(method=False)
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: Any = False,
) -> Tensor:
    """A 0-d tensor of one number, in the default dtype unless another is given."""
    return full((), s, dtype=dtype or default.float, layout=layout, device=device, requires_grad=requires_grad)


# -- complex numbers ---------------------------------------------------------------------------------------------


@primitive(
    meta=lambda re, im: joint(dtype_of(re).to_complex(), re, im),
    tensors=2, name="complex",
    grad={
        "re": lambda g, re_shape: ops.sum_to(ops.real(g), re_shape),
        "im": lambda g, im_shape: ops.sum_to(ops.imag(g), im_shape),
    },
    batch=broadcast,
    tangent=linear("re", "im"),
)  # fmt: skip
def complex_op(backend: Any, re: Any, im: Any) -> Any:
    shape = broadcast_shapes(re.shape, im.shape)
    strides = joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in (re, im)])
    order = sorted(range(len(shape)), key=strides.__getitem__, reverse=True)
    lying = [shape[d] for d in order]
    made = backend.empty((*lying, 2), re.dtype)
    back = sorted(range(len(shape)), key=order.__getitem__)
    made.transpose(*back, len(shape))[..., 0] = re
    made.transpose(*back, len(shape))[..., 1] = im
    return made.reshape(-1).view(BY_NUMPY[re.dtype].to_complex().numpy).reshape(lying).transpose(back)


def _check_parts(name: str, real: Tensor, imag: Tensor) -> None:
    a, b = (type_name(t.dtype) for t in (real, imag))
    if any(t.dtype.name not in ("float16", "float32", "float64") for t in (real, imag)):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {a} and {b}")
    if real.dtype is not imag.dtype:
        raise RuntimeError(f"Expected object of scalar type {a} but got scalar type {b} for second argument")


def _complex_out(out: Tensor, real: Tensor) -> None:
    wanted = real.dtype.to_complex()
    if out.dtype is not wanted:
        raise RuntimeError(
            f"Expected object of scalar type {type_name(wanted)} but got scalar type {type_name(out.dtype)} for argument 'out'"
        )


@public(method=False, planned=True)
def complex(real: Tensor, imag: Tensor, *, out: Any = None) -> Tensor:
    """Complex numbers of their real and imaginary parts.

    >>> import flambeau as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    if out is None:
        return complex_op(real, imag)
    _complex_out(out, real)
    return into_out(out, complex, (real, imag), {})


@public(method=False, planned=True)
@labelled("PolarBackward0")
def polar(abs: Tensor, angle: Tensor, *, out: Any = None) -> Tensor:
    """Complex numbers of their absolute values and angles."""
    _check_parts("polar", abs, angle)
    if out is not None:
        _complex_out(out, abs)
        return into_out(out, polar, (abs, angle), {})
    return complex_op(abs * ops.cos(angle), abs * ops.sin(angle))


SCHEMAS = """
zeros|ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> Tensor(a!)
full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
zeros_like|empty_like|ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
new_zeros|new_ones|new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
complex(Tensor real, Tensor imag) -> Tensor
polar(Tensor abs, Tensor angle) -> Tensor  # autocast=cpu:single
"""

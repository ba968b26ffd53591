"""Views of a part of a tensor: one index, a range, a diagonal, windows, pieces, the parts of complex numbers."""

from __future__ import annotations

from typing import Any

from ..._backend.copies import place as write_part
from ..._core.dtypes import COMPLEX, REAL_OF, complex32, from_numpy_dtype
from ..._core.layouts import byte_strides, element_strides
from ..._core.sizes import contiguous_strides, wrap_dim
from ..._core.state import CAPTURE, CONJ, POSTPONED, SPECIAL, modes
from ..._core.steps import tell
from ..._tensor import Tensor
from ..records.batching import along, leading
from ..records.primitive import primitive
from ..records.tangents import linear
from ..records.view_op import view_of, view_primitive
from ..registry import expose, labelled, methods, ops, position_arguments, public
from .postponed import part_op
from .striding import cut, spread, strided

# -- basic indices -----------------------------------------------------------------------------------------------


@view_primitive(
    lambda g, x_shape, index: place(g, x_shape, index), "slice_index", "SliceBackward0", batch=along, picks=True
)
def index_op(backend: Any, x: Any, index: tuple[Any, ...]) -> Any:
    """x[index] for a tuple of integers, slices, None and `...`; it must hold `...` so that the result is an array."""
    return x[index]


@primitive(
    name="place", grad={"g": lambda g, index: index_op(g, index)},
    meta=lambda g, shape, index: (shape, from_numpy_dtype(g.dtype)),
    batch=along,
    tangent=linear("g"),
)  # fmt: skip
def place(backend: Any, g: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros of a shape with `g` written at a basic index: the gradient of taking that part."""
    whole = backend.zeros(shape, g.dtype)
    write_part(whole[index], g)
    return whole


def keys_before(dim: int) -> tuple[slice, ...]:
    return (slice(None),) * dim


@view_primitive(
    lambda g, x_shape, dim, index: place(g, x_shape, (*keys_before(dim), index, ...)), "select", batch=along, picks=True
)
def select_op(backend: Any, x: Any, dim: int, index: int) -> Any:
    return x[(*keys_before(dim), index, ...)]


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """A view of the elements at one index of a dimension, without that dimension.

    >>> import flambeau as torch
    >>> torch.arange(6).view(2, 3).select(1, -1)
    tensor([2, 5])
    """
    x = input._array
    shape = x.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    if modes.on & CAPTURE and ops.is_position(input, index):
        return ops.at_position(input, dim, index)
    index = index.__index__()
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    if index < 0:
        index += shape[dim]
    if not (input._k | modes.on) & SPECIAL:
        return view_of(select_op, input, x[(*keys_before(dim), index, ...)], (dim, index))
    return select_op(input, dim, index)


@view_primitive(
    lambda g, x_shape, dim, start, end, step: place(g, x_shape, (*keys_before(dim), slice(start, end, step))),
    "slice",
    batch=along,
    picks=True,
)
def slice_op(backend: Any, x: Any, dim: int, start: int, end: int, step: int) -> Any:
    return cut(x, (*keys_before(dim), slice(start, end, step)))


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """A view of `length` elements of a dimension from `start` on.

    >>> import flambeau as torch
    >>> torch.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, len(shape))
    if isinstance(start, Tensor):
        if start._array.ndim or start.dtype.category != 1:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        if modes.on & CAPTURE and ops.is_position(input, start):
            return ops.at_position(input, dim, start, length)
        tell("elements_read", start)
        start = int(start._array)
    n = shape[dim]
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start > n - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    if not (input._k | modes.on) & SPECIAL:
        part = cut(input._array, (*keys_before(dim), slice(start, start + length)))
        return view_of(slice_op, input, part, (dim, start, start + length, 1))
    return slice_op(input, dim, start, start + length, 1)


def slice_view(input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """input[start:end:step] along one dimension."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    first, last, _ = slice(start, end).indices(shape[dim])
    return slice_op(input, dim, first, max(first, last), step)


# -- diagonals and windows ---------------------------------------------------------------------------------------


def diagonal_extent(shape: Any, offset: int, a: int, b: int) -> int:
    return max(0, min(shape[a], shape[b] - offset) if offset >= 0 else min(shape[a] + offset, shape[b]))


def diagonal_array(x: Any, offset: int, a: int, b: int) -> Any:
    """A writable view of a diagonal, as the last dimension."""
    n = diagonal_extent(x.shape, offset, a, b)
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    strides = byte_strides(x)
    start = (offset * strides[b] if offset >= 0 else -offset * strides[a]) if n else 0
    shape = (*[x.shape[d] for d in rest], n)
    return strided(x, shape, (*[strides[d] for d in rest], strides[a] + strides[b]), start if x.size else 0)


@view_primitive(
    lambda g, x_shape, offset, a, b: place_diagonal(g, x_shape, offset, a, b), "diagonal", batch=along, picks=True
)
def diagonal_op(backend: Any, x: Any, offset: int, a: int, b: int) -> Any:
    return diagonal_array(x, offset, a, b)


@primitive(
    name="diagonal_backward", grad={"g": lambda g, offset, a, b: diagonal_op(g, offset, a, b)},
    meta=lambda g, shape, offset, a, b: (shape, from_numpy_dtype(g.dtype)),
    batch=along,
    tangent=linear("g"),
)  # fmt: skip
def place_diagonal(backend: Any, g: Any, shape: tuple[int, ...], offset: int, a: int, b: int) -> Any:
    """Zeros of a shape with `g` on a diagonal."""
    whole = backend.zeros(shape, g.dtype)
    diagonal_array(whole, offset, a, b)[...] = g
    return whole


def diagonal_dims(x: Tensor, dim1: int, dim2: int) -> tuple[int, int]:
    ndim = x._array.ndim
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return a, b


@public(views=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two dimensions, which becomes the last dimension.

    >>> import flambeau as torch
    >>> torch.arange(9).view(3, 3).diagonal(1)
    tensor([1, 5])
    """
    return diagonal_op(input, offset, *diagonal_dims(input, dim1, dim2))


@public(planned=True)
@labelled("DiagEmbedBackward0")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on a diagonal of two new dimensions."""
    ndim = input._array.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not input._array.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    *lead, n = input._array.shape
    extent = n + abs(offset)
    rest = iter(lead)
    shape = tuple(extent if d in (a, b) else next(rest) for d in range(ndim))
    return place_diagonal(input, shape, offset, a, b)


def _window_strides(shape: Any, strides: Any, dim: int, step: int) -> tuple[int, ...]:
    last = strides[dim] if shape else 1
    return (*strides[:dim], *((strides[dim] * step,) if shape else ()), *strides[dim + 1 :], last)


@view_primitive(
    lambda g, x_shape, dim, size, step: spread(
        g, x_shape, contiguous_strides(x_shape), _window_strides(x_shape, contiguous_strides(x_shape), dim, step), 0
    ),
    "unfold",
    batch=along,
)
def unfold_op(backend: Any, x: Any, dim: int, size: int, step: int) -> Any:
    shape = x.shape
    strides = _window_strides(shape, byte_strides(x) if shape else (), dim, step)
    if not shape:
        return strided(x, (size,), (x.itemsize,))
    count = (shape[dim] - size) // step + 1
    return strided(x, (*shape[:dim], count, *shape[dim + 1 :], size), strides)


@public("Tensor.unfold", views=True)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of `size` elements along a dimension, `step` apart, as a new last dimension.

    >>> import flambeau as torch
    >>> torch.arange(5).unfold(0, 2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    shape = input._array.shape
    dim = wrap_dim(dimension, len(shape))
    extent = shape[dim] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > extent:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {extent} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return unfold_op(input, dim, size, step)


# -- parts of complex numbers ------------------------------------------------------------------------------------


@primitive(view=True, name="view_as_real", grad={"x": lambda g: view_as_complex(ops.contiguous(g))}, batch=leading)
def view_as_real_op(backend: Any, x: Any) -> Any:
    if x.dtype == complex32.numpy:  # NumPy does not know its parts
        return x[..., None].view("float16")
    part = x.real
    return strided(part, (*part.shape, 2), (*part.strides, part.itemsize))


@primitive(view=True, name="view_as_complex", grad={"x": lambda g: view_as_real_op(ops.resolve_conj(g))}, batch=leading)
def view_as_complex_op(backend: Any, x: Any) -> Any:
    wide = complex32.numpy if x.itemsize == 2 else "complex64" if x.itemsize == 4 else "complex128"
    return x.view(wide)[..., 0] if x.size else x.reshape(-1).view(wide).reshape(x.shape[:-1])


@public(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """A view of a complex tensor with the real and imaginary parts as a new last dimension."""
    if input.dtype.category != COMPLEX:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if input._k & CONJ:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors; resolve_conj() computes the conjugate first"
        )
    return view_as_real_op(input)


@public(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """A complex view of a real tensor whose last dimension holds the two parts."""
    if input.dtype not in REAL_OF.values():
        raise RuntimeError(f"view_as_complex is only supported for half, float and double tensors, got {input.dtype}")
    x = input._array
    if not x.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if x.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    strides = element_strides(x)
    if strides[-1] != 1 and x.size:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s, n in zip(strides[:-1], x.shape) if n > 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if ops.storage_offset(input) % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return view_as_complex_op(input)


@public()
def real(input: Tensor) -> Tensor:
    """A view of the real parts; a real tensor itself."""
    if input.dtype.category != COMPLEX:
        return input
    if input._k & POSTPONED:
        return part_op(input, 0)
    return select(view_as_real_op(input), -1, 0)


@public()
def imag(input: Tensor) -> Tensor:
    """A view of the imaginary parts of a complex tensor."""
    if input.dtype.category != COMPLEX:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if input._k & POSTPONED:
        return part_op(input, 1)
    return select(view_as_real_op(input), -1, 1)


def _set_part(part: Any) -> Any:
    def setter(self: Tensor, value: Any) -> None:
        if isinstance(value, Tensor):
            ops.copy_(part(self), value)
        else:
            ops.fill_(part(self), value)

    return setter


# -- at least so many dimensions ---------------------------------------------------------------------------------


def _at_least(name: str, ndim: int, raise_one: Any) -> Any:
    def at_least(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            x = tensors[0]
            return x if x._array.ndim >= ndim else raise_one(x)
        if len(tensors) == 1:
            tensors = tuple(tensors[0])
        return tuple(at_least(x) for x in tensors)

    at_least.__name__ = at_least.__qualname__ = name
    at_least.__doc__ = f"The tensor, or each of them, with dimensions added where it has fewer than {ndim}."
    return public(method=False)(at_least)


def _to_3d(x: Tensor) -> Tensor:
    ndim = x._array.ndim
    if not ndim:
        return ops.reshape(x, (1, 1, 1))
    return ops.unsqueeze(ops.unsqueeze(x, 0), -1) if ndim == 1 else ops.unsqueeze(x, -1)


atleast_1d = _at_least("atleast_1d", 1, lambda x: ops.reshape(x, (1,)))
atleast_2d = _at_least("atleast_2d", 2, lambda x: ops.reshape(x, (1, 1)) if not x._array.ndim else ops.unsqueeze(x, 0))
atleast_3d = _at_least("atleast_3d", 3, _to_3d)

for _function in (select, narrow):
    public(views=True)(_function)
position_arguments.update(select=(2, "index"), narrow=(2, "start"))
expose("slice", slice_view, None, None)
expose("place", place, None, None)
methods["real"] = property(real, _set_part(real))
methods["imag"] = property(imag, _set_part(imag))


SCHEMAS = """
unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)
narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)
diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor
view_as_real|real|imag(Tensor(a) self) -> Tensor(a)
view_as_complex(Tensor(a) self) -> Tensor(a)  # autocast=cpu:single
atleast_3d|atleast_2d|atleast_1d(Tensor self) -> Tensor  # python, composite
atleast_3d|atleast_2d|atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]
slice_index  # record=slice
"""

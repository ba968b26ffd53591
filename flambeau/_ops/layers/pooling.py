"""Pooling: maxima and means over windows, sliding, adaptive or fractional."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.dtypes import FLOATING, bfloat16, dtype, float32, int64
from ..._core.state import CAPTURE, CUDA, FUNCTION_MODE, modes
from ..._dispatch import backend_of
from ..._tensor import Tensor, wrap
from ..making.conversion import host_array
from ..places.scatter import scatter_add_op
from ..records import tangents
from ..records.batching import all_stacked, folded
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.update import into_zeros
from ..registry import ops, public, relabel
from . import pool_arrays as arrays
from . import pool_threads
from .channels import keeps_channels_last, volume_has_channels_last, with_channels_last
from .convolution.description import Ints, spread
from .pool_arrays import Windows, described, windows_of

_RECORDED = CAPTURE | FUNCTION_MODE  # while compiled functions are recorded

# -- records -------------------------------------------------------------------------------------------------------


def _flat(t: Tensor, rank: int) -> Tensor:
    """The dimensions of space as one."""
    shape = t._array.shape
    lead = shape[: len(shape) - rank]
    return ops.reshape(t, (*lead, math.prod(shape[len(shape) - rank :])))


def to_places(g: Tensor, index: Tensor, shape: Sequence[int], rank: int) -> Tensor:
    """Gradients of maxima, added up where the maxima were."""
    _check_gradient("adaptive_max", g._array.shape, rank)
    if not (g._k | index._k | modes.on):
        return wrap(arrays.at_places(g._array, index._array, tuple(shape), rank), g.dtype)
    if not (g._k | index._k | modes.on) & ~_RECORDED:
        return max_pool_backward(g, index, tuple(shape), rank)
    lead = shape[: len(shape) - rank]
    flat = (*lead, math.prod(shape[len(shape) - rank :]))
    return ops.reshape(into_zeros(scatter_add_op, flat, g, _flat(index, rank), _flat(g, rank), len(lead)), tuple(shape))


def _to_places(g: Tensor, index: Tensor, windows: Any, rank: int) -> Tensor:
    """`to_places` for known windows, among which each element on a GPU looks for its own."""
    known, shape = windows_of(windows), g._array.shape
    if g._k | index._k | modes.on == CUDA and known.shared and not known.empty and 0 not in shape[1:]:
        return wrap(pool_threads.at_places(backend_of(CUDA), g._array, index._array, known), g.dtype, CUDA)
    return to_places(g, index, (*shape[: len(shape) - rank], *known.size), rank)


def _check_gradient(kind: str, shape: Sequence[int], rank: int) -> None:
    """No results, which adaptive pooling can give, have no derivative in PyTorch."""
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{kind}_pool{rank}d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but "
            f"grad_output has sizes {list(shape)} with dimension {1 + shape[1:].index(0)} "
            "being empty"
        )


def _shape(x: Any, windows: Any, rank: int, *rest: Any) -> Ints:
    return (*x.shape[: x.ndim - rank], *windows_of(windows).counts)


def _numbered(name: str) -> Any:
    """A derivative's name with the number of dimensions of space, e.g. AvgPool2DBackward0.

    PyTorch pools along one dimension as along two, and takes the other away again.
    """

    def named(node: Any) -> str:
        rank = len(node.info[0][0]) - 2 if node.saved is None else node.saved[2]
        return "SqueezeBackward1" if rank == 1 else name.format(rank)

    return named


def _named(out: Tensor, kind: str, rank: int) -> Tensor:
    """A result that goes by the name of its own kind of pooling."""
    return out if rank == 1 else relabel(out, f"{kind}Pool{rank}DBackward0")


def _pooled(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """A batch joins the images; windows that differ from plane to plane are those of each sample."""
    x, windows, rank = args
    if isinstance(windows, Windows):
        windows = Windows([np.concatenate([t] * size) for t in windows.tables], windows.size)
    return folded()(op, size, mapped, (x, windows, rank))


@primitive(
    name="max_pool", backward_name=_numbered("MaxPool{}DWithIndicesBackward0"),
    meta=lambda x, *rest: [(_shape(x, *rest), dtype_of(x)), (_shape(x, *rest), int64)],
    grad={"x": lambda g, others, windows, rank: _to_places(g, others[0], windows, rank)},
    batch=_pooled,
    tangent=tangents.largest,
)  # fmt: skip
@keeps_channels_last(takes=pool_threads.keeps_largest)
def max_pool(backend: Any, x: Any, windows: Any, rank: int) -> Any:
    """Maxima over windows along the last dimensions, and their places."""
    made = arrays.largest(backend, x, windows_of(windows))
    if x.ndim == 4 and rank == 3 and volume_has_channels_last(x):
        return tuple([with_channels_last(a.reshape((1, *a.shape)))[0] for a in made])
    return made


def _placed(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """A batch joins the images, or the channels of one."""
    *_, shape, rank = args
    x, index = [ops.flatten(t, 0, 1) for t in all_stacked(op, size, mapped, args)]
    return ops.reshape(op(x, index, (size * shape[0], *shape[1:]), rank), (size, *shape))


@primitive(
    meta=lambda x, index, shape, rank: (shape, dtype_of(x)), batch=_placed,
    tensors=2, name="max_pool_backward", backward_name="MaxPoolBackwardBackward0",
    grad={"x": lambda g, index, rank: ops.reshape(ops.gather(_flat(g, rank), -1, _flat(index, rank)), index._array.shape)},
    tangent=linear("x"),
)  # fmt: skip
def max_pool_backward(backend: Any, x: Any, index: Any, shape: Ints, rank: int) -> Any:
    """Gradients added up at the places of maxima, as programs take them on the CPU."""
    return arrays.at_places(x, index, shape, rank)


@primitive(
    name="mean_pool", backward_name=_numbered("AvgPool{}DBackward0"),
    meta=lambda x, *rest: (_shape(x, *rest), dtype_of(x)),
    grad={"x": lambda g, windows, rank, divisor, narrow: mean_pool_backward(g, windows, rank, divisor, narrow)},
    batch=folded(),
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last(takes=pool_threads.keeps_means)
def mean_pool(backend: Any, x: Any, windows: Any, rank: int, divisor: int, narrow: bool) -> Any:
    """Means over windows along the last dimensions; `narrow` sums of 16-bit floats are rounded at every step."""
    return arrays.means(backend, x, windows_of(windows), divisor, narrow)


@primitive(
    meta=lambda x, windows, rank, *rest: ((*x.shape[: x.ndim - rank], *windows_of(windows).size), dtype_of(x)),
    name="mean_pool_backward", backward_name="AvgPoolBackwardBackward0",
    grad={"x": lambda g, windows, rank, divisor, narrow: mean_pool(g, windows, rank, divisor, narrow)},
    batch=folded(),
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last(takes=pool_threads.keeps_means)
def mean_pool_backward(backend: Any, x: Any, windows: Any, rank: int, divisor: int, narrow: bool) -> Any:
    """The adjoint of `mean_pool`."""
    _check_gradient("adaptive_avg", x.shape, rank)
    return arrays.spread(backend, x, windows_of(windows), divisor)


_INT_MAX = (1 << 31) - 1

# -- arguments -----------------------------------------------------------------------------------------------------


def _check(name: str, input: Any, rank: int, takes: str, *excluded: dtype) -> tuple[int, ...]:
    """The shape of an input that may be pooled."""
    shape = input._array.shape
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[1 if name.startswith("adaptive") else -rank - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )
    d = input.dtype
    if d is float32:
        return shape
    kind = "bifc"[d.category]
    if d in excluded or not (kind in takes or ("l" in takes and d is int64)) or not d.code:
        raise not_implemented(name, d)
    return shape


def _results(
    name: str, shape: Sequence[int], kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Ints:
    """How many windows there are along each dimension, after PyTorch's checks."""
    if max(map(abs, (*kernel, *stride, *padding, *dilation))) > _INT_MAX:
        raise RuntimeError(
            f"{name}: value cannot be converted to type int without overflow: kernel_size, stride, padding and dilation "
            f"must be less than 2**31, but got {list(kernel)}, {list(stride)}, {list(padding)} and {list(dilation)}"
        )
    if min(kernel) <= 0:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    if min(stride) <= 0:
        zero = "stride must be greater than zero" if name == "max_pool1d" else "stride should not be zero"
        said = zero if 0 in stride else "stride should be greater than zero"
        raise RuntimeError(f"{name}: {said}, but got {list(stride)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{name}: dilation should be greater than zero, but got {list(dilation)}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {min(padding)}")
    counts = []
    for n, k, s, p, d in zip(shape[len(shape) - len(kernel) :], kernel, stride, padding, dilation):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:  # the last window must start inside, or in the padding before
            count -= 1
        counts.append(count)
    if min(counts) < 1:
        raise RuntimeError(
            f"{name}: Given input size: {list(shape)}. Calculated output size: {counts}. Output size is too small"
        )
    return tuple(counts)


# -- maxima --------------------------------------------------------------------------------------------------------


def _max_pool(
    name: str, rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    kernel = spread(name, "kernel_size", kernel_size, rank)
    step = kernel if stride is None or stride == [] or stride == () else spread(name, "stride", stride, rank)
    around, spacing = spread(name, "padding", padding, rank), spread(name, "dilation", dilation, rank)
    shape = _check(name, input, rank, "if")
    return max_pool(input, _sliding(name, shape[-rank:], kernel, step, around, spacing, bool(ceil_mode)), rank)


@functools.lru_cache(1024)
def _sliding(name: str, size: Ints, kernel: Ints, step: Ints, around: Ints, spacing: Ints, ceil_mode: bool) -> Any:
    """The windows of `max_pool`, after PyTorch's checks."""
    counts = _results(name, size, kernel, step, around, spacing, ceil_mode)
    return described("sliding", size, counts, kernel, step, around, spacing)


def _define_max_pool(rank: int) -> None:
    name = f"max_pool{rank}d"

    def with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return _max_pool(name, rank, input, kernel_size, stride, padding, dilation, ceil_mode)

    def values(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        if rank == 1 and not return_indices and input.dtype.category != FLOATING:
            raise not_implemented(name, input.dtype)
        both = _max_pool(name, rank, input, kernel_size, stride, padding, dilation, ceil_mode)
        return both if return_indices else both[0]

    def plain(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        return values(input, kernel_size, stride, padding, dilation, ceil_mode)

    values.__doc__ = f"""The largest element of every window that slides over the last {rank} dimension(s) of `input`.

    `stride` is that of the kernel by default; with `return_indices` the places of the maxima come along.

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.arange(4.0).reshape({", ".join("1" * rank)}, 4), ({"1, " * (rank - 1)}2,)).flatten()
    tensor([1., 3.])
    """
    with_indices.__doc__ = f"`{name}` with the places of the maxima: (values, indices)."
    plain.__doc__ = f"`nn.functional.{name}`, values only."
    for function, label in ((values, f"functional_{name}"), (with_indices, name + "_with_indices"), (plain, name)):
        function.__name__ = function.__qualname__ = label
    public(f"nn.functional.{name}", method=False, planned=True)(values)
    public(f"nn.functional.{name}_with_indices", method=False, planned=True)(with_indices)
    public(name, method=False, planned=True)(plain)


@public("max_pool1d_with_indices", method=False, planned=True)
def max_pool1d_both(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """`nn.functional.max_pool1d` with the places of the maxima."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def _adaptive_size(name: str, value: Any, shape: Sequence[int], rank: int) -> Ints:
    """The output size; None keeps a dimension."""
    size = shape[-rank:]
    if rank > 1 and isinstance(value, (tuple, list)) and len(shape) <= len(value):
        raise ValueError(f"Input dimension should be at least {len(value) + 1}")
    if getattr(value, "ndim", 1) == 0:  # a 0-d tensor
        value = value.__index__()
    values = (value,) * rank if isinstance(value, int) and not isinstance(value, bool) else value
    if rank == 1 and isinstance(values, (tuple, list)) and len(values) != 1:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(values)})")
    if not isinstance(values, (tuple, list)) or not all(v is None or hasattr(v, "__index__") for v in values):
        raise TypeError(
            f"{name}(): argument 'output_size' (position 2) must be tuple of ints, not {type(value).__name__}"
        )
    if len(values) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank}")
    made = tuple(n if v is None else v.__index__() for v, n in zip(values, size))
    if min(made) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(made)}"
        )
    return made


def _adaptive_max(name: str, rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    size = _adaptive_size(name, output_size, input._array.shape, rank)
    shape = _check(name, input, rank, "f")
    if rank == 3:  # of which PyTorch knows no other order
        input = ops.contiguous(input)
    out, index = max_pool(input, described("adaptive", shape[-rank:], size, (0,) * rank), rank)
    return _named(out, "AdaptiveMax", rank), index


def _define_adaptive_max_pool(rank: int) -> None:
    name = f"adaptive_max_pool{rank}d"

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return _adaptive_max(name, rank, input, output_size)

    def values(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        both = _adaptive_max(name, rank, input, output_size)
        return both if return_indices else both[0]

    values.__doc__ = f"""Maxima over windows that share the last {rank} dimension(s) among `output_size` results.

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.arange(5.0).reshape({", ".join("1" * rank)}, 5), ({"1, " * (rank - 1)}2,)).flatten()
    tensor([2., 4.])
    """
    with_indices.__doc__ = f"`{name}` with the places of the maxima: (values, indices)."
    values.__name__ = values.__qualname__ = name
    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    public("nn.functional." + name, method=False, planned=True)(values)
    public(f"nn.functional.{name}_with_indices", method=False, planned=True)(with_indices)


@public("adaptive_max_pool1d", method=False, planned=True)
def adaptive_max_pool1d_both(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`nn.functional.adaptive_max_pool1d` with the places of the maxima."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size)


# -- fractional maxima ---------------------------------------------------------------------------------------------


def _fractional_table(samples: Any, size: int, count: int, kernel: int) -> Any:
    """Windows whose places follow from one random number for each plane; the last ends with the plane."""
    start = np.full((*samples.shape, count), size - kernel, np.int64)
    if count > 1:
        alpha = samples.dtype.type((size - kernel) / (count - 1))
        i = np.arange(count - 1).astype(samples.dtype)
        start[..., :-1] = ((i + samples[..., None]) * alpha).astype(np.int64)
        start[..., :-1] -= (samples * alpha).astype(np.int64)[..., None]
    start = np.clip(start, 0, size - kernel)
    return np.stack([start, start + kernel, np.ones_like(start)], -1)


def _fractional_argument(name: str, argument: str, value: Any, rank: int) -> Ints:
    """As `spread`, but a sequence has a number for each dimension."""
    if isinstance(value, (tuple, list)) and len(value) != rank:
        count = "" if rank == 2 else "three "
        raise RuntimeError(f"{name}: {argument} must either be a single Int or tuple of {count}Ints, but got {value}")
    return spread(name, argument, value, rank)


def _fractional(
    name: str, rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if 0 in input._array.shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input._array.shape)}"
        )
    shape = _check(name, input, rank, "f")
    kernel = _fractional_argument(name, "kernel_size", kernel_size, rank)
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        if len(ratios) != rank:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints. It has {len(ratios)} numbers "
                f"for {rank} dimensions"
            )
        output_size = tuple(int(n * r) for n, r in zip(shape[-rank:], ratios))
    size = _fractional_argument(name, "output_size", output_size, rank)
    for n, k, count, what in zip(shape[-rank:], kernel, size, ("time", "height", "width")[-rank:]):
        if count < 0 or k < 1:
            raise RuntimeError(
                f"{name}(): kernel_size must be positive and output_size must not be negative, but got {kernel_size} and "
                f"{output_size}"
            )
        if count + k - 1 > n:
            raise RuntimeError(
                f"{name}(): pool {what} {k} too large relative to input {what} {n} (for an output of {count})"
            )
    planes = shape[:-rank] if len(shape) == rank + 2 else (1, shape[0])
    if samples is None:
        samples = ops.rand((*planes, rank), dtype=input.dtype, device=input.device)
    if samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    given = samples._array.shape
    if len(given) != 3 or given[0] < planes[0] or given[1] != planes[1] or given[2] != rank:
        raise RuntimeError(f"Expect _random_samples to be of size {[*planes, rank]}; got {list(given)}.")
    if 0 in size:
        none = (*shape[:-rank], *size)
        return ops.new_zeros(input, none), ops.new_zeros(input, none, dtype=int64)
    numbers = _host(samples)
    order = range(rank) if rank == 3 else (1, 0)  # PyTorch's order of the random numbers
    tables = [
        _fractional_table(numbers[: planes[0], :, at], n, count, k)
        for at, n, count, k in zip(order, shape[-rank:], size, kernel)
    ]
    if len(shape) == rank + 1:
        tables = [t[0] for t in tables]
    out, index = max_pool(ops.contiguous(input), Windows(tables, shape[-rank:]), rank)
    return _named(out, "FractionalMax", rank), index


def _host(samples: Tensor) -> Any:
    """Random numbers in main memory, in a type that NumPy computes in."""
    array = host_array(samples)
    return array if array.dtype.itemsize >= 4 else array.astype(np.float32)


def _define_fractional_max_pool(rank: int) -> None:
    name = f"fractional_max_pool{rank}d"

    def with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return _fractional(name, rank, input, kernel_size, output_size, output_ratio, _random_samples)

    def values(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        both = _fractional(name, rank, input, kernel_size, output_size, output_ratio, _random_samples)
        return both if return_indices else both[0]

    values.__doc__ = f"""Maxima over windows at random places, `output_size` of them (or a ratio of the input's size).

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.rand(1{", 8" * rank}), 2, 3).shape
    torch.Size([1{", 3" * rank}])
    """
    values.__name__ = values.__qualname__ = name
    with_indices.__doc__ = f"`{name}` with the places of the maxima: (values, indices)."
    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    public("nn.functional." + name, method=False)(values)
    public(f"nn.functional.{name}_with_indices", method=False)(with_indices)


# -- means ---------------------------------------------------------------------------------------------------------


def _avg_pool(
    name: str, rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    kernel = spread(name, "kernel_size", kernel_size, rank)
    step = kernel if stride is None or stride == [] or stride == () else spread(name, "stride", stride, rank)
    around = spread(name, "padding", padding, rank)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    shape = _check(name, input, rank, "fl", *((bfloat16,) if rank == 3 else ()))
    windows = _counted(name, shape[-rank:], kernel, step, around, bool(ceil_mode), bool(count_include_pad))
    return mean_pool(input, windows, rank, divisor_override or 0, False)


@functools.lru_cache(1024)
def _counted(
    name: str, size: Ints, kernel: Ints, step: Ints, around: Ints, ceil_mode: bool, include_padding: bool
) -> Any:
    """The windows of means, after PyTorch's checks."""
    counts = _results(name, size, kernel, step, around, (1,) * len(size), ceil_mode)
    return described("counted", size, counts, kernel, step, around, (int(include_padding),) * len(size))


@public("avg_pool1d", "nn.functional.avg_pool1d", method=False, planned=True)
def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of every window that slides along the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.functional.avg_pool1d(torch.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def _define_avg_pool(rank: int) -> None:
    name = f"avg_pool{rank}d"

    def avg_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        if rank == 2 and input._array.ndim < 3:
            raise IndexError(f"Dimension out of range: {name} needs 3 dimensions, but got {list(input._array.shape)}")
        return _avg_pool(
            name, rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    avg_pool.__doc__ = f"""The mean of every window that slides over the last {rank} dimensions.

    `count_include_pad` counts the padding in the divisor, `divisor_override` replaces it.

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.arange({2**rank}.0).reshape(1{", 2" * rank}), 2).item()
    {(2**rank - 1) / 2}
    """
    avg_pool.__name__ = avg_pool.__qualname__ = name
    public("nn.functional." + name, method=False, out="exact", planned=True)(avg_pool)


_SPACE = [tuple(range(-rank, 0)) for rank in range(4)]


def _define_adaptive_avg_pool(rank: int) -> None:
    name = f"adaptive_avg_pool{rank}d"

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        shape = input._array.shape
        size = _adaptive_size(name, output_size, shape, rank)
        if not ((rank == 2 and len(shape) == 2) or len(shape) in (rank + 1, rank + 2)):
            raise RuntimeError(f"{name}(): Expected {rank + 1} to {rank + 2} dimensions, but got {len(shape)}")
        if 0 in shape[-rank:]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(shape)}"
            )
        if input.dtype.category != FLOATING:
            raise not_implemented(name, input.dtype)
        whole = rank > 1 and size == (1,) * rank  # PyTorch's is then a mean
        if whole and len(shape) > rank and input._array.flags.c_contiguous:
            return ops.mean(input, _SPACE[rank], True)
        windows = described("adaptive", shape[-rank:], size, (1,) * rank)
        out = mean_pool(input, windows, rank, 0, rank == 3 and max(size) > 1)
        if whole:
            return relabel(out, "MeanBackward1")
        return _named(out, "AdaptiveAvg", rank)

    adaptive_avg_pool.__doc__ = f"""Means over windows that share the last {rank} dimension(s) among `output_size` results.

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.arange(4.0).reshape({", ".join("1" * rank)}, 4), ({"1, " * (rank - 1)}2,)).flatten()
    tensor([0.5000, 2.5000])
    """
    adaptive_avg_pool.__name__ = adaptive_avg_pool.__qualname__ = name
    public(*([name] if rank == 1 else []), "nn.functional." + name, method=False, planned=True)(adaptive_avg_pool)


def _define_lp_pool(rank: int) -> None:
    name = f"lp_pool{rank}d"

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        kernel = spread(name, "kernel_size", kernel_size, rank)
        means = getattr(ops, f"avg_pool{rank}d")(ops.pow(input, norm_type), kernel, stride, 0, ceil_mode)
        sums = ops.sign(means) * ops.relu(ops.abs(means)) * math.prod(kernel)
        return ops.pow(sums, 1.0 / norm_type)

    lp_pool.__doc__ = f"""The `norm_type`-norm of every window that slides over the last {rank} dimension(s).

    >>> import flambeau as torch
    >>> torch.nn.functional.{name}(torch.tensor([3.0, 4.0]).reshape({", ".join("1" * rank)}, 2), 2, ({"1, " * (rank - 1)}2,)).item()
    5.0
    """
    lp_pool.__name__ = lp_pool.__qualname__ = name
    public("nn.functional." + name, method=False)(lp_pool)


for _rank in (1, 2, 3):
    _define_max_pool(_rank)
    _define_adaptive_max_pool(_rank)
    _define_adaptive_avg_pool(_rank)
    _define_lp_pool(_rank)
for _rank in (2, 3):
    _define_avg_pool(_rank)
    _define_fractional_max_pool(_rank)


SCHEMAS = """
max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)
max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor  # autocast=whole
max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor  # autocast=cpu:single
max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor  # autocast=whole
adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)
avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor  # autocast=whole
avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor  # autocast=whole, builtin
avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor  # autocast=cpu:single, builtin
adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor  # autocast=whole, builtin
adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor  # autocast=whole, builtin
adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor  # autocast=cpu:single, builtin
lp_pool1d|lp_pool2d|lp_pool3d  # composite
"""

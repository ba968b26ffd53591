"""Convolutions: one record for both directions, its gradients made of the same record and of a sum by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.dtypes import (
    FLOATING,
    INTEGER,
    bool_,
    complex32,
    complex64,
    float32,
    from_numpy_dtype,
    int64,
    uint16,
    uint32,
    uint64,
)
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..linear.matmul import conjugate
from ..records.batched_layers import convolved, convolved_weight
from ..records.casting import cast_array
from ..records.primitive import primitive
from ..records.rules import not_implemented, type_name
from ..records.shape_rules import dtype_of
from ..records.tangents import multilinear
from ..registry import ops, public, relabel
from .channels import has_channels_last, keeps_channels_last
from .convolution.description import Ints, describe, output_size, run, spread, transposed_size

# -- records -------------------------------------------------------------------------------------------------------


def _cut(t: Tensor, size: Sequence[int]) -> Tensor:
    """The first positions along the dimensions of space."""
    for i, n in enumerate(size, 2):
        if t._array.shape[i] != n:
            t = ops.narrow(t, i, 0, n)
    return t


def _adjoint(
    g: Tensor, weight: Tensor, size: Sequence[int], stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """Spreads g over an image of the given size."""
    kernel = weight._array.shape[2:]
    least = transposed_size(g._array.shape[2:], kernel, stride, padding, dilation, (0,) * len(kernel))
    extra = tuple(n - m for n, m in zip(size, least))
    return convolution_op(g, weight, None, stride, padding, dilation, True, extra, groups)


def _by_input(
    g: Tensor, weight: Tensor, x_shape: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, groups: int
) -> Tensor:
    weight = conjugate(weight)
    if not transposed:
        return _adjoint(g, weight, x_shape[2:], stride, padding, dilation, groups)
    none = (0,) * len(stride)
    return _cut(convolution_op(g, weight, None, stride, padding, dilation, False, none, groups), x_shape[2:])


def _by_weight(
    g: Tensor, x: Tensor, weight_shape: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, groups: int
) -> Tensor:
    image, small = (g, conjugate(x)) if transposed else (conjugate(x), g)
    return convolution_weight(image, small, tuple(weight_shape[2:]), stride, padding, dilation, groups)


def _shape(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, extra: Ints,
    groups: int,
) -> Ints:  # fmt: skip
    if transposed:
        size = transposed_size(x.shape[2:], weight.shape[2:], stride, padding, dilation, extra)
        return (x.shape[0], weight.shape[1] * groups, *size)
    return (x.shape[0], weight.shape[0], *output_size(x.shape[2:], weight.shape[2:], stride, padding, dilation))


def _cast(array: Any, d: Any) -> Any:
    return array if array is None or array.dtype == d.numpy else cast_array(array, d)


def _wide(d: Any) -> Any:
    """16-bit floats are computed in 32 bits."""
    return complex64 if d is complex32 else float32 if d.category == FLOATING and d.itemsize == 2 else d


def _keeps_channels_last(x: Any, weight: Any, *rest: Any) -> bool:
    """Signals come out row by row however they lie, so that they can be viewed. Only their weight is looked at."""
    transposed = rest[4]
    return has_channels_last(weight) if x.ndim == 3 else not (transposed and x.ndim == 5)


@primitive(
    tensors=3, name="convolution",
    meta=lambda x, *rest: (_shape(x, *rest), from_numpy_dtype(x.dtype)),
    grad={
        "x": _by_input,
        "weight": _by_weight,
        "bias": lambda g: ops.sum(g, (0, *range(2, g.dim()))),
    },
    batch=convolved,
    tangent=multilinear("x", "weight", added="bias"),
)  # fmt: skip
@keeps_channels_last(2, takes=_keeps_channels_last)
def convolution_op(
    backend: Any, x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    extra: Ints, groups: int,
) -> Any:  # fmt: skip
    """Windows of x times the weight, or (transposed) x times the weight added up over windows; and a bias."""
    d = from_numpy_dtype(x.dtype)
    made = _shape(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
    images, results, role = (made, x.shape, "adjoint") if transposed else (x.shape, made, "products")
    rounded = d.itemsize == 2 and d.category == FLOATING and any(e >= s for e, s in zip(extra, stride))
    wide = _wide(d) if rounded or not backend.convolves(d.numpy) else d
    x, weight, bias = _cast(x, wide), _cast(weight, wide), _cast(bias, wide)
    narrow = d.numpy if rounded else None  # there PyTorch adds up in 16 bits
    conv = describe(backend, x.dtype, images, results, weight.shape[2:], stride, padding, dilation, groups, narrow)
    return _cast(run(conv, role, x, weight, bias), d)


@primitive(
    meta=lambda x, small, kernel, *rest: ((small.shape[1], x.shape[1] // rest[-1], *kernel), dtype_of(x)),
    tensors=2, name="convolution_weight", backward_name="ConvolutionBackwardBackward0",
    grad={
        "x": lambda g, small, x_shape, stride, padding, dilation, groups: _adjoint(
            conjugate(small), g, x_shape[2:], stride, padding, dilation, groups
        ),
        "small": lambda g, x, small_shape, stride, padding, dilation, groups: _cut(
            convolution_op(conjugate(x), g, None, stride, padding, dilation, False, (0,) * len(stride), groups),
            small_shape[2:],
        ),
    },
    batch=convolved_weight,
    tangent=multilinear("x", "small"),
)  # fmt: skip
def convolution_weight(
    backend: Any, x: Any, small: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    """What a weight gets: windows of x times `small` (a value for each window), summed over images and positions."""
    d = from_numpy_dtype(x.dtype)
    wide = d if backend.convolves(d.numpy) else _wide(d)
    x, small = _cast(x, wide), _cast(small, wide)
    conv = describe(backend, x.dtype, x.shape, small.shape, kernel, stride, padding, dilation, groups)
    return _cast(run(conv, "sums", x, small), d)


_UNSIGNED = {uint16, uint32, uint64}

# -- arguments -----------------------------------------------------------------------------------------------------


def _check_dtypes(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> None:
    names = {"input": x, "weight": weight, "bias": bias}
    for argument in ("weight", "bias"):
        other = names[argument]
        if other is not None and other.dtype is not x.dtype:
            raise RuntimeError(
                f"Input type ({type_name(x.dtype)}) and {argument} type ({type_name(other.dtype)}) should be the same"
            )
    d = x.dtype
    wide = d.category == INTEGER and (transposed or d in _UNSIGNED) and d is not int64
    if d is bool_ or wide or (not d.code and d is not complex32):
        raise not_implemented("convolution", d)


def _check_shapes(x: Any, weight: Any, bias: Any, transposed: bool, groups: int) -> None:
    given, size = f"Given transposed={int(transposed)}" if transposed else f"Given groups={groups}", list(weight)
    if weight[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{size} instead"
        )
    if weight[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {size} instead"
        )
    channels = weight[0] if transposed else weight[1] * groups
    if x[1] != channels:
        raise RuntimeError(
            f"{given}, weight of size {size}, expected input{list(x)} to have {channels} channels, but got {x[1]} "
            "channels instead"
        )
    outputs = weight[1] * groups if transposed else weight[0]
    if bias is not None and tuple(bias) != (outputs,):
        raise RuntimeError(
            f"{given}, weight of size {size}, expected bias to be 1-dimensional with {outputs} elements, but got "
            f"bias of size {list(bias)} instead"
        )


_MOST_PADDING = (1 << 62) - 1  # both sides together are a 64-bit number


def _check_numbers(stride: Ints, padding: Ints, dilation: Ints, extra: Ints, groups: int) -> None:
    for wrong, what in (
        (min(padding) < 0, "negative padding"), (min(extra) < 0, "negative output_padding"),
        (min(stride) <= 0, "non-positive stride"), (min(dilation) <= 0, "non-positive dilation"),
        (groups <= 0, "non-positive groups"),
    ):  # fmt: skip
        if wrong:
            raise RuntimeError(f"{what} is not supported")
    for dim, n in enumerate(padding):
        if n > _MOST_PADDING:
            raise RuntimeError(f"Given padding={n} at dimension {dim} , expected padding to be at most {_MOST_PADDING}")


def _run(
    name: str, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, extra: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """A batched convolution with complete arguments, after all checks."""
    _check_numbers(stride, padding, dilation, extra, groups)
    x, w = input._array.shape, weight._array.shape
    _check_shapes(x, w, None if bias is None else bias._array.shape, transposed, groups)
    _check_dtypes(input, weight, bias, transposed)
    if 0 in x[2:] and 0 not in x[:2]:
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {list(x)}")
    kernel = w[2:]
    if 0 in kernel:
        raise RuntimeError(f"{name}: the kernel must not be empty, but its size is {list(kernel)}")
    if transposed:
        if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation)):
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got output_padding: "
                f"{list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
            )
        size = transposed_size(x[2:], kernel, stride, padding, dilation, extra)
        if min(size) <= 0:
            raise RuntimeError(
                f"Given input size per channel: {list(x[2:])}. Calculated output size per channel: {list(size)}. "
                "Output size is too small"
            )
    else:
        room = [n + 2 * p for n, p in zip(x[2:], padding)]
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
        if any(a < b for a, b in zip(room, reach)):
            sizes = [" x ".join(map(str, s)) for s in (room, reach)]
            raise RuntimeError(
                f"Calculated padded input size per channel: ({sizes[0]}). Kernel size: ({sizes[1]}). Kernel size "
                "can't be greater than actual input size"
            )
    made = convolution_op(input, weight, bias, stride, padding, dilation, transposed, extra, groups)
    if x[1] == 0 and not transposed:  # of no channels PyTorch makes none, and the bias gets no gradient
        return ops.narrow(made, 1, 0, 0)
    return made


def _batched(name: str, input: Tensor, rank: int) -> tuple[Tensor, bool]:
    ndim = input._array.ndim
    if ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input._array.shape)}"
        )
    return (ops.unsqueeze(input, 0), True) if ndim == rank + 1 else (input, False)


def _check_rank(weight: Tensor, rank: int, stride: Any) -> None:
    if weight._array.ndim != rank + 2:
        raise RuntimeError(
            f"expected a weight of {rank + 2} dimensions for a convolution over {rank} dimensions with stride={stride}, "
            f"but got a weight of size {list(weight._array.shape)}"
        )


def _same(name: str, input: Tensor, weight: Tensor, bias: Any, stride: Ints, dilation: Ints, groups: int) -> Tensor:
    """Padding that keeps the size; an odd total puts one more at the end."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight._array.shape[2:])]
    rank = len(total)
    padding = tuple(n - n // 2 for n in total)
    made = _run(name, input, weight, bias, stride, padding, dilation, False, (0,) * rank, groups)
    if any(n % 2 for n in total):
        warn_user(f"{name}: padding='same' is an odd width here, so that a larger result is computed and cut")
    for i, n in enumerate(total, 2):  # padded by the larger half on both sides: the first position is too many
        if n % 2:
            made = relabel(ops.narrow(made, i, 1, made._array.shape[i] - 1), "ConvolutionBackward0")
    return made


def _define(rank: int) -> None:
    """The convolution over so many dimensions, and its adjoint."""
    label, spans, windows = f"conv{rank}d", ", 3" * rank, ", 2" * rank

    def conv(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        x, single = _batched(label, input, rank)
        _check_rank(weight, rank, stride)
        steps, spacing = spread(label, "stride", stride, rank), spread(label, "dilation", dilation, rank)
        if padding == "same":
            made = _same(label, x, weight, bias, steps, spacing, groups)
        elif isinstance(padding, str) and padding != "valid":
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        else:
            around = (0,) * rank if isinstance(padding, str) else spread(label, "padding", padding, rank)
            made = _run(label, x, weight, bias, steps, around, spacing, False, (0,) * rank, groups)
        return ops.squeeze(made, 0) if single else made

    def conv_transpose(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        x, single = _batched(conv_transpose.__name__, input, rank)
        _check_rank(weight, rank, stride)
        given = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
        steps, around, spacing, extra = (spread(conv_transpose.__name__, *pair, rank) for pair in given.items())
        made = _run(conv_transpose.__name__, x, weight, bias, steps, around, spacing, True, extra, groups)
        return ops.squeeze(made, 0) if single else made

    conv.__doc__ = f"""Slides windows along the last {rank} dimension(s): `input` is (batch, inputs, …), `weight` (outputs, inputs / groups, …).

    `padding` may be a number, one for each dimension, "valid" or "same".

    >>> import flambeau as torch
    >>> torch.{label}(torch.ones(1{spans}), torch.ones(1, 1{windows})).flatten()[:2]
    tensor([{2**rank}., {2**rank}.])
    """
    conv_transpose.__doc__ = f"""The adjoint of `{label}`: every element of `input` is spread by `weight` (inputs, outputs / groups, …).

    `output_padding` enlarges the result at its end.

    >>> import flambeau as torch
    >>> torch.conv_transpose{rank}d(torch.ones(1{spans}), torch.ones(1, 1{windows}), stride=2).shape
    torch.Size([1{", 6" * rank}])
    """
    for function, name in ((conv, label), (conv_transpose, f"conv_transpose{rank}d")):
        function.__name__ = function.__qualname__ = name
        public(name, "nn.functional." + name, method=False, planned=True)(function)


for _rank in (1, 2, 3):
    _define(_rank)


@public("convolution", method=False)
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Any of the convolutions; the number of dimensions is that of `weight`.

    >>> import flambeau as torch
    >>> x, w = torch.ones(1, 1, 4), torch.ones(1, 1, 2)
    >>> torch.convolution(x, w, None, [2], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    rank = weight._array.ndim - 2
    if input._array.ndim != rank + 2 or rank < 1:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional input for {rank + 2}-dimensional weight {list(weight._array.shape)}, "
            f"but got {input._array.ndim}-dimensional input of size {list(input._array.shape)} instead"
        )
    given = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    for key, value in given.items():
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"convolution(): argument '{key}' must be tuple of ints, not {type(value).__name__}")
    steps, around, spacing, extra = (spread("convolution", key, value, rank) for key, value in given.items())
    return _run("convolution", input, weight, bias, steps, around, spacing, transposed, extra, groups)


@public("conv_tbc", "nn.functional.conv_tbc", method=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of sequences (time, batch, inputs) with a weight (length, inputs, outputs).

    >>> import flambeau as torch
    >>> torch.conv_tbc(torch.ones(3, 1, 2), torch.ones(2, 2, 1), torch.zeros(1)).flatten()
    tensor([4., 4.])
    """
    for argument, value, ndim in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if value._array.ndim != ndim:
            raise RuntimeError(f"{argument} must have {ndim} dims")
    made = ops.conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, pad)
    return ops.permute(made, (2, 0, 1))


SCHEMAS = """
conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor  # autocast=lower
conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor  # autocast=lower
conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor  # autocast=lower
conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor  # autocast=lower
conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor  # autocast=lower
conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor  # autocast=lower
convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor  # flops=convolution
conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor  # autocast=lower
convolution_weight  # flops=convolution_weight
"""

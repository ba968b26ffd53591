"""Operations on tensors that lie in memory in every possible way, in place and into strided targets too: the values
are NumPy's, and no memory changes but the target's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMPY,
    REAL,
    Placed,
    broadcastable,
    placed,
    same,
    seeds,
    shapes,
    tensor,
    values,
    wide,
)  # fmt: skip

import flambeau as torch

UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "exp": np.exp, "sin": np.sin, "tanh": np.tanh,
    "sign": lambda x: np.nan_to_num(np.sign(x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "isnan": np.isnan,
    "isfinite": np.isfinite, "logical_not": np.logical_not, "expm1": np.expm1, "atan": np.arctan, "cosh": np.cosh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "asinh": np.arcsinh,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "lt": np.less,
    "eq": np.equal, "ge": np.greater_equal, "atan2": np.arctan2, "logical_and": np.logical_and, "hypot": np.hypot,
    "logical_xor": np.logical_xor, "copysign": np.copysign, "fmax": np.fmax,
}  # fmt: skip
BITWISE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "gcd": np.gcd}
ANY_TARGET = ("add", "sub", "mul", "maximum", "minimum", "logical_and", "lt")


def reference(function, *arrays):
    with np.errstate(all="ignore"):
        return function(*[wide(a) for a in arrays])


@given(st.sampled_from(sorted(UNARY)), st.data())
def test_unary(name, data):
    x = data.draw(placed(dtype=data.draw(st.sampled_from(FLOATS)), special=True))
    same(getattr(torch, name)(x.tensor), reference(UNARY[name], x.array), message=name)
    same(getattr(x.tensor, name)(), reference(UNARY[name], x.array), message=name)
    x.check()


@given(st.sampled_from(sorted(UNARY)), st.data())
def test_unary_in_place(name, data):
    x = data.draw(placed(dtype=data.draw(st.sampled_from(FLOATS)), overlap=False))
    if not hasattr(x.tensor, name + "_"):
        return
    plain = getattr(torch, name)(tensor(x.array))
    result = getattr(x.tensor, name + "_")()
    assert result is x.tensor
    x.array[...] = plain.to(x.tensor.dtype).numpy() if x.tensor.dtype is not torch.bfloat16 else plain.float().numpy()
    same(x.tensor, x.array, 0, name)
    outside_is_untouched(x)


def outside_is_untouched(x):
    """The target's part of the buffer may differ in the last bit from the reference; the rest may not differ."""
    x.array[...] = 0
    x.tensor.zero_()
    x.check("outside of the target")


@pytest.mark.slow
@given(st.sampled_from(sorted(BINARY)), st.data())
def test_binary(name, data):
    dtype = data.draw(st.sampled_from(FLOATS))
    left, right = data.draw(broadcastable(2))
    x, y = data.draw(placed(left, dtype, special=True)), data.draw(placed(right, dtype, special=True))
    same(getattr(torch, name)(x.tensor, y.tensor), reference(BINARY[name], x.array, y.array), message=name)
    x.check()
    y.check()


@given(st.sampled_from(sorted(BITWISE)), st.data())
def test_bitwise(name, data):
    dtype = data.draw(st.sampled_from(INTEGERS if name == "gcd" else DTYPES[:6]))
    left, right = data.draw(broadcastable(2))
    x, y = data.draw(placed(left, dtype)), data.draw(placed(right, dtype))
    same(getattr(torch, name)(x.tensor, y.tensor), BITWISE[name](x.array, y.array), message=name)


@pytest.mark.slow
@given(st.sampled_from(ANY_TARGET), st.sampled_from(REAL), st.sampled_from(REAL), st.data())
def test_binary_in_place(name, target, source, data):
    if not torch.can_cast(getattr(torch, source), getattr(torch, target)):
        source = target
    shape = data.draw(shapes(0, 4))
    cut = data.draw(st.integers(0, len(shape)))
    inner = tuple(1 if data.draw(st.booleans()) else n for n in shape[cut:])
    x, y = data.draw(placed(shape, target, overlap=False)), data.draw(placed(inner, source))
    out_of_place = getattr(torch, name)(tensor(x.array), tensor(y.array)).to(x.tensor.dtype)
    form = getattr(x.tensor, name + "_", None)
    if form is None:
        return
    before = x.tensor._version
    assert form(y.tensor) is x.tensor
    assert x.tensor._version > before
    assert torch.equal(x.tensor.nan_to_num(), out_of_place.nan_to_num()), (name, x.tensor, out_of_place)
    y.check()
    outside_is_untouched(x)


@given(
    st.sampled_from(["add", "mul", "exp", "sum", "cumsum", "matmul", "sort", "cat", "where", "clamp", "tril"]),
    st.data(),
)
def test_out(name, data):
    dtype = "float64"
    x = data.draw(placed(data.draw(shapes(2, 2)), dtype))
    a = x.array.copy()
    if name == "matmul":
        y = data.draw(placed((a.shape[1], 3), dtype))
        expected, call = a @ y.array, lambda out: torch.matmul(x.tensor, y.tensor, out=out)
    elif name == "sort":
        expected = np.sort(a, -1)
        call = lambda out: torch.sort(x.tensor, out=(out, torch.empty(a.shape, dtype=torch.int64)))[0]
    else:
        expected, call = {
            "add": (a + a, lambda out: torch.add(x.tensor, x.tensor, out=out)),
            "mul": (a * 2, lambda out: torch.mul(x.tensor, 2, out=out)),
            "exp": (np.exp(a), lambda out: torch.exp(x.tensor, out=out)),
            "sum": (a.sum(0), lambda out: torch.sum(x.tensor, 0, out=out)),
            "cumsum": (a.cumsum(1), lambda out: torch.cumsum(x.tensor, 1, out=out)),
            "cat": (np.concatenate([a, a]), lambda out: torch.cat([x.tensor, x.tensor], out=out)),
            "where": (np.where(a > 0, a, 0), lambda out: torch.where(x.tensor > 0, x.tensor, 0.0, out=out)),
            "clamp": (np.clip(a, -1, 1), lambda out: torch.clamp(x.tensor, -1, 1, out=out)),
            "tril": (np.tril(a), lambda out: torch.tril(x.tensor, out=out)),
        }[name]
    out = data.draw(placed(expected.shape, dtype, overlap=False))
    assert call(out.tensor) is out.tensor
    same(out.tensor, expected, message=name)
    x.check()
    outside_is_untouched(out)


@pytest.mark.slow
@given(st.data())
def test_ternary(data):
    dtype = data.draw(st.sampled_from(FLOATS))
    x, y, z = (data.draw(placed(shape, dtype)) for shape in data.draw(broadcastable(3)))
    a, b, c = wide(x.array), wide(y.array), wide(z.array)
    same(torch.where(x.tensor > 0, y.tensor, z.tensor), np.where(a > 0, b, c))
    same(torch.addcmul(x.tensor, y.tensor, z.tensor, value=2), a + 2 * b * c)
    same(torch.lerp(x.tensor, y.tensor, 0.25), a + 0.25 * (b - a))
    same(torch.clamp(x.tensor, y.tensor, z.tensor), np.minimum(np.maximum(a, b), c))
    for p in (x, y, z):
        p.check()


@pytest.mark.filterwarnings("ignore:Casting complex values")
@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_copies(target, source, data):
    shape = data.draw(shapes(0, 4))
    x, y = data.draw(placed(shape, target, overlap=False)), data.draw(placed(shape, source))
    expected = y.tensor.contiguous().to(x.tensor.dtype)
    x.tensor.copy_(y.tensor)
    assert torch.equal(x.tensor, expected)
    for copy in (y.tensor.clone(), y.tensor.contiguous(), y.tensor.reshape(-1).reshape(shape), y.tensor + 0):
        if copy.dtype is y.tensor.dtype:
            same(copy, y.array, 0)
    y.check()
    outside_is_untouched(x)


@given(st.sampled_from(["sum", "prod", "amax", "amin", "mean", "any", "all"]), st.data())
def test_reductions(name, data):
    x = data.draw(placed(data.draw(shapes(1, 4)), "float64"))
    dims = data.draw(st.lists(st.integers(0, x.array.ndim - 1), unique=True, min_size=1))
    if name in ("amax", "amin", "mean") and 0 in x.array.shape:
        return
    if name == "prod":
        dims = dims[:1]
    same(
        getattr(torch, name)(x.tensor, dims[0] if name == "prod" else dims),
        getattr(np, name)(x.array, tuple(dims)),
        message=name,
    )
    same(getattr(torch, name)(x.tensor), getattr(np, name)(x.array), message=name)
    x.check()


@given(st.data())
def test_along_one_dimension(data):
    x = data.draw(placed(data.draw(shapes(1, 4, 5)), data.draw(st.sampled_from(("float64", "int64", "float32")))))
    dim = data.draw(st.integers(0, x.array.ndim - 1))
    same(torch.cumsum(x.tensor, dim), np.cumsum(x.array, dim))
    same(torch.cumprod(x.tensor, dim), np.cumprod(x.array, dim))
    same(torch.sort(x.tensor, dim)[0], np.sort(x.array, dim))
    same(torch.sort(x.tensor, dim, stable=True)[1], np.argsort(x.array, dim, kind="stable"))
    same(torch.flip(x.tensor, (dim,)), np.flip(x.array, dim))
    if x.array.shape[dim]:
        same(torch.argmax(x.tensor, dim), np.argmax(x.array, dim))
        same(torch.softmax(x.tensor.double(), dim).sum(dim), np.ones_like(x.array.sum(dim), dtype=float))
    x.check()


@pytest.mark.slow
@given(st.sampled_from(["float32", "float64", "complex64", "complex128", "int64"]), st.data())
def test_products(dtype, data):
    n, k, m = (data.draw(st.integers(0, 5)) for _ in range(3))
    x, y, z = (data.draw(placed(shape, dtype)) for shape in ((n, k), (k, m), (n, m)))
    same(x.tensor @ y.tensor, wide(x.array) @ wide(y.array))
    same(torch.addmm(z.tensor, x.tensor, y.tensor), wide(z.array) + wide(x.array) @ wide(y.array))
    same(torch.einsum("ij,jk->ki", x.tensor, y.tensor), (wide(x.array) @ wide(y.array)).T)
    same(torch.mv(x.tensor, y.tensor[:, 0]) if m else x.tensor.sum(1), x.array @ y.array[:, 0] if m else x.array.sum(1))


@given(st.data())
def test_writes_into_parts(data):
    x = data.draw(placed(data.draw(shapes(1, 3)), data.draw(st.sampled_from(DTYPES)), overlap=False))
    mask = values(data.draw(seeds), x.array.shape, "bool")
    one = data.draw(st.integers(0, 1))
    x.tensor[tensor(mask)] = one
    x.array[mask] = one
    x.check("mask")
    dim = data.draw(st.integers(0, x.array.ndim - 1))
    n = x.array.shape[dim]
    if n:
        at = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=4)), np.int64)
        key = (slice(None),) * dim + (at,)
        x.tensor[(slice(None),) * dim + (tensor(at),)] = 1
        x.array[key] = 1
        x.check("index")
        x.tensor.index_fill_(dim, tensor(at), 0)
        x.array[key] = 0
        x.check("index_fill_")
    x.tensor.masked_fill_(tensor(~mask), 1)
    x.array[~mask] = 1
    x.check("masked_fill_")
    x.tensor[..., ::2] = 0
    x.array[..., ::2] = 0
    x.check("slice")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "bool", "complex64"])
@pytest.mark.parametrize("way", ["dense", "transposed", "stepped", "row", "column", "offset"])
def test_large(dtype, way):
    """More elements than one thread is given."""
    rows, columns = 301, 701
    strides = {
        "dense": (701, 1),
        "transposed": (1, 301),
        "stepped": (1404, 2),
        "row": (0, 1),
        "column": (1, 0),
        "offset": (702, 1),
    }[way]
    x = Placed((rows, columns), strides, 5, 3, dtype, 1)
    y = Placed((rows, columns), (701, 1), 0, 0, dtype, 2)
    same(x.tensor + y.tensor, wide(x.array) + wide(y.array))
    same(torch.where(x.tensor != 0, x.tensor, y.tensor), np.where(x.array != 0, x.array, y.array), 0)
    same(
        x.tensor.sum(0),
        wide(x.array).sum(0),
        {"float16": 2e-2, "bfloat16": 0.3, "complex64": 1e-3, "float32": 1e-3}.get(dtype),
    )
    same(x.tensor.contiguous(), x.array, 0)
    if way not in ("row", "column"):
        x.tensor.mul_(y.tensor)
        outside_is_untouched(x)
    target = torch.zeros(columns, rows, dtype=x.tensor.dtype).t()
    target.copy_(y.tensor)
    same(target, y.array, 0)


def test_numpy_dtypes_cover_ours():
    for name in DTYPES:
        assert tensor(np.zeros(2, NUMPY[name])).dtype is getattr(torch, name)

"""Pointwise calls past NumPy's preparations give what the ufunc gives, whatever the operands look like."""

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.building import jit
from flambeau._kernel.loops import pointwise
from flambeau._kernel.loops.pointwise import is_constant
from flambeau._kernel.loops.ufunc import make_ufunc
from flambeau._kernel.native.walks import arranged
from flambeau._ops.pointwise.arithmetic import add_op
from flambeau._ops.registry import records

GRID = np.arange(12 * 20, dtype=np.float32).reshape(12, 20) / 7


@pytest.fixture(scope="module")
def pair():
    torch.ones(2) + torch.ones(2)
    ufunc, _ = add_op.fast[torch.float32]
    return ufunc, lambda *operands: arranged(ufunc, operands, (torch.float32.numpy,))


VIEWS = [
    GRID, GRID[0], GRID[:1], GRID[:, :1], GRID.T, GRID[::2], GRID[:, ::3], GRID[::-1], GRID[:0], GRID[:, :0],
    np.asfortranarray(GRID), GRID.reshape(3, 4, 20), GRID[0, 0, ...], np.broadcast_to(GRID[0], (12, 20)),
    GRID.astype(">f4"), np.frombuffer(b"\0" + GRID.tobytes()[:79], np.uint8)[1:77].view(np.float32),
    np.ma.masked_array(GRID),
]  # fmt: skip


@pytest.mark.parametrize("x", VIEWS, ids=lambda x: f"{type(x).__name__}{x.shape}{x.strides}")
def test_equals_the_ufunc(pair, x):
    ufunc, quick = pair
    for y in (x, np.array(x), GRID[0, 0, ...], 2.5):
        made, wanted = quick(x, y), ufunc(x, y)
        np.testing.assert_array_equal(made, wanted)
        repeated = 0 in np.asarray(x).strides  # which NumPy puts innermost
        assert repeated or not made.size or np.asarray(made).strides == np.asarray(wanted).strides
        assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(quick(GRID, GRID[0]), ufunc(GRID, GRID[0]))  # broadcast


def test_wrong_operands(pair):
    _, quick = pair
    with pytest.raises(ValueError, match="broadcast"):
        quick(GRID, GRID[:5])
    for wrong in ((), (GRID,), (GRID, "text"), (GRID, None)):
        with pytest.raises(TypeError):
            quick(*wrong)


@pytest.mark.parametrize("number", [0.1, -0.0, 1e-46, 1e39, -1e39, math.inf, -math.inf, math.nan, 3, -(2**53) - 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_beside_tensors(number, dtype):
    """A number has the precision of the tensor."""
    x = torch.tensor([0.25, -3.0, 0.0], dtype=dtype)
    with np.errstate(all="ignore"):
        other = torch.tensor(np.array(float(number)).astype(x.numpy().dtype))
    for operation in (torch.add, torch.mul, torch.sub, torch.div):
        for _ in range(2):  # the first call prepares
            np.testing.assert_array_equal(operation(x, number).numpy(), operation(x, other.expand(3)).numpy())


@pytest.mark.parametrize("count", [(1 << 14) - 1, 1 << 14, (1 << 14) + 1, 200_000])
def test_longer_operands(count):
    x = torch.linspace(-3, 3, count, dtype=torch.float64)
    for _ in range(2):
        np.testing.assert_allclose(torch.exp(x).numpy(), np.exp(x.numpy()), rtol=1e-14)


def test_numbers_too_large_for_the_dtype_are_infinite_and_silent():
    for number in (1e39, -1e39):
        for x in (torch.ones(3), torch.ones(70_000)):
            assert float((x * number)[0]) == math.copysign(math.inf, number)
            assert float(x.fmod(number)[0]) == 1.0


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan", "isreal", "isposinf", "signbit"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_what_does_not_depend_on_elements_is_written_however_they_lie(name, dtype):
    body, want = records[name].body, name in ("isfinite", "isreal")
    assert is_constant(body, [dtype.code]) == (name != "signbit" or dtype is not torch.int64)
    x = torch.ones(40, 66, dtype=dtype)
    for part in (
        x,
        x[:, ::2],
        x.t(),
        x[3:, 5].expand(7, 37),
        x[:, :0],
        x[0, 0],
        torch.ones(600, 1200, dtype=dtype)[:, 1::3],
    ):
        found = getattr(torch, name)(part)
        assert found.shape == part.shape and found.dtype is torch.bool and bool((found == want).all())
        assert torch.equal(torch.compile(lambda t: getattr(torch, name)(t) | False)(part), found)
    if name in ("isposinf", "signbit"):
        whole = torch.ones(40, 66, dtype=torch.bool)
        getattr(torch, name)(x[:, ::2], out=whole[:, 1::2])
        assert not whole[:, 1::2].any() and whole[:, ::2].all()


def test_bodies_that_pass_elements_on_are_not_constant():
    assert not is_constant(lambda m, x: x, ["i64"])
    assert not is_constant(lambda m, x: m.isnan(x), ["f32"])
    x = torch.arange(24).reshape(4, 6)
    assert torch.equal(torch.trunc(x[:, ::2]), x[:, ::2].clone())


def _mixed(m, x, y):
    """What bodies do, of all kinds."""
    y, whole = m.cast(y, x.type), m.cast(m.maximum(x, 0.0), "i32")
    chosen = m.where((x < y) & ~(y == 1.0), m.fma(x, y, 0.5), m.cast((whole << 1) ^ 3, x.type))
    return chosen - m.real_abs(-y), m.cast(x > y, "b1"), m.rare(x > 40.0, lambda: x * 2.0, m.rint(y))


@pytest.mark.parametrize("types", [("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f32", "f64")])
@pytest.mark.parametrize("count", [1, 16, 77, 600])
def test_bodies_in_vectors_give_the_same_bits(types, count, monkeypatch):
    monkeypatch.setattr(pointwise, "vectors", lambda: (64, 32))  # what has no masks does without them, slowly
    outputs, compute = (types[0], "b1", types[0]), tuple(t.replace("16", "32") for t in types)
    operands = [np.linspace(-3, 5, count), np.linspace(4, -2, count)]
    operands = [a.astype(t.replace("f", "float")) for a, t in zip(operands, types)]
    made = []
    for in_vectors in (True, False):
        monkeypatch.setattr(pointwise, "has_vectors", lambda *_: in_vectors)
        text = pointwise.render_pointwise("kernel", _mixed, types, outputs, compute)
        assert ("as-written" in text) == in_vectors
        call = make_ufunc("mixed", jit.compile("kernel", text), types, outputs)
        made.append([[a.tobytes() for a in call(*given)] for given in _layouts_of(operands)])
    assert made[0] == made[1]


def _layouts_of(operands):
    x, y = operands
    yield x, y
    yield x, y[:1]
    yield x[::2], y[::2]
    yield np.where(x == x[-1], 50, x).astype(x.dtype), y  # asks for the slow form


def test_only_what_vectors_can_do_is_written_so():
    assert pointwise.has_vectors(lambda m, x: m.exp(x), ("f32",))
    assert not pointwise.has_vectors(lambda m, x, y: x // y, ("i32", "i32"))


@pytest.mark.parametrize("length", [1, 5, 16, 64, 100, 256, 300, 700])
def test_three_operands_of_every_layout(length):
    """Side by side, one value for a whole row, or apart: what does not lie side by side is gathered."""
    torch.manual_seed(0)
    kinds = {
        "dense": lambda: torch.randn(7, length),
        "single": lambda: torch.randn(7, 1),
        "line": lambda: torch.randn(length),
        "apart": lambda: torch.randn(7, 2 * length)[:, ::2],
        "turned": lambda: torch.randn(length, 7).T,
    }
    functions = {
        "where": lambda x, y, z: torch.where(x > 0, y, z),
        "addcmul": torch.addcmul,
        "lerp": torch.lerp,
        "clamp": lambda x, y, z: torch.clamp(x, y - 1, z + 1),
    }
    for chosen in itertools.product(kinds, repeat=3):
        given = [kinds[kind]() for kind in chosen]
        dense = [x.expand(torch.broadcast_shapes(*[x.shape for x in given])).clone() for x in given]
        for name, function in functions.items():
            assert torch.equal(function(*given), function(*dense)), (name, chosen)

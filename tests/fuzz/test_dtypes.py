"""All dtypes: promotion against a table of PyTorch's, casts, integer arithmetic, round trips through NumPy, lists,
pickles and copies."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES, FLOATS, INTEGERS, NUMPY, REAL, as_numpy, placed, same, seeds, shapes, tensor, values

import flambeau as torch

ALL = [getattr(torch, name) for name in DTYPES]
CODES = dict(zip("0123456789abc", [*ALL, torch.complex32]))

# PyTorch's result dtypes, by operand dtypes in the order of DTYPES: a row for the left one, a character for the right
# one (its place in DTYPES, - for an error).
ARITHMETIC = "0123456789ab 1133456789ab 2323456789ab 3333456789ab 4444456789ab 5555556789ab 6666666889ab 7777778789ab 8888888889ab 9999999999bb aaaaaaaaabab bbbbbbbbbbbb"
QUOTIENT = "8888886789ab 8888886789ab 8888886789ab 8888886789ab 8888886789ab 8888886789ab 6666666889ab 7777778789ab 8888888889ab 9999999999bb aaaaaaaaabab bbbbbbbbbbbb"
NO_COMPLEX = "0123456789-- 1133456789-- 2323456789-- 3333456789-- 4444456789-- 5555556789-- 6666666889-- 7777778789-- 8888888889-- 9999999999-- ------------ ------------"
ANGLE = "8888886789-- 8888886789-- 8888886789-- 8888886789-- 8888886789-- 8888886789-- 6666666889-- 7777778789-- 8888888889-- 9999999999-- ------------ ------------"
WHOLE = "012345------ 113345------ 232345------ 333345------ 444445------ 555555------ ------------ ------------ ------------ ------------ ------------ ------------"
TRUTH = " ".join(["000000000000"] * 12)
BINARY = {
    "add": ARITHMETIC, "mul": ARITHMETIC, "pow": "-" + ARITHMETIC[1:], "div": QUOTIENT,
    "sub": "------------ -133456789ab -323456789ab -333456789ab -444456789ab -555556789ab -666666889ab -777778789ab -888888889ab -999999999bb -aaaaaaaabab -bbbbbbbbbbb",
    "maximum": NO_COMPLEX, "remainder": "-" + NO_COMPLEX[1:], "fmod": "-" + NO_COMPLEX[1:],
    "floor_divide": "-" + NO_COMPLEX[1:], "atan2": ANGLE, "copysign": ANGLE, "bitwise_and": WHOLE,
    "gcd": "-" + WHOLE[1:], "bitwise_left_shift": "-" + WHOLE[1:], "eq": TRUTH, "logical_and": TRUTH,
    "hypot": "------6789-- ------6789-- ------6789-- ------6789-- ------6789-- ------6789-- 6666666889-- 7777778789-- 8888888889-- 9999999999-- ------------ ------------",
    "logaddexp": "------6789ab ------6789ab ------6789ab ------6789ab ------6789ab ------6789ab 6666666889ab 7777778789ab 8888888889ab 9999999999bb aaaaaaaaabab bbbbbbbbbbbb",
}  # fmt: skip
# The right operand is a 0-d tensor, or True, 1, 1.0, 1j.
BESIDE_ZERO_DIM = "0123456789ab 1111116789ab 2222226789ab 3333336789ab 4444446789ab 5555556789ab 6666666666cc 7777777777aa 8888888888aa 9999999999bb aaaaaaaaaaaa bbbbbbbbbbbb"
BESIDE_NUMBER = "058a 118a 228a 338a 448a 558a 666c 777a 888a 999b aaaa bbbb"
UNARY = {
    "neg": "-123456789ab", "abs": "-12345678989", "exp": "8888886789ab", "sqrt": "8888886789ab", "sign": "0123456789--",
    "floor": "-123456789--", "round": "-123456789--", "sin": "8888886789ab", "sigmoid": "8888886789ab",
    "reciprocal": "8888886789ab", "square": "5123456789ab", "bitwise_not": "012345------",
    "logical_not": "000000000000", "isnan": "000000000000", "angle": "888888678989", "conj": "0123456789ab",
    "erf": "8888886789--", "sum": "5555556789ab", "prod": "5555556789ab", "mean": "------6789ab",
    "amax": "0123456789--", "argmax": "-555555555--", "var": "------678989", "any": "010000000000",
    "relu": "-123456789--", "trunc": "-123456789--", "sgn": "0123456789ab", "lgamma": "8888886789--",
    "frac": "------6789--", "isfinite": "000000000000", "signbit": "0000000000--", "positive": "-123456789ab",
}  # fmt: skip


def result(function, *operands):
    try:
        d = function(*operands).dtype
    except (RuntimeError, TypeError):
        return "-"
    return next(code for code, known in CODES.items() if known is d)


# Results that are computed need a kernel for each pair of dtypes.
DEVICES = ["meta", pytest.param("cpu", marks=pytest.mark.slow)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(BINARY))
def test_promotion(name, device):
    function = getattr(torch, name)
    tensors = [torch.ones(2, dtype=d, device=device) for d in ALL]
    assert " ".join("".join(result(function, x, y) for y in tensors) for x in tensors) == BINARY[name]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(UNARY))
def test_result_dtypes(name, device):
    tensors = [torch.ones(2, 2, dtype=d, device=device) for d in ALL]
    assert "".join(result(getattr(torch, name), x) for x in tensors) == UNARY[name]


def test_promotion_beside_numbers():
    codes = {d: code for code, d in CODES.items()}
    zero_dim = [torch.ones((), dtype=d) for d in ALL]
    vectors = [torch.ones(2, dtype=d) for d in ALL]
    assert " ".join("".join(codes[torch.result_type(x, y)] for y in zero_dim) for x in vectors) == BESIDE_ZERO_DIM
    for operands in (vectors, zero_dim):
        found = " ".join("".join(codes[torch.result_type(x, n)] for n in (True, 1, 1.0, 1j)) for x in operands)
        assert found == BESIDE_NUMBER
    for x, row in zip(vectors, BESIDE_ZERO_DIM.split()):
        assert "".join(codes[(x + y).dtype] for y in zero_dim) == row
        assert "".join(codes[(y * x).dtype] for y in zero_dim) == row


# -- casts -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Casting complex values")
@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_casts(source, target, data):
    x = data.draw(placed(dtype=source, special=source in DTYPES[:6]))  # NaN as an integer is anything
    a = x.array
    with np.errstate(all="ignore"):
        if source.startswith("complex") and not target.startswith("complex"):
            a = a != 0 if target == "bool" else a.real
        if target in INTEGERS and a.dtype.kind not in "biu":
            a = a.astype(np.int64)
        expected = a.astype(NUMPY[target])
    same(x.tensor.to(getattr(torch, target)), expected, 0)
    same(x.tensor.type(getattr(torch, target)), expected, 0)
    x.check()


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts_of_many_elements(dtype):
    a = values(3, (70001,), "float32", special=True)
    same(tensor(a).to(getattr(torch, dtype)), a.astype(NUMPY[dtype]), 0)
    same(tensor(a.astype(NUMPY[dtype])).float(), a.astype(NUMPY[dtype]).astype(np.float32), 0)


# -- integers ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.sampled_from(INTEGERS), seeds)
def test_integer_arithmetic(dtype, seed):
    a, b = values(seed, (40,), dtype, special=True), values(seed + 1, (40,), dtype, special=True)
    x, y = tensor(a), tensor(b)
    with np.errstate(all="ignore"):
        same(x + y, a + b)
        same(x - y, a - b)
        same(x * y, a * b)
        same(x * x, a * a)
        if dtype != "uint8":
            same(-x, -a)
            same(x.abs(), np.abs(a))
        divisor = np.where(b == 0, 1, b).astype(dtype)
        same(x // tensor(divisor), a // divisor)
        same(x % tensor(divisor), a % divisor)
        same(torch.fmod(x, tensor(divisor)), np.fmod(a, divisor))
        same(torch.div(x, tensor(divisor), rounding_mode="floor"), a // divisor)
        same(torch.cumsum(x, 0), np.cumsum(a, dtype=np.int64))
        same(x.sum(), a.sum(dtype=np.int64))
    same(x.sort()[0], np.sort(a))
    same(torch.bitwise_not(x), ~a)
    same(x > y, a > b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype):
    bits = np.dtype(dtype).itemsize * 8
    a = values(5, (50,), dtype, special=True)
    for count in (0, 1, bits - 1):
        same(tensor(a) << count, np.left_shift(a, np.array(count, dtype)))
        same(tensor(a) >> count, np.right_shift(a, np.array(count, dtype)))
    for count in (bits, bits + 1, 100):  # all bits leave
        assert not (tensor(a) << count).any()
        same(tensor(a) >> count, np.where(a < 0, -1, 0).astype(dtype))


@pytest.mark.slow
@given(st.sampled_from(REAL), st.sampled_from([2, -3, 0, 1.5, True, 7]), seeds)
def test_numbers_beside_tensors(dtype, number, seed):
    a = values(seed, (5,), dtype)
    x = tensor(a)
    for name in ("add", "mul", "sub", "maximum", "eq", "div", "lt", "fmod", "pow"):
        if (
            name == "maximum"
            or (name == "sub" and number is True)
            or (name in ("pow", "fmod", "div") and dtype in INTEGERS)
        ):
            continue
        as_zero_dim = torch.tensor(number)
        left, right = getattr(torch, name)(x, number), getattr(torch, name)(x, as_zero_dim)
        assert left.dtype is right.dtype
        same(left, as_numpy(right) if right.dtype is torch.bfloat16 else right.numpy(), message=name)


# -- round trips -------------------------------------------------------------------------------------------------


@given(st.data())
def test_numpy_round_trip(data):
    x = data.draw(placed())
    if x.tensor.dtype is torch.bfloat16:
        return
    back = x.tensor.numpy()
    assert back.dtype == x.array.dtype and back.shape == x.array.shape
    np.testing.assert_array_equal(back, x.array)
    assert np.shares_memory(back, x.buffer) or not back.size
    again = torch.from_numpy(back)
    assert again.stride() == x.tensor.stride() or again.numel() < 2 or 1 in again.shape
    np.testing.assert_array_equal(np.asarray(x.tensor), x.array)
    if x.array.dtype.kind != "c":
        same(torch.from_dlpack(x.tensor), x.array, 0)
    x.check()


@given(shapes(0, 4), st.sampled_from(DTYPES), seeds)
def test_lists(shape, dtype, seed):
    a = values(seed, shape, dtype)
    x = tensor(a)
    listed = x.tolist()
    if 0 not in shape:
        same(torch.tensor(listed, dtype=x.dtype), a, 0)
    if a.size == 1:
        assert x.item() == (a.astype(np.float32) if dtype == "bfloat16" else a).item()
    assert np.array_equal(np.array(listed, dtype=NUMPY[dtype]).reshape(shape), a)


@given(st.data())
def test_copies_of_views(data):
    x = data.draw(placed(overlap=data.draw(st.booleans())))
    t = x.tensor
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        same(other, x.array, 0)
        assert other.dtype is t.dtype and other.stride() == t.stride()
    pair = copy.deepcopy([t, t.view(t.shape)])
    if t.numel() and t.dtype is not torch.bool:
        assert pair[0].data_ptr() == pair[1].data_ptr()  # still share their memory
        assert pair[0].data_ptr() != t.data_ptr()
    x.check()


@given(st.sampled_from(FLOATS), shapes(0, 3), seeds)
def test_parameters_survive_pickling(dtype, shape, seed):
    t = tensor(values(seed, shape, dtype)).requires_grad_()
    other = pickle.loads(pickle.dumps(t))
    assert other.requires_grad and other.is_leaf
    same(other.detach(), as_numpy(t.detach()), 0)

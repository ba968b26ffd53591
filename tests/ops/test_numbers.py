"""Python numbers that a tensor's dtype cannot hold: where PyTorch refuses them, and what it makes of them elsewhere."""

import math

import pytest

import flambeau as torch
from flambeau.nn import functional

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
NAMES = {
    BF16: "c10::BFloat16", F16: "c10::Half", F32: "float", torch.complex64: "c10::complex<float>", torch.int8: "int8_t",
    torch.uint8: "uint8_t", torch.int16: "int16_t", torch.int32: "int", torch.int64: "int64_t",
    torch.uint16: "uint16_t", torch.float8_e5m2: "c10::Float8_e5m2",
}  # fmt: skip

# numbers that do not fit, and what those at the edge become
OUTSIDE = {
    F16: (-1e9, 65504.1, 1e39, 100000, 2**63),
    BF16: (1e39, -3.4e38),
    F32: (1e39, -1e39, 3.4028235e38, 1e39 + 0j, 1j),
    torch.complex64: (1e39, 1e39j),
    torch.int8: (128, -129, 127.5, 1e39, math.inf, math.nan, 1 + 1j),
    torch.uint8: (256, -256, -0.5, 255.5),
    torch.int16: (1 << 15, -(1 << 15) - 1),
    torch.int32: (1 << 31, 2147483647.5),
    torch.int64: (1 << 63, 1e20, math.nan),
    torch.uint16: (65536, -65536, -1.5),
    torch.float8_e5m2: (1e6,),
}
INSIDE = [
    (F16, 65504.0, 65504.0), (F16, -math.inf, -math.inf), (BF16, -1e9, -998244352.0), (BF16, 2**63, float(2**63)),
    (F32, math.inf, math.inf), (F32, 3.4e38, 3.3999999521443642e38), (F32, 3 + 0j, 3.0), (F64, 1e39, 1e39),
    (torch.complex64, -math.inf, complex(-math.inf, 0)), (torch.int8, -128, -128), (torch.int8, 1.7, 1),
    (torch.uint8, -1, 255), (torch.uint8, -255, 1), (torch.int64, -(2**63), -(2**63)),
    (torch.uint64, 2**64 - 1, 2**64 - 1), (torch.bool, math.nan, True), (torch.bool, 1e39, True),
]  # fmt: skip

WRITERS = {
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill_": lambda x, v: x.fill_(v),
    "fill": torch.fill,
    "fill_strided": lambda x, v: torch.zeros(4, dtype=x.dtype)[::2].fill_(v),
    "fill_diagonal_": lambda x, v: torch.diagonal(torch.zeros(2, 2, dtype=x.dtype).fill_diagonal_(v)),
    "constant_pad_nd": lambda x, v: torch.constant_pad_nd(x, (2, 0), v)[:2],
}
CHOOSERS = {
    "masked_fill": lambda x, v: x.masked_fill(torch.tensor([True, True]), v),
    "masked_fill_": lambda x, v: x.masked_fill_(torch.tensor([True, True]), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0, 1]), v),
    "index_fill_": lambda x, v: x.index_fill_(0, torch.tensor([0, 1]), v),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0, 1]), v),
}


def ones(dtype):
    return torch.ones(2).to(dtype)


@pytest.mark.parametrize("name", WRITERS | CHOOSERS)
@pytest.mark.parametrize("dtype", OUTSIDE, ids=str)
def test_writing_a_number_that_does_not_fit_raises(name, dtype):
    if name in CHOOSERS and dtype is torch.float8_e5m2:
        return
    write = (WRITERS | CHOOSERS)[name]
    for value in OUTSIDE[dtype]:
        with pytest.raises(RuntimeError) as raised:
            write(ones(dtype), value)
        if name[:5] != "index" or not isinstance(value, complex):
            assert str(raised.value) == f"value cannot be converted to type {NAMES[dtype]} without overflow", value


@pytest.mark.parametrize("name", WRITERS | CHOOSERS)
def test_written_numbers_at_the_edge(name):
    write = (WRITERS | CHOOSERS)[name]
    for dtype, value, expected in INSIDE:
        if name[:5] == "index" and isinstance(value, complex):
            continue  # PyTorch has them take no complex number beside a real dtype
        assert write(ones(dtype), value).tolist() == [expected] * 2, (dtype, value)


@pytest.mark.parametrize("name", WRITERS | CHOOSERS)
def test_nan_fits_floats_and_long_integers_fit_nothing(name):
    write = (WRITERS | CHOOSERS)[name]
    for dtype in (F16, BF16, F32, F64):
        assert all(map(math.isnan, write(ones(dtype), math.nan).tolist()))
    for dtype in (F32, torch.int64, torch.bool):
        for value in (2**64, -(2**63) - 1, 10**40):
            with pytest.raises(OverflowError):
                write(ones(dtype), value)


SETTERS = {
    "number": lambda x, v: x.__setitem__(0, v),
    "slice": lambda x, v: x.__setitem__(slice(0, 1), v),
    "index": lambda x, v: x.__setitem__(torch.tensor([0]), v),
    "mask": lambda x, v: x.__setitem__(torch.tensor([True, False]), v),
    "leaf": lambda x, v: x.fill_(v) if x.numel() == 1 else x[:1].fill_(v),
}


@pytest.mark.parametrize("name", SETTERS)
def test_a_single_element_of_few_bits_becomes_infinite(name):
    """A number beside an index is one element first, and so is a tensor with one: those are checked less."""
    for dtype, value, expected in [(F16, 1e6, math.inf), (F16, -1e39, -math.inf), (BF16, 1e39, math.inf)]:
        x = ones(dtype)
        SETTERS[name](x, value)
        assert x.tolist() == [expected, 1.0]
    for dtype in (F32, torch.int8, torch.uint8, torch.int64):
        for value in OUTSIDE[dtype]:
            with pytest.raises((RuntimeError, ValueError)):
                SETTERS[name](ones(dtype), value)


# operations that refuse a number: in the dtype itself, and as a float beside 16-bit floats
NARROW = {
    "clamp": lambda x, v: torch.clamp(x, max=v),
    "clamp_both": lambda x, v: x.clamp(0, v),
    "clamp_": lambda x, v: x.clamp_(min=v),
    "clamp_min": lambda x, v: x.clamp_min(v),
    "clamp_many": lambda x, v: x.repeat(50000).clamp(max=v)[:2],
    "hardtanh": lambda x, v: functional.hardtanh(x, -v, v),
    "hardshrink": functional.hardshrink,
    "threshold": lambda x, v: functional.threshold(x, 2.0, v),
    "add": lambda x, v: x.add(x, alpha=v),
    "add_": lambda x, v: x.add_(1, alpha=v),
    "sub": lambda x, v: x.sub(x, alpha=v),
    "addmv": lambda x, v: x.addmv(x.expand(2, 2), x, alpha=v),
    "addr": lambda x, v: x.expand(2, 2).addr(x, x, beta=v),
    "pad": lambda x, v: functional.pad(x, (1, 1), value=v),
    "index_add": lambda x, v: x.index_add(0, torch.tensor([0]), x[:1], alpha=v),
    "linspace": lambda x, v: torch.linspace(0, v, 3, dtype=x.dtype),
    "logspace": lambda x, v: torch.logspace(v, 0, 3, dtype=x.dtype),
    "masked_fill_by_tensor": lambda x, v: x.masked_fill(x > 0, torch.tensor(v, dtype=F64)),
}
WIDE = {
    "addcmul": lambda x, v: x.addcmul(x, x, value=v),
    "addcmul_": lambda x, v: x.addcmul_(x.clone(), x.clone(), value=v),
    "addcdiv": lambda x, v: x.addcdiv(x, x, value=v),
    "lerp": lambda x, v: torch.lerp(x, x, v),
    "addmm": lambda x, v: x.expand(2, 2).addmm(x.expand(2, 2), x.expand(2, 2), alpha=v),
    "addmm_beta": lambda x, v: x.expand(2, 2).addmm(x.expand(2, 2), x.expand(2, 2), beta=v),
    "baddbmm": lambda x, v: x.expand(1, 2, 2).baddbmm(x.expand(1, 2, 2), x.expand(1, 2, 2), alpha=v),
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "softplus": functional.softplus,
    "threshold": lambda x, v: functional.threshold(x, v, 1.0),
    "range": lambda x, v: torch.arange(v, v, dtype=x.dtype),
}


@pytest.mark.parametrize("name", NARROW)
def test_operands_must_fit_the_dtype(name):
    for dtype, value in [(F16, 1e6), (BF16, 1e39), (F32, 1e39)]:
        with pytest.raises(RuntimeError, match=f"type {NAMES[dtype]} without overflow"):
            NARROW[name](ones(dtype), value)
    NARROW[name](ones(F64), 1e39)
    for dtype in (F16, F32):
        NARROW[name](ones(dtype), math.inf)


@pytest.mark.parametrize("name", WIDE)
def test_parameters_beside_16_bit_floats_must_fit_32_bits(name):
    for dtype in (F16, BF16, F32) if name != "range" else (F16, BF16):
        with pytest.raises(RuntimeError, match="type float without overflow"):
            WIDE[name](ones(dtype), 1e39)
    WIDE[name](ones(F16), 1e6)
    WIDE[name](ones(F64), 1e39)
    if name != "range":
        WIDE[name](ones(F32), math.inf)


def test_integer_operands_must_fit():
    x = torch.ones(2, dtype=torch.int8)
    for run in (
        lambda: x.clamp(max=300), lambda: x.clamp_(-300, 300), lambda: torch.where(x > 0, 300, x), lambda: x.add(x, alpha=300),
        lambda: x.addcmul(x, x, value=300), lambda: x.pow(300), lambda: torch.linspace(0, 300, 3, dtype=torch.int8),
        lambda: x.masked_fill(x > 0, torch.tensor(300)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="type int8_t without overflow"):
            run()
    assert x.clamp(max=300.7).tolist() == [1.0, 1.0]
    assert x.sub(x, alpha=128).tolist() == [-127, -127]  # it adds -128 times


def test_where_takes_numbers_as_single_elements():
    condition = torch.tensor([True, False])
    assert torch.where(condition, 1e6, ones(F16)).tolist() == [math.inf, 1.0]
    for other in (ones(F32), torch.ones(2, dtype=torch.int64)):
        for args in ((1e39, other), (other, 1e39)):
            with pytest.raises(RuntimeError, match="type float without overflow"):
                torch.where(condition, *args)
    assert torch.where(condition, -math.inf, ones(F32)).tolist() == [-math.inf, 1.0]


# operations where a number beyond the dtype is infinite, or wraps around, without a word
SILENT = [
    (lambda x: x + 1e39, F32, math.inf), (lambda x: x.add_(1e39), F32, math.inf), (lambda x: x.mul_(-1e39), F32, -math.inf),
    (lambda x: x * 1e6, F16, math.inf), (lambda x: x / 1e39, F32, 0.0), (lambda x: x < 1e39, F32, True),
    (lambda x: x == 1e39, F16, False), (lambda x: x.pow(1e39), F32, 1.0), (lambda x: x + 300, torch.int8, 45),
    (lambda x: torch.nan_to_num(x * math.nan, 1e39), F32, math.inf), (lambda x: torch.fmod(x, 1e39), F32, 1.0),
    (lambda x: torch.tensor([1e39, 1e39]), F32, math.inf), (lambda x: torch.as_tensor([1e39] * 2), F32, math.inf),
    (lambda x: torch.tensor([1e6, 1e6], dtype=F16), F16, math.inf), (lambda x: x.fill_(torch.tensor(1e39)), F16, math.inf),
    (lambda x: torch.arange(1e39, 1.5e39, 3e38), F32, math.inf),
    (lambda x: x.expand(2, 2).addmm(x.expand(2, 2), x.expand(2, 2), alpha=6e4)[0], F16, math.inf),
    (lambda x: ((x * 6e4).expand(2, 2) @ x.expand(2, 2))[0], F16, math.inf),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SILENT)))
def test_arithmetic_takes_any_number_without_a_warning(number):
    run, dtype, expected = SILENT[number]
    assert run(ones(dtype)).tolist() == [expected] * 2


def test_data_with_integers_that_do_not_fit():
    for data, dtype, error in [
        ([300], torch.int8, RuntimeError), (-256, torch.uint8, RuntimeError), ([2**63], torch.int64, ValueError),
        (2**64, None, ValueError),
    ]:  # fmt: skip
        with pytest.raises(error):
            torch.tensor(data, dtype=dtype)
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]

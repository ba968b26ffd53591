"""Complex numbers of 16 bits: promotion, random numbers, and the operations that PyTorch has for them on the CPU."""

import pytest

import flambeau as torch

C32 = torch.complex32


@pytest.mark.parametrize(
    ("other", "dtype"),
    [
        (torch.bool, C32), (torch.int64, C32), (torch.float16, C32), (torch.bfloat16, torch.complex64),
        (torch.float32, torch.complex64), (torch.float64, torch.complex128), (torch.complex128, torch.complex128),
    ],
)  # fmt: skip
def test_promotion(other, dtype):
    assert torch.promote_types(C32, other) is torch.promote_types(other, C32) is dtype


def test_half_with_complex_numbers():
    half = torch.ones(2).half()
    for made in (half * 1j, half + 1j, 1j - half, half * torch.tensor(1j)):
        assert made.dtype is C32
    assert (half.bfloat16() * 1j).dtype is torch.complex64
    assert (half * torch.tensor([1j])).dtype is torch.complex64
    assert torch.half.to_complex() is C32 and torch.result_type(half, 1j) is C32
    assert torch.complex(half, half).dtype is C32


def test_random_numbers_are_pytorchs():
    torch.manual_seed(0)
    drawn = torch.view_as_real(torch.randn(2, dtype=C32))
    assert drawn.tolist() == [[1.08984375, -0.20751953125], [-1.541015625, 0.40185546875]]
    torch.manual_seed(0)
    assert torch.rand(1, dtype=C32).imag.item() == 0.76806640625


def test_arithmetic_computes_in_single_precision():
    x = torch.tensor([1 + 2j, -3 + 0.5j]).to(C32)
    wide = x.to(torch.complex64)
    for function in (
        lambda x: x * x, lambda x: x + x, lambda x: x - 2 * x, lambda x: -x, lambda x: x.abs(), lambda x: x * 1j,
        lambda x: x == x, lambda x: x.isnan(), lambda x: x.sgn().abs(), lambda x: torch.where(x == x, x, -x),
        lambda x: torch.isclose(x, x), lambda x: torch.any(x), lambda x: torch.add(x, x, alpha=2),
        lambda x: x.masked_fill(x.real > 0, 0),
    ):  # fmt: skip
        made, expected = function(x), function(wide)
        assert made.dtype is {torch.complex64: C32, torch.float32: torch.float16}.get(expected.dtype, expected.dtype)
        assert torch.allclose(made.to(expected.dtype), expected, rtol=1e-3)
    x += 1
    x *= x
    assert x.dtype is C32 and x.tolist() == [8j, 3.75 - 2j]


def test_gradients_pass_through():
    x = torch.ones(3).half().requires_grad_()
    (x * 2j).abs().float().sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_other_operations_are_refused():
    for function in (torch.exp, torch.sum, lambda x: x / 2):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
            function(torch.ones(2, dtype=C32))

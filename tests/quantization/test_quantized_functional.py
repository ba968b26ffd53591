"""`torch.ao.nn.quantized.functional`: the float functions between quantized tensors."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

quantized = torch.ao.nn.quantized.functional


def made(*shape, dtype=torch.quint8, zero_point=100):
    return torch.quantize_per_tensor(torch.randn(*shape), 0.05, zero_point, dtype)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("avg_pool2d", (2,), (2, 3, 6, 6)),
        ("avg_pool3d", (2,), (1, 2, 4, 4, 4)),
        ("adaptive_avg_pool2d", (3,), (2, 3, 6, 6)),
        ("adaptive_avg_pool3d", (2,), (1, 2, 4, 4, 4)),
        ("max_pool1d", (2,), (2, 3, 8)),
        ("max_pool2d", (3, 2, 1), (2, 3, 6, 6)),
        ("interpolate", (None, 2), (1, 2, 4, 4)),
        ("leaky_relu", (0.2,), (3, 4)),
        ("hardtanh", (-0.5, 0.7), (3, 4)),
        ("clamp", (-0.5, 0.7), (3, 4)),
        ("threshold", (0.12, 0.5), (3, 4)),
    ],
)
def test_results_keep_scale_and_zero_point(name, args, shape):
    x = made(*shape)
    out = getattr(quantized, name)(x, *args)
    assert (out.q_scale(), out.q_zero_point(), out.dtype) == (x.q_scale(), 100, torch.quint8)
    wanted = getattr(F, name, torch.clamp)(x.dequantize(), *args)
    assert (out.dequantize() - wanted).abs().max() <= 0.026


@pytest.mark.parametrize("name", ["elu", "celu", "hardswish"])
def test_results_with_another_scale(name):
    x = made(4, 5)
    out = getattr(quantized, name)(x, 0.1, 20)
    assert (out.q_scale(), out.q_zero_point()) == (0.1, 20)
    assert (out.dequantize() - getattr(F, name)(x.dequantize())).abs().max() <= 0.051


def test_hardsigmoid_uses_the_whole_range():
    for dtype, zero_point in ((torch.quint8, 0), (torch.qint8, -128)):
        out = quantized.hardsigmoid(made(3, 4, dtype=dtype, zero_point=3))
        assert (out.q_scale(), out.q_zero_point()) == (1 / 256, zero_point)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions(n):
    x, weight, bias = made(2, 4, *[5] * n), made(6, 4, *[3] * n, dtype=torch.qint8, zero_point=0), torch.randn(6)
    convolve = getattr(quantized, f"conv{n}d")
    out = convolve(x, weight, bias, padding=1, scale=0.2, zero_point=60)
    wanted = getattr(F, f"conv{n}d")(x.dequantize(), weight.dequantize(), bias, padding=1)
    wanted = torch.quantize_per_tensor(wanted, 0.2, 60, torch.quint8)
    assert (out.int_repr().int() - wanted.int_repr().int()).abs().max() <= 1
    for wrong, error, text in (
        ((x.dequantize(), weight, bias), NotImplementedError, "quint8 is supported for activation"),
        ((x, weight.dequantize(), bias), NotImplementedError, "qint8 is supported for weight"),
        ((x[0], weight, bias), ValueError, "Input shape must be"),
    ):
        with pytest.raises(error, match=text):
            convolve(*wrong)
    with pytest.raises(NotImplementedError, match="zero-padding"):
        convolve(x, weight, bias, padding_mode="reflect")


def test_linear_and_in_place_forms():
    x, weight = made(3, 4), made(6, 4, dtype=torch.qint8, zero_point=0)
    out = quantized.linear(x, weight, None, 0.5, 99)
    assert (out.q_scale(), out.q_zero_point(), out.shape) == (0.5, 99, (3, 6))
    assert (out.dequantize() - x.dequantize() @ weight.dequantize().T).abs().max() <= 0.251
    assert quantized.hardtanh(x, -0.5, 0.5, inplace=True) is x
    assert x.dequantize().abs().max() <= 0.5001


def test_older_names_of_interpolate():
    x = made(1, 2, 4, 4)
    for old, named in (
        (quantized.upsample_nearest, {}),
        (quantized.upsample, {}),
        (quantized.upsample_bilinear, {"mode": "bilinear", "align_corners": True}),
    ):
        assert torch.equal(old(x, 7).int_repr(), quantized.interpolate(x, 7, **named).int_repr())


def test_floats_are_refused():
    with pytest.raises(ValueError, match=r"Input to 'quantized\.avg_pool2d' must be quantized!"):
        quantized.avg_pool2d(torch.ones(1, 2, 2), 2)
    with pytest.raises(ValueError, match=r"Input to 'quantized\.clamp' must be quantized!"):
        quantized.clamp(torch.ones(2), 0.0, 1.0)
    with pytest.raises(NotImplementedError, match="return_indices"):
        quantized.max_pool2d(made(1, 1, 2, 2), 2, return_indices=True)

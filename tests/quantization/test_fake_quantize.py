"""Rounding as quantization would do it, with straight-through gradients."""

import numpy as np
import pytest

import flambeau as torch


def reference(x, scale, zero, low, high):
    scale = np.float32(scale)
    q = np.clip(np.rint(x * (np.float32(1) / scale)) + zero, low, high)
    return (q - np.float32(zero)).astype(np.float32) * scale


@pytest.mark.parametrize("scale, zero, low, high", [(0.1, 0, -10, 10), (0.037, 5, -128, 127), (0.1, 63, 0, 255)])
def test_values(scale, zero, low, high):
    x = torch.linspace(-6, 6, 241)
    found = torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)
    assert np.array_equal(found.numpy(), reference(x.numpy(), scale, zero, low, high))


def test_values_by_channel():
    x = torch.randn(4, 3, 5) * 3
    scale, zero = torch.tensor([0.1, 0.02, 0.5]), torch.tensor([0, 3, -7], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127)
    for i in range(3):
        expected = reference(x[:, i].numpy(), scale[i].item(), int(zero[i]), -128, 127)
        assert np.array_equal(found[:, i].numpy(), expected)


def test_gradients_pass_inside_the_range():
    x = torch.linspace(-2, 2, 9, requires_grad=True)
    torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -10, 10).sum().backward()
    assert x.grad.tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0]
    (g,) = torch.autograd.grad(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -10, 10).sum(), x, create_graph=True)
    assert g.tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("d", ["float64", "float16", "bfloat16"])
def test_dtypes(d):
    x = torch.tensor([0.26, 9.0, float("nan")], dtype=getattr(torch, d))
    found = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -10, 10)
    assert found.dtype is x.dtype and torch.allclose(found.float(), torch.tensor([0.3, 1.0, -1.0]), atol=5e-3)


def test_errors():
    x = torch.ones(2, 3)
    for call in (
        lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 50, -10, 10),
        lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 10, -10),
        lambda: torch.fake_quantize_per_tensor_affine(x.long(), 0.1, 0, -10, 10),
        lambda: torch.fake_quantize_per_channel_affine(x, torch.ones(2), torch.zeros(3).int(), 1, 0, 255),
        lambda: torch.fake_quantize_per_channel_affine(x, torch.ones(3), torch.zeros(3).long(), 1, 0, 255),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(IndexError):
        torch.fake_quantize_per_channel_affine(x, torch.ones(3), torch.zeros(3).int(), 5, 0, 255)
    with pytest.raises(TypeError):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0.5, -10, 10)


def test_fused_with_an_observer():
    on = torch.tensor([1])
    low, high = torch.tensor([float("inf")]), torch.tensor([float("-inf")])
    scale, zero = torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)
    x = torch.linspace(-2, 2, 9)
    torch.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero, 0.01, 0, 255, -1)
    assert (low.item(), high.item(), zero.item()) == (-2, 2, 127) and scale.item() == pytest.approx(4 / 255)
    torch.fused_moving_avg_obs_fake_quant(x * 2, on, on, low, high, scale, zero, 0.01, 0, 255, -1, False, True)
    assert low.item() == pytest.approx(-2.02) and zero.item() == 128
    kept = torch.fused_moving_avg_obs_fake_quant(x * 9, on * 0, on * 0, low, high, scale, zero, 0.01, 0, 255, -1)
    assert torch.equal(kept, x * 9) and low.item() == pytest.approx(-2.02)


def test_chosen_scales():
    assert torch._choose_qparams_per_tensor(torch.arange(6.0) - 2) == (5 / 255, 102)
    high, low = torch.choose_qparams_optimized(torch.arange(6.0), 6, 10, 0.16, 8)
    assert (high.item(), low.item()) == (5, 0)


@pytest.mark.parametrize(
    ("values", "bins", "ratio", "bits", "expected"),
    [
        (np.linspace(-1, 1, 64), 200, 0.16, 4, (0.9500000476837158, -0.9500000476837158)),
        ([*np.linspace(-1, 1, 64), -3.0, 3.0], 200, 0.5, 2, (1.8600010871887207, -1.8600010871887207)),
        ([-4.0, -1.0, 0.0, 1.0, 4.0], 20, 0.5, 2, (3.5999999046325684, -4.0)),
    ],
)
def test_ranges_that_lose_least(values, bins, ratio, bits, expected):
    """Where both ends lose as much, the upper one moves."""
    high, low = torch.choose_qparams_optimized(
        torch.tensor(np.array(values, np.float32)), len(values), bins, ratio, bits
    )
    assert (high.item(), low.item()) == pytest.approx(expected, abs=1e-6)


def test_defaults_as_dicts_and_fixed_parameters():
    q = torch.ao.quantization
    parts = ["", "object_type", "module_name_regex", "module_name", "module_name_object_type_order"]
    assert list(q.get_default_qconfig_dict()) == list(q.get_default_qat_qconfig_dict()) == parts
    fixed = q.default_fixed_qparams_range_0to1_fake_quant()
    _, zero_point = fixed.calculate_qparams()
    assert fixed(torch.tensor([0.5, 2.0])).tolist() == [0.5, 255 / 256] and zero_point.tolist() == [0]
    assert fixed.extra_repr().split(", ")[-1] == "qscheme=torch.per_tensor_affine" and "scale=tensor([0.0039])" in repr(
        fixed
    )
    model = torch.nn.Sequential(fixed)
    model.apply(q.disable_fake_quant).apply(q.disable_observer)
    assert fixed(torch.tensor([2.0])).tolist() == [2.0] and not fixed.observer_enabled
    model.apply(q.enable_fake_quant).apply(q.enable_observer)
    assert fixed.fake_quant_enabled and fixed.observer_enabled


def test_functions_as_modules():
    import flambeau.ao.nn.quantized as nq

    a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 1.0])
    plain, quantized = nq.FloatFunctional(), nq.QFunctional()
    quantized.scale, quantized.zero_point = 0.1, 50
    qa, qb = (torch.quantize_per_tensor(t, 0.1, 50, torch.quint8) for t in (a, b))
    for name, args, qargs in (
        ("add", (a, b), (qa, qb)), ("mul", (a, b), (qa, qb)), ("add_scalar", (a, 2.0), (qa, 2.0)),
        ("mul_scalar", (a, 2.0), (qa, 2.0)), ("cat", ([a, b],), ([qa, qb],)), ("add_relu", (a, b), (qa, qb)),
    ):  # fmt: skip
        expected = getattr(plain, name)(*args)
        torch.testing.assert_close(getattr(quantized, name)(*qargs).dequantize(), expected, atol=0.06, rtol=0)
    assert plain.matmul(a, b).item() == 1.0 and plain.add_relu(a, b).tolist() == [4.0, 0.0]
    with pytest.raises(RuntimeError):
        plain(a)

"""Quantized tensors: integers that stand for numbers."""

import copy
import io

import numpy as np
import pytest

import flambeau as torch

X = torch.tensor([[-1.0, 0.0, 1.26], [2.5, 3.3, 100.0]])


@pytest.fixture
def q():
    return torch.quantize_per_tensor(X, 0.1, 10, torch.quint8)


@pytest.fixture
def by_row():
    return torch.quantize_per_channel(X, torch.tensor([0.1, 0.5]), torch.tensor([3, 0]), 0, torch.quint8)


def test_facts(q, by_row):
    assert q.is_quantized and not X.is_quantized and q.dtype is torch.quint8
    assert (q.q_scale(), q.q_zero_point(), repr(q.qscheme())) == (0.1, 10, "torch.per_tensor_affine")
    assert q.int_repr().tolist() == [[0, 10, 23], [35, 43, 255]] and q.int_repr().dtype is torch.uint8
    assert by_row.int_repr().tolist() == [[0, 3, 16], [5, 7, 200]] and by_row.q_per_channel_axis() == 0
    assert by_row.q_per_channel_scales().dtype is torch.float64
    assert by_row.q_per_channel_zero_points().tolist() == [3, 0]
    assert torch.allclose(by_row.dequantize(), torch.tensor([[-0.3, 0, 1.3], [2.5, 3.5, 100]]))


def test_rounding_is_half_to_even_after_the_zero_point():
    x = torch.arange(-40, 41, dtype=torch.float32) / 2 * 0.1
    inverse = np.float32(1) / np.float32(0.1)
    expected = np.rint(x.numpy() * inverse + np.float32(3))
    assert torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).int_repr().tolist() == expected.tolist()


@pytest.mark.parametrize("d, low, high", [("quint8", 0, 255), ("qint8", -128, 127), ("qint32", -(2**31), 2**31 - 1)])
def test_values_beyond_the_range_are_held_to_it(d, low, high):
    x = torch.tensor([float("inf"), float("-inf"), float("nan")])
    assert torch.quantize_per_tensor(x, 0.1, 0, getattr(torch, d)).int_repr().tolist() == [high, low, high]


def test_text(q, by_row):
    assert repr(q) == (
        "tensor([[-1.0000,  0.0000,  1.3000],\n        [ 2.5000,  3.3000, 24.5000]], size=(2, 3), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    )
    assert "scale=tensor([0.1000, 0.5000], dtype=torch.float64)" in repr(by_row) and repr(by_row).endswith("axis=0)")


def test_views(q):
    for view in (q[0], q[:, 1:], q.t(), q.view(-1), q.reshape(3, 2), q.unsqueeze(0), q.expand(2, 2, 3), q.flatten()):
        assert view.is_quantized and view.q_scale() == 0.1
    assert torch.equal(q.t().dequantize(), q.dequantize().t())
    row = q[0]
    row.fill_(1.0)
    assert torch.allclose(q.dequantize()[0], torch.ones(3))
    assert q[1, 0].item() == 2.5 and len(list(q)) == 2


def test_views_by_channel(by_row):
    values = by_row.dequantize()
    for view in (lambda t: t.t(), lambda t: t[0], lambda t: t[:, 1], lambda t: t.unsqueeze(0), lambda t: t[1:]):
        assert torch.equal(view(by_row).dequantize(), view(values))
    assert by_row.t().q_per_channel_axis() == 1 and by_row[1].q_scale() == 0.5
    with pytest.raises(RuntimeError):
        by_row.reshape(3, 2)


def test_operations(q):
    values = q.dequantize()
    assert torch.allclose(torch.relu(q).dequantize(), torch.relu(values))
    assert torch.allclose(q.clamp(0, 1).dequantize(), values.clamp(0, 1))
    assert torch.equal(q.max().dequantize(), values.max()) and torch.equal(q.sort()[0].dequantize(), values.sort()[0])
    assert torch.equal(torch.cat([q, q]).dequantize(), torch.cat([values, values]))
    assert (q == q).all() and (q == X).tolist() == [[True, True, False], [True, True, False]]
    assert torch.sigmoid(q).q_scale() == 1 / 256
    for refused in (lambda: q + q, lambda: -q, lambda: q.sum(), lambda: q.to(torch.float32)):
        with pytest.raises((NotImplementedError, RuntimeError)):
            refused()


def test_pooling_on_quantized_pictures():
    x = torch.quantize_per_tensor(torch.randn(1, 2, 4, 4), 0.05, 3, torch.qint8)
    pooled = torch.nn.functional.max_pool2d(x, 2)
    assert torch.equal(pooled.dequantize(), torch.nn.functional.max_pool2d(x.dequantize(), 2))
    assert torch.nn.functional.adaptive_avg_pool2d(x, 1).q_scale() == 0.05


def test_copies(q, by_row):
    for t in (q, by_row):
        for made in (t.clone(), copy.deepcopy(t), t.detach(), t.contiguous(), t.to("cpu")):
            assert (
                made.is_quantized and torch.equal(made.dequantize(), t.dequantize()) and made.qscheme() is t.qscheme()
            )
    target = torch.quantize_per_tensor(torch.zeros(2, 3), 0.2, 0, torch.quint8)
    target.copy_(X)
    assert target.q_scale() == 0.2 and torch.allclose(target.dequantize()[0], torch.tensor([0.0, 0.0, 1.2]))
    with pytest.raises(RuntimeError):
        X.clone().copy_(q)
    assert copy.deepcopy(q).int_repr().data_ptr() != q.int_repr().data_ptr()


def test_files(q, by_row):
    for t in (q, by_row):
        file = io.BytesIO()
        torch.save({"t": t}, file)
        file.seek(0)
        found = torch.load(file, weights_only=True)["t"]
        assert torch.equal(found, t) and repr(found) == repr(t)


def test_dynamic():
    q = torch.quantize_per_tensor_dynamic(X, torch.quint8, False)
    assert q.q_scale() == 0.396078431372549 and q.q_zero_point() == 3
    assert torch.quantize_per_tensor_dynamic(X, torch.qint8, False).q_zero_point() == -125
    assert torch.quantize_per_tensor_dynamic(X * 0, torch.quint8, False).q_scale() == 0.1
    assert torch.quantize_per_tensor_dynamic(X, torch.float16, False).dtype is torch.float16


def test_errors(q, by_row):
    for call in (
        lambda: torch.quantize_per_tensor(X.double(), 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_tensor(X, 0.1, 300, torch.qint8),
        lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.int8),
        lambda: torch.quantize_per_channel(X, torch.tensor([0.1]), torch.tensor([0]), 0, torch.qint8),
        lambda: by_row.q_scale(),
        lambda: q.q_per_channel_scales(),
        lambda: X.to(torch.quint8),
        lambda: torch.zeros(2, dtype=torch.qint8),
        lambda: torch.promote_types(torch.qint8, torch.float32),
    ):
        with pytest.raises(RuntimeError):
            call()
    for call in (lambda: X.q_scale(), lambda: X.int_repr(), lambda: torch.empty_like(q)):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(TypeError):
        q.numpy()


def test_lists():
    both = torch.quantize_per_tensor([X, X], torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), torch.qint8)
    assert [t.q_zero_point() for t in both] == [1, 2] and len(torch.dequantize(both)) == 2

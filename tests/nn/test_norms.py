"""Normalization and dropout layers: values, running statistics, states, layouts, lazy ones, what fails."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F


def plain(x, axes, eps=1e-5):
    x = np.asarray(x, np.float64)
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 7), (3, 5, 4, 6), (2, 5, 3, 2, 4), (4, 5, 1, 1), (70, 5, 40, 40)])
def test_batch_norm(shape):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    layer = kind(5)
    x = torch.randn(*shape) * 3 + 100
    axes = (0, *range(2, len(shape)))
    out = layer(x)
    np.testing.assert_allclose(out.detach().numpy(), plain(x, axes), atol=2e-4)
    mean, var = x.double().numpy().mean(axes), x.double().numpy().var(axes, ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * var, rtol=1e-4)
    assert layer.num_batches_tracked == 1
    layer.eval()
    around = (1, 5, *[1] * (len(shape) - 2))
    expected = (x.numpy() - layer.running_mean.numpy().reshape(around)) / np.sqrt(
        layer.running_var.numpy().reshape(around) + 1e-5
    )
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    assert layer.num_batches_tracked == 1


def test_batch_norm_keeps_channels_last():
    layer, x = nn.BatchNorm2d(6), torch.randn(4, 6, 5, 3)
    twin = copy.deepcopy(layer)
    last = x.to(memory_format=torch.channels_last).requires_grad_()
    first = x.clone().requires_grad_()
    a, b = layer(last), twin(first)
    assert a.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(a, b, atol=1e-6) and torch.allclose(layer.running_var, twin.running_var)
    g = torch.randn(4, 6, 5, 3)
    a.backward(g)
    b.backward(g)
    assert torch.allclose(last.grad, first.grad, atol=1e-6)
    assert torch.allclose(layer.weight.grad, twin.weight.grad, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 2, 4)])
def test_batch_norm_derivatives(shape):
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    w, b = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def function(x, w, b):
        return nn.functional.batch_norm(x, None, None, w, b, True)

    assert gradcheck(function, (x, w, b))
    assert gradgradcheck(function, (x, w, b))


@pytest.mark.parametrize("shape", [(50, 8), (6, 8, 40), (70, 8, 40, 40)])
def test_gradient_of_a_sum(shape):
    """A gradient that is one number in memory takes a path of its own."""
    x = torch.randn(*shape, requires_grad=True)
    weight = torch.randn(8, requires_grad=True)
    results = []
    for g in (torch.ones(()).expand(shape), torch.ones(shape)):
        out = nn.functional.batch_norm(x, None, None, weight, None, True)
        results.append(torch.autograd.grad(out, (x, weight), g))
    for a, b in zip(*results):
        assert torch.allclose(a, b, atol=1e-2)


def test_momentum_none_averages():
    layer = nn.BatchNorm1d(3, momentum=None)
    batches = [torch.randn(8, 3) for _ in range(4)]
    for batch in batches:
        layer(batch)
    means = torch.stack([batch.mean(0) for batch in batches])
    assert torch.allclose(layer.running_mean, means.mean(0), atol=1e-6)
    assert layer.num_batches_tracked == 4


def test_running_statistics_count_as_written():
    layer, x = nn.BatchNorm1d(3), torch.randn(4, 3)
    before = layer.running_mean._version
    layer(x)
    assert layer.running_mean._version > before
    with torch.no_grad():
        layer(x)
    assert layer.num_batches_tracked == 2


def test_without_statistics_or_parameters():
    layer = nn.BatchNorm2d(3, affine=False, track_running_stats=False)
    assert list(layer.state_dict()) == [] and layer.weight is None and layer.running_mean is None
    x = torch.randn(4, 3, 2, 2)
    assert torch.allclose(layer.eval()(x), layer.train()(x))
    assert nn.BatchNorm1d(3, bias=False).bias is None
    tracked = nn.BatchNorm1d(3)
    tracked.track_running_stats = False
    tracked(torch.randn(4, 3))
    assert tracked.running_mean.tolist() == [0, 0, 0]


def test_states_of_older_versions():
    layer = nn.BatchNorm1d(3)
    assert layer.state_dict()._metadata[""]["version"] == 2
    layer.num_batches_tracked += 5
    old = OrderedDict(weight=torch.ones(3), bias=torch.ones(3), running_mean=torch.ones(3), running_var=torch.ones(3))
    layer.load_state_dict(old)
    assert layer.num_batches_tracked == 5 and layer.bias.tolist() == [1, 1, 1]
    old._metadata = {"": {"version": 2}}
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(old)
    with pytest.raises(RuntimeError, match="running"):
        nn.InstanceNorm1d(3).load_state_dict(OrderedDict(running_mean=torch.ones(3), running_var=torch.ones(3)))


def test_batch_norm_rejects():
    for kind, shape in (
        (nn.BatchNorm1d, (4,)),
        (nn.BatchNorm1d, (2, 3, 4, 4)),
        (nn.BatchNorm2d, (2, 3)),
        (nn.BatchNorm3d, (2, 3)),
    ):
        with pytest.raises(ValueError, match="expected"):
            kind(3)(torch.zeros(shape))
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.BatchNorm1d(3)(torch.zeros(1, 3))
    with pytest.raises(RuntimeError, match="elements"):
        nn.BatchNorm1d(3)(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="eps"):
        nn.BatchNorm1d(3, eps=-1.0)(torch.zeros(2, 3))


def test_sync_batch_norm_replaces():
    model = nn.Sequential(nn.BatchNorm2d(3).eval(), nn.Sequential(nn.BatchNorm1d(2, affine=False)), nn.ReLU())
    weight, mean = model[0].weight, model[0].running_mean
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert made is model and isinstance(model[0], nn.SyncBatchNorm) and isinstance(model[1][0], nn.SyncBatchNorm)
    assert model[0].weight is weight and model[0].running_mean is mean and not model[0].training
    x = torch.randn(4, 3, 2, 2)
    assert torch.allclose(model[0].train()(x), nn.BatchNorm2d(3)(x))
    with pytest.raises(ValueError, match="at least 2D"):
        nn.SyncBatchNorm(3)(torch.zeros(3))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_instance_norm(rank):
    layer = getattr(nn, f"InstanceNorm{rank}d")(3, affine=True, track_running_stats=True)
    x = torch.randn(2, 3, *[4] * rank)
    axes = tuple(range(2, 2 + rank))
    out = layer(x).detach()
    np.testing.assert_allclose(out.numpy(), plain(x, axes), atol=1e-4)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.numpy().mean(axes).mean(0), atol=1e-6)
    layer.train(False).track_running_stats = False
    assert torch.allclose(layer(x[0]).detach(), out[0], atol=1e-6)
    with pytest.raises(ValueError, match="num_features"):
        layer(torch.randn(2, 4, *[4] * rank))
    with pytest.warns(UserWarning, match="num_features"):
        type(layer)(5)(x)


@pytest.mark.parametrize("kind", ["BatchNorm", "InstanceNorm"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_lazy(kind, rank):
    layer = getattr(nn, f"Lazy{kind}{rank}d")()
    assert isinstance(layer.weight, nn.UninitializedParameter)
    x = torch.randn(2, 6, *[3] * rank)
    layer(x)
    assert type(layer) is getattr(nn, f"{kind}{rank}d") and layer.num_features == 6
    assert layer.weight.shape == (6,) and layer.running_var.shape == (6,)
    bare = getattr(nn, f"Lazy{kind}{rank}d")(affine=False)
    bare(x)
    assert bare.weight is None and bare.running_mean.shape == (6,)


def test_layer_norm():
    layer = nn.LayerNorm((3, 4))
    with torch.no_grad():
        layer.weight.normal_()
        layer.bias.normal_()
    x = torch.randn(5, 3, 4)
    expected = plain(x, (1, 2)) * layer.weight.detach().numpy() + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-5)
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.allclose(layer(strided), layer(x))
    assert nn.LayerNorm(4, bias=False).bias is None and nn.LayerNorm(4, elementwise_affine=False).weight is None
    with pytest.raises(RuntimeError, match="normalized_shape"):
        layer(torch.randn(3, 5))


@pytest.mark.parametrize("rows", [3, 700])
def test_layer_norm_gradients_match_double(rows):
    """Many rows are split over threads, and their gradients by the weight added up in blocks."""
    x = torch.randn(rows, 500, requires_grad=True)
    w, b = torch.randn(500, requires_grad=True), torch.randn(500, requires_grad=True)
    g = torch.randn(rows, 500)
    single = torch.autograd.grad(nn.functional.layer_norm(x, (500,), w, b), (x, w, b), g)
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    normalized = (wide[0] - wide[0].mean(1, True)) / (wide[0].var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    double = torch.autograd.grad(normalized * wide[1] + wide[2], wide, g.double())
    for a, b in zip(single, double):
        assert torch.allclose(a.double(), b, atol=2e-4)


def test_large_results_are_written_past_the_caches():
    x, w = torch.randn(2100, 1037), torch.randn(1037)
    out = nn.functional.layer_norm(x, (1037,), w, w)
    np.testing.assert_allclose(out.numpy(), plain(x, (1,)) * w.numpy() + w.numpy(), atol=1e-4)


def test_group_and_rms_norm():
    x = torch.randn(2, 6, 5, 3)
    expected = plain(x.reshape(2, 3, 2, 5, 3), (2, 3, 4)).reshape(x.shape)
    np.testing.assert_allclose(nn.GroupNorm(3, 6)(x).detach().numpy(), expected, atol=1e-5)
    rms = nn.RMSNorm(3)(x).detach().numpy()
    np.testing.assert_allclose(rms, x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True)), rtol=1e-4)
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(4, 6)
    assert nn.GroupNorm(2, 4, bias=False).bias is None


def test_response_norms():
    x = torch.rand(1, 7, 2, 2)
    square = np.pad(x.numpy() ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    mean = (square[:, :-2] + square[:, 1:-1] + square[:, 2:]) / 3
    expected = x.numpy() / (1 + 0.5 * mean) ** 0.75
    np.testing.assert_allclose(nn.LocalResponseNorm(3, 0.5)(x).numpy(), expected, rtol=1e-5)
    crossed = nn.CrossMapLRN2d(3, 0.5)(x).numpy()
    np.testing.assert_allclose(crossed[:, :2], expected[:, :2], rtol=1e-5)
    kept = x.numpy() / (1 + 0.5 * (mean + square[:, 1:2] / 3)) ** 0.75  # the first channel stays in the windows
    np.testing.assert_allclose(crossed[:, 2:], kept[:, 2:], rtol=1e-5)
    with pytest.raises(ValueError, match="4D"):
        nn.CrossMapLRN2d(3)(torch.zeros(3, 3))


PRINTED = {
    "BatchNorm2d(3)": "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
    "InstanceNorm1d(3)": "InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)",
    "LayerNorm((3, 4), bias=False)": "LayerNorm((3, 4), eps=1e-05, elementwise_affine=True, bias=False)",
    "GroupNorm(2, 4)": "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
    "RMSNorm(3)": "RMSNorm((3,), eps=None, elementwise_affine=True)",
    "LocalResponseNorm(2)": "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)",
    "CrossMapLRN2d(2)": "CrossMapLRN2d(2, alpha=0.0001, beta=0.75, k=1)",
    "Dropout2d(0.2, True)": "Dropout2d(p=0.2, inplace=True)",
}


@pytest.mark.parametrize("text", PRINTED)
def test_printed_and_pickled(text):
    layer = eval("nn." + text)
    assert repr(layer) == PRINTED[text]
    assert repr(pickle.loads(pickle.dumps(layer))) == PRINTED[text]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Dropout", (40, 50)),
        ("Dropout1d", (40, 50, 4)),
        ("Dropout2d", (40, 50, 2, 2)),
        ("Dropout3d", (40, 50, 2, 2, 2)),
    ],
)
def test_dropout(name, shape):
    torch.manual_seed(0)
    layer, x = getattr(nn, name)(0.25), torch.ones(shape)
    out = layer(x).numpy()
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - 0.25) < 0.05
    if len(shape) > 2:  # whole channels
        flat = out.reshape(40, 50, -1)
        assert (flat == flat[:, :, :1]).all()
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="probability"):
        getattr(nn, name)(1.5)


def test_alpha_dropout_keeps_moments():
    torch.manual_seed(0)
    x = nn.SELU()(torch.randn(200, 500))
    out = nn.AlphaDropout(0.2)(x)
    assert abs(float(out.mean() - x.mean())) < 0.02 and abs(float(out.std() - x.std())) < 0.02
    assert nn.FeatureAlphaDropout(0.2)(torch.randn(4, 5, 3)).shape == (4, 5, 3)


def test_bfloat16_norms_are_near_single():
    x = torch.randn(8, 6, 5)
    for layer in (nn.BatchNorm1d(6), nn.LayerNorm(5), nn.GroupNorm(2, 6), nn.RMSNorm(5)):
        expected = layer(x)
        out = copy.deepcopy(layer).bfloat16()(x.bfloat16())
        assert out.dtype is torch.bfloat16 and float((out.float() - expected).detach().abs().max()) < 0.06


@pytest.mark.parametrize(("layer", "shape"), [(nn.BatchNorm1d, (0, 3)), (nn.BatchNorm2d, (0, 3, 2, 2))])
def test_no_rows_have_gradients_of_zero(layer, shape):
    layer, x = layer(3), torch.ones(shape, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert out.shape == x.grad.shape == shape
    assert layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", [(3, 5, 7, 11), (2, 9, 1100), (40, 600), (2100, 3)])
def test_statistics_in_one_visit_are_exact(shape):
    """Blocks, columns and parts of rows: far from zero, where sums of squares alone would keep no digit."""
    torch.manual_seed(0)
    x = torch.randn(shape) + 1000.0
    wide = x.double()
    over = (0, *range(2, x.ndim))
    expected = (wide - wide.mean(over, True)) / wide.var(over, keepdim=True, correction=0).sqrt()
    for held in (x, x.to(memory_format=torch.channels_last) if x.ndim == 4 else x):
        made = F.batch_norm(held, None, None, training=True, eps=1e-12)
        assert (made - expected).abs().max() < 2e-3  # the last bit of the elements is a ten-thousandth of their spread
    if x.ndim > 2:
        rows = wide.flatten(2)
        expected = (rows - rows.mean(2, True)) / rows.var(2, keepdim=True, correction=0).sqrt()
        assert (F.instance_norm(x, eps=1e-12) - expected.view(shape)).abs().max() < 2e-3


def test_gradients_of_parameters_of_groups():
    """Sums over parts of rows, against the same in double precision by other operations."""
    torch.manual_seed(0)
    x, g = torch.randn(3, 6, 1030), torch.randn(3, 6, 1030)
    w, b = torch.rand(6, requires_grad=True), torch.rand(6, requires_grad=True)
    leaf = x.clone().requires_grad_()
    made = torch.autograd.grad(F.group_norm(leaf, 2, w, b), (leaf, w, b), g)
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    rows = wide[0].view(3, 2, -1)
    rows = (rows - rows.mean(2, True)) / (rows.var(2, keepdim=True, correction=0) + 1e-5).sqrt()
    formula = rows.view(3, 6, -1) * wide[1].view(6, 1) + wide[2].view(6, 1)
    for a, c in zip(made, torch.autograd.grad(formula, wide, g.double()), strict=True):
        torch.testing.assert_close(a.double(), c, rtol=1e-4, atol=1e-4)

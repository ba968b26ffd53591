"""Loss layers: options are handed on, buffers, fused cross-entropy and its derivatives, what fails."""

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck

F = nn.functional


def rand(*shape, seed=0, low=-2.0, high=2.0, **options):
    return torch.tensor(np.random.default_rng(seed).uniform(low, high, shape), **options)


ELEMENTWISE = {
    "L1Loss": lambda x, y: abs(x - y),
    "MSELoss": lambda x, y: (x - y) ** 2,
    "SmoothL1Loss": lambda x, y: np.where(abs(x - y) < 1, 0.5 * (x - y) ** 2, abs(x - y) - 0.5),
    "HuberLoss": lambda x, y: np.where(abs(x - y) <= 1, 0.5 * (x - y) ** 2, abs(x - y) - 0.5),
    "BCEWithLogitsLoss": lambda x, y: np.log1p(np.exp(x)) - x * y,
    "SoftMarginLoss": lambda x, y: np.log1p(np.exp(-y * x)),
    "PoissonNLLLoss": lambda x, y: np.exp(x) - y * x,
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, reduction):
    x, y = rand(3, 4), rand(3, 4, seed=1, low=0.0)
    expected = ELEMENTWISE[name](x.numpy(), y.numpy())
    expected = {"none": expected, "mean": expected.mean(), "sum": expected.sum()}[reduction]
    out = getattr(nn, name)(reduction=reduction)(x, y)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-10)


def cross_entropy(x, y, weight=None, skipped=-100):
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    kept = y != skipped
    factors = (np.ones(x.shape[1]) if weight is None else weight)[np.where(kept, y, 0)] * kept
    return -logs[np.arange(len(y)), np.where(kept, y, 0)] * factors, factors


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cross_entropy(dtype, reduction, weighted):
    x, y = rand(6, 5, dtype=dtype), torch.tensor([0, 4, 2, 2, 1, 3])
    weight = rand(5, seed=2, low=0.1, dtype=dtype) if weighted else None
    losses, factors = cross_entropy(x.double().numpy(), y.numpy(), weight.double().numpy() if weighted else None, 2)
    expected = {"none": losses, "mean": losses.sum() / factors.sum(), "sum": losses.sum()}[reduction]
    out = nn.CrossEntropyLoss(weight, ignore_index=2, reduction=reduction)(x, y)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5 if dtype is torch.float32 else 1e-10)
    assert torch.allclose(nn.NLLLoss(weight, ignore_index=2, reduction=reduction)(x.log_softmax(1), y), out)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_derivatives(reduction):
    x, y = rand(4, 3, requires_grad=True), torch.tensor([0, 2, 1, 2])
    loss = nn.CrossEntropyLoss(ignore_index=1, reduction=reduction)
    assert gradcheck(lambda x: loss(x, y), (x,))
    assert gradgradcheck(lambda x: loss(x, y), (x,))


def test_cross_entropy_backward_twice():
    """The gradient that was computed with the loss is given away only once."""
    x, y = rand(4, 3, requires_grad=True), torch.tensor([0, 2, 1, 2])
    out = 3 * nn.CrossEntropyLoss()(x, y)
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    assert torch.allclose(x.grad, 2 * first)
    expected = x.detach().softmax(1) - F.one_hot(y, 3)
    assert torch.allclose(first, 3 * expected / 4)


def test_cross_entropy_of_many_rows():
    """Large enough to be split over threads; a row of one class, all rows skipped, infinite scores."""
    x, y = torch.randn(300, 2000, requires_grad=True), torch.arange(300) * 6
    loss = nn.CrossEntropyLoss()(x, y)
    loss.backward()
    logs = x.detach().double().log_softmax(1)
    assert torch.allclose(loss.double(), -logs[torch.arange(300), y].mean(), rtol=1e-5)
    expected = (logs.exp() - F.one_hot(y, 2000)) / 300
    assert torch.allclose(x.grad.double(), expected, atol=1e-8)
    assert nn.CrossEntropyLoss()(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)) == 0
    assert torch.isnan(nn.CrossEntropyLoss(ignore_index=0)(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)))
    assert nn.CrossEntropyLoss(reduction="sum")(torch.tensor([[1e4, -1e4]]), torch.tensor([0])) == 0
    assert torch.isnan(nn.CrossEntropyLoss()(torch.tensor([[float("inf"), 0.0]]), torch.tensor([1])))


def test_cross_entropy_rejects():
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        nn.CrossEntropyLoss()(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(IndexError):
        nn.CrossEntropyLoss()(torch.zeros(2, 3), torch.tensor([-1, 0]))
    with pytest.raises(ValueError, match="batch_size"):
        nn.CrossEntropyLoss()(torch.zeros(2, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match="reduction"):
        nn.CrossEntropyLoss(reduction="other")(torch.zeros(2, 3), torch.tensor([0, 1]))


def test_cross_entropy_of_half_precision_matches_single():
    x, y = torch.randn(40, 7), torch.arange(40) % 7
    half = nn.CrossEntropyLoss()(x.bfloat16(), y)
    assert half.dtype is torch.bfloat16
    assert abs(float(half) - float(nn.CrossEntropyLoss()(x, y))) < 0.05


def test_linear_cross_entropy_in_chunks():
    torch.manual_seed(0)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    layer, chunked = (
        nn.LinearCrossEntropyLoss(5, 7, bias=True),
        nn.LinearCrossEntropyLoss(5, 7, bias=True, options=options),
    )
    chunked.load_state_dict(layer.state_dict())
    x, y = torch.randn(8, 5), torch.arange(8) % 7
    for reduction in ("mean", "sum", "none"):
        layer.reduction = chunked.reduction = reduction
        for module in (layer, chunked):
            module.zero_grad()
            module(x, y).sum().backward()
        assert torch.allclose(layer(x, y), chunked(x, y))
        for a, b in zip(layer.parameters(), chunked.parameters()):
            assert torch.allclose(a.grad, b.grad, atol=1e-6)
    assert "in_features=5, num_classes=7" in repr(layer)
    with pytest.raises(RuntimeError, match="weight shape"):
        nn.LinearCrossEntropyLoss(3, 4, weight=torch.ones(2))


def test_options_are_checked_and_frozen():
    for bad in ({"batch_chunk_size": 0}, {"chunking_method": "aspect_ratio:0"}, {"acc_policy": "x"}, {"acc_dtype": 3}):
        with pytest.raises(ValueError):
            nn.LinearCrossEntropyOptions(**bad)
    assert nn.LinearCrossEntropyOptions() == nn.LinearCrossEntropyOptions(chunking_method="auto")
    with pytest.raises(AttributeError):
        nn.LinearCrossEntropyOptions().batch_chunk_size = 2


def test_weights_are_buffers():
    loss = nn.CrossEntropyLoss(torch.ones(3))
    assert list(loss.state_dict()) == ["weight"] and not list(loss.parameters())
    assert dict(nn.CrossEntropyLoss().named_buffers()) == {} and nn.CrossEntropyLoss().weight is None
    assert loss.double().weight.dtype is torch.float64
    assert list(nn.BCEWithLogitsLoss(pos_weight=torch.ones(2)).state_dict()) == ["pos_weight"]
    assert isinstance(loss, nn.modules.loss._WeightedLoss) and isinstance(loss, nn.modules.loss._Loss)


def test_triplets_and_pairs():
    a, p, n = (torch.randn(4, 6) for _ in range(3))
    loss = nn.TripletMarginWithDistanceLoss()
    assert isinstance(loss.distance_function, nn.PairwiseDistance)
    assert torch.allclose(loss(a, p, n), nn.TripletMarginLoss()(a, p, n))
    far = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(1), margin=2.0, swap=True)
    near = torch.maximum(
        (a - p).abs().sum(1) - torch.minimum((a - n).abs().sum(1), (p - n).abs().sum(1)) + 2, torch.tensor(0.0)
    )
    assert torch.allclose(far(a, p, n), near.mean())
    y = torch.tensor([1.0, -1.0, 1.0, -1.0])
    cosine = nn.CosineSimilarity()(a, p)
    expected = torch.where(y > 0, 1 - cosine, cosine.clamp_min(0)).mean()
    assert torch.allclose(nn.CosineEmbeddingLoss()(a, p, y), expected, atol=1e-6)


def test_bad_options():
    with pytest.raises(ValueError, match="p == 1"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(ValueError, match="margin"):
        nn.TripletMarginLoss(margin=-1)
    with pytest.raises(TypeError, match="delta"):
        nn.HuberLoss(delta=1j)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.L1Loss(size_average=False).reduction == "sum"
    with pytest.warns(FutureWarning, match="NLLLoss"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)


def test_adaptive_softmax_is_a_distribution():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0, head_bias=True)
    x, y = torch.randn(20, 6), torch.arange(20) % 12
    logs = layer.log_prob(x)
    assert logs.shape == (20, 12) and torch.allclose(logs.exp().sum(1), torch.ones(20), atol=1e-5)
    output, loss = layer(x, y)
    assert torch.allclose(output, logs[torch.arange(20), y], atol=1e-6)
    assert torch.allclose(loss, -output.mean())
    assert torch.equal(layer.predict(x), logs.argmax(1))
    single = layer(x[0], y[0])
    assert single.output.shape == () and torch.allclose(single.output, output[0])
    for bad in ([7, 3], [], [3, 12], [0, 3], [0.5]):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(6, 12, bad)
    with pytest.raises(RuntimeError, match="Target values"):
        layer(x, y + 1)
    with pytest.raises(RuntimeError, match="batch dimension"):
        layer(x, y[:3])


def test_ctc_counts_alignments():
    logs = torch.log_softmax(torch.zeros(3, 1, 2), 2)
    # of 8 paths of length 3 over {blank, a}, 6 spell "a"
    loss = nn.CTCLoss(reduction="sum")(logs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
    assert abs(float(loss) + np.log(6 / 8)) < 1e-6


def test_small_calls_and_their_gradients_are_planned():
    """Checks of values are asked again by plans; gradients of later calls are those of the Python functions."""
    y, p = torch.tensor([0, 2, 1]), torch.tensor([[0.2, 0.9, 0.4]] * 3)
    calls = [
        lambda a: F.mse_loss(a, p), lambda a: F.l1_loss(p, a, reduction="sum"), lambda a: F.huber_loss(a, p, delta=0.3),
        lambda a: F.smooth_l1_loss(a, p, beta=0.2), lambda a: F.binary_cross_entropy(a, p), lambda a: F.nll_loss(a, y),
        lambda a: F.binary_cross_entropy_with_logits(a, p), lambda a: F.multi_margin_loss(a, y, p=2),
        lambda a: F.multilabel_margin_loss(a, torch.tensor([[2, -1, 0]] * 3)), lambda a: F.cosine_similarity(a, p).sum(),
    ]  # fmt: skip
    for call in calls:
        for i in range(4):
            a = (torch.linspace(0.05, 0.9, 9).reshape(3, 3) / (i + 1)).requires_grad_()
            (made,) = torch.autograd.grad(call(a), a)
            (again,) = torch.autograd.grad(call(a), a, create_graph=True)
            torch.testing.assert_close(made, again.detach(), rtol=1e-5, atol=1e-7)
    for _ in range(3):
        F.one_hot(y, 3)
        F.binary_cross_entropy(p, p)
    for call, words in (
        (lambda: F.one_hot(y + 1, 3), "smaller than num_classes"), (lambda: F.one_hot(y - 1, 3), "non-negative"),
        (lambda: F.one_hot(y, 0), "smaller than num_classes"), (lambda: F.binary_cross_entropy(p * 2, p), "between 0 and 1"),
        (lambda: F.multi_margin_loss(p, y + 1), "out of range"), (lambda: F.multi_margin_loss(p, y.int()), "Long but found Int"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            call()
    assert F.l1_loss(p.clone().requires_grad_(), p, reduction="sum").grad_fn.name() == "SumBackward0"

"""Losses: values against plain formulas, reductions, errors, first and second derivatives."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


def rand(*shape, low=-2.0, high=2.0, seed=0, grad=False):
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def log_softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
PAIRS = {
    "mse_loss": (F.mse_loss, lambda x, y: (x - y) ** 2),
    "l1_loss": (F.l1_loss, lambda x, y: np.abs(x - y)),
    "smooth_l1_loss": (
        lambda x, y, **o: F.smooth_l1_loss(x, y, beta=0.5, **o),
        lambda x, y: np.where(np.abs(x - y) < 0.5, (x - y) ** 2, np.abs(x - y) - 0.25),
    ),
    "huber_loss": (
        lambda x, y, **o: F.huber_loss(x, y, delta=0.5, **o),
        lambda x, y: np.where(np.abs(x - y) <= 0.5, 0.5 * (x - y) ** 2, 0.5 * (np.abs(x - y) - 0.25)),
    ),
    "soft_margin_loss": (F.soft_margin_loss, lambda x, y: np.log1p(np.exp(-x * y))),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, lambda x, y: np.log1p(np.exp(x)) - x * y),
    "poisson_nll_loss": (F.poisson_nll_loss, lambda x, y: np.exp(x) - x * y),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_reductions(name):
    function, formula = PAIRS[name]
    x, y = rand(3, 4), rand(3, 4, seed=1)
    expected = formula(x.numpy(), y.numpy())
    np.testing.assert_allclose(function(x, y, reduction="none").numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(function(x, y).item(), expected.mean(), rtol=1e-12)
    np.testing.assert_allclose(function(x, y, reduction="sum").item(), expected.sum(), rtol=1e-12)
    with pytest.raises(ValueError):
        function(x, y, reduction="median")


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives(name):
    function = PAIRS[name][0]
    inputs = rand(3, 4, grad=True), rand(3, 4, seed=1, grad=True)
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_binary_cross_entropy_limits_its_logarithms():
    x, y = torch.tensor([0.0, 1.0, 0.25]), torch.tensor([1.0, 1.0, 1.0])
    np.testing.assert_allclose(F.binary_cross_entropy(x, y, reduction="none").numpy(), [100, 0, math.log(4)], rtol=1e-6)
    with pytest.raises(RuntimeError):
        F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))


def test_pos_weight_scales_the_positive_part():
    x, y, w = rand(4, 3, grad=True), rand(4, 3, low=0, high=1, seed=1, grad=True), rand(3, low=0.5, seed=2, grad=True)
    made = F.binary_cross_entropy_with_logits(x, y, pos_weight=w, reduction="none")
    a, b, c = (t.detach().numpy() for t in (x, y, w))
    positive, negative = -np.log1p(np.exp(-a)), -np.log1p(np.exp(a))
    np.testing.assert_allclose(made.detach().numpy(), -(c * b * positive + (1 - b) * negative), rtol=1e-10)
    assert gradcheck(lambda *t: F.binary_cross_entropy_with_logits(t[0], t[1], pos_weight=t[2]), (x, y, w))


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 5, 3), (2, 5, 3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_classes(shape, weighted, smoothing):
    x = rand(*shape, grad=True)
    rng = np.random.default_rng(3)
    rest = shape[:1] + shape[2:] if len(shape) > 1 else ()
    y = torch.tensor(rng.integers(0, 5, rest))
    w = rand(5, low=0.1, seed=4) if weighted else None
    options = {"weight": w, "label_smoothing": smoothing}
    made = F.cross_entropy(x, y, reduction="none", **options)
    axis = 0 if len(shape) == 1 else 1
    logs = log_softmax(x.detach().numpy(), axis)
    share = np.moveaxis(np.eye(5)[y.numpy()], -1, axis)
    factor = np.ones(5) if w is None else w.numpy()
    factor = factor.reshape([5 if i == axis else 1 for i in range(len(shape))])
    soft = share * (1 - smoothing) + smoothing / 5
    expected = -(logs * soft * factor).sum(axis)
    np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-10)
    total = (share * factor).sum()
    np.testing.assert_allclose(F.cross_entropy(x, y, **options).item(), expected.sum() / total, rtol=1e-10)
    assert gradcheck(lambda x: F.cross_entropy(x, y, **options), (x,))
    assert gradgradcheck(lambda x: F.cross_entropy(x, y, **options), (x,))


def test_cross_entropy_skips_what_is_ignored():
    x = rand(4, 3, grad=True)
    y = torch.tensor([0, -100, 2, -100])
    kept = F.cross_entropy(x[::2], y[::2])
    loss = F.cross_entropy(x, y)
    np.testing.assert_allclose(loss.item(), kept.item(), rtol=1e-12)
    loss.backward()
    assert not x.grad[1].any() and x.grad[0].any()
    assert gradgradcheck(lambda x: F.cross_entropy(x, y), (x,))
    assert math.isnan(F.cross_entropy(x, torch.full((4,), -100)).item())


def test_cross_entropy_against_probabilities():
    x, p = rand(4, 3, grad=True), rand(4, 3, low=0, high=1, seed=1, grad=True)
    expected = -(log_softmax(x.detach().numpy(), 1) * p.detach().numpy()).sum() / 4
    np.testing.assert_allclose(F.cross_entropy(x, p).item(), expected, rtol=1e-12)
    assert gradcheck(F.cross_entropy, (x, p))


def test_cross_entropy_refuses_wrong_targets():
    x = rand(4, 3)
    with pytest.raises(IndexError):
        F.cross_entropy(x, torch.tensor([0, 1, 3, 0]))
    with pytest.raises(ValueError):
        F.cross_entropy(x, torch.tensor([0, 1]))
    with pytest.raises(RuntimeError):
        F.cross_entropy(x, torch.tensor([0, 1, 2, 0]), weight=torch.ones(2))


def test_cross_entropy_of_huge_and_infinite_scores():
    x = torch.tensor([[1e30, 0.0], [-math.inf, 0.0]], requires_grad=True)
    losses = F.cross_entropy(x, torch.tensor([0, 1]), reduction="none")
    assert losses.tolist() == [0.0, 0.0]
    losses.sum().backward()
    assert not x.grad.isnan().any()


def test_nll_loss_over_images():
    x, y = rand(2, 3, 4, 5), torch.tensor(np.random.default_rng(1).integers(0, 3, (2, 4, 5)))
    expected = -np.take_along_axis(x.numpy(), y.numpy()[:, None], 1)[:, 0]
    np.testing.assert_allclose(F.nll_loss(x, y, reduction="none").numpy(), expected)


def test_kl_div_warns_of_its_mean():
    x, y = rand(3, 4), rand(3, 4, low=0.1, high=1, seed=1)
    expected = y.numpy() * (np.log(y.numpy()) - x.numpy())
    np.testing.assert_allclose(F.kl_div(x, y, reduction="batchmean").item(), expected.sum() / 3, rtol=1e-12)
    with pytest.warns(UserWarning):
        F.kl_div(x, y)


def test_sizes_that_differ_are_warned_of():
    with pytest.warns(UserWarning):
        F.mse_loss(rand(3, 1), rand(3))
    with pytest.warns(UserWarning):
        assert F.mse_loss(rand(3), rand(3, seed=1), size_average=False).shape == ()


def test_losses_of_distances():
    a, p, n = (rand(4, 3, seed=s, grad=True) for s in range(3))
    assert gradcheck(F.triplet_margin_loss, (a, p, n))
    assert gradcheck(F.cosine_similarity, (a, p))
    assert gradcheck(lambda a, p: F.cosine_embedding_loss(a, p, SIGNS), (a, p))
    assert gradcheck(lambda x: F.hinge_embedding_loss(x, SIGNS), (a[:, 0].detach().requires_grad_(),))
    expected = np.linalg.norm(a.detach().numpy() - p.detach().numpy() + 1e-6, axis=1)
    np.testing.assert_allclose(F.pairwise_distance(a, p).detach().numpy(), expected)
    np.testing.assert_allclose(np.linalg.norm(F.normalize(a).detach().numpy(), axis=1), 1)


def test_margins_between_classes():
    x = rand(2, 4)
    y = torch.tensor([1, 3])
    values = x.numpy()
    expected = [
        sum(max(0, 1 - values[i, t] + values[i, j]) for j in range(4) if j != t) / 4 for i, t in enumerate(y.tolist())
    ]
    np.testing.assert_allclose(F.multi_margin_loss(x, y, reduction="none").numpy(), expected)
    labels = torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])
    expected = []
    for row, own in zip(values, ([3, 0], [1])):
        others = [j for j in range(4) if j not in own]
        expected.append(sum(max(0, 1 - row[t] + row[j]) for t in own for j in others) / 4)
    np.testing.assert_allclose(F.multilabel_margin_loss(x, labels, reduction="none").numpy(), expected)


def paths(logs, target, blank=0):
    """The probability of a target by going through all alignments."""
    steps, classes = logs.shape
    total = 0.0
    for alignment in np.ndindex(*[classes] * steps):
        short = [c for i, c in enumerate(alignment) if i == 0 or c != alignment[i - 1]]
        if [c for c in short if c != blank] == list(target):
            total += math.exp(sum(logs[i, c] for i, c in enumerate(alignment)))
    return total


def test_ctc_loss_takes_targets_of_any_dtype():
    logs, y = torch.log_softmax(rand(4, 2, 3), 2), torch.tensor([[1, 2], [2, 1]])
    assert torch.equal(F.ctc_loss(logs, y.float(), (4, 4), (2, 2)), F.ctc_loss(logs, y, (4, 4), (2, 2)))


@pytest.mark.parametrize("target", [[1], [1, 2], [1, 1], []])
def test_ctc_loss_sums_over_alignments(target):
    x = rand(4, 2, 3, grad=True)
    logs = torch.log_softmax(x, 2)
    y = torch.tensor([target + [0] * (2 - len(target)), [2, 1]])
    losses = F.ctc_loss(logs, y, (4, 3), (len(target), 2), reduction="none")
    values = logs.detach().numpy()
    np.testing.assert_allclose(losses[0].item(), -math.log(paths(values[:, 0], target)), rtol=1e-9)
    np.testing.assert_allclose(losses[1].item(), -math.log(paths(values[:3, 1], [2, 1])), rtol=1e-9)
    assert gradcheck(lambda x: F.ctc_loss(torch.log_softmax(x, 2), y, (4, 3), (len(target), 2)), (x,))


def test_ctc_loss_of_what_cannot_be():
    x = rand(1, 1, 3, grad=True)
    made = F.ctc_loss(torch.log_softmax(x, 2), torch.tensor([[1, 2]]), (1,), (2,))
    assert made.item() == math.inf
    made = F.ctc_loss(torch.log_softmax(x, 2), torch.tensor([[1, 2]]), (1,), (2,), zero_infinity=True)
    made.backward()
    assert made.item() == 0 and not x.grad.any()
    with pytest.raises(RuntimeError):
        F.ctc_loss(x, torch.tensor([[7]]), (1,), (1,))


def test_ctc_loss_of_long_targets():
    """More places than are computed together, and examples of different lengths."""
    x = rand(40, 3, 5, grad=True)
    y = torch.tensor(np.random.default_rng(0).integers(1, 5, (3, 19)))
    steps, counts = (40, 31, 36), (19, 8, 16)
    made = F.ctc_loss(torch.log_softmax(x, 2), y, steps, counts, reduction="none")
    for i, (n, count) in enumerate(zip(steps, counts)):
        alone = F.ctc_loss(torch.log_softmax(x[:n, i : i + 1], 2), y[i : i + 1, :count], (n,), (count,))
        np.testing.assert_allclose(made[i].item() / count, alone.item(), rtol=1e-9)
    assert gradcheck(lambda x: F.ctc_loss(torch.log_softmax(x, 2), y, steps, counts), (x,))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_widths_of_losses(reduction):
    """A width of zero turns smooth_l1_loss into l1_loss; huber_loss has none."""
    x, y = torch.tensor([1.0, -2.0], requires_grad=True), torch.zeros(2)
    made, plain = (f(x, y, reduction=reduction, **o) for f, o in ((F.smooth_l1_loss, {"beta": 0.0}), (F.l1_loss, {})))
    assert torch.equal(made, plain)
    for delta in (0.0, -1.0):
        with pytest.raises(RuntimeError, match="non-positive values for delta"):
            F.huber_loss(x, y, delta=delta, reduction=reduction)
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, y, beta=-1.0, reduction=reduction)


@pytest.mark.parametrize("call", [F.cross_entropy, F.nll_loss])
def test_targets_that_are_written_to(call):
    rows = [[0.0, 1.0, 2.0, 4.0], [3.0, 1.0, 0.0, 2.0], [1.0, 1.0, 2.0, 0.0]]

    def slope(before, after, create_graph):
        x, target = torch.tensor(rows, requires_grad=True), torch.tensor([0, 1, 2])
        if before:
            target.add_(1)
        loss = call(x, target)
        if after:
            target.sub_(1)
        return torch.autograd.grad(loss, x, create_graph=create_graph)[0]

    for create_graph in (False, True):
        for before in (False, True):
            x = torch.tensor(rows, requires_grad=True)
            (expected,) = torch.autograd.grad(call(x, torch.tensor([0, 1, 2]) + int(before)), x)
            torch.testing.assert_close(slope(before, False, create_graph), expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        slope(True, True, True)


@pytest.mark.slow
def test_margins_in_half_precision():
    """Expected values as PyTorch gives them."""
    given = [0.3, 1.7, -0.4, 0.9, 2.2]
    for d, hinge in ((torch.float16, [0.3000, 0, 1.6992, 0.8999, 0]), (torch.bfloat16, [0.3008, 0, 1.6953, 0.8984, 0])):
        x, y = torch.tensor(given, dtype=d), torch.tensor([1, -1, -1, 1, -1], dtype=d)
        made = F.hinge_embedding_loss(x, y, margin=1.3, reduction="none")
        np.testing.assert_allclose(made.float().numpy(), hinge, atol=5e-5)
        made = F.margin_ranking_loss(x, x.flip(0), y, margin=0.3, reduction="none")
        np.testing.assert_allclose(made.float().numpy(), [2.2, 1.1, 0.3, 1.1, 2.2], atol=1e-2)


def test_distances_that_are_whole_numbers():
    a, b, c = (torch.tensor([row]) for row in ([1, 2], [3, 2], [1, 5]))
    distance = lambda x, y: (x - y).abs().sum(-1)
    for margin, expected in ((1.0, 0.0), (1.5, 0.5), (2.0, 1.0)):
        made = F.triplet_margin_with_distance_loss(a, b, c, distance_function=distance, margin=margin)
        assert made.item() == expected and made.dtype is torch.float32


@pytest.mark.parametrize("loss", [torch.nn.functional.nll_loss, torch.nn.functional.cross_entropy])
def test_weights_of_classes_have_the_dtype_of_scores(loss):
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        loss(torch.ones(2, 3, dtype=torch.float64), torch.tensor([0, 1]), torch.ones(3))


@pytest.mark.parametrize("given", [{}, {"weight": torch.ones(2)}, {"pos_weight": torch.ones(2)}])
def test_logit_losses_have_the_dtype_of_targets(given):
    x, y = torch.ones(3, 2, dtype=torch.float16), torch.ones(3, 2, dtype=torch.float16)
    assert torch.nn.functional.binary_cross_entropy_with_logits(x, y, **given).dtype is torch.float16
    assert torch.nn.functional.binary_cross_entropy_with_logits(x, y.double(), **given).dtype is torch.float64

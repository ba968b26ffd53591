"""The old arguments `size_average` and `reduce` of losses, and their weights in all combinations."""

import itertools

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional
X, Y = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]]), torch.tensor([[1.0, 0.0, 0.5], [0.25, 1.0, 0.0]])
CLASSES, ROWS = torch.tensor([2, 0]), torch.tensor([1.0, -1.0])
LOSSES = {
    "l1_loss": (X, Y), "mse_loss": (X, Y), "smooth_l1_loss": (X, Y), "soft_margin_loss": (X, Y * 2 - 1), "kl_div": (X, Y),
    "binary_cross_entropy": (X.sigmoid(), Y), "binary_cross_entropy_with_logits": (X, Y), "cross_entropy": (X, CLASSES),
    "nll_loss": (X, CLASSES), "hinge_embedding_loss": (X, Y.sign() * 2 - 1), "margin_ranking_loss": (X, Y, Y.sign() * 2 - 1),
    "cosine_embedding_loss": (X, Y, ROWS), "triplet_margin_loss": (X, Y, X.flip(0)), "multi_margin_loss": (X, CLASSES),
    "multilabel_margin_loss": (X, torch.tensor([[1, -1, 0], [0, 2, -1]])), "multilabel_soft_margin_loss": (X, Y.round()),
    "poisson_nll_loss": (X, Y),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_old_arguments_name_a_reduction(name):
    function, given = getattr(F, name), LOSSES[name]
    for average, reduce in itertools.product((None, True, False), repeat=2):
        if average is None and reduce is None:
            continue
        reduction = "none" if reduce is False else "sum" if average is False else "mean"
        made, expected = function(*given, size_average=average, reduce=reduce), function(*given, reduction=reduction)
        assert made.shape == expected.shape and torch.equal(made, expected)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_weights_of_logistic_losses(reduction, weighted, positive):
    weight = torch.tensor([0.5, 2.0, 1.5]) if weighted else None
    more = torch.tensor([3.0, 1.0, 0.25]) if positive else None
    x, y = X.numpy().astype(np.float64), Y.numpy().astype(np.float64)
    share = 1 / (1 + np.exp(-x))
    expected = -((1.0 if more is None else more.numpy()) * y * np.log(share) + (1 - y) * np.log(1 - share))
    expected = expected * (1.0 if weight is None else weight.numpy())
    expected = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction](expected)
    for given in (X, X.double()):
        made = F.binary_cross_entropy_with_logits(
            given, Y.to(given.dtype), None if weight is None else weight.to(given.dtype), reduction=reduction,
            pos_weight=None if more is None else more.to(given.dtype),
        )  # fmt: skip
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5)
    if not positive:
        made = F.binary_cross_entropy(X.sigmoid(), Y, weight, reduction=reduction)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5)


def test_classes_at_the_borders_of_clusters():
    """Every class is found in its own cluster, and the loss is that of the whole distribution."""
    torch.manual_seed(0)
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0)
    x = torch.randn(12, 6)
    every = layer.log_prob(x)
    torch.testing.assert_close(every.exp().sum(1), torch.ones(12))
    target = torch.arange(12)
    made = layer(x, target)
    torch.testing.assert_close(made.output, every[target, target])
    torch.testing.assert_close(made.loss, -every[target, target].mean())
    assert layer.predict(x).tolist() == every.argmax(1).tolist()

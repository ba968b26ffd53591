"""Losses of distances and margins against plain formulas, in every way that computes them: whole, mapped, differentiated twice."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradgradcheck
from flambeau.func import grad, vmap

F = torch.nn.functional
A = torch.tensor([[0.53, -1.21, 2.07], [1.43, 0.71, -0.27]], dtype=torch.float64)
B = torch.tensor([[1.0, 0.5, -0.5], [-1.0, 2.5, 0.125]], dtype=torch.float64)
SIGNS = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]], dtype=torch.float64)
ROWS = torch.tensor([1.0, -1.0], dtype=torch.float64)


def cosine(x, y):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def distance(x, y):
    return np.sqrt(((x - y + 1e-6) ** 2).sum(-1))


LOSSES = {
    "hinge_embedding": (lambda x, t, **o: F.hinge_embedding_loss(x, t, margin=1.5, **o), (A, SIGNS),
                        lambda x, t: np.where(t == 1, x, np.maximum(0, 1.5 - x))),
    "margin_ranking": (lambda x, y, t, **o: F.margin_ranking_loss(x, y, t, margin=0.25, **o), (A, B, SIGNS),
                       lambda x, y, t: np.maximum(0, -t * (x - y) + 0.25)),
    "cosine_embedding": (lambda x, y, t, **o: F.cosine_embedding_loss(x, y, t, margin=-0.5, **o), (A, B, ROWS),
                         lambda x, y, t: np.where(t == 1, 1 - cosine(x, y), np.maximum(0, cosine(x, y) + 0.5))),
    "triplet": (lambda x, y, z, **o: F.triplet_margin_loss(x, y, z, margin=0.75, **o), (A, B, A.flip(1)),
                lambda x, y, z: np.maximum(0, 0.75 + distance(x, y) - distance(x, z))),
    "triplet with swap": (lambda x, y, z, **o: F.triplet_margin_loss(x, y, z, swap=True, **o), (A, B, A.flip(1)),
                          lambda x, y, z: np.maximum(0, 1 + distance(x, y) - np.minimum(distance(x, z), distance(y, z)))),
    "soft_margin": (F.soft_margin_loss, (A, SIGNS), lambda x, t: np.log1p(np.exp(-t * x))),
    "huber": (lambda x, y, **o: F.huber_loss(x, y, delta=0.75, **o), (A, B),
              lambda x, y: np.where(abs(x - y) < 0.75, 0.5 * (x - y) ** 2, 0.75 * (abs(x - y) - 0.375))),
    "smooth_l1": (lambda x, y, **o: F.smooth_l1_loss(x, y, beta=0.5, **o), (A, B),
                  lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25)),
    "gaussian": (lambda x, y, v, **o: F.gaussian_nll_loss(x, y, v, **o), (A, B, A.abs()),
                 lambda x, y, v: 0.5 * (np.log(v) + (x - y) ** 2 / v)),
    "poisson": (lambda x, t, **o: F.poisson_nll_loss(x, t, full=True, **o), (A, B.abs() * 3),
                lambda x, t: np.exp(x) - t * x + np.where(t > 1, t * np.log(np.where(t > 1, t, 1)) - t + 0.5 * np.log(2 * np.pi * t), 0)),
    "kl_div": (F.kl_div, (A, B.abs()), lambda x, t: t * (np.log(t) - x)),
    "kl_div of logarithms": (lambda x, t, **o: F.kl_div(x, t, log_target=True, **o), (A, B), lambda x, t: np.exp(t) * (t - x)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_every_way_gives_the_formula(name, reduction):
    function, given, formula = LOSSES[name]
    expected = formula(*[x.numpy() for x in given])
    whole = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction]
    np.testing.assert_allclose(function(*given, reduction=reduction).numpy(), whole(expected), rtol=1e-6, atol=1e-9)
    single = [x.float() for x in given]
    np.testing.assert_allclose(function(*single, reduction=reduction).numpy(), whole(expected), rtol=1e-4, atol=1e-5)
    if expected.ndim == 2:  # of each row
        made = vmap(lambda *args: function(*args, reduction=reduction))(*given)
        rows = np.stack([whole(row) for row in expected])
        np.testing.assert_allclose(made.numpy(), rows, rtol=1e-6, atol=1e-9)

    def total(x):
        return (function(x, *given[1:], reduction=reduction) * 2).sum()

    step = 1e-6
    for place in ((0, 0), (1, 2), (0, 1)):
        moved = torch.zeros_like(A)
        moved[place] = step
        slope = (total(A + moved) - total(A - moved)).item() / (2 * step)
        assert grad(total)(A)[place].item() == pytest.approx(slope, abs=1e-5)
    assert gradgradcheck(lambda x: total(x), (A.clone().requires_grad_(),))


@pytest.mark.parametrize(
    "name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"]
)
def test_a_recorded_loss_has_the_bits_of_the_eager_one(name):
    torch.manual_seed(0)
    x, y = torch.randn(37, 53, requires_grad=True), torch.rand(37, 53)
    loss = getattr(torch.nn.functional, name)
    compiled = torch.compile(lambda x, y: loss(x, y))
    for _ in range(3):
        one, two = loss(x, y), compiled(x, y)
        assert one.item() == two.item()
        assert torch.equal(*[torch.autograd.grad(made, x)[0] for made in (one, two)])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_one_long_row_is_shared_by_threads(reduction):
    torch.manual_seed(0)
    x, y = torch.randn(600001), torch.randn(600001)
    wanted = ((x.double() - y.double()) ** 2).sum() / (x.numel() if reduction == "mean" else 1)
    x.requires_grad_()
    got = torch.nn.functional.mse_loss(x, y, reduction=reduction)
    assert abs(got.item() / wanted.item() - 1) < 1e-6
    (grad,) = torch.autograd.grad(got, x)
    torch.testing.assert_close(grad, 2 * (x - y).detach() / (x.numel() if reduction == "mean" else 1))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_batches_of_cotangents_and_of_samples(loss, reduction):
    rng = np.random.default_rng(5)
    x, y = (torch.from_numpy(rng.normal(size=(4, 3))) for _ in range(2))
    cotangents = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
    value = loss(x.requires_grad_(), y, reduction=reduction)
    (batch,) = torch.autograd.grad(value, x, cotangents, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(value, x, g, retain_graph=True)[0] for g in cotangents]
    torch.testing.assert_close(batch, torch.stack(each))
    x = x.detach()
    rows = torch.vmap(torch.func.grad(lambda a, b: loss(a, b, reduction=reduction)))(x, y)
    one = [torch.func.grad(lambda a, b: loss(a, b, reduction=reduction))(a, b) for a, b in zip(x, y)]
    torch.testing.assert_close(rows, torch.stack(one))

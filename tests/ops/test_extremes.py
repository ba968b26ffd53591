"""What functions and their derivatives give far from zero, at infinities and of NaN."""

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_acosh_and_sgn_outside_of_their_domain_do_not_poison_masked_gradients(dtype):
    x = torch.tensor([-2.0, -INF, 2.0, NAN], dtype=dtype, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.where(x > 1, torch.acosh(x), 0).sum(), x)
    assert grad[:2].tolist() == [0.0, 0.0] and grad[2] > 0.5
    (grad,) = torch.autograd.grad(torch.sgn(x).sum(), x)
    assert grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_nan_stays_nan_in_the_gradients_of_distances(loss, reduction):
    x = torch.tensor([0.0, INF, 3.0, -0.2], requires_grad=True)
    y = torch.tensor([NAN, INF, 0.0, 0.0], requires_grad=True)
    for grad in torch.autograd.grad(loss(x, y, reduction=reduction).sum(), (x, y)):
        assert grad.isnan().tolist() == [True, True, False, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_infinite_logits(dtype):
    x, y = torch.tensor([INF, -INF, INF], dtype=dtype), torch.tensor([0.0, 1.0, 0.5], dtype=dtype)
    found = F.binary_cross_entropy_with_logits(x, y, reduction="none").tolist()
    assert found[0] == INF and found[2] == INF and F.binary_cross_entropy_with_logits(x[:1], y[:1]).item() == INF


def test_forward_mode_of_lengths_and_deviations_at_zero():
    x, t = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    for function in (
        torch.std,
        lambda x: torch.std_mean(x, 1)[0],
        lambda x: torch.linalg.vector_norm(x, 3),
        lambda x: torch.linalg.vector_norm(x, 1.5, 1),
    ):
        assert not torch.func.jvp(function, (x,), (t,))[1].any()


def test_deviations_of_equal_complex_numbers_have_no_gradient():
    x = torch.full((3,), 1 + 2j, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.std(x), x)
    assert grad.tolist() == [0j] * 3 and torch.std(x.detach()).item() == 0.0


def test_places_of_the_extremes_of_numbers_in_a_batch():
    x = torch.tensor([3.0, 1.0, 2.0])
    assert torch.vmap(torch.argmax)(x).tolist() == [0, 0, 0]
    assert torch.vmap(lambda t: torch.argmin(t, keepdim=True))(x).tolist() == [0, 0, 0]

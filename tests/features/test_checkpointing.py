"""Gradient checkpointing: activations computed again instead of kept."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential


def gradients(model, x, run):
    model.zero_grad()
    torch.manual_seed(5)
    run(model, x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def equal(a, b):
    return all(torch.allclose(x, y, atol=1e-6) for x, y in zip(a, b))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.5)) for _ in range(4)])


@pytest.mark.parametrize("reentrant", [False, True])
def test_forward_runs_again(model, reentrant):
    x, calls = torch.randn(3, 6, requires_grad=True), []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    plain = gradients(model, x, lambda m, v: m(v))
    assert len(calls) == 1
    again = gradients(model, x, lambda m, v: checkpoint(m, v, use_reentrant=reentrant))
    assert len(calls) == 3 and equal(plain, again)


def test_less_is_kept(model):
    def kept(run):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            run(torch.randn(30, 6, requires_grad=True))
        return sum(sizes)

    assert kept(lambda x: checkpoint(model, x, use_reentrant=False)) < kept(model) / 2


def test_sequential(model):
    x = torch.randn(3, 6, requires_grad=True)
    plain = gradients(model, x, lambda m, v: m(v))
    assert equal(plain, gradients(model, x, lambda m, v: checkpoint_sequential(m, 2, v, use_reentrant=False)))


def test_random_state_is_restored_unless_told_otherwise():
    drop, masks = nn.Dropout(0.5), []
    drop.register_forward_hook(lambda m, i, out: masks.append(out.detach() != 0))
    for preserve in (True, False):
        masks.clear()
        torch.manual_seed(0)
        x = torch.ones(100, requires_grad=True)
        checkpoint(lambda v: drop(v).square(), x, use_reentrant=False, preserve_rng_state=preserve).sum().backward()
        assert torch.equal(masks[0], masks[1]) is preserve

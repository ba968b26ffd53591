"""Averages of models and their schedule."""

import numpy as np
import pytest

import flambeau as torch

swa_utils = torch.optim.swa_utils


def model_of(value):
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)
    return model


@pytest.mark.parametrize(
    "how", [{}, {"avg_fn": swa_utils.get_swa_avg_fn()}, {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}]
)
def test_equal_average(how):
    mean = swa_utils.AveragedModel(model_of(9.0), **how)
    for value in (1.0, 2.0, 6.0):
        mean.update_parameters(model_of(value))
    assert mean.n_averaged.item() == 3
    for p in mean.parameters():
        np.testing.assert_allclose(p.detach().numpy(), 3.0, rtol=1e-6)
    assert mean(torch.ones(1, 2)).item() == pytest.approx(9.0)
    assert list(mean.state_dict()) == ["n_averaged", "module.weight", "module.bias"]


@pytest.mark.parametrize("kind", ["avg_fn", "multi_avg_fn"])
def test_exponential_average(kind):
    function = swa_utils.get_ema_avg_fn(0.8) if kind == "avg_fn" else swa_utils.get_ema_multi_avg_fn(0.8)
    mean = swa_utils.AveragedModel(model_of(9.0), **{kind: function})
    for value in (1.0, 2.0, 6.0):
        mean.update_parameters(model_of(value))
    for p in mean.parameters():
        np.testing.assert_allclose(p.detach().numpy(), (1.0 * 0.8 + 2.0 * 0.2) * 0.8 + 6.0 * 0.2, rtol=1e-6)


def test_buffers():
    class Counted(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.register_buffer("seen", torch.tensor([value]))

    copied, averaged = (swa_utils.AveragedModel(Counted(0.0), use_buffers=use) for use in (False, True))
    for value in (2.0, 4.0):
        copied.update_parameters(Counted(value))
        averaged.update_parameters(Counted(value))
    assert copied.module.seen.item() == 4 and averaged.module.seen.item() == 3


def test_batch_statistics():
    data = torch.tensor(np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32))
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    model.eval()
    swa_utils.update_bn([(data[:6], None), (data[6:], None)], model)
    halves = data.numpy().reshape(2, 6, 3)
    np.testing.assert_allclose(model[0].running_mean.numpy(), data.numpy().mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model[0].running_var.numpy(), halves.var(1, ddof=1).mean(0), rtol=1e-5)
    assert model[0].momentum == 0.1 and not model.training


def test_refusals():
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one"):
        swa_utils.AveragedModel(model_of(1.0), avg_fn=lambda *a: a[0], multi_avg_fn=lambda *a: None)
    optimizer = torch.optim.SGD(model_of(1.0).parameters(), lr=0.1)
    with pytest.raises(ValueError, match="anneal_strategy"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="other")
    with pytest.raises(ValueError, match="anneal_epochs"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)


@pytest.mark.parametrize("strategy", ["linear", "cos"])
def test_schedule(strategy):
    optimizer = torch.optim.SGD(model_of(1.0).parameters(), lr=1.0)
    scheduler = swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=4, anneal_strategy=strategy)
    rates = []
    for _ in range(6):
        rates += scheduler.get_last_lr()
        optimizer.step()
        scheduler.step()
    shares = np.minimum(np.arange(6) / 4, 1)
    shares = shares if strategy == "linear" else (1 - np.cos(np.pi * shares)) / 2
    np.testing.assert_allclose(rates, 1.0 + (0.2 - 1.0) * shares, rtol=1e-7)

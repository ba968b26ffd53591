"""Learning-rate schedulers."""

import math

import pytest

import flambeau as torch
from flambeau import nn

S = torch.optim.lr_scheduler


def make(lr=1.0):
    p = nn.Parameter(torch.zeros(1))
    p.grad = torch.zeros(1)
    return torch.optim.SGD([p], lr=lr)


def curve(optimizer, scheduler, count):
    """The rates of the first steps."""
    rates = []
    for _ in range(count):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    "kind, options, rates",
    [
        (S.StepLR, {"step_size": 2, "gamma": 0.1}, [1, 1, 0.1, 0.1, 0.01]),
        (S.MultiStepLR, {"milestones": [1, 3], "gamma": 0.5}, [1, 0.5, 0.5, 0.25, 0.25]),
        (S.ExponentialLR, {"gamma": 0.5}, [1, 0.5, 0.25, 0.125, 0.0625]),
        (S.CosineAnnealingLR, {"T_max": 4, "eta_min": 0.2}, [0.6 + 0.4 * math.cos(math.pi * t / 4) for t in range(5)]),
        (S.LinearLR, {"start_factor": 0.2, "total_iters": 4}, [0.2, 0.4, 0.6, 0.8, 1]),
    ],
)  # fmt: skip
def test_curves(kind, options, rates):
    optimizer = make()
    assert curve(optimizer, kind(optimizer, **options), 5) == pytest.approx(rates)


def test_warm_restarts():
    optimizer = make()
    rates = curve(optimizer, S.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2), 7)
    assert [i for i, r in enumerate(rates) if r == 1] == [0, 2, 6]


@pytest.mark.parametrize("options", [{"total_steps": 10}, {"steps_per_epoch": 5, "epochs": 2}])
def test_one_cycle(options):
    optimizer = make()
    scheduler = S.OneCycleLR(optimizer, max_lr=1.0, pct_start=0.3, anneal_strategy="cos", **options)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(9):
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(1 / 25) and max(rates) == rates[2] == pytest.approx(1) and rates[-1] < 1e-4
    with pytest.raises(ValueError):
        for _ in range(2):
            scheduler.step()


def test_one_cycle_is_linear_on_request():
    def middle(strategy):
        optimizer = make()
        scheduler = S.OneCycleLR(optimizer, 1.0, total_steps=101, pct_start=0.5, anneal_strategy=strategy)
        return curve(optimizer, scheduler, 14)[-1]

    start = 1 / 25
    assert middle("linear") == pytest.approx(start + (1 - start) * 13 / 49.5, rel=1e-3)
    assert middle("cos") < middle("linear")


def test_plateau():
    optimizer = make()
    scheduler = S.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    rates = []
    for metric in (1.0, 0.9, 0.95, 0.95, 0.95, 0.8):
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1, 1, 1, 1, 0.5, 0.5]
    with pytest.raises(TypeError):
        scheduler.step()
    best = S.ReduceLROnPlateau(make(), mode="max", patience=0)
    best.step(1.0)
    best.step(2.0)
    assert best.num_bad_epochs == 0


def test_warm_up_then_cosine():
    optimizer = make()
    warm = S.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    cosine = S.CosineAnnealingLR(optimizer, T_max=4)
    rates = curve(optimizer, S.SequentialLR(optimizer, [warm, cosine], milestones=[2]), 7)
    assert rates == pytest.approx([0.5, 0.75, 1, *(0.5 + 0.5 * math.cos(math.pi * t / 4) for t in range(1, 5))])


def test_reading_the_rate():
    optimizer = make()
    scheduler = S.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]] == pytest.approx([0.1])


def test_two_schedulers_on_one_optimizer():
    optimizer = make()
    one, two = S.ExponentialLR(optimizer, 0.5), S.ReduceLROnPlateau(optimizer, factor=0.1, patience=0)
    for _ in range(3):
        optimizer.step()
        one.step()
        two.step(1.0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5**3 * 0.1**2)


def test_state_resumes_the_curve():
    optimizer = make()
    whole = curve(optimizer, S.CosineAnnealingLR(optimizer, 10), 8)
    first, second = make(), make()
    scheduler = S.CosineAnnealingLR(first, 10)
    curve(first, scheduler, 4)
    resumed = S.CosineAnnealingLR(second, 10)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    assert curve(second, resumed, 4) == pytest.approx(whole[4:])


def test_wrong_order_warns():
    scheduler = S.StepLR(make(), 1)
    with pytest.warns(UserWarning, match="optimizer.step"):
        scheduler.step()

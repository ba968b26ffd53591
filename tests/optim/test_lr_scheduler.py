"""Schedules against closed formulas; combinations, saving, warnings and refusals."""

import math
import pickle

import pytest

import flambeau as torch

schedules = torch.optim.lr_scheduler


def optimizer_of(lr=0.1, second=0.2, **settings):
    groups = [
        {"params": [torch.nn.Parameter(torch.ones(1))]},
        {"params": [torch.nn.Parameter(torch.ones(1))], "lr": second},
    ]
    return torch.optim.SGD(groups, lr=lr, momentum=0.9, **settings)


def course(optimizer, scheduler, count, metrics=None):
    """The first group's rate over so many epochs."""
    rates = []
    for i in range(count):
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(*([metrics[i]] if metrics else []))
    return rates


def cosine(epoch, length, top, bottom):
    return bottom + (top - bottom) * (1 + math.cos(math.pi * epoch / length)) / 2


def cyclic(i, up, down, low, high):
    place = i % (up + down)
    return low + (high - low) * (place / up if place <= up else (up + down - place) / down)


FORMULAS = {
    "lambda": (lambda o: schedules.LambdaLR(o, lambda e: 1 / (e + 1)), lambda e: 0.1 / (e + 1)),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.5), lambda e: 0.1 * 0.5**e),
    "step": (lambda o: schedules.StepLR(o, 3, 0.5), lambda e: 0.1 * 0.5 ** (e // 3)),
    "milestones": (
        lambda o: schedules.MultiStepLR(o, [2, 5, 5], 0.5),
        lambda e: 0.1 * 0.5 ** ((e >= 2) + 2 * (e >= 5)),
    ),
    "constant": (lambda o: schedules.ConstantLR(o, 0.3, 4), lambda e: 0.1 * (0.3 if e < 4 else 1)),
    "linear": (lambda o: schedules.LinearLR(o, 0.2, 0.8, 6), lambda e: 0.1 * (0.2 + 0.6 * min(e, 6) / 6)),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), lambda e: 0.1 * 0.9**e),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 8, 2.0), lambda e: 0.1 * (1 - min(e, 8) / 8) ** 2),
    "cosine": (lambda o: schedules.CosineAnnealingLR(o, 5, 0.01), lambda e: cosine(e, 5, 0.1, 0.01)),
    "restarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
        lambda e: cosine(*((e, 2) if e < 2 else (e - 2, 4) if e < 6 else (e - 6, 8)), 0.1, 0),
    ),
    "cyclic": (lambda o: schedules.CyclicLR(o, 0.01, 0.1, 4, 6), lambda e: cyclic(e, 4, 6, 0.01, 0.1)),
    "halved cycles": (
        lambda o: schedules.CyclicLR(o, 0.0, 0.1, 3, mode="triangular2"),
        lambda e: cyclic(e, 3, 3, 0.0, 0.1) / 2 ** (e // 6),
    ),
    "one cycle": (
        lambda o: schedules.OneCycleLR(o, 1.0, total_steps=14, pct_start=0.5, anneal_strategy="linear"),
        lambda e: 0.04 + 0.96 * e / 6 if e <= 6 else 1 + (4e-6 - 1) * (e - 6) / 7,
    ),
    "chained": (
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]),
        lambda e: 0.1 * (0.5 if e < 3 else 1) * 0.9**e,
    ),
    "sequential": (
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.5, 1.0, 4), schedules.CosineAnnealingLR(o, 10), schedules.ExponentialLR(o, 0.5)], [4, 8]
        ),
        lambda e: 0.1 * (0.5 + 0.125 * e) if e < 4 else cosine(e - 4, 10, 0.1, 0) if e < 8 else 0.1 * 0.5 ** (e - 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_rates(name):
    make, formula = FORMULAS[name]
    optimizer = optimizer_of()
    assert course(optimizer, make(optimizer), 12) == pytest.approx([formula(e) for e in range(12)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_resuming(name):
    make, _ = FORMULAS[name]
    optimizer = optimizer_of()
    scheduler = make(optimizer)
    course(optimizer, scheduler, 5)
    later = optimizer_of()
    resumed = make(later)
    later.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(pickle.loads(pickle.dumps(scheduler.state_dict())))
    assert course(later, resumed, 6) == course(optimizer, scheduler, 6)


@pytest.mark.parametrize("name", ["step", "milestones", "constant", "linear", "exponential", "polynomial", "cosine"])
def test_jumping_to_an_epoch(name):
    make, formula = FORMULAS[name]
    optimizer = optimizer_of()
    scheduler = make(optimizer)
    optimizer.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(7)
    assert scheduler.get_last_lr()[0] == pytest.approx(formula(7))


def test_beginning_later():
    optimizer = optimizer_of()
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.ExponentialLR(optimizer, 0.5, last_epoch=3)
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
    scheduler = schedules.LambdaLR(optimizer, lambda e: 0.5**e, last_epoch=2)
    assert scheduler.get_last_lr() == [0.125, 0.125] and scheduler.last_epoch == 3


def test_momentum_goes_against_the_rate():
    optimizer = optimizer_of()
    scheduler = schedules.CyclicLR(optimizer, 0.0, 1.0, 4, base_momentum=0.8, max_momentum=0.9)
    seen = []
    for _ in range(5):
        seen.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    assert seen == pytest.approx([0.9, 0.875, 0.85, 0.825, 0.8])
    adam = torch.optim.Adam([torch.nn.Parameter(torch.ones(1))], betas=(0.5, 0.99))
    schedules.OneCycleLR(adam, 0.1, total_steps=10)
    assert adam.param_groups[0]["betas"] == (0.95, 0.99)


def test_plateau():
    optimizer = optimizer_of(lr=1.0)
    scheduler = schedules.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    metrics = [1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert course(optimizer, scheduler, 13, metrics) == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2]
    assert scheduler.best == 0.5 and scheduler.get_last_lr() == [0.2, 0.2]
    up = schedules.ReduceLROnPlateau(optimizer, "max", threshold_mode="abs", threshold=0.1)
    up.step(1.0)
    up.step(torch.tensor(1.05))
    assert up.best == 1.0 and up.num_bad_epochs == 1
    up.step(1.2)
    assert up.best == pytest.approx(1.2) and up.num_bad_epochs == 0


def test_tensor_rates_stay_in_place():
    lr = torch.tensor(0.5)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert lr.item() == 0.25 and optimizer.param_groups[0]["lr"] is lr
    assert scheduler.get_last_lr()[0].item() == 0.25 and scheduler.base_lrs[0].item() == 0.5


class Power:
    """A function with a state."""

    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


def test_functions_with_state_are_saved():
    saved = schedules.LambdaLR(optimizer_of(), [Power(0.5), lambda e: 1.0]).state_dict()
    assert saved["lr_lambdas"] == [{"base": 0.5}, None]
    other = Power(0.1)
    schedules.LambdaLR(optimizer_of(), [other, lambda e: 1.0]).load_state_dict(saved)
    assert other.base == 0.5 and saved["lr_lambdas"][0] == {"base": 0.5}


def test_warnings():
    optimizer = optimizer_of()
    scheduler = schedules.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
    optimizer = optimizer_of()
    scheduler = schedules.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="overridden"):
        scheduler.step()


@pytest.mark.parametrize(
    "error, make",
    [
        (TypeError, lambda o: schedules.StepLR(5, 3)),
        (TypeError, lambda o: schedules.StepLR(o, 3, verbose=True)),
        (ValueError, lambda o: schedules.LambdaLR(o, [lambda e: e])),
        (ValueError, lambda o: schedules.ConstantLR(o, 2.0)),
        (ValueError, lambda o: schedules.LinearLR(o, 0.0)),
        (ValueError, lambda o: schedules.SequentialLR(o, [], [])),
        (ValueError, lambda o: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [3])),
        (ValueError, lambda o: schedules.SequentialLR(o, [schedules.StepLR(optimizer_of(), 1)], [])),
        (ValueError, lambda o: schedules.SequentialLR(o, [schedules.ReduceLROnPlateau(o)], [])),
        (ValueError, lambda o: schedules.ChainedScheduler([])),
        (ValueError, lambda o: schedules.ReduceLROnPlateau(o, factor=1.0)),
        (ValueError, lambda o: schedules.ReduceLROnPlateau(o, "best")),
        (ValueError, lambda o: schedules.CyclicLR(o, 0.1, [0.2])),
        (ValueError, lambda o: schedules.CyclicLR(torch.optim.Adagrad([torch.ones(1)]), 0.1, 0.2)),
        (ValueError, lambda o: schedules.CosineAnnealingWarmRestarts(o, 0)),
        (ValueError, lambda o: schedules.OneCycleLR(o, 0.1)),
        (ValueError, lambda o: schedules.OneCycleLR(o, 0.1, total_steps=10, pct_start=2)),
    ],
)
def test_refusals(error, make):
    with pytest.raises(error):
        make(optimizer_of())


def test_one_cycle_ends():
    optimizer = optimizer_of()
    scheduler = schedules.OneCycleLR(optimizer, 0.1, total_steps=3)
    course(optimizer, scheduler, 3)
    with pytest.raises(ValueError, match="total steps"):
        scheduler.step()


def test_pickling():
    optimizer = optimizer_of()
    scheduler = schedules.OneCycleLR(optimizer, 0.1, total_steps=30)
    course(optimizer, scheduler, 4)
    other = pickle.loads(pickle.dumps(scheduler))
    other._step_count += 1  # the copied optimizer's step is not wrapped
    other.step()
    optimizer.step()
    scheduler.step()
    assert other.get_last_lr() == scheduler.get_last_lr()
    assert type(scheduler).__module__ == "flambeau.optim.lr_scheduler"


@pytest.mark.parametrize(
    ("milestones", "rates"),
    [([0, 3], [1.0, 0.9, 0.81, 1.0, 1.0]), ([0, 0], [1.0, 1.0, 0.1, 0.1, 0.01]), ([1, 2], [0.1, 1.0, 1.0, 1.0, 0.1])],
)
def test_a_milestone_at_0_begins_with_the_schedule_after_it(milestones, rates):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    parts = [
        schedules.ConstantLR(optimizer, 0.1, total_iters=9),
        schedules.ExponentialLR(optimizer, 0.9),
        schedules.StepLR(optimizer, 2),
    ]
    scheduler = schedules.SequentialLR(optimizer, parts, milestones)
    assert course(optimizer, scheduler, 5) == pytest.approx(rates)


def test_schedules_do_not_write_to_the_tensors_they_are_given():
    low, high, lr = torch.tensor(0.02), torch.tensor(2.0), torch.tensor(0.5)
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:], "lr": lr}])
    scheduler = schedules.CyclicLR(optimizer, [low, low], [high, high], step_size_up=2, cycle_momentum=False)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert (low.item(), high.item()) == pytest.approx((0.02, 2.0))
    assert optimizer.param_groups[0]["lr"] is not low
    assert lr.item() == pytest.approx(optimizer.param_groups[0]["lr"].item()) == pytest.approx(1.01)


def test_settings_given_as_tensors_may_change_later():
    most, base, momentum = torch.tensor(0.2), torch.tensor(0.1), torch.tensor(0.8)
    parameter = torch.nn.Parameter(torch.ones(1))
    cyclic = schedules.CyclicLR(torch.optim.SGD([parameter], lr=0.1), base, most, base_momentum=momentum)
    once = torch.optim.SGD([parameter], lr=0.1)
    schedules.OneCycleLR(once, most, total_steps=10, base_momentum=momentum)
    averaged = torch.optim.SGD([parameter], lr=0.1)
    torch.optim.swa_utils.SWALR(averaged, swa_lr=base)
    for t in (most, base, momentum):
        t.mul_(0.5)
    assert [float(x) for x in (*cyclic.base_lrs, *cyclic.max_lrs)] == pytest.approx([0.1, 0.2])
    group = once.param_groups[0]
    assert [float(group[name]) for name in ("max_lr", "base_momentum")] == pytest.approx([0.2, 0.8])
    assert float(averaged.param_groups[0]["swa_lr"]) == pytest.approx(0.1)


def test_factors_must_be_functions():
    with pytest.raises(TypeError, match="lr_lambda should be a function"):
        schedules.MultiplicativeLR(optimizer_of(), [0.95, 0.95])


def test_old_checkpoints_of_one_cycle_hold_the_function():
    optimizer = optimizer_of()
    scheduler = schedules.OneCycleLR(optimizer, max_lr=1.0, total_steps=5)
    state = scheduler.state_dict()
    del state["_anneal_func_type"], scheduler._anneal_func_type
    scheduler.load_state_dict({**state, "anneal_func": schedules.OneCycleLR._annealing_linear})
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr()[0] == pytest.approx(0.8571434)


@pytest.mark.parametrize(
    ("eps", "expected"),
    [(1e-8, [0.1, 0.05, 0.025, 0.02, 0.02]), (0.06, [0.1] * 5), (0.04, [0.1, 0.05, 0.05, 0.05, 0.05])],
)
def test_small_reductions_are_not_made(eps, expected):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, eps=eps, min_lr=0.02)
    found = []
    for _ in expected:
        scheduler.step(1.0)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("last", "touched", "expected"),
    [
        (-1, False, [1.0, 0.8682, 0.55, 0.2318, 0.1, 0.2318, 0.55, 0.8682, 1.0, 0.8682]),
        (3, False, [1.0, 1.1318, 3.62279, 6.11378, 7.14558, 6.11378, 3.62279, 1.1318, 0.1, 0.2318]),
        (-1, True, [1.0, 0.8682, 0.5, 0.21716, 0.1, 0.2318, 0.55, 0.8682, 1.0, 0.8682]),
    ],
)
def test_cosines_go_on_from_the_last_rate(last, touched, expected):
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.ones(1))], "initial_lr": 1.0}], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4, eta_min=0.1, last_epoch=last)
    rates = [optimizer.param_groups[0]["lr"]]
    for number in range(9):
        optimizer.step()
        scheduler.step()
        if touched and number == 1:
            optimizer.param_groups[0]["lr"] = 0.5
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx(expected, abs=1e-5)


METRICS = [1.0, 0.95, 0.85, 0.7, 0.9, 1.1, 1.15, 1.3, 1.2, 0.5, 0.49, 0.48, 0.3, 2.0]
# (mode, threshold_mode, patience, cooldown, how often the rate was halved after each metric: positive ones, and mostly negative ones)
HALVED = [
    ("min", "rel", 0, 0, "01112345667889 00001234555556"),
    ("min", "rel", 0, 1, "01112233445556 00001122333334"),
    ("min", "rel", 1, 0, "00000112222333 00000112222222"),
    ("min", "rel", 1, 1, "00000111222333 00000111222222"),
    ("min", "abs", 0, 0, "00001234556778 00001234556778"),
    ("min", "abs", 0, 1, "00001122334445 00001122334445"),
    ("min", "abs", 1, 0, "00000112222333 00000112222333"),
    ("min", "abs", 1, 1, "00000111222333 00000111222333"),
    ("max", "rel", 0, 0, "01234555678900 01234444567899"),
    ("max", "rel", 0, 1, "01122333445566 01122222334455"),
    ("max", "rel", 1, 0, "00112222233444 00112222233444"),
    ("max", "rel", 1, 1, "00111222233344 00111111122233"),
    ("max", "abs", 0, 0, "01234444567899 01234444567899"),
    ("max", "abs", 0, 1, "01122222334455 01122222334455"),
    ("max", "abs", 1, 0, "00112222233444 00112222233444"),
    ("max", "abs", 1, 1, "00111111122233 00111111122233"),
]


@pytest.mark.parametrize(("mode", "threshold_mode", "patience", "cooldown", "halved"), HALVED)
def test_plateaus(mode, threshold_mode, patience, cooldown, halved):
    for shift, expected in zip((0.0, -1.0), halved.split()):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        scheduler = schedules.ReduceLROnPlateau(optimizer, mode, 0.5, patience, 0.1, threshold_mode, cooldown)
        found = ""
        for metric in METRICS:
            scheduler.step((metric + shift) * 3)
            found += str(round(-math.log2(optimizer.param_groups[0]["lr"])) % 10)
        assert found == expected

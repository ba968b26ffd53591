"""Values of optimizers and schedules that PyTorch 2.13 gave for the same small problems."""

import pytest

import flambeau as torch
from flambeau.optim import LBFGS, SGD, Muon
from flambeau.optim.lbfgs import _cubic_minimum, _Point
from flambeau.optim.lr_scheduler import ConstantLR


def rosenbrock(v):
    return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2


@pytest.mark.parametrize(
    "options,path",
    [
        (
            dict(lr=1, max_iter=4, line_search_fn="strong_wolfe"),
            [
                [-1.0288795348319695, 1.0655029516848564],
                [-0.9349818277934961, 0.8364521175564997],
                [-0.5378302256216386, 0.29610990173219676],
            ],
        ),
        (
            dict(lr=0.1, max_iter=5),
            [[-1.0989030817808585, 1.0430414291237948], [-1.0731880052541687, 1.055172228961313]],
        ),
    ],
)
def test_lbfgs_in_a_curved_valley(options, path):
    v = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = LBFGS([v], history_size=3, **options)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(v)
        loss.backward()
        return loss

    for place in path:
        optimizer.step(closure)
        assert v.tolist() == pytest.approx(place, rel=1e-9)


def point(t, loss, slope):
    return _Point(t, loss, torch.zeros(1), torch.tensor(slope, dtype=torch.float64))


def test_the_minimum_of_a_cubic():
    assert float(_cubic_minimum(point(0.0, 1.0, -1.0), point(1.0, 0.5, 2.0))) == pytest.approx(0.728713553878169)
    assert float(_cubic_minimum(point(0.0, 1.0, 1.0), point(2.0, 3.0, 1.0))) == 0.0
    assert float(_cubic_minimum(point(0.0, 0.0, 1.0), point(2.0, 3.0, 1.0), (0.5, 3.0))) == 0.5
    # a cubic without a minimum: the middle of the bounds
    assert float(_cubic_minimum(point(0.0, 1.0, -1.0), point(2.0, 0.2, -1.0))) == 1.0
    assert float(_cubic_minimum(point(0.0, 1.0, -1.0), point(2.0, 0.2, -1.0), (1.0, 4.0))) == 2.5


@pytest.mark.parametrize(
    "kind,rows",
    [
        ("original", [[0.041722577065229416, 0.08118332922458649], [0.8296564817428589, 1.0811065435409546]]),
        ("match_rms_adamw", [[0.01445312425494194, 0.09282812476158142], [0.8697499632835388, 1.0862655639648438]]),
    ],
)
def test_muon_adjusts_its_rate(kind, rows):
    p = torch.nn.Parameter(torch.arange(12.0).reshape(4, 3) / 10)
    p.grad = torch.ones(4, 3) * 0.1 + torch.arange(12.0).reshape(4, 3) / 50
    Muon([p], lr=0.1, adjust_lr_fn=kind).step()
    made = [p[0, 0].item(), p[0, 1].item(), p[3, 0].item(), p[3, 2].item()]
    assert made == pytest.approx([*rows[0], *rows[1]], abs=2e-3)  # the iteration runs in bfloat16


def test_a_constant_factor_ends_in_time():
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = ConstantLR(optimizer, factor=0.5, total_iters=2)
    rates, closed = [], []
    for _ in range(4):
        rates.append(schedule.get_last_lr()[0])
        closed.append(schedule._get_closed_form_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates == closed == [0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [-0.1, 0.22074, 0.15465, -0.52944, -0.3784, -0.47946, -0.23971, 0.12849]),
        ({"momentum": 0.9}, [-0.271, -0.12126, -0.19635, -1.23144, -0.3784, -0.47946, -0.23971, 0.12849]),
        ({"momentum": 0.9, "dampening": 0.5}, [-0.271, -0.12126, -0.00635, -0.85144, -0.3784, -0.47946, -0.18971, 0.22849]),
        ({"momentum": 0.9, "nesterov": True}, [-0.3439, -0.26706, -0.43125, -1.70124, -0.3784, -0.47946, -0.32971, -0.05151]),
        ({"maximize": True}, [0.1, 0.62074, 0.75465, 0.67056, -0.3784, -0.47946, -0.03971, 0.52849]),
    ],
)  # fmt: skip
def test_sgd_with_sparse_gradients(options, expected):
    table = torch.nn.Embedding(4, 2, sparse=True)
    with torch.no_grad():
        table.weight.copy_(torch.sin(torch.arange(8.0)).reshape(4, 2) * 0.5)
    optimizer = SGD(table.parameters(), 0.1, **options)
    for rows in ([0, 1], [1, 1], [3]):
        optimizer.zero_grad()
        (table(torch.tensor(rows)) * torch.tensor([1.0, 2.0])).sum().backward()
        optimizer.step()
    assert table.weight.flatten().tolist() == pytest.approx(expected, abs=2e-5)
    with pytest.raises(RuntimeError, match=r"sparse, dense"):
        optimizer.param_groups[0]["weight_decay"] = 0.1
        optimizer.step()

"""L-BFGS with a line search: where it looks, on curves with many minima, as PyTorch does."""

import pytest

import flambeau as torch
from flambeau.optim.lbfgs import _cubic_interpolate, _strong_wolfe

# (function, lr, dimensions, calls of the closure, sum of the places that it saw, loss in the end)
SEEN = [
    (0, 20.0, 2, 8, 7.530636, -0.735163),
    (1, 0.01, 3, 10, 15.561109, -0.245303),
    (2, 0.01, 3, 10, 15.244223, -0.76724),
    (2, 5, 1, 8, -8.404256, -0.837292),
    (3, 5, 1, 11, -9.305786, -1.022897),
    (4, 1, 1, 9, -13.65361, -0.631805),
    (5, 0.1, 1, 11, -18.210735, -0.100677),
    (6, 0.1, 1, 10, -17.348325, 0.01584),
    (7, 0.1, 1, 9, -14.966659, -0.570174),
    (7, 5, 1, 11, -17.090988, -0.570174),
    (8, 0.01, 3, 11, 20.260629, -0.448681),
    (8, 0.1, 1, 10, -16.635343, -0.875933),
    (8, 1, 1, 9, -14.279369, -0.875933),
    (9, 20.0, 2, 10, 19.370467, -1.38139),
    (10, 0.01, 3, 10, 16.310553, 0.719375),
    (10, 5, 1, 10, -13.605795, -0.782493),
    (11, 5, 1, 8, -5.688459, -0.109538),
    (11, 20.0, 2, 10, 6.683471, -0.668428),
    (12, 20.0, 2, 10, 36.703678, -0.041665),
    (13, 0.01, 3, 11, 17.970664, 0.986432),
    (15, 20.0, 2, 10, -20.595818, -2.632329),
    (16, 0.01, 3, 11, 14.013901, 0.200107),
    (18, 0.01, 3, 10, 18.271885, -0.188536),
    (19, 0.01, 3, 10, 21.881945, 0.694902),
    (19, 5, 1, 11, -14.874475, -0.147796),
    (21, 5, 1, 8, -24.802115, -1.684733),
    (22, 0.01, 3, 10, 8.027811, -1.62804),
    (22, 0.1, 1, 10, -22.732148, -1.160466),
    (23, 0.01, 3, 11, 9.773978, 0.339338),
    (23, 1, 1, 9, -20.996238, -0.413157),
    (24, 5, 1, 8, -18.59686, -0.348831),
    (25, 1, 1, 8, -7.748357, -0.174967),
    (25, 5, 1, 11, 10.487345, -0.215545),
    (26, 0.1, 1, 10, -16.951709, 0.039093),
    (27, 1, 1, 9, -7.31375, -0.573912),
    (27, 5, 1, 8, 37.959617, 0.210975),
]


@pytest.mark.parametrize(("number", "lr", "dimensions", "calls", "places", "loss"), SEEN)
def test_the_search_along_lines(number, lr, dimensions, calls, places, loss):
    frequency = torch.arange(1, 6, dtype=torch.float64) * (1 + number % 7 / 3)
    phase = torch.arange(5, dtype=torch.float64) * number
    p = torch.linspace(-2, 3, dimensions, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([p], lr=lr, max_iter=8, line_search_fn="strong_wolfe")
    seen = []

    def closure():
        optimizer.zero_grad()
        waves = torch.cos(p[:, None] * frequency + phase) / frequency
        loss = (waves.sum(1) + 0.05 * (1 + number % 3) * p**2).sum()
        loss.backward()
        seen.append(p.detach().sum().item())
        return loss

    optimizer.step(closure)
    assert len(seen) == calls and sum(seen) == pytest.approx(places, rel=1e-4)
    assert closure().item() == pytest.approx(loss, abs=1e-4)


def test_a_line_search_of_its_own():
    def evaluate(x, t, d):
        y = (x + t * d).requires_grad_()
        loss = (torch.sin(3 * y) + 0.3 * y**2).sum()
        return loss.item(), torch.autograd.grad(loss, y)[0]

    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    loss, gradient = evaluate(x, 0, x)
    d = -gradient
    slope = gradient.dot(d)
    found = _strong_wolfe(evaluate, x, 10.0, d, loss, gradient, slope, c1=1e-4, c2=0.3)
    assert found[0] <= loss + 1e-4 * found[2] * slope and abs(found[1].dot(d)) <= -0.3 * slope and found[3] > 1
    assert evaluate(x, found[2], d)[0] == found[0]
    # (t - 1)**2 between 0 and 3 is least at 1, and at a bound where that is outside
    one, two = torch.tensor(-2.0), torch.tensor(4.0)
    assert _cubic_interpolate(0.0, 1.0, one, 3.0, 4.0, two) == 1.0
    assert _cubic_interpolate(0.0, 1.0, one, 3.0, 4.0, two, bounds=(2.0, 3.0)) == 2.0

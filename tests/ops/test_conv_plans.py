"""Small convolutions and their derivatives are planned, and plans give the same results as the first call."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.layers.convolution import description
from flambeau._ops.plans import sites

F = torch.nn.functional
CASES = {  # images, weight, arguments; each is computed by another way
    "columns": ((2, 3, 16), (4, 3, 3), {}),
    "lines": ((2, 6, 16), (6, 1, 3), {"groups": 6, "padding": 1}),
    "groups": ((2, 3, 8, 8), (4, 3, 3, 3), {"padding": 1}),
    "lanes": ((2, 8, 8, 9), (8, 8, 3, 3), {"stride": 2, "padding": 1}),
    "winograd": ((1, 16, 8, 8), (16, 16, 3, 3), {"padding": 1}),
    "matrices": ((2, 3, 5, 5), (4, 3, 1, 1), {}),
}


@pytest.fixture
def plans(monkeypatch):
    """The functions whose calls were to be planned here, by name, and whether that worked."""
    site.forget_all()
    found = {}
    plain = sites.watched_plan

    def watched(function, *rest):
        made = plain(function, *rest)
        found[function.__name__] = made is not None
        return made

    monkeypatch.setattr(sites, "watched_plan", watched)
    return found


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_plans_of_small_convolutions(name, transposed, biased, plans):
    shape, weight, options = CASES[name]
    function = getattr(F, f"conv{'_transpose' * transposed}{len(shape) - 2}d")
    rng = np.random.default_rng(0)
    x, w = (torch.from_numpy(rng.standard_normal(s)).float().requires_grad_() for s in (shape, weight))
    if transposed:
        x = torch.ones(shape[0], weight[0], *shape[2:]).cumsum(-1).requires_grad_()
    b = torch.randn(weight[1] * options.get("groups", 1) if transposed else weight[0]).requires_grad_()
    results = []
    for _ in range(5):
        out = function(x, w, b if biased else None, **options)
        grads = torch.autograd.grad(out, (x, w), out.detach())
        results.append([out.detach(), *grads])
    with site.switched_off():
        out = function(x, w, b if biased else None, **options)
        results.append([out.detach(), *torch.autograd.grad(out, (x, w), out.detach())])
    for other in results[1:]:
        assert all(torch.equal(a, c) and a.stride() == c.stride() for a, c in zip(results[0], other))
    assert all(plans.get(n, True) for n in (function.__name__, "_by_input", "_by_weight"))


def test_the_cases_are_computed_by_the_ways_they_are_named_after(monkeypatch):
    taken = []
    plain = description.way

    def way(conv, role):
        made = plain(conv, role)
        taken.append(made.__module__.rpartition(".")[2])
        return made

    monkeypatch.setattr(description, "way", way)
    for shape, weight, options in CASES.values():
        with site.switched_off():
            getattr(F, f"conv{len(shape) - 2}d")(torch.ones(shape), torch.ones(weight), **options)
    assert taken == ["columns", "lines", "groups", "groups", "lanes", "winograd", "matrices"]


def test_plans_hold_for_other_values():
    w = torch.ones(1, 1, 2)
    for i in range(6):
        x = torch.full((1, 1, 3), float(i)).requires_grad_()
        out = F.conv1d(x, w)
        assert out.tolist() == [[[2.0 * i, 2.0 * i]]]
        (g,) = torch.autograd.grad(out.sum(), x)
        assert g.tolist() == [[[1.0, 2.0, 1.0]]]


def test_second_derivatives_of_planned_calls():
    x, w = torch.arange(4.0).reshape(1, 1, 4).requires_grad_(), torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    for _ in range(5):
        (g,) = torch.autograd.grad(F.conv1d(x, w).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(g.sum(), w)
    assert g.tolist() == [[[4.0, 18.0, 36.0, 32.0]]] and second.tolist() == [[[48.0, 66.0]]]

"""Recorded calls, mapped over samples and differentiated forwards."""

import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.func import jvp

sys.path.insert(0, str(Path(__file__).parents[1] / "recorded"))
import calls
import other_ways


@pytest.mark.parametrize("rows", calls.in_groups(other_ways.parameters("vmap")))
def test_mapped(rows):
    calls.check_each(other_ways.check_vmap, torch, rows)


@pytest.mark.parametrize("rows", calls.in_groups(other_ways.parameters("jvp")))
def test_forwards(rows):
    calls.check_each(other_ways.check_jvp, torch, rows)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clone().mul_(3), lambda x: (x + 1).mul_(3), lambda x: torch.nn.functional.celu(x.clone(), 2.0, inplace=True),
        lambda x: x.to(torch.float32, copy=True).exp_(), lambda x: x.contiguous().clone().zero_(), lambda x: (x + 1).fill_(2.0),
    ],
)  # fmt: skip
def test_writes_to_results_leave_the_tangents_of_operands(f):
    x, t = torch.tensor([-1.5, 0.5, 2.0]), torch.tensor([1.0, 2.0, 3.0])
    moved = jvp(f, (x,), (t,))[1]
    assert t.tolist() == [1, 2, 3]
    step = 1e-3
    torch.testing.assert_close(moved, (f(x + step * t) - f(x - step * t)) / (2 * step), rtol=1e-3, atol=1e-3)

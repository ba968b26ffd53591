"""Pointwise loops that became one: the same bits, fewer steps."""

import math

import pytest
from program_reference import agrees, captured

import flambeau as torch
from flambeau._compile import fuse
from flambeau._compile.program import Program
from flambeau.compiler._region import Region

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 88.8, -88.8, 1e-40, 3e38, -104.0, 709.9, 1e-8]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fuses loops however short they are."""
    monkeypatch.setattr(fuse, "_LEAST", 1)


def random(*shapes, dtype=torch.float32):
    def make(seed):
        g = torch.Generator().manual_seed(seed)
        made = [torch.randn(s, generator=g) * 3 for s in shapes]
        for t in made:
            flat = t.view(-1)
            for i, value in enumerate(SPECIAL[: flat.numel() // 2]):
                flat[(7 * i + seed) % flat.numel()] = value
        return [t.to(dtype) for t in made]

    return make


def steps(program):
    return [step for part in program._lowered.parts for step in getattr(part, "steps", [part])]


def chain(x, y):
    return (torch.tanh(x * y) + torch.sigmoid(x - y) * 2).exp().mul(0.5).clamp(-1, 1)


def residual(x, y):
    h = x + y
    return h, torch.nn.functional.gelu(h) * h.sigmoid() + (h > 0), h.log1p().sin()


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("function", [chain, residual])
def test_floats(function, dtype):
    program = agrees(function, random((13, 17), (13, 17), dtype=dtype))
    assert len(steps(program)) == 1


def test_products_are_not_joined_with_sums():
    """A product is rounded before something is added to it."""
    assert len(steps(agrees(lambda x, y: x * y + x - y * y, random((50, 20), (50, 20))))) == 1


def test_integers_and_casts():
    def function(x, y):
        a = x.to(torch.int64) * 3 - y.to(torch.int64)
        return a, (a % 5 == 2) | (a > 7), a.to(torch.float32) / 3, x.to(torch.int8)

    make = lambda seed: [t.nan_to_num(0, 0, 0).clamp(-100, 100) for t in random((11, 9), (11, 9))(seed)]
    agrees(function, make)


@pytest.mark.parametrize("shapes", [((8, 1, 5), (7, 1)), ((4, 6, 5), (5,)), ((6, 1), (1, 6)), ((5, 4), ())])
def test_broadcast_operands(shapes):
    agrees(lambda x, y: ((x + y) * y).relu() - x, random(*shapes))


def test_operands_in_other_orders():
    def function(x, y):
        a = x.t() + y
        return a * 2 - x.t(), (a.t() * x).exp(), x[::2, 1:] * 2 + y.t()[::2, 1:]

    agrees(function, random((9, 8), (8, 9)))


def test_many_dimensions():
    """More than a loop can be started again over: Python's functions do them one by one."""

    def function(x, y):
        turned = x.reshape([2, 3] * 5).permute(9, 7, 5, 3, 1, 8, 6, 4, 2, 0)
        return (turned + y) * turned - 1

    agrees(function, random((2**5 * 3**5,), (3, 1) * 2 + (1, 2, 1, 2, 1, 2)))


def test_writes_within_a_chain():
    def function(x, y):
        a = x * 2
        a.add_(y)
        before = a * 1
        a[1:].mul_(3)
        b = a + before
        x.sub_(b)
        return a, b.relu_()

    agrees(function, random((6, 7), (6, 7)))


def test_results_that_nobody_needs_are_not_written():
    program = agrees(lambda x, y: chain(chain(x, y), y).sum(1), random((20, 30), (20, 30)))
    first, _ = steps(program)
    assert first.results == 1 and program._lowered.arena < 20 * 30 * 4 + 64


def test_loops_join_over_steps_that_are_not_in_their_way():
    def function(x, y):
        a = x * 2
        s = y.sum(1, keepdim=True)
        return a + 1, s

    program = agrees(function, random((20, 30), (20, 30)))
    assert len(steps(program)) == 2


def test_what_python_sees_between_loops_is_written():
    def function(x):
        a = x * 2 + 1
        values, _ = a.sort(1)
        return (a - values) * 3

    agrees(function, random((6, 7)))


def test_dead_steps_are_dropped():
    x = torch.randn(20, 30)
    program = Program(captured(lambda x: x.max(1)[0] * 1 + x.sort(1)[0][:, 0] * 0, [x]))
    program.run([x])
    assert program.run([x])[0].equal(x.max(1)[0])


def test_writes_that_last_do_not_move_before_a_branch():
    """If the branch goes another way, the function runs again: what was written before would be written twice."""
    count = torch.zeros(128, 128)

    def function(x):
        x = x * 2
        half = count * 0.5
        y = x + 1 if x.sum() > 0 else x - 1
        count.add_(1)
        return y, half

    region = Region(function)
    for number, sign in enumerate((1, 1, 1, -1, -1, 1), 1):
        region(torch.full((3,), float(sign)))
        assert torch.equal(count, torch.full((128, 128), float(number)))

"""Random programs (views, writes, folds, products, casts) run as programs and node by node, bit for bit."""

import os
import random

import pytest
from program_reference import captured, interpreted, same_bits

import flambeau as torch
from flambeau._compile import fuse
from flambeau._compile.capture import Break
from flambeau._compile.program import Program

COUNT = int(os.environ.get("FLAMBEAU_PROGRAMS", "200"))
UNARY = ["tanh", "exp", "relu", "neg", "abs", "sigmoid", "sqrt", "square", "floor", "sign", "clone", "sin"]
BINARY = ["add", "mul", "sub", "maximum", "minimum", "div", "atan2"]
SHAPES = [(4, 6), (6,), (4, 1), (2, 3, 4), (), (1, 6), (6, 4)]
DTYPES = [torch.float32] * 5 + [torch.float64, torch.bfloat16, torch.int64]


def fits(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1]))


def step(draw, pool):
    """One more operation on tensors of the pool; its results join it."""
    x = draw.choice(pool)
    kind = draw.randrange(12)
    real = x.is_floating_point()
    if kind < 3:
        out = getattr(torch, draw.choice(UNARY if real else ["neg", "abs", "square", "sign", "clone"]))(x)
    elif kind < 6:
        others = [t for t in pool if fits(t, x)]
        y = draw.choice([*others, draw.choice([2, 0.5, -1])])
        out = getattr(torch, draw.choice(BINARY[:5] if not real else BINARY))(x, torch.as_tensor(y))
    elif kind == 6:
        if not x.dim():
            return
        out = draw.choice([torch.Tensor.sum, torch.Tensor.amax, torch.Tensor.prod])(x, draw.randrange(x.dim()))
    elif kind == 7:
        turned = x.t() if x.dim() == 2 else x.transpose(0, -1) if x.dim() else x
        choices = [turned, x.reshape(-1), x.unsqueeze(0), x[..., None], x.expand(2, *x.shape)]
        if x.dim() and x.shape[0] > 1:
            choices += [x[1:], x[::2], x[-1], x.flip(0), x.narrow(0, 0, 1)]
        out = draw.choice(choices)
    elif kind == 8:
        others = [t for t in pool if t.dtype is x.dtype and t.dim() == x.dim() == 2 and t.shape[0] == x.shape[1]]
        if not others or not real:
            return
        out = x @ draw.choice(others)
    elif kind == 9:
        out = x.to(draw.choice(DTYPES))
    elif kind == 10:
        others = [t for t in pool if t.dtype is x.dtype and t.shape == x.shape]
        out = torch.cat([x, draw.choice(others)]) if x.dim() else torch.where(x > 0, x, 1)
    else:
        if 0 in x.stride() and x.numel() > 1:
            return
        target = x[1:] if x.dim() and x.shape[0] > 1 and draw.random() < 0.5 else x
        way = draw.randrange(4)
        if way == 0:
            target.mul_(2)
        elif way == 1:
            target.add_(draw.choice([t for t in pool if t.shape == target.shape and t.dtype is target.dtype] or [1]))
        elif way == 2:
            target.fill_(3)
        elif target.dim():
            target[0] = 1
        out = target
    pool.append(out)


def made(seed):
    draw = random.Random(seed)
    shapes = [(draw.choice(SHAPES), draw.choice(DTYPES)) for _ in range(3)]
    length = draw.randrange(3, 25)

    def inputs(number):
        g = torch.Generator().manual_seed(1000 * seed + number)
        return [(torch.randn(s, generator=g) * 2).to(d) for s, d in shapes]

    def function(*given):
        again, pool = random.Random(seed + 1), list(given)
        for _ in range(length):
            step(again, pool)
        kept = again.sample(pool, min(3, len(pool)))
        return [*kept, pool[-1]]

    return function, inputs


def check(seed):
    function, inputs = made(seed)
    try:
        graph = captured(function, inputs(0))
    except Break:
        return False
    program = Program(graph)
    for number in (1, 2, 3):
        mine, other = inputs(number), inputs(number)
        expected, found = interpreted(graph, mine), program.run(other)
        for a, b in zip([*found, *other], [*expected, *mine], strict=True):
            assert same_bits(a, b), (seed, number, str(graph), a, b)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, COUNT, 50))
def test_random_programs(start):
    assert sum([check(seed) for seed in range(start, start + 50)]) > 25


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_random_programs_with_all_loops_fused(monkeypatch):
    monkeypatch.setattr(fuse, "_LEAST", 1)
    for seed in range(5000, 5000 + COUNT // 10):
        check(seed)

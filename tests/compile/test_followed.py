"""Code of the program's own in the backward passes of compiled functions: what it reads, changes and draws is as in eager runs."""

import random

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import checkpoint

state = {"scale": 1.0, "log": [], "count": 0}
COUNT = 0


def function(backward, forward=lambda ctx, x: x * 2):
    return type(
        "Own", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )


def logged(ctx, g):
    state["log"].append("backward")
    return g


def logs(ctx, x):
    state["log"].append("forward")
    return x * 2


def counted(ctx, g):
    global COUNT
    COUNT += 1
    return g


def counts(ctx, x):
    global COUNT
    COUNT += 1
    return x * 2


def keeps(ctx, x):
    ctx.most = x.max().item()
    return x * 2


def helped(g):
    return g * state["scale"]


level = torch.tensor(0.0)
norm, inner = torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3)


def block(x):
    state["count"] += 1
    return torch.dropout(torch.tanh(inner(x)), 0.5, True)


def normed(x):
    return torch.relu(norm(inner(x)))


CASES = {
    "a number read": function(lambda ctx, g: g * state["scale"]).apply,
    "read by a helper": function(lambda ctx, g: helped(g)).apply,
    "a tensor read": function(lambda ctx, g: g.clamp(max=level)).apply,
    "a list changed": function(logged, logs).apply,
    "a global changed": function(counted, counts).apply,
    "elements read": function(lambda ctx, g: g * ctx.most, keeps).apply,
    "numbers drawn": function(lambda ctx, g: g * torch.rand(4, 3)).apply,
    "numbers drawn by Python": function(lambda ctx, g: g * random.random()).apply,
    "something said": function(lambda ctx, g: (print("backward"), g)[1]).apply,
    "computed again": lambda x: checkpoint(block, x, use_reentrant=False),
    "computed again, with averages": lambda x: checkpoint(normed, x, use_reentrant=False),
    "computed again at once": lambda x: checkpoint(block, x, use_reentrant=True),
}


def seen(function, capsys):
    global COUNT
    COUNT = 0
    state.update(count=0, log=[])
    torch.manual_seed(0)
    random.seed(0)
    level.fill_(0)
    norm.reset_running_stats()
    found = []
    for i in range(5):
        state["scale"] = float(i // 2)
        x = torch.randn(4, 3, requires_grad=True)
        loss = (function(x) ** 2).sum()
        between = (COUNT, state["count"], list(state["log"]), norm.running_mean.tolist(), capsys.readouterr().out)
        loss.backward()
        level.add_(0.5)
        found.append((between, x.grad.tolist(), COUNT, state["count"], list(state["log"]), capsys.readouterr().out))
        found.append((norm.running_mean.tolist(), int(norm.num_batches_tracked), torch.rand(1).item(), random.random()))
    return found


def flat(a):
    if isinstance(a, (list, tuple)):
        for b in a:
            yield from flat(b)
    else:
        yield a


@pytest.mark.parametrize("name", CASES)
def test_backward_passes_do_what_eager_ones_do(name, capsys):
    found, expected = [list(flat(seen(f, capsys))) for f in (torch.compile(CASES[name]), CASES[name])]
    assert [a for a in found if not isinstance(a, float)] == [a for a in expected if not isinstance(a, float)]
    assert [a for a in found if isinstance(a, float)] == pytest.approx([a for a in expected if isinstance(a, float)])


@pytest.mark.parametrize("name", ["a number read", "a tensor read", "numbers drawn", "computed again, with averages"])
def test_such_passes_are_compiled(name, capsys):
    compiled = torch.compile(CASES[name])
    for _ in range(3):
        compiled(torch.ones(4, 3, requires_grad=True)).sum().backward()
    assert compiled._region.problem is None and len(compiled._region.entries) == 1


def test_hooks_for_what_is_saved_are_called_as_often_as_in_eager_runs():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(tuple(t.shape)), t)[1], lambda t: t):
        normed(torch.ones(4, 3, requires_grad=True))
    expected, compiled = list(kept), torch.compile(normed)
    for _ in range(3):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(tuple(t.shape)), t)[1], lambda t: t):
            compiled(torch.ones(4, 3, requires_grad=True))
        assert kept == expected

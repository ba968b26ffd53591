"""Functions that are one step of a program, with their gradients: branches on elements, and functions that look at elements."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._higher_order_ops import while_loop

F = nn.functional


def _same(function, *calls):
    """Compiled as a whole, a function gives eager's results and gradients in each of several calls."""
    compiled = torch.compile(function, fullgraph=True)
    for args in calls:
        found = []
        for run in (compiled, function):
            given = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
            out = run(*given)
            outs = out if isinstance(out, tuple) else (out,)
            wanted = [t for t in given if t.requires_grad]
            total = sum([(t * t).sum() for t in outs if t.requires_grad], torch.zeros(()))
            grads = torch.autograd.grad(total, wanted, allow_unused=True) if wanted and total.requires_grad else ()
            found.append(([t.detach() for t in outs], grads))
        for a, b in zip(found[0][0], found[1][0]):
            torch.testing.assert_close(a, b)
        for a, b in zip(found[0][1], found[1][1]):
            torch.testing.assert_close(torch.zeros_like(a) if b is None else b, a)


def _some(*shape, grad=True):
    return torch.randn(*shape, requires_grad=grad)


@pytest.mark.parametrize("grad", [False, True])
def test_branches(grad):
    torch.manual_seed(0)
    x = _some(4, 3).abs().detach().requires_grad_(grad)
    calls = [(x,), (-x.detach(),) if not grad else ((-x).detach().requires_grad_(),), (x,)]
    _same(lambda a: torch.cond(a.sum() > 0, lambda b: b.sin() * 2, lambda b: b.cos() - b, (a,)) * 3, *calls)
    _same(lambda a: torch.cond(a.sum() > 0, lambda b: b, lambda b: b + 1, (a,)) * a, *calls)
    _same(lambda a: torch.cond(a.sum() < 0, lambda b: b, lambda b: b + 1, (a,)) * a, *calls)
    _same(lambda a: torch.cond(a.sum() > 0, lambda b: (b, b * 2), lambda b: (b.exp(), torch.ones(4, 3)), (a,)), *calls)


def test_branches_know_tensors_of_the_run():
    torch.manual_seed(0)

    def function(a, b):
        h = a * 2
        more = {"k": [b.exp()]}
        return torch.cond(a.sum() > 0, lambda c: c * h, lambda c: (c + more["k"][0]) * b, (a,)).sum() + h

    x = _some(3).abs().detach().requires_grad_()
    _same(function, (x, _some(3)), ((-x).detach().requires_grad_(), _some(3)), (x, _some(3)))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        h = self.inner(x)
        return torch.cond(h.sum() > 0, lambda z: self.one(z) + h, lambda z: self.other(z) * h, (x,)).sum()


def test_branches_of_modules_in_a_training_step():
    torch.manual_seed(0)
    model = Branching()
    models = model, copy.deepcopy(model)
    steps = []
    for m in models:
        optimizer = torch.optim.SGD(m.parameters(), 0.05)

        def step(x, m=m, optimizer=optimizer):
            optimizer.zero_grad()
            loss = m(x)
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    steps[0] = torch.compile(steps[0], fullgraph=True)
    for i in range(8):
        x = torch.randn(2, 3) * 3
        if i == 5:  # a parameter of a branch is another
            for m in models:
                m.one.weight = nn.Parameter(torch.ones(3, 3))
        assert steps[0](x).item() == steps[1](x).item()
    for p, q in zip(models[0].parameters(), models[1].parameters()):
        assert torch.equal(p, q)


def test_loops():
    function = lambda i, x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (i, x))
    _same(function, *[(torch.tensor(i), _some(3, grad=i != 1)) for i in (0, 3, 5, 1)])


def test_what_a_branch_may_not_know():
    class Box:
        pass

    def function(x):
        box = Box()
        box.h = x * 2
        return torch.cond(x.sum() > 0, lambda a: a + box.h, lambda a: a, (x,))

    for compiled in (torch.compile(function), torch.compile(function, fullgraph=True)):
        for x in (torch.ones(2), torch.ones(2) * 3, -torch.ones(2)):
            assert torch.equal(compiled(x), function(x))


def test_autocast_around_a_branch():
    linear = nn.Linear(3, 3)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.cond(x.sum() > 0, lambda a: linear(a), lambda a: linear(a) * 2, (x,))

    compiled = torch.compile(function, fullgraph=True)
    for x in (torch.ones(2, 3), -torch.ones(2, 3), torch.ones(2, 3) * 2):
        a, b = compiled(x), function(x)
        assert a.dtype is torch.bfloat16 and torch.equal(a, b)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_loss(reduction):
    torch.manual_seed(0)
    lengths = torch.tensor([9, 8]), torch.tensor([3, 2])
    calls = [
        (_some(9, 2, 5).log_softmax(-1).detach().requires_grad_(), torch.randint(1, 5, (2, 3)), *lengths)
        for _ in range(3)
    ]
    _same(lambda p, t, a, b: F.ctc_loss(p, t, a, b, reduction=reduction), *calls)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_by_offsets(mode, grad):
    torch.manual_seed(0)
    calls = [(torch.randint(0, 10, (8,)), _some(10, 3, grad=grad), torch.tensor([0, 3, 5 + i])) for i in range(3)]
    _same(lambda i, w, o: F.embedding_bag(i, w, o, mode=mode), *calls)


def test_bags_with_weights_made_of_the_table():
    calls = [(torch.randint(0, 10, (8,)), _some(10, 3), torch.tensor([0, 3, 5 + i])) for i in range(3)]
    function = lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=w[:8, 0].exp())
    compiled = torch.compile(function)
    for i, w, o in calls:
        a, b = [torch.autograd.grad((f(i, w, o) ** 2).sum(), w)[0] for f in (compiled, function)]
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "midpoint"])
def test_quantiles(interpolation):
    torch.manual_seed(0)
    calls = [(_some(5, 7),) for _ in range(3)]
    _same(lambda x: torch.quantile(x, 0.3, dim=1, interpolation=interpolation), *calls)
    _same(lambda x: torch.quantile(x, torch.tensor([0.1, 0.5]), dim=0, interpolation=interpolation), *calls)


def test_shapes_without_elements():
    def empty(*shape, dtype=torch.float32):
        return torch.empty(*shape, dtype=dtype, device="meta")

    i = empty(8, dtype=torch.long)
    assert F.embedding_bag(i, empty(10, 3), empty(4, dtype=torch.long), include_last_offset=True).shape == (3, 3)
    assert F.ctc_loss(empty(9, 2, 5), empty(2, 3, dtype=torch.long), (9, 8), (3, 2)).shape == ()
    assert F.ctc_loss(empty(9, 2, 5), empty(2, 3, dtype=torch.long), (9, 8), (3, 2), reduction="none").shape == (2,)

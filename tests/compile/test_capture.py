"""Runs recorded as graphs, and run again on other values."""

import pytest

import flambeau as torch
from flambeau._compile.breaks import Break
from flambeau._compile.capture import Capture
from flambeau._compile.program import Program


def again(function, first, second):
    """What a program recorded on the first arguments gives for the second ones, and what the function gives."""
    with Capture(first, external=lambda t: False) as tape:
        out = function(*first)
    program = Program(tape.finish([out] if isinstance(out, torch.Tensor) else list(out)))
    expected = function(*[t.clone() for t in second])
    return program.run(second), [expected] if isinstance(expected, torch.Tensor) else list(expected)


def same(function, *shapes):
    torch.manual_seed(0)
    first, second = ([torch.randn(s) for s in shapes] for _ in range(2))
    found, expected = again(function, first, second)
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def _written(x):
    y = x * 2
    y.add_(1)
    y[0] = 5
    y[1].fill_(2)
    y.clamp_(max=3)
    z = torch.zeros(3)
    z.copy_(y[2])
    z[1:] += y[0, 1:]
    y.mul_(2)
    return y + z, z


FUNCTIONS = {
    "pointwise": (lambda x, y: (torch.tanh(x * y) + torch.sigmoid(x - y) * 2).exp().mul(0.5).clamp(-1, 1).sum(1), (4, 3), (4, 3)),
    "products": (lambda x, y: torch.softmax(x @ y, -1)[:, 1].log(), (4, 3), (3, 5)),
    "views": (lambda x: x.view(2, 6).t().reshape(3, 4).transpose(0, 1).contiguous().flip(0), (4, 3)),
    "writes": (_written, (4, 3)),
    "made": (lambda x: x + torch.arange(3) * torch.ones(4, 3) - torch.tensor([1.0, 2.0, 3.0]), (4, 3)),
    "indexed": (lambda x: x[torch.tensor([2, 0])] + x[:, [1]].sum(), (4, 3)),
    "out": (lambda x: torch.add(x, 1, out=torch.empty(4, 3)), (4, 3)),
    "scatter": (lambda x: torch.zeros(4, 3).scatter_(1, torch.zeros(4, 1, dtype=torch.int64), x), (4, 3)),
    "norms": (lambda x: torch.nn.functional.layer_norm(x, (3,)) + torch.nn.functional.normalize(x), (4, 3)),
    "several": (lambda x: torch.max(x, 1).values + x.topk(2).values.sum(1) + x.sort(0)[0].sum(), (4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_do_what_functions_do(name):
    function, *shapes = FUNCTIONS[name]
    assert same(function, *shapes)


def test_forward_and_backward():
    def network(x, w1, b1, w2):
        hidden = torch.tanh(x @ w1 + b1)
        out = torch.softmax(hidden @ w2, dim=1)
        return (out[:, 0].log() * -1).mean()

    def values(seed):
        torch.manual_seed(seed)
        x, *weights = torch.randn(5, 3), torch.randn(3, 8), torch.randn(8), torch.randn(8, 4)
        return [x, *[w.requires_grad_() for w in weights]]

    inputs = values(0)
    with Capture(inputs) as tape:
        loss = network(*inputs)
        grads = torch.autograd.grad(loss, inputs[1:])
    fresh = values(1)
    loss, *grads = Program(tape.finish([loss, *grads])).run(fresh)
    expected = network(*fresh)
    assert torch.equal(loss, expected)
    for got, g in zip(grads, torch.autograd.grad(expected, fresh[1:])):
        assert torch.allclose(got, g, rtol=1e-6)


def test_steps_of_optimizers_read_what_is_there_when_they_run():
    def made():
        torch.manual_seed(3)
        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
        )
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = torch.nn.functional.dropout(model(x), 0.5).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    batches = [torch.randn(5, 3) for _ in range(6)]
    model, optimizer = made()
    torch.manual_seed(7)
    expected = []
    for i, x in enumerate(batches):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        expected.append(step(model, optimizer, x))
    state = model.state_dict()

    model, optimizer = made()
    torch.manual_seed(7)
    own = {id(t._array) for t in (*model.parameters(), *model.buffers())}
    with Capture([batches[0]], external=lambda t: id(t._array) in own) as tape:
        losses = [step(model, optimizer, batches[0])]
    program = Program(tape.finish(losses))
    for i, x in enumerate(batches[1:], 1):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        losses += program.run([x])
    assert [a.item() for a in losses] == [a.item() for a in expected]
    for name, t in model.state_dict().items():
        assert torch.allclose(t, state[name], rtol=1e-6), name


@pytest.mark.parametrize("function, reason", [
    (lambda x: x * x.sum().item(), "item"),
    (lambda x: x if x.sum() > 0 else -x, "bool"),
    (lambda x: x[x > 0], "depends on elements"),
    (lambda x: torch.tensor(x.tolist()), "tolist"),
    (lambda x: x + float(torch.equal(x, x)), "equal"),
    (lambda x: x.nonzero(), "depends on elements"),
])  # fmt: skip
def test_what_depends_on_elements_is_not_recorded(function, reason):
    x = torch.tensor([1.0, -2.0, 3.0])
    with Capture([x], external=lambda t: False) as tape:
        out = function(x)
    with pytest.raises(Break, match=reason) as found:
        tape.finish([out])
    assert found.value.file == __file__


def test_constants_that_a_function_gives_back():
    x, b = torch.ones(2), torch.arange(2.0)
    with Capture([x], external=lambda t: t._array is b._array) as tape:
        y = x * b.to(device=x.device, dtype=torch.float32)
    assert [node.name for node in tape.finish([y]).nodes] == ["mul"]


def test_nothing_is_recorded_outside():
    x = torch.ones(2)
    with Capture([x]) as tape:
        y = x + 1
    x * 2
    assert [node.name for node in tape.finish([y]).nodes] == ["add"]


def test_what_nobody_needs_is_dropped():
    x = torch.ones(2)
    with Capture([x]) as tape:
        x * 3
        y = x + 1
    assert [node.name for node in tape.finish([y]).nodes] == ["add"]

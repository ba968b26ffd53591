"""Gradients of arguments: each call reads, sets and adds to those of the tensors that it was given."""

import pytest

import flambeau as torch


def read(x):
    return x * 2 if x.grad is None else x * 3


def passed(x):
    (x**2).sum().backward()
    return x.detach() * 2


def read_after(x):
    (x**2).sum().backward()
    return x.grad.clone()


def emptied(x):
    x.grad = None
    (x**2).sum().backward()
    return x.grad * 1


def zeroed(x):
    if x.grad is not None:
        x.grad.zero_()
    (x**2).sum().backward()
    return x.detach() * 2


def clipped(x):
    (x**2).sum().backward()
    return torch.nn.utils.clip_grad_norm_([x], 1.0)


def attacked(x):
    copy = x.detach()
    copy.requires_grad_()
    (copy**3).sum().backward()
    return copy + copy.grad.sign()


def optimized(x):
    optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    for _ in range(2):
        (x**2).sum().backward()
        optimizer.step()
    return x.sum()


WEIGHT = torch.ones(2, requires_grad=True)


def aside(x):
    copy = WEIGHT.detach().requires_grad_()
    (copy * x).sum().backward()
    return copy.grad


FUNCTIONS = [read, passed, read_after, emptied, zeroed, clipped, attacked, optimized, aside]
CASES = [(f, given) for f in FUNCTIONS for given in ("others", "one", "both")]
CASES += [(f, "results") for f in (passed, attacked, aside)]  # the others ask for gradients that results do not have


@pytest.mark.parametrize("function, given", CASES, ids=lambda a: getattr(a, "__name__", a))
def test_gradients_of_arguments(function, given):
    def run(call):
        seen, one = [], torch.tensor([1.0, 2.0], requires_grad=True)
        for i in range(5):
            x = torch.full((2,), 1.0 + i, requires_grad=True)
            if given == "one" or (given == "both" and i % 2):
                x = one
            seen.append(call(x * 1 if given == "results" else x).detach().clone())
            seen.append(None if x.grad is None else x.grad.clone())
            seen.append(x.detach().clone())
        return seen

    for a, b in zip(run(function), run(torch.compile(function))):
        assert (a is None and b is None) or torch.allclose(a, b)


def test_gradients_of_arguments_are_parts_of_programs():
    torch._dynamo.utils.counters.clear()
    for function in (passed, read_after, clipped, attacked, aside):
        compiled = torch.compile(function, fullgraph=True)
        for i in range(3):
            compiled(torch.full((2,), 1.0 + i, requires_grad=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 5


@pytest.mark.parametrize("momentum", [0, 0.9])
def test_an_optimizer_that_each_call_makes(momentum):
    def trained(model, x):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return model.weight.clone()

    def run(call):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return [call(model, torch.ones(1, 3) + i) for i in range(4)]

    for a, b in zip(run(trained), run(torch.compile(trained))):
        assert torch.allclose(a, b)


def test_a_generator_that_each_call_makes():
    def drawn(x):
        return x + torch.rand(2, generator=torch.Generator()), torch.rand(2, generator=torch.Generator().manual_seed(1))

    compiled = torch.compile(drawn, fullgraph=True)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(compiled(torch.ones(2)), drawn(torch.ones(2))))


def test_a_history_in_a_block_without_gradients_ends_at_the_argument():
    """In the recorded run the gradient came through what the argument was made of, too, and was twice as large."""

    def function(x):
        with torch.enable_grad():
            return x * 3

    compiled = torch.compile(function)
    for _ in range(3):
        start = torch.ones(2, 3, requires_grad=True)
        x = start * 2
        with torch.no_grad():
            out = compiled(x)
        out.sum().backward()
        assert torch.equal(start.grad, torch.full((2, 3), 6.0))

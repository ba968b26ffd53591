"""Backends that users write get the pieces of a function that cannot be recorded whole."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.utils import counters

linear = nn.Linear(3, 3)


def printed(x):
    y = x * 2
    print(end="")
    return y.sin() + x


def scaled(x):
    y = (x * 2).exp()
    return y * y.sum().item()


def branched(x):
    y = x * 2
    if y.sum() > 0:
        return y.exp()
    return y.sin()


def written(x):
    y = x * 1
    part = y[0]
    print(end="")
    part.mul_(2)
    return y.sum() + part


def layered(x):
    y = linear(x).relu()
    print(end="")
    return linear(y)


def without_history(x):
    y = x * 2
    with torch.no_grad():
        n = y.mean().item()
        w = y * 2
    return y * n + w


def helped(x):
    y = x * 2
    z = _helper(y)
    return z + y


def _helper(x):
    print(end="")
    return x.exp()


def dropped(x):
    y = nn.functional.dropout(x * 2, 0.5)
    print(end="")
    return y * torch.rand(3)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print(end="")
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 7


def own_gradient(x):
    return Doubled.apply(x.exp()) + Doubled.apply(x)


def hooked(x):
    y = x * 3
    if y.requires_grad:
        y.register_hook(lambda g: g * 5)
    print(end="")
    return y.exp()


def differentiated(x):
    y = (x * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True) if x.requires_grad else (x,)
    return (g * x).exp()


def listed(x):
    parts = [x * i for i in range(3)]
    print(end="")
    return torch.stack(parts).sum(0)


def masked(x):
    y = x[x > 2]
    return y * 2


FUNCTIONS = [
    printed, scaled, branched, written, layered, without_history, helped, dropped, own_gradient, hooked, differentiated, listed, masked,
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_pieces_compute_what_the_function_does(function, grad):
    compiled = torch.compile(function, backend=lambda graph, examples: graph.forward)
    for shift in (0.0, -9.0, 1.0, 0.0):
        found = []
        for call in (compiled, function):
            torch.manual_seed(3)
            linear.zero_grad()
            leaf = (torch.arange(6.0).reshape(2, 3) + shift).requires_grad_(grad)
            out = call(leaf * 1 if shift else leaf)
            if out.requires_grad:
                out.sum().backward()
            found.append([out, leaf.grad, linear.weight.grad])
        assert all([(a is None and b is None) or torch.equal(a, b) for a, b in zip(*found)])


def test_a_backend_is_called_once_for_each_piece():
    graphs, runs = [], []

    def backend(graph, examples):
        assert len(examples) == sum(node.op == "placeholder" for node in graph.graph.nodes)
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])

        def run(*tensors):
            runs.append(graph)
            return graph(*tensors)

        return run

    compiled = torch.compile(printed, backend=backend)
    counters.clear()
    for _ in range(4):
        compiled(torch.ones(2))
    assert graphs == [["aten.mul.Tensor"], ["aten.sin.default", "aten.add.Tensor"]]
    assert len(runs) == 8
    assert sum(counters["graph_break"].values()) == 1 and counters["stats"]["unique_graphs"] == 2
    compiled(torch.ones(3))
    assert len(graphs) == 4


def test_what_the_backend_computes_is_what_the_program_sees():
    def backend(graph, examples):
        return lambda *tensors: [t + 100 for t in graph(*tensors)]

    @torch.compile(backend=backend)
    def read(x):
        y = x * 2
        return y + y.sum().item()

    for _ in range(2):  # y = 102, 104 and their sum 6 + 100, and 100 for the last piece
        assert read(torch.tensor([1.0, 2.0])).tolist() == [102 + 106 + 100, 104 + 106 + 100]


def test_numbers_that_change_in_each_call_end_in_eager_pieces():
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(scaled, backend=counter)
    for i in range(20):
        x = torch.tensor([float(i)])
        assert torch.equal(compiled(x), scaled(x))
    assert counter.frame_count <= 1 + 8


def test_a_step_runs_between_pieces():
    results = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, backend=lambda graph, examples: graph.forward)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        def step(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        step = wrap(step)
        x = torch.randn(8, 3)
        results.append([step(x) for _ in range(4)])
    assert results[0] == results[1]


def test_breaks_are_told_where_they_are_forbidden():
    with torch._dynamo.error_on_graph_break(True), pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(printed, backend=lambda graph, examples: graph.forward)(torch.ones(2))


def test_functions_with_a_derivative_of_their_own_keep_it_in_graphs():
    compiled = torch.compile(
        lambda x: Silent.apply(x.exp()), backend=lambda graph, examples: graph.forward, fullgraph=True
    )
    for _ in range(3):
        x = torch.zeros(2, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [7.0, 7.0]


class Silent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 7

"""Tensors that are turned in place (`t_`, `unsqueeze_`), or get other memory, in functions that are compiled."""

import pytest

import flambeau as torch


def turned(x):
    y = x * 2
    part = y[0]
    y.t_()
    y.unsqueeze_(0)
    part.mul_(3)
    y.transpose_(1, 2).squeeze_(0)
    return y.sin() * x


def strided(x):
    y = x + 1
    y.as_strided_((4,), (1,))
    return y * 2


@pytest.mark.parametrize("function", [turned, strided])
@pytest.mark.parametrize("grad", [False, True])
def test_what_the_function_has_made(function, grad):
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 2, requires_grad=grad)
        assert torch.allclose(compiled(x), function(x))
        if grad:
            got, wanted = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (compiled, function))
            assert torch.allclose(got, wanted)


@pytest.mark.parametrize(
    "change", [lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.set_(torch.ones(3)), lambda x: x.resize_(3)]
)
def test_what_was_there_before(change):
    compiled = torch.compile(lambda x: change(x) + 1)
    for _ in range(3):
        x, y = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)
        assert torch.equal(compiled(x), change(y) + 1)
        assert x.shape == y.shape and torch.equal(x, y)


def test_whole_graphs_of_backends_refuse_it():
    with pytest.raises(torch._dynamo.exc.Unsupported, match="t_ changes a tensor that was there before"):
        torch.compile(lambda x: x.t_() + 1, backend=lambda graph, _: graph.forward, fullgraph=True)(torch.ones(2, 3))


def of_argument(x):
    part = x[0]
    x.t_()
    return part, x[1]


def written_first(x):
    part = x[0]
    part.mul_(3)
    x.t_()
    return (part,)


def turned_twice(x):
    part = x[0]
    x.t_()
    part.mul_(2)
    other = x[0]
    x.unsqueeze_(0)
    other.mul_(3)
    return other, part


_LATER = {
    "nothing": lambda x, out: None,
    "turn": lambda x, out: x.transpose_(-1, -2).mul_(2),
    "write": lambda x, out: x.mul_(2),
    "write to a part": lambda x, out: out[0].mul_(2),
    "turn and write to a part": lambda x, out: (x.transpose_(-1, -2), out[-1].mul_(2)),
    "turn a part": lambda x, out: (out[0].unsqueeze_(0).mul_(2), x.mul_(3)),
}


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("later", _LATER)
@pytest.mark.parametrize("function", [of_argument, written_first, turned_twice])
def test_parts_of_arguments_follow_later_writes(function, later, view):
    """The first call is recorded with stand-ins of arguments: views that were taken of these are the arguments' own."""

    def run(f):
        start = torch.arange(1.0, 7.0, requires_grad=True)
        x = (start * 1).view(2, 3) if view else start.view(2, 3) * 1
        out = f(x)
        _LATER[later](x, out)
        (sum([(t.flatten() * torch.arange(t.numel())).sum() for t in out]) + x.square().sum()).backward()
        return start.grad.tolist(), x.tolist(), x.stride(), x._is_view(), [(t.tolist(), t.stride()) for t in out]

    compiled = torch.compile(function)
    assert [run(compiled) for _ in range(3)] == [run(function)] * 3


def test_turned_arguments_and_results_count_writes():
    def function(x):
        part = x.view(3, 2)
        part.t_()
        y = (x * 2).add_(1).mul_(2)
        z = torch.zeros(3)
        z[0] = 1
        return part, y, y[0], z, x + 1

    compiled = torch.compile(function)
    for f in (function, compiled, compiled, compiled):
        x = torch.ones(2, 3)
        assert [t._version for t in (x, *f(x))] == [1, 1, 2, 2, 1, 0]

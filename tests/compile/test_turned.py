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

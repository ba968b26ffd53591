"""Compiled functions that write through tensors which share memory: arguments, views, elements that lie in one place."""

import pytest

import flambeau as torch

WRITES = {
    "a squeeze that changes nothing": lambda x: x.squeeze_().add_(1),
    "results into what was squeezed": lambda x: torch.neg(x.squeeze_(), out=x),
    "rows of what was squeezed": lambda x: x.squeeze_().index_fill_(0, torch.tensor([0]), 1),
    "one of its elements": lambda x: x.fill_(x[1]),
    "rows that are one": lambda x: x.expand(2, 3).index_fill_(0, torch.tensor([0]), 3),
    "rows that are one, by index": lambda x: x.expand(2, 3).index_put_((torch.tensor([0]),), torch.tensor(5.0)),
    "windows that overlap": lambda x: x.unfold(0, 2, 1).index_fill_(0, torch.tensor([0]), 3),
    "rows that are one, by mask": lambda x: x.expand(2, 3).masked_fill_(x > 1, 7),
    "terms of a product": lambda x: x.addcmul_(x + 1, x + 2, value=2).addcdiv_(x + 3, x * x + 1),
}


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_those_of_eager_runs(name):
    compiled = torch.compile(WRITES[name])
    expected = torch.arange(3.0)
    WRITES[name](expected)
    for _ in range(3):
        x = torch.arange(3.0)
        shown = x.view(1, 3)
        compiled(x)
        assert torch.equal(x, expected) and torch.equal(shown[0], expected)


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
def test_a_mode_does_not_undo_what_is_written_to_expanded_memory():
    x = torch.arange(3.0)
    with torch.overrides.BaseTorchFunctionMode():
        x.expand(2, 3).index_fill_(0, torch.tensor([0]), 3)
    assert x.tolist() == [3, 3, 3]


@pytest.mark.parametrize("function", [lambda a, b: a * 2, lambda a, b: a * b, lambda a, b: (a @ b, b.exp())[0]])
def test_a_leaf_that_is_given_twice_has_one_gradient(function):
    compiled = torch.compile(function)
    for _ in range(3):
        x, y = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        compiled(x, x).sum().backward()
        function(y, y).sum().backward()
        assert torch.equal(x.grad, y.grad)
    (first,) = torch.autograd.grad(compiled(x, x).sum(), x)
    assert torch.equal(first, y.grad)


def test_self_attention_has_one_gradient():
    layer = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    compiled = torch.compile(layer)
    x, y = (torch.arange(8.0).view(1, 2, 4).requires_grad_() for _ in range(2))
    compiled(x, x, x)[0].square().sum().backward()
    layer(y, y, y)[0].square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)

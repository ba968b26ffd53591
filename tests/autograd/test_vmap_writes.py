"""Operations in place inside vmap: every sample is written, and what is not mapped over cannot hold what is."""

import pytest

import flambeau as torch
from flambeau.func import grad, vmap

OTHER, INDEX = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([2, 0, 1])


def with_item(t, key, value):
    t[key] = value
    return t


def through_view(t, change):
    change(t)
    return t


INTO_COPIES = {
    "add_": lambda x: x.clone().add_(x),
    "add_ of a number": lambda x: x.clone().add_(1),
    "mul_ of an unmapped tensor": lambda x: x.clone().mul_(OTHER),
    "relu_": lambda x: (x - 2).relu_(),
    "clamp_": lambda x: x.clone().clamp_(1, 3),
    "addcmul_": lambda x: x.clone().addcmul_(x, OTHER),
    "cumsum_": lambda x: x.clone().cumsum_(0),
    "masked_fill_": lambda x: x.clone().masked_fill_(x > 2, 9.0),
    "index_add_": lambda x: x.clone().index_add_(0, INDEX, x),
    "scatter_": lambda x: x.clone().scatter_(0, INDEX, x * 2),
    "index_put_": lambda x: x.clone().index_put_((INDEX,), x),
    "copy_": lambda x: x.clone().copy_(OTHER),
    "copy_ of fewer dimensions": lambda x: x.new_zeros(2, 3).copy_(x),
    "fill_": lambda x: x.clone().fill_(x[0]),
    "zero_": lambda x: x.clone().zero_(),
    "an item": lambda x: with_item(x.clone(), 0, x[1]),
    "a slice": lambda x: with_item(x.clone(), slice(1, None), x[:2]),
    "items": lambda x: with_item(x.clone(), INDEX, x),
    "a mask": lambda x: with_item(x.clone(), x > 2, 0.0),
    "a view": lambda x: through_view(x.clone(), lambda y: y[1:].mul_(2)),
    "another view": lambda x: through_view(x.clone(), lambda y: y.view(3, 1).add_(1)),
    "unsqueeze_": lambda x: x.clone().unsqueeze_(0),
    "transpose_": lambda x: x.clone().reshape(1, 3).transpose_(0, 1),
    "relu in place": lambda x: torch.nn.functional.relu(x - 2, inplace=True),
}
INTO_MADE = {
    "zeros_like": lambda x: torch.zeros_like(x).add_(x),
    "ones_like": lambda x: torch.ones_like(x).mul_(x),
    "full_like": lambda x: torch.full_like(x, 2.0).sub_(x),
    "empty_like": lambda x: torch.empty_like(x, dtype=torch.float64).copy_(x),
    "new_zeros": lambda x: with_item(x.new_zeros(5), slice(3), x),
    "new_zeros of a tuple": lambda x: x.new_zeros((3,)).add_(x),
    "new_ones": lambda x: x.new_ones(size=(3,)).add_(x),
    "new_full": lambda x: x.new_full((3,), 4.0).add_(x),
    "one_hot": lambda x: torch.nn.functional.one_hot(x.long(), 6),
}
UNMAPPED = {
    "add_": lambda x: torch.zeros(3).add_(x),
    "copy_": lambda x: torch.zeros(3).copy_(x),
    "fill_": lambda x: torch.zeros(3).fill_(x[0]),
    "an item": lambda x: with_item(torch.zeros(3), 0, x[0]),
    "items": lambda x: with_item(torch.zeros(3), INDEX, x),
    "scatter_": lambda x: torch.zeros(3).scatter_(0, INDEX, x),
    "a view": lambda x: torch.zeros(3)[1:].add_(x[1:]),
    "inside": lambda x: vmap(lambda y: x.clone().add_(y))(x.reshape(3, 1)),
}


@pytest.mark.parametrize("in_dim", [0, 1])
@pytest.mark.parametrize("name", [*INTO_COPIES, *INTO_MADE])
def test_as_for_each_sample(name, in_dim):
    function = {**INTO_COPIES, **INTO_MADE}[name]
    batch = torch.arange(6.0).reshape(2, 3)
    expected = torch.stack([function(x) for x in batch])
    given = batch.clone() if in_dim == 0 else batch.t().contiguous()
    made = vmap(function, in_dims=in_dim)(given)
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize("name", UNMAPPED)
def test_unmapped_tensors_cannot_hold_samples(name):
    with pytest.raises(RuntimeError, match="not possible because there exists a Tensor `other`"):
        vmap(UNMAPPED[name])(torch.arange(6.0).reshape(2, 3))


def test_inputs_are_written():
    x = torch.zeros(2, 3)
    vmap(lambda t: t.add_(1))(x)
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_nested():
    batch = torch.arange(6.0).reshape(2, 3)
    made = vmap(lambda x: vmap(lambda y: torch.zeros_like(y).add_(x))(x.reshape(3, 1).expand(3, 3)))(batch)
    assert torch.equal(made, batch[:, None, :].expand(2, 3, 3))


def test_gradients():
    def loss(x):
        made = torch.zeros_like(x)
        made[0] = x[1] * 2
        made[1:].add_(x[1:] ** 2)
        return made.sum()

    batch = torch.arange(6.0).reshape(2, 3)
    expected = torch.stack([torch.zeros(2), batch[:, 1] * 2 + 2, batch[:, 2] * 2], 1)
    assert torch.equal(vmap(grad(loss))(batch), expected)
    batch.requires_grad_()
    vmap(loss)(batch).sum().backward()
    assert torch.equal(batch.grad, expected)


def test_results_must_fit():
    with pytest.raises(RuntimeError):
        vmap(lambda x: torch.zeros_like(x, dtype=torch.int64).add_(x))(torch.ones(2, 3))
    with pytest.raises(RuntimeError):
        vmap(lambda x: x.clone().add_(torch.ones(2, 3)))(torch.ones(2, 3))

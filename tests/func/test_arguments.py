"""Arguments of the transforms: numbers of arguments and dimensions counted from the end, sizes by keyword."""

import pytest

import flambeau as torch
from flambeau.func import grad, jacrev, vjp, vmap


def test_argument_numbers_from_the_end():
    x, y = torch.tensor(2.0), torch.tensor(5.0)
    assert grad(lambda a, b: a * b * b, argnums=-1)(x, y).item() == 20
    assert [g.item() for g in grad(lambda a, b: a * b * b, argnums=(-1, 0))(x, y)] == [20, 25]
    assert jacrev(lambda a, b: a * b, argnums=-2)(x, y).item() == 5
    for wrong in (2, -3):
        with pytest.raises(RuntimeError, match="only 2 positional inputs"):
            grad(lambda a, b: a * b, argnums=wrong)(x, y)


def test_results_have_their_batch_where_it_was_asked_for():
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert vmap(lambda a: a * 2, out_dims=-1)(x).shape == (3, 4, 2)
    assert torch.equal(vmap(lambda a: a * 2, in_dims=1, out_dims=-2)(x), x.movedim(1, -2) * 2)
    assert torch.equal(vmap(lambda a: a * 2, in_dims=-1, out_dims=2)(x), x * 2)
    with pytest.raises(IndexError, match="Dimension out of range"):
        vmap(lambda a: a * 2, out_dims=4)(x)


def test_resizing_a_sample():
    x = torch.arange(6.0).reshape(2, 3)
    assert vmap(lambda a: a.clone().resize_(1, 3))(x).shape == (2, 1, 3)
    assert vmap(lambda a: a.clone().resize_((3, 1)))(x).shape == (2, 3, 1)


def test_a_cotangent_of_the_wrong_kind():
    _, pull = vjp(torch.sin, torch.zeros(3))
    assert pull(torch.ones(3))[0].tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError):
        pull((torch.ones(3), torch.ones(3)))


def test_filling_samples():
    x, values = torch.arange(6.0).reshape(3, 2), torch.tensor([5.0, 6.0, 7.0])
    assert vmap(lambda a, b: a.clone().fill_(b))(x, values).tolist() == [[5, 5], [6, 6], [7, 7]]
    assert vmap(lambda a: a.clone().fill_(torch.tensor(2.0)))(x).tolist() == [[2, 2]] * 3
    for write in (lambda b: torch.zeros(2).fill_(b), lambda b: torch.zeros(3).index_fill_(0, torch.tensor([1]), b)):
        with pytest.raises(RuntimeError, match="has more elements than `self`"):
            vmap(write)(values)


def test_resizing_by_name():
    assert vmap(lambda a: a.clone().resize_(size=(1,)))(torch.ones(3, 2)).shape == (3, 1)


@pytest.mark.parametrize(("dim", "shape"), [(0, (3, 2)), (1, (2, 3)), (-1, (2, 3)), (-2, (3, 2))])
def test_places_of_the_batch(dim, shape):
    x = torch.arange(6.0).reshape(3, 2)
    found = vmap(lambda a: a * 2, out_dims=dim)(x)
    assert found.shape == shape and torch.equal(found if shape == (3, 2) else found.t(), x * 2)
    with pytest.raises(IndexError, match="Dimension out of range"):
        vmap(lambda a: a * 2, out_dims=2)(x)
    with pytest.raises(IndexError, match="Dimension out of range"):
        vmap(lambda a: a * 2, out_dims=-3)(x)


@pytest.mark.parametrize("transform", [grad, jacrev, lambda f: lambda x: vjp(f, x), lambda f: vmap(grad(f))])
def test_whole_numbers_have_no_gradient(transform):
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype"):
        transform(lambda x: x.sum())(torch.arange(3))

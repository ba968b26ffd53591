"""A function that a transform differentiates may write to what it made or was given, not to what it captured."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import grad, jvp, vjp, vmap

REFUSED = r"During a grad .* attempted to call in-place operation"
x = torch.ones(3)

WRITES = {
    "add": lambda c, x: c.add_(1),
    "with a value of the transform": lambda c, x: c.add_(x),
    "without history": lambda c, x: torch.no_grad()(c.add_)(1),
    "data": lambda c, x: c.data.add_(1),
    "detached": lambda c, x: c.detach().mul_(2),
    "item": lambda c, x: c.__setitem__(0, 1),
    "item of the transform": lambda c, x: c.__setitem__(0, x[0]),
    "copy": lambda c, x: c.copy_(torch.ones(3)),
    "fill": lambda c, x: c.fill_(2),
    "zero": lambda c, x: c.zero_(),
    "random": lambda c, x: c.uniform_(),
    "normal": lambda c, x: c.normal_(),
    "transposed": lambda c, x: c.t_(),
    "scatter": lambda c, x: c.scatter_(0, torch.tensor([0]), x[:1]),
    "view": lambda c, x: c.view(3).add_(1),
    "part": lambda c, x: c[:2].copy_(x[:2]),
    "one of several": lambda c, x: c.unbind()[0].copy_(x[0]),
    "relu": lambda c, x: F.relu(c, inplace=True),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_captured_tensors_are_refused(name):
    c = torch.zeros(3)

    def f(x):
        WRITES[name](c, x)
        return x.sum()

    for run in (lambda: grad(f)(x), lambda: vjp(f, x), lambda: jvp(f, (x,), (x,))):
        with pytest.raises(RuntimeError, match=REFUSED):
            run()
    with pytest.raises(RuntimeError, match=f"{REFUSED}|^vmap"):
        vmap(grad(f))(x.expand(2, 3))
    assert torch.equal(c, torch.zeros(3))
    WRITES[name](c, x)  # outside of transforms nothing is refused


MADE = {
    "new": lambda c: torch.zeros(3),
    "like": torch.zeros_like,
    "listed": lambda c: torch.tensor([0.0, 0.0, 0.0]),
    "computed": lambda c: c * 2,
    "cloned": torch.clone,
    "indexed": lambda c: c[torch.tensor([0, 1, 2])],
    "random": lambda c: torch.rand(3) * 0,
    "product": lambda c: torch.eye(3) @ c,
    "by an inner transform": lambda c: grad(lambda y: (y * y).sum())(c),
    "by an inner vjp": lambda c: vjp(lambda y: y * y, c)[1](c)[0],
    "mapped": lambda c: vmap(lambda a: a * 2)(c),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_inside_may_be_written(name):
    c = torch.zeros(3)

    def f(x):
        made = MADE[name](c)
        made.add_(x)
        made.mul_(x)
        made[0] = 2 * x[0]
        return made.sum()

    at = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(grad(f)(at), torch.tensor([2.0, 4.0, 6.0]))
    assert jvp(f, (at,), (torch.ones(3),))[1] == 12


def test_an_outer_transforms_tensor_is_captured_by_the_inner_one():
    def outer(x):
        held = x * 1

        def inner(y):
            held.add_(1)
            return (y * held).sum()

        return grad(inner)(x).sum()

    with pytest.raises(RuntimeError, match=REFUSED):
        grad(outer)(x)


def test_running_statistics_and_out_are_written():
    mean, var, out = torch.zeros(3), torch.ones(3), torch.zeros(3)

    def f(x):
        torch.add(torch.ones(3), 1, out=out)
        return F.batch_norm(x, mean, var, training=True).sum()

    grad(f)(torch.ones(4, 3))
    assert torch.allclose(mean, torch.full((3,), 0.1)) and torch.equal(out, torch.full((3,), 2.0))
    jvp(f, (torch.ones(4, 3),), (torch.ones(4, 3),))
    assert torch.allclose(mean, torch.full((3,), 0.19))


def test_a_batch_that_is_overwritten_keeps_what_its_derivative_needs():
    def f(x):
        made = x * 2
        made.mul_(x)
        made.mul_(x)
        return made.sum()

    points = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(vmap(grad(f))(points), 6 * points**2)


def test_marks_end_with_the_transform():
    made = []
    grad(lambda x: made.append(torch.zeros(2)) or x.sum())(x)
    with torch.inference_mode():
        inside = torch.zeros(2)
        grad(lambda x: x.sum())(torch.ones(2))
        assert torch.zeros(2).is_inference()
    assert inside.is_inference() and not made[0].is_inference() and not torch.zeros(2).is_inference()
    leaf = made[0].requires_grad_()
    (leaf * 3).sum().backward()
    other = torch.zeros(2)
    assert torch.equal(leaf.grad, torch.full((2,), 3.0)) and other.grad is None


def test_arguments_that_are_not_differentiated_by_may_be_written():
    def f(held, x):
        held.add_(x)
        return (held * x).sum()

    held, at = torch.zeros(2), torch.tensor([1.0, 2.0])
    assert torch.equal(grad(f, argnums=-1)(held, at), 2 * at) and torch.equal(held, at)
    by_tangent = jvp(lambda held: grad(f, argnums=1)(held, at), (torch.zeros(2),), (torch.ones(2),))[1]
    assert torch.equal(by_tangent, torch.ones(2))


def test_the_count_of_batches_is_captured():
    norm = torch.nn.BatchNorm1d(4)
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        torch.func.jacrev(lambda x: norm(x).sum(0))(torch.randn(5, 4))
    assert norm.num_batches_tracked.item() == 0
    assert torch.func.jacrev(lambda x: norm.eval()(x).sum(0))(torch.randn(5, 4)).shape == (4, 5, 4)

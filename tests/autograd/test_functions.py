"""User-defined functions, derivatives as values, transforms, checkpoints."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import Function, forward_ad, functional, gradcheck, gradgradcheck
from flambeau.autograd.function import once_differentiable
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor * x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 3 * ctx.factor * x * x * g, None


def double(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_function_and_its_second_derivative():
    x = double(1.0, 2.0)
    assert gradcheck(lambda t: Cube.apply(t, 2.0), (x,))
    assert gradgradcheck(lambda t: Cube.apply(t, 2.0), (x,))
    assert Cube.apply(x, 2.0).grad_fn.name() == "CubeBackward"


def test_function_with_setup_context_and_several_outputs():
    class Parts(Function):
        @staticmethod
        def forward(x):
            return x * 2, x.long()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            return g * 2

    x = double(1.5)
    real, whole = Parts.apply(x)
    assert real.requires_grad and not whole.requires_grad
    real.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_function_that_writes_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = double(1.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_wrong_number_of_gradients_raises():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Bad.apply(double(1.0), double(2.0)).sum().backward()


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = double(3.0)
    start = torch.ones(1, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(Once.apply(x), x, start, create_graph=True)
    assert g.tolist() == [6.0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_gradcheck_finds_a_wrong_derivative():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (double(1.0),))
    assert not gradcheck(Wrong.apply, (double(1.0),), raise_exception=False)


def test_functional():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    np.testing.assert_allclose(functional.jacobian(lambda t: t * t.sum(), x).numpy(), [[4, 1], [2, 5]])
    np.testing.assert_allclose(functional.hessian(lambda t: (t**3).sum(), x).numpy(), [[6, 0], [0, 12]])
    v = torch.tensor([1.0, -1.0], dtype=torch.float64)
    np.testing.assert_allclose(functional.vjp(lambda t: t * t, x, v)[1].numpy(), [2, -4])
    np.testing.assert_allclose(functional.jvp(lambda t: t * t, x, v)[1].numpy(), [2, -4])
    np.testing.assert_allclose(functional.hvp(lambda t: (t**3).sum(), x, v)[1].numpy(), [6, -12])
    np.testing.assert_allclose(functional.vhp(lambda t: (t**3).sum(), x, v)[1].numpy(), [6, -12])
    both = functional.jacobian(lambda a, b: a * b, (x, x))
    assert isinstance(both, tuple) and both[1].shape == (2, 2)


def test_forward_mode():
    x, t = torch.tensor([0.5, 1.0]), torch.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        value, tangent = forward_ad.unpack_dual(dual.sin() * 3)
    np.testing.assert_allclose(tangent.numpy(), 3 * np.cos([0.5, 1.0]) * [1, 2], rtol=1e-6)
    assert not value.requires_grad


def test_transforms_nest():
    x = torch.tensor(0.5, dtype=torch.float64)
    third = torch.func.grad(torch.func.grad(torch.func.grad(torch.sin)))(x)
    assert abs(third.item() + np.cos(0.5)) < 1e-14 and not third.requires_grad
    f = lambda t: (t.sin() * t).sum()
    points = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], dtype=torch.float64)
    each = torch.func.vmap(torch.func.grad(f))(points)
    one_by_one = torch.stack([torch.func.grad(f)(p) for p in points])
    np.testing.assert_allclose(each.numpy(), one_by_one.numpy(), rtol=1e-12)
    hessians = torch.func.vmap(torch.func.hessian(f))(points)
    expected = [np.diag(2 * np.cos(p) - p * np.sin(p)) for p in points.numpy()]
    np.testing.assert_allclose(hessians.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_per_sample_gradients_of_shared_weights():
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    xs = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    loss = lambda w, x: (w @ x).pow(2).sum()
    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, xs)
    for g, x in zip(grads, xs):
        np.testing.assert_allclose(g.numpy(), 2 * np.outer(w.numpy() @ x.numpy(), x.numpy()), rtol=1e-6)


def test_jacobians_agree():
    x = torch.tensor([0.3, 0.8], dtype=torch.float64)
    f = lambda t: torch.stack([t.sin().sum(), t.prod(), (t * t)[1]])
    reverse, forward = torch.func.jacrev(f)(x), torch.func.jacfwd(f)(x)
    np.testing.assert_allclose(reverse.numpy(), forward.numpy(), rtol=1e-12)
    np.testing.assert_allclose(reverse.numpy(), functional.jacobian(f, x).numpy(), rtol=1e-12)
    _, back = torch.func.vjp(f, x)
    np.testing.assert_allclose(back(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))[0].numpy(), np.cos(x.numpy()))
    assert torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1].shape == (2,)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(0), lambda x: x.softmax(-1), lambda x: x.sort(0)[0], lambda x: x.reshape(-1)[1:],
        lambda x: x.t() @ x, lambda x: x.cumsum(1), lambda x: x.max(1)[1], lambda x: x.flatten().unsqueeze(0),
        lambda x: torch.cat([x, x * 2]), lambda x: x[:, 1], lambda x: x.gather(1, (x > 0).long()),
        lambda x: torch.where(x > 0, x, x.mean()), lambda x: x.var(1), lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: x + torch.ones(4), lambda x: x.expand(2, 3, 4), lambda x: x.norm(), lambda x: x.roll(1, 0),
    ],
)  # fmt: skip
def test_vmap_equals_a_loop(function):
    rng = np.random.default_rng(0)
    batch = torch.from_numpy(rng.standard_normal((5, 3, 4)).astype("f"))
    expected = torch.stack([function(x) for x in batch])
    np.testing.assert_allclose(torch.func.vmap(function)(batch).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    moved = torch.func.vmap(function, in_dims=1)(batch.movedim(0, 1))
    np.testing.assert_allclose(moved.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    chunks = torch.func.vmap(function, chunk_size=2)(batch)
    np.testing.assert_allclose(chunks.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_vmap_dimensions_and_errors():
    a = torch.ones(2, 5)
    assert torch.func.vmap(lambda x: x * 2, in_dims=1, out_dims=1)(a).shape == (2, 5)
    assert torch.func.vmap(torch.func.vmap(lambda x, y: x * y, (0, None)), (0, None))(a, torch.tensor(3.0)).shape == (
        2,
        5,
    )
    with pytest.raises(ValueError):
        torch.func.vmap(lambda x, y: x + y)(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError):
        torch.func.vmap(lambda x: x, in_dims=3)(a)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_gives_the_same_gradients_and_runs_forward_again(reentrant):
    calls = []

    def block(t):
        calls.append(1)
        return (t * t).exp()

    x = torch.tensor([1.0, 0.5], requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * np.exp(x.detach().numpy() ** 2), rtol=1e-6)
    assert len(calls) == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_restores_random_numbers(reentrant):
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)
    masks = []

    def drop(t):
        mask = torch.rand(100) > 0.5
        masks.append(mask)
        return t * mask * t

    checkpoint(drop, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(masks[0], masks[1])
    assert torch.equal(x.grad, 2 * masks[0].float())


def test_checkpoint_sequential():
    x = torch.tensor([0.3], requires_grad=True)
    steps = [torch.sin, torch.exp, torch.tanh, torch.cos]
    checkpoint_sequential(steps, 2, x, use_reentrant=False).backward()
    y = torch.tensor([0.3], requires_grad=True)
    torch.cos(torch.tanh(torch.exp(torch.sin(y)))).backward()
    assert torch.allclose(x.grad, y.grad)


def test_derivatives_are_checked_of_parameters_that_a_function_knows():
    """The checks move the given tensors themselves: a module does not take its parameters from the arguments."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 3).double()
    x = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    inputs = (x, *layer.parameters())
    assert gradcheck(lambda x, *parameters: layer(x).tanh(), inputs)
    assert gradgradcheck(lambda x, *parameters: layer(x).tanh(), inputs)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(lambda x, *parameters: layer(x.detach()).tanh() + x.sum() * 0, inputs)


def test_marked_inputs_count_as_written():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x, several):
            x.detach().numpy()[...] += 1  # which no version counts
            ctx.mark_dirty(x)
            return (x, several) if several else x

        @staticmethod
        def backward(ctx, *g):
            return g[0], None

    x = double(1.0)
    y = x * 1
    squared = y * y
    assert Plain.apply(y, None) is y and y._version == 1
    assert "<torch.autograd.function.PlainBackward object at" in repr(y.grad_fn)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()
    plain = torch.zeros(2)
    assert Plain.apply(plain, None)._version == 1
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        Plain.apply((x * 1)[:1], "more")


def test_functions_that_write_under_their_older_name():
    class Added(torch.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.add_(b), b + 2

        @staticmethod
        def backward(ctx, first, second):
            return first, first + second

    x, y = torch.zeros(2), torch.ones(2, requires_grad=True)
    q, _ = Added.apply(x, y)
    assert q is x and q.requires_grad and type(q.grad_fn) is Added._backward_cls
    q.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]

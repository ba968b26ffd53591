"""`jvp`, `jacfwd` and `hessian`: tangents that travel with the values, whatever is recorded."""

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as forward_ad
from flambeau.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X, ONE = torch.tensor(3.0), torch.tensor(1.0)


def _half_recorded(x):
    with torch.no_grad():
        y = x**2
    return y * x


def test_no_grad_does_not_stop_tangents():
    assert jvp(_half_recorded, (X,), (ONE,))[1] == 27
    assert jvp(grad(_half_recorded), (X,), (ONE,)) == (9, 6)
    assert grad(lambda x: jvp(_half_recorded, (x,), (ONE,))[1])(X) == 6
    assert jacfwd(_half_recorded)(X) == 27 and jacrev(_half_recorded)(X) == 9 and hessian(_half_recorded)(X) == 6


def test_tangents_are_recorded_where_the_inputs_are():
    x = torch.tensor(3.0, requires_grad=True)
    value, tangent = jvp(lambda x: x**3, (x,), (ONE,))
    assert value.requires_grad and torch.autograd.grad(tangent, x)[0] == 18
    with torch.no_grad():
        value, tangent = jvp(lambda x: x**3, (x,), (ONE,))
    assert not value.requires_grad and not tangent.requires_grad and tangent == 27


def test_tangents_can_be_switched_off_inside():
    def f(x):
        with forward_ad._set_fwd_grad_enabled(False):
            shift = x**2
        return x**2 - shift

    assert jvp(f, (X,), (ONE,))[1] == 6
    with forward_ad._set_fwd_grad_enabled(False):
        assert jvp(torch.sin, (X,), (ONE,))[1] == X.cos()


def test_transforms_of_jvp_leave_no_history():
    x = torch.tensor([0.5, 1.0])
    for made in (hessian(lambda x: (x**3).sum())(x), vmap(hessian(lambda x: x**3))(x), jacfwd(jacfwd(torch.sin))(x)):
        assert not made.requires_grad and made.grad_fn is None
    assert torch.allclose(vmap(hessian(lambda x: x**3))(x), 6 * x)
    assert torch.allclose(jvp(lambda x: jvp(torch.sin, (x,), (ONE,))[1], (X,), (ONE,))[1], -X.sin())


def test_each_sample_has_its_own_tangent():
    x, t, w = torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 3)
    mapped = vmap(lambda x, t, w: jvp(lambda x: x.sin() * w, (x,), (t,))[1])(x, t, w)
    assert torch.allclose(mapped, x.cos() * w * t)
    # neither the point nor the direction need be mapped over
    assert torch.allclose(vmap(lambda w: jvp(lambda x: x * w, (x[0],), (t[0],))[1])(w), t[0] * w)
    assert torch.allclose(
        vmap(lambda t, w: jvp(lambda x: x * w, (x[0],), (t,))[1], in_dims=(1, 1))(t.t(), w.t()), t * w
    )


def test_jacobians_forward_run_their_function_once_for_all_directions():
    calls = []

    def f(x):
        calls.append(torch._C._functorch.is_batchedtensor(x))
        return x.sin()

    x = torch.randn(5)
    assert torch.allclose(jacfwd(f)(x), torch.diag(x.cos())) and calls == [False]


def test_random_numbers_in_jacfwd():
    x = torch.rand(3, 4)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(torch.bernoulli)(x)
    for randomness in ("same", "different"):
        assert not jacfwd(torch.bernoulli, randomness=randomness)(x).any()


def test_forward_over_reverse_keeps_tangents_of_masked_gradients():
    x = torch.tensor([-1.0, 0.5, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), torch.ones(3))
        out = dual.clamp_min(0.1)
        cotangent = forward_ad.make_dual(torch.ones(3), torch.full((3,), 2.0))
        (made,) = torch.autograd.grad(out, dual, cotangent, create_graph=True)
        assert forward_ad.unpack_dual(made).tangent.tolist() == [0.0, 2.0, 2.0]


def test_saved_tensor_hooks_may_be_on():
    with torch.autograd.graph.save_on_cpu():
        assert jvp(torch.sin, (X,), (ONE,))[1] == X.cos()
    with pytest.raises(RuntimeError, match="saved tensor hooks"), torch.autograd.graph.save_on_cpu():
        grad(torch.sin)(X)


def test_inference_mode_outside():
    x = torch.tensor([1.0, 2.0])
    with torch.inference_mode():
        assert vjp(lambda x: (x**2).sum(), x)[1](torch.tensor(1.0))[0].tolist() == [2.0, 4.0]
        assert jacrev(grad(lambda x: (x**3).sum()))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert jvp(lambda x: (x**2).sum(), (x,), (torch.ones(2),))[1] == 6


def test_functions_that_choose_their_way_by_the_tape_choose_it_for_tangents():
    torch.manual_seed(0)
    a, t = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    b = torch.randn(4, 1, dtype=torch.float64)
    functions = [
        torch.linalg.svdvals, lambda a: torch.linalg.eigvalsh(a.T @ a), lambda a: torch.linalg.eigvals(a.T @ a).abs().sum(),
        lambda a: torch.linalg.lstsq(a, b).solution, lambda a: torch.norm(a, "nuc"), torch.linalg.cond,
    ]  # fmt: skip
    for f in functions:
        step = 1e-6
        expected = (f(a + step * t) - f(a - step * t)) / (2 * step)
        assert torch.allclose(jvp(f, (a,), (t,))[1], expected, rtol=1e-4, atol=1e-6)


def test_fills_with_a_tensor_take_over_its_tangent():
    def f(x):
        y = torch.zeros(3)
        y.fill_(x * x)
        y[:1].fill_(5.0)
        return y

    assert [t.tolist() for t in jvp(f, (X,), (ONE,))] == [[5, 9, 9], [0, 6, 6]]


def test_labels_have_no_tangent():
    x, y = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -1.0])
    made = jvp(torch.nn.functional.hinge_embedding_loss, (x, y), (torch.ones(2), torch.ones(2)))
    assert [t.item() for t in made] == [0.25, 0.5]


def test_tangents_are_laid_out_as_their_tensors():
    x, t = torch.arange(12.0).reshape(3, 4).t(), torch.arange(12.0).reshape(4, 3)
    made = jvp(lambda x: x.as_strided((2, 2), (1, 4)), (x,), (t,))
    assert made[0].equal(x[:2, :2].t().t()) and made[1].equal(t[:2, :2])


FORMULAS = {
    "products": lambda x: (x @ x) ** 2 + (x.outer(x) @ x).sum(),
    "cube": lambda x: (x * x * x).sum(),
    "tanh": lambda x: x.tanh().sum(),
    "softmax": lambda x: x.softmax(0)[0] * x.log_softmax(0)[1],
    "layer_norm": lambda x: (torch.nn.functional.layer_norm(x, (3,), x, x * 2) ** 2).sum(),
    "group_norm": lambda x: (torch.nn.functional.group_norm(x.expand(2, 4, 3) * torch.arange(4.0)[:, None], 2) ** 3).sum(),
    "linear": lambda x: torch.nn.functional.linear(x, x.expand(2, 3) * 2, x[:2]).square().sum(),
    "conv": lambda x: torch.nn.functional.conv1d(x.view(1, 1, 3), x[:2].view(1, 1, 2), x[:1]).square().sum(),
    "pool": lambda x: torch.nn.functional.max_pool1d(x.view(1, 3) ** 2, 2, 1).square().sum(),
    "sort": lambda x: (x.sort().values * torch.arange(3.0)).square().sum() + x.max() * x.cummax(0).values.sum(),
    "index": lambda x: (x[[2, 0]] * x.gather(0, torch.tensor([1, 1]))).sum() + x.clone().index_put((torch.tensor(1),), x[0] ** 2).sum(),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 3, 1) * i for i in (1, 2, 3)]).square().sum(),
    "addmm": lambda x: torch.addmm(x, x.view(3, 1), x.view(1, 3), beta=2, alpha=3).square().sum(),
    "cat": lambda x: torch.cat([x, x * x, torch.ones(2)]).cumsum(0).square().sum(),
    "in place": lambda x: x.clone().mul_(x).add_(1.0).square().sum(),
    "loss": lambda x: torch.nn.functional.cross_entropy(x.view(1, 3) * x, torch.tensor([1])),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_second_derivatives_agree_however_they_are_taken(name):
    """Forwards over backwards, with the plain interface and without create_graph; backwards over forwards; twice backwards."""
    f = FORMULAS[name]
    x, t = torch.tensor([1.0, 2.5, -0.5], dtype=torch.float64), torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    torch.set_default_dtype(torch.float64)
    try:
        wanted = torch.autograd.functional.hvp(f, x, t)[1]
        slope = torch.autograd.functional.vjp(f, x)[1]
        leaf = x.clone().requires_grad_()
        with forward_ad.dual_level():
            y = f(forward_ad.make_dual(leaf, t))
            tangent = forward_ad.unpack_dual(y).tangent
            torch.testing.assert_close(tangent.detach(), slope @ t)
            (g,) = torch.autograd.grad(y, leaf, retain_graph=True)
            torch.testing.assert_close(forward_ad.unpack_dual(g).primal, slope)
            torch.testing.assert_close(forward_ad.unpack_dual(g).tangent, wanted)
        (back,) = torch.autograd.grad(tangent, leaf)
        torch.testing.assert_close(back, wanted)
        for outer, inner in ((jacfwd, jacrev), (jacrev, jacfwd), (jacfwd, jacfwd), (jacrev, jacrev)):
            torch.testing.assert_close(outer(inner(f))(x) @ t, wanted)
        with torch.no_grad():
            torch.testing.assert_close(jvp(f, (x,), (t,))[1], slope @ t)
        samples = torch.stack([x, x * 2])
        torch.testing.assert_close(vmap(jacfwd(jacrev(f)))(samples)[0] @ t, wanted)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("write", [
    lambda y, z: y[0].mul_(2), lambda y, z: y[:1].sin_(), lambda y, z: y[0].copy_(y[-1] * 2), lambda y, z: y.t()[0].exp_(),
    lambda y, z: y[0].fill_(2.0), lambda y, z: y[:, 0].mul_(z[:, 1]), lambda y, z: y[0].add_(z[1] * z[0]),
])  # fmt: skip
@pytest.mark.parametrize("last", [torch.sin, torch.clone])
def test_writes_to_views_in_second_derivatives(write, last):
    """Gradients and tangents are written in parts, too; their whole must have what was written, and its history."""

    def f(z):
        y = z.clone()
        write(y, z)
        return (last(y) * z).sum() + y.sum()

    x = torch.randn(3, 3, dtype=torch.float64)
    expected = jacrev(jacrev(f))(x)
    for way in (jacfwd(jacrev(f)), jacrev(jacfwd(f)), jacfwd(jacfwd(f))):
        torch.testing.assert_close(way(x), expected)


def test_samples_that_share_memory_have_tangents_of_their_own():
    x, directions = torch.tensor([[1.0, 2.0]]).expand(3, 2), torch.arange(6.0).view(3, 2)
    made = vmap(lambda a, b: jvp(lambda z: z * z, (a,), (b,))[1])(x, directions)
    torch.testing.assert_close(made, 2 * x * directions)

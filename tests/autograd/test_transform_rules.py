"""Transforms under no_grad and inference mode, with writes to their inputs, and what they refuse."""

import pytest

import flambeau as torch
from flambeau.func import grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

X = torch.tensor([1.0, 2.0, 3.0])


def test_no_grad_outside_cuts_the_outer_graph():
    x = torch.tensor(2.0, requires_grad=True)
    with torch.no_grad():
        y = grad(lambda x: x**3)(x)
        out, back = vjp(lambda x: x**2, x)
    assert y == 12 and not y.requires_grad and not out.requires_grad
    assert grad(lambda x: x**3)(x).requires_grad
    _, back = vjp(lambda x: x**2, x)
    with torch.no_grad():
        assert not back(torch.tensor(1.0))[0].requires_grad


def test_no_grad_inside_an_outer_transform_is_a_constant_of_it():
    def f(x):
        with torch.no_grad():
            shift = grad(lambda x: 0.25 * x**4)(x)
        return x**3 - shift

    assert grad(f)(torch.tensor(1.5)) == 3 * 1.5**2


def test_inference_mode_does_not_hinder():
    with torch.inference_mode():
        assert grad(grad(lambda x: x**3))(torch.tensor(2.0)) == 12
        assert torch.is_inference_mode_enabled()


def test_a_function_may_write_to_its_input():
    def f(x):
        x.mul_(2)
        return (x * x).sum()

    assert grad(f)(X.clone()).tolist() == [8, 16, 24]
    assert jvp(f, (X.clone(),), (torch.ones(3),))[1] == 48
    assert vmap(grad(f))(X[None].clone()).tolist() == [[8, 16, 24]]

    def turned(x):
        return (x.mul(1).unsqueeze_(0) ** 2).sum()

    assert vmap(grad(turned))(X).tolist() == [2, 4, 6]


def test_aux_of_jacfwd_is_that_of_one_call():
    result, aux = jacfwd(lambda x: (x * 2, {"a": x + 1}), has_aux=True)(X)
    assert result.tolist() == (torch.eye(3) * 2).tolist() and aux["a"].tolist() == [2, 3, 4]


def _hooked(transform):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return transform(lambda x: x.sin().sum())(X)


def _inside(call):
    def f(x):
        call(x * 1)
        return x.sum()

    return f


class _Zeros(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return x * 0, (0, 0)


REFUSED = [
    (lambda: grad(torch.mul, argnums=2)(X, X), "but only"), (lambda: grad(torch.mul, argnums=[0])(X, X), "int or Tuple"),
    (lambda: grad(torch.mul, argnums=("0",))(X, X), "must be int"), (lambda: jacrev(torch.sin, argnums=())(X), "non-empty"),
    (lambda: jacfwd(torch.sin, argnums=(0, -1))(X), "must be unique"),
    (lambda: grad(lambda x: [x, x], has_aux=True)(X), "output of function f should be a tuple"),
    (lambda: vjp(lambda x: (x, 1), X, has_aux=True), "Expected tensors, got unsupported type"),
    (lambda: vjp(lambda x: None, X), "non-empty output"), (lambda: vjp(lambda x: 3, X), "return only tensors"),
    (lambda: vjp(lambda x: (x, x), X)[1]([X, X]), "Expected pytree structure"),
    (lambda: jvp(torch.sin, X, (X,)), "Expected primals to be a tuple"),
    (lambda: jvp(torch.sin, (X,), [X]), "same python structure"), (lambda: jvp(torch.sin, (X,), (1.0,)), "only contain Tensors"),
    (lambda: jvp(torch.sin, (), ()), "at least one Tensor"),
    (lambda: jvp(lambda x: (x, X), (X,), (X,), strict=True), "strict"),
    (lambda: jacrev(torch.sin)(X * 1j), "jacrev: Expected all inputs to be real"),
    (lambda: jacfwd(lambda x: x * 1j)(X), "jacfwd: Expected all outputs to be real"),
    (lambda: grad(_inside(lambda x: x.requires_grad_()))(X), "Tensor.requires_grad_"),
    (lambda: vmap(_inside(lambda x: x.requires_grad_()))(X), "Tensor.requires_grad_"),
    (lambda: grad(_inside(lambda x: x.retain_grad()))(X), "Tensor.retain_grad"),
    (lambda: _hooked(grad), "saved tensor hooks"), (lambda: _hooked(hessian), "saved tensor hooks"),
    (lambda: vmap(_Zeros.apply)(X), "returned an incompatible"),
    (lambda: stack_module_state([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).eval()]), "same training/eval mode"),
    (lambda: stack_module_state([torch.nn.Linear(2, 2), torch.nn.ReLU()]), "models to be of the same class"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "phrase"), REFUSED)
def test_refusals(function, phrase):
    with pytest.raises(RuntimeError, match=phrase):
        function()


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (lambda: vmap(torch.mul, [0, 0])(X, X), "to be int or a .potentially nested. tuple"),
        (lambda: vmap(torch.mul, (0,))(X, X), "not compatible with the structure of `inputs`"),
        (lambda: vmap(torch.sum)(X, 0), "Got in_dim=0 for an input but the input is of type"),
        (
            lambda: vmap(torch.sin, (3,))(X),
            "Got in_dim=3 for some input, but that input is a Tensor of dimensionality 1",
        ),
        (lambda: vmap(torch.sin)(), "got no inputs"),
        (lambda: vmap(torch.sin, (None,))(X), "at least one Tensor"),
        (lambda: vmap(torch.sin, out_dims="x")(X), "must be an int, None or a python collection of ints"),
        (lambda: jacrev(torch.sin, chunk_size=0)(X), "should be greater than 0"),
    ],
)
def test_arguments(function, phrase):
    with pytest.raises(ValueError, match=phrase):
        function()


def test_one_place_for_one_output():
    assert vmap(lambda x: x, out_dims=(1,))(X[None].expand(2, 3)).shape == (3, 2)

"""Derivatives of functions: what strict mode refuses, and in which words."""

import re

import pytest

import flambeau as torch
import flambeau.autograd.functional as F

X, V = torch.ones(4), torch.ones(4)


def detached(a):
    return a.detach()


def unrelated(a):
    return a.long().float().requires_grad_().clone()


def linear(a):
    return (3 * a).sum()


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_strict_products_with_jacobians(name):
    product = getattr(F, name)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        product(detached, X, V, strict=True)
    with pytest.raises(RuntimeError, match="The output of the user-provided function is independent of input 0"):
        product(unrelated, X, V, strict=True)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is independent of input 0"):
        product(torch.clone, torch.ones(4, requires_grad=True), V, create_graph=True, strict=True)
    assert product(unrelated, X, V)[1].tolist() == [0.0] * 4


def test_strict_jacobian():
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent of input 0"):
        F.jacobian(unrelated, X, strict=True)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is independent of input 0"):
        F.jacobian(torch.clone, torch.ones(4, requires_grad=True), create_graph=True, strict=True)
    for function in (F.jacobian, F.hessian):
        with pytest.raises(RuntimeError, match="not supported together"):
            function(linear, X, strict=True, vectorize=True)


@pytest.mark.parametrize("name", ["hessian", "vhp", "hvp"])
def test_second_derivatives_say_what_is_wrong(name):
    function, more = getattr(F, name), () if name == "hessian" else (V,)
    with pytest.raises(TypeError, match=f"inputs given to {name} must be either a Tensor or a tuple of Tensors"):
        function(linear, (X, 2), *more)
    with pytest.raises(RuntimeError, match=f"The function given to {name} should return a single Tensor"):
        function(lambda a: (a.sum(), a.sum()), X, *more)
    with pytest.raises(RuntimeError, match=f"returned by the function given to {name} should contain a single element"):
        function(torch.clone, X, *more)
    text = (
        "outputs of the user-provided function given to {} must be either a Tensor or a tuple of Tensors but the given"
    )
    with pytest.raises(TypeError, match=re.escape(text.format(name))):
        function(lambda a: "text", X, *more)
    with pytest.raises(
        RuntimeError, match="jacobian of the user-provided function with respect to input 0 is independent"
    ):
        function(linear, X, *more, strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        function(lambda a: a.detach().sum(), X, *more, strict=True)


@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_hessians_of_squares_are_constant_even_if_strict(name):
    x = torch.ones(4, requires_grad=True)
    found = getattr(F, name)(lambda a: (a**2).sum(), x, V, create_graph=True, strict=True)[1]
    assert found.tolist() == [2.0] * 4


def test_the_standard_basis_of_several_tensors():
    a, b = F._construct_standard_basis_for((torch.ones(1), torch.ones(2, dtype=torch.float64)), (1, 2))
    assert a.tolist() == [[1.0], [0.0], [0.0]] and a.dtype is torch.float32
    assert b.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]] and b.dtype is torch.float64


@pytest.mark.parametrize("create_graph", [False, True])
def test_functions_get_inputs_of_their_own_class(create_graph):
    class Named(torch.Tensor):
        def twice(self):
            return self * 2

    x = torch.ones(2).as_subclass(Named).requires_grad_(create_graph)
    assert F.jacobian(lambda a: a.twice(), x, create_graph=create_graph).tolist() == [[2, 0], [0, 2]]
    assert F.vjp(lambda a: a.twice().sum(), x, create_graph=create_graph)[1].tolist() == [2, 2]


def test_results_in_the_form_of_what_was_given():
    x = torch.ones(2, requires_grad=True)
    rows = ((x * 2, x), (x * 3, x))
    plain = F._grad_postprocess(rows, False)
    assert not any(t.requires_grad for row in plain for t in row) and F._grad_postprocess(rows, True) is rows
    assert F._tuple_postprocess(rows, (True, False)) == (rows[0][0], rows[1][0])
    assert F._tuple_postprocess(rows, (False, True)) == rows[0] and F._tuple_postprocess(rows[0], False) is rows[0][0]
    assert F._as_tuple(x, "inputs", "f") == (False, (x,))
    with pytest.raises(TypeError, match=r"inputs given to f must be .* but the given inputs has type <class 'list'>"):
        F._as_tuple([x], "inputs", "f")

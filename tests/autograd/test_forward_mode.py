"""Forward mode: tangents on tensors, with in-place writes, views, grad modes, and both orders of nesting with reverse mode."""

import gc
import weakref

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as fwad
from flambeau.utils._mode_utils import no_dispatch


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def tangent(t):
    found = fwad.unpack_dual(t).tangent
    return None if found is None else found.tolist()


@pytest.fixture
def dual():
    with fwad.dual_level():
        yield fwad.make_dual(numbers(1, 2, 3), numbers(1, 0, 2))


def test_duals_do_not_require_grad_and_no_grad_does_not_matter(dual):
    assert not dual.requires_grad and dual._is_view()
    with torch.no_grad():
        y = dual * dual
    assert tangent(y) == [2.0, 0.0, 12.0] and not y.requires_grad and tangent(dual.sum()) == 3.0
    with torch.inference_mode():
        assert tangent(dual * 2) is None
    assert tangent(dual.detach()) is None and tangent(dual > 1) is None and tangent(torch.zeros_like(dual)) is None


def test_in_place_operations_change_the_tangent(dual):
    assert tangent(dual.mul_(dual)) == [2.0, 0.0, 12.0]
    assert tangent(dual.add_(1)) == [2.0, 0.0, 12.0]
    assert tangent(dual.fill_(2.0)) == [0.0, 0.0, 0.0]
    plain = torch.zeros(3, dtype=torch.float64)
    plain.add_(fwad.make_dual(numbers(1, 1, 1), numbers(1, 2, 3)))
    assert tangent(plain) == [1.0, 2.0, 3.0]
    plain.copy_(numbers(0, 0, 0))
    assert tangent(plain) == [0.0, 0.0, 0.0]


def test_writes_through_views_reach_the_tangent_of_the_base(dual):
    dual[1:].mul_(10)
    assert dual.tolist() == [1.0, 20.0, 30.0] and tangent(dual) == [1.0, 0.0, 20.0]
    table = torch.zeros(2, 3, dtype=torch.float64)
    table[0] = dual
    table[1].copy_(dual * 2)
    assert tangent(table) == [[1.0, 0.0, 20.0], [2.0, 0.0, 40.0]] and tangent(table[1, 2]) == 40.0
    assert tangent(dual.view(3, 1)[2]) == [20.0]


def test_reverse_over_forward_and_forward_over_reverse():
    w = numbers(1, 2, 3).requires_grad_()
    v = numbers(1, 0, 2).requires_grad_()
    with fwad.dual_level():
        d = fwad.make_dual(w, v.detach())
        t = fwad.unpack_dual((d**3).sum()).tangent
        assert t.item() == 57.0 and torch.autograd.grad(t, w)[0].tolist() == [6.0, 0.0, 36.0]
        (g,) = torch.autograd.grad((d**3).sum(), d, create_graph=True)
        assert g.tolist() == [3.0, 12.0, 27.0] and tangent(g) == [6.0, 0.0, 36.0]
        (g,) = torch.autograd.grad(d.exp().sum(), d, create_graph=True)
        assert torch.allclose(fwad.unpack_dual(g).tangent, w.exp() * v)
        y = fwad.unpack_dual(fwad.make_dual(numbers(1, 2, 3), v) ** 2).tangent
        assert torch.autograd.grad(y.sum(), v)[0].tolist() == [2.0, 4.0, 6.0]
    (d.sum()).backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_several_inputs_of_which_one_depends_on_the_other(dual):
    other = dual * 2
    assert tangent(other * dual) == [4.0, 0.0, 24.0]
    assert tangent(torch.cat([dual, other]))[3:] == [2.0, 0.0, 4.0]
    top, places = dual.max(0)
    assert tangent(top) == 2.0 and tangent(places) is None


def test_complex_tangents():
    with fwad.dual_level():
        d = fwad.make_dual(torch.tensor([1 + 2j, 3j]), torch.tensor([1j, 1 + 0j]))
        assert tangent(d * d) == [-4 + 2j, 6j] and tangent(d.conj()) == [-1j, 1 + 0j]
        assert tangent((d.conj() * d).real) == [4.0, 0.0] and tangent(d.imag) == [1.0, 0.0]


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def jvp(ctx, t):
        return 100 * t


def test_custom_functions_are_asked_for_their_own_rule(dual):
    assert tangent(Wrong.apply(dual)) == [100.0, 0.0, 200.0]


def test_levels():
    x = numbers(1, 2)
    with pytest.raises(RuntimeError, match="no level exists"):
        fwad.make_dual(x, x)
    with fwad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwad.enter_dual_level()
        d = fwad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fwad.make_dual(d, x)
        with pytest.raises(RuntimeError, match="tangent to have the same shape"):
            fwad.make_dual(x, numbers(1))
        y = d * 2
    assert tangent(d) is None and tangent(y) is None and tangent(y + d) is None
    with pytest.raises(RuntimeError, match="Trying to exit a forward AD level"):
        fwad.exit_dual_level()


def test_tangents_go_away():
    with fwad.dual_level():
        v = numbers(1, 1)
        held = weakref.ref(v)
        d = fwad.make_dual(numbers(1, 2), v)
        y = d * d
        del d, v
        gc.collect()
        assert held() is None and tangent(y) == [2.0, 4.0]


@pytest.mark.slow
def test_text_and_what_cannot_be_differentiated(dual):
    assert repr(dual) == "tensor([1., 2., 3.], dtype=torch.float64, tangent=tensor([1., 0., 2.], dtype=torch.float64))"
    assert fwad._current_level == 0
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with igamma that does not support it"):
        torch.igamma(dual, dual)


@pytest.mark.parametrize(
    "draw",
    [
        torch.bernoulli, torch.poisson, torch.normal, lambda x: x.bernoulli_(), lambda x: x.bernoulli_(x),
        lambda x: x.normal_(), lambda x: x.uniform_(), lambda x: x.cauchy_(), lambda x: x.exponential_(), lambda x: x.geometric_(0.5),
    ],
)  # fmt: skip
def test_random_values_have_zero_tangents(draw):
    with fwad.dual_level():
        x = fwad.make_dual(torch.ones(3), torch.ones(3))
        assert fwad.unpack_dual(draw(x)).tangent.tolist() == [0, 0, 0]


def test_turning_a_dual_in_place_turns_its_tangent():
    with fwad.dual_level():
        d = fwad.make_dual(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3))
        d.t_()
        assert fwad.unpack_dual(d).tangent.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
        d.unsqueeze_(0)
        assert fwad.unpack_dual(d).tangent.shape == (1, 3, 2)


def test_what_forward_mode_refuses():
    with fwad.dual_level():
        d = fwad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(
            NotImplementedError, match="forward AD with mul_out that does not support it because it is an out="
        ):
            torch.mul(torch.ones(3), 2, out=d)
        with pytest.raises(NotImplementedError, match="forward AD with set_"):
            d.set_(torch.ones(2))
        with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
            d.resize_(1)
        assert fwad.unpack_dual(d.data).tangent is None


def test_a_dual_is_an_alias_of_its_tensor():
    """What classes with `__torch_dispatch__` see of it, as in PyTorch."""
    seen = []

    class Seen(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_subclass(cls, data)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            with no_dispatch():
                return func(*args, **(kwargs or {}))

    with fwad.dual_level():
        fwad.make_dual(Seen(torch.tensor(1.0)), torch.tensor(2.0))
    assert seen == ["aten.alias.default"]
    x = torch.ones(2, requires_grad=True)
    y = torch.ops.aten.alias(x)
    assert y is not x and y._base is x and type(y.grad_fn).__name__ == "AliasBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert torch.vmap(torch.ops.aten.alias)(x).shape == (2,)


@pytest.mark.parametrize("batched", (False, True))
def test_a_view_of_all_of_a_tensor_shares_its_tangent(batched):
    def push(tangent):
        base = torch.zeros(2, 2)
        view = base.view_as(base)
        with fwad.dual_level():
            view.copy_(fwad.make_dual(torch.zeros(2, 2), tangent))
            of_view, of_base = fwad.unpack_dual(view).tangent, fwad.unpack_dual(base).tangent
            assert of_view is of_base
            return of_view

    tangents = torch.randn(3, 2, 2)
    made = torch.vmap(push)(tangents) if batched else torch.stack([push(t) for t in tangents])
    assert torch.equal(made, tangents)

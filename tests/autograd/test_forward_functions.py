"""Custom Functions of tensors with tangents: their own `jvp` is called, and what it returns is checked."""

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as fwAD
from flambeau.autograd import Function, gradcheck


class Part(Function):
    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x.narrow(0, 0, 1)

    @staticmethod
    def vjp(ctx, g):
        return torch.cat([g, torch.zeros(1, dtype=g.dtype)]), None

    @staticmethod
    def jvp(ctx, t, _):
        part = t.narrow(0, 0, 1)
        if ctx.how > 0:
            part = part.clone()
        return part.view_as(part) if ctx.how > 1 else part


class Doubled(Function):
    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def vjp(ctx, g):
        return 2 * g, None

    @staticmethod
    def jvp(ctx, t, _):
        return {"right": t.mul_, "as it was": lambda n: t, "another": t.mul}[ctx.how](2)


@pytest.mark.parametrize("recorded", [True, False])
def test_tangents_of_views_are_views_of_tangents(recorded):
    x = torch.ones(2, requires_grad=recorded)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, torch.tensor([3.0, 4.0]))
        assert fwAD.unpack_dual(Part.apply(dual, 0)).tangent.tolist() == [3.0]
        with pytest.raises(RuntimeError, match=r"forward is returning a view .* but the jvp is not returning a view"):
            Part.apply(dual, 1)
        with pytest.raises(RuntimeError, match="jvp is not returning a view of the given grad input"):
            Part.apply(dual, 2)
        with pytest.raises(RuntimeError, match="jvp is not returning a view of the same base as the given grad input"):
            Part.apply(dual.view_as(dual), 2)


@pytest.mark.parametrize("recorded", [True, False])
def test_tangents_of_what_is_written_are_written(recorded):
    for how in ("right", "as it was", "another"):
        x = torch.ones(2, requires_grad=recorded).clone()
        tangent = torch.ones(2)
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, tangent)
            if how == "right":
                out = Doubled.apply(dual, how)
                assert out is dual and fwAD.unpack_dual(out).tangent is tangent and tangent.tolist() == [2.0, 2.0]
            else:
                with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
                    Doubled.apply(dual, how)
    y = torch.rand(2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda t: Doubled.apply(t.clone(), "right"), (y,), check_forward_ad=True)


def test_what_jvp_may_return():
    class Two(Function):
        @staticmethod
        def forward(ctx, x, answer):
            ctx.answer = answer
            hidden = x.clone()
            ctx.mark_non_differentiable(hidden)
            return x.clone(), hidden, torch.tensor(3)

        @staticmethod
        def jvp(ctx, t, _):
            return ctx.answer(t)

    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2))
        first, second, _ = Two.apply(x, lambda t: (t, None, None))
        assert fwAD.unpack_dual(first).tangent is not None and fwAD.unpack_dual(second).tangent is None
        with pytest.raises(RuntimeError, match="You should return None at that position instead"):
            Two.apply(x, lambda t: (t, t, None))
        with pytest.raises(RuntimeError, match=r"invalid number of forward gradients .expected 3 but got 1"):
            Two.apply(x, lambda t: t)
        with pytest.raises(RuntimeError, match=r"expected Variable or None .got int"):
            Two.apply(x, lambda t: (3, None, None))
        with pytest.raises(RuntimeError, match="has a different size"):
            Two.apply(x, lambda t: (t.sum(), None, None))


def test_tangents_are_kept_in_the_layout_of_their_tensors():
    tangent = torch.randn(4)
    with fwAD.dual_level():
        assert fwAD.unpack_dual(fwAD.make_dual(torch.randn(4), tangent)).tangent is tangent
        whole = torch.randn(5)[:4].detach()
        kept = fwAD.unpack_dual(fwAD.make_dual(whole, tangent)).tangent
        assert kept is not tangent and kept.tolist() == tangent.tolist() and kept.untyped_storage().nbytes() == 20
        turned = torch.randn(2, 3).t()
        kept = fwAD.unpack_dual(fwAD.make_dual(turned, torch.ones(3, 2))).tangent
        assert kept.stride() == turned.stride()
        z, t = torch.randn(2, dtype=torch.complex64), torch.randn(2, dtype=torch.complex64)
        kept = fwAD.unpack_dual(fwAD.make_dual(z.conj(), t)).tangent
        assert kept.is_conj() and torch.equal(kept.resolve_conj(), t)
        with pytest.raises(RuntimeError, match="out= function"):
            torch.add(fwAD.make_dual(whole, tangent), whole, out=torch.empty(4))


def test_gradcheck_of_tangents():
    calls = []

    class Same(Function):
        @staticmethod
        def forward(ctx, x, y):
            if fwAD._current_level >= 0:
                assert not x.requires_grad and not y.requires_grad
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx, x, y):
            calls.append(1)
            return x, y

    x, y = (torch.rand(1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    options = {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": False}
    assert gradcheck(Same.apply, (x, y), **options) and len(calls) == 2
    assert gradcheck(Same.apply, (x, y), **options, check_batched_forward_grad=True)
    assert gradcheck(Same.apply, (x, y), **{**options, "check_undefined_grad": True})

    class Careless(Same):
        @staticmethod
        def jvp(ctx, x, y):
            return x + torch.randn_like(x) * 0, y

    with pytest.raises(RuntimeError, match="We do not yet support calling random operations inside of vmap"):
        gradcheck(Careless.apply, (x, y), **options, check_batched_forward_grad=True)

    class Forgetful(Same):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def jvp(ctx, x, y):
            return (y if y is not None else 0) + (0 if x is None else x if y is not None else 2 * x)

    with pytest.raises(RuntimeError, match="same tangents for an input whose tangent is zero and one that has none"):
        gradcheck(Forgetful.apply, (x, y), **{**options, "check_undefined_grad": True})


def test_gradcheck_of_missing_gradients():
    def refusing(x):
        def hook(g):
            if g is None:
                raise RuntimeError("no gradient")

        y = x.clone()
        y.register_hook(hook)
        return y

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"),
    ):
        gradcheck(refusing, (x,))
    assert gradcheck(refusing, (x,), check_undefined_grad=False)

"""Tangents have memory of their own: a write to one tensor does not change the tangent of another."""

import flambeau as torch
import flambeau.autograd.forward_ad as forward_ad
from flambeau.func import jacfwd, jvp


def test_writes_to_copies_leave_the_tangent_of_the_original():
    with forward_ad.dual_level():
        given = torch.ones(2)
        x = forward_ad.make_dual(torch.tensor([1.0, 2.0]), given)
        y, z, w = x.clone().mul_(2), (x + 0).mul_(3), x.expand(3, 2).sum(0).mul_(5)
        tangents = [forward_ad.unpack_dual(t).tangent.tolist() for t in (x, y, z, w)]
        assert tangents == [[1, 1], [2, 2], [3, 3], [15, 15]] and given.tolist() == [1, 1]


def test_jvp_of_writes_to_a_copy():
    t = torch.ones(2)
    _, (written, kept) = jvp(lambda x: (x.clone().mul_(2), x), (torch.ones(2),), (t,))
    assert written.tolist() == [2, 2] and kept.tolist() == [1, 1] == t.tolist()
    assert jacfwd(lambda x: x.clone().mul_(2) + x)(torch.ones(2)).tolist() == [[3, 0], [0, 3]]


def test_writes_into_arguments_that_are_not_differentiated_by():
    def f(x, y):
        y.copy_(x)
        return y

    assert jacfwd(f)(torch.randn(2), torch.randn(2)).equal(torch.eye(2))

    def g(x, y, z):
        x[:2] = y
        return torch.stack([(x**2).sum(), (z**3).sum()])

    y, z = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    by_y, by_z = jacfwd(g, argnums=(1, 2))(torch.zeros(3), y, z)
    assert by_y.tolist() == [[2, 4], [0, 0]] and by_z.tolist() == [[0, 0], [27, 48]]


def test_a_view_taken_before_its_base_is_written_shares_the_tangent():
    def of_view(x):
        base = torch.zeros(2, 3)
        row = base[0]
        base.copy_(x)
        return row * 1, base

    x, t = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
    (_, _), (row, base) = jvp(of_view, (x,), (t,))
    assert row.tolist() == [0, 1, 2] and base.equal(t)

    def of_other_view(x):
        base = torch.zeros(2, 3)
        first, column = base[0], base[:, 1]
        column.copy_(x)
        return first * 1

    assert jvp(of_other_view, (torch.ones(2),), (torch.tensor([5.0, 6.0]),))[1].tolist() == [0, 5, 0]

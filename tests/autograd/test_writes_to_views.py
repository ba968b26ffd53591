"""Which views a recorded in-place operation may write to, and what happens to other views of the same memory."""

import pytest

import flambeau as torch


def base():
    return torch.ones(3, 3, requires_grad=True).clone()


def without_grad(x, view):
    with torch.no_grad():
        return view(x)


def leaf():
    return torch.ones(3, requires_grad=True)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class Flat(Same):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)


class Rows(Same):
    @staticmethod
    def forward(ctx, x):
        return x[0], x[1]


@pytest.mark.parametrize("view", [
    lambda: without_grad(base(), lambda x: x[0]), lambda: without_grad(base(), lambda x: x.view(-1)),
    lambda: without_grad(leaf(), lambda x: x.view(-1)), lambda: without_grad(base(), lambda x: x[0])[1:],
])  # fmt: skip
def test_a_view_made_under_no_grad(view):
    v = view()
    assert v.requires_grad
    for write in (
        lambda: v.mul_(2),
        lambda: v.fill_(2),
        lambda: v.zero_(),
        lambda: v.copy_(torch.zeros(())),
        lambda: v.exp_(),
    ):
        with pytest.raises(
            RuntimeError, match=r"created in no_grad mode and is being modified inplace with grad mode enabled"
        ):
            write()
    with torch.no_grad():
        assert v.mul_(2).eq(2).all()


def test_a_view_made_under_no_grad_of_a_plain_tensor():
    x = torch.ones(3, 3)
    v = without_grad(x, lambda x: x[0])
    assert v.add_(1).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match=r"A view was created in no_grad mode"):
        v.add_(leaf())


@pytest.mark.parametrize("view", [
    lambda: base().split(1)[0], lambda: base().chunk(2)[1], lambda: base().unbind()[0], lambda: base().split(1)[0][0],
    lambda: base().unbind()[0].view(-1), lambda: Rows.apply(base())[1],
])  # fmt: skip
def test_outputs_of_functions_that_return_several_views(view):
    with pytest.raises(
        RuntimeError,
        match=r"is a view and is being modified inplace. This view is the output of a function that returns multiple views",
    ):
        view().mul_(2)


def test_several_views_of_a_plain_tensor():
    v = torch.ones(3, 3).unbind()[0]
    assert v.add_(1).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match=r"output of a function that returns multiple views"):
        v.add_(leaf())


def test_views_from_tensor_split_are_single_views():
    x = base()
    x.tensor_split(3)[0].mul_(2)
    x.sum().backward()
    assert x.sum().item() == 12.0


@pytest.mark.parametrize(
    "view", [lambda: Same.apply(base()), lambda: Flat.apply(base()), lambda: Flat.apply(base()).view(3, 3)]
)
def test_outputs_of_custom_functions(view):
    with pytest.raises(
        RuntimeError,
        match=r"Output 0 of (Same|Flat|View) is a view and is being modified inplace. This view was created inside a custom Function",
    ):
        view().mul_(2)


def test_several_views_whose_base_was_written_to():
    x = base()
    v = x.unbind()[0]
    x.mul_(2)
    with pytest.raises(
        RuntimeError, match=r"Output 0 of Unbind is a view and its base or another view of its base has been modified"
    ):
        assert v.grad_fn
    with pytest.raises(RuntimeError, match=r"another view of its base has been modified inplace"):
        (v * 2).sum().backward()


def test_a_single_view_whose_base_was_written_to_is_renewed():
    w = torch.ones(3, 3, requires_grad=True)
    x = w.clone()
    v = x[0]
    x.mul_(3)
    v.sum().backward()
    assert w.grad.tolist() == [[3.0] * 3, [0.0] * 3, [0.0] * 3]

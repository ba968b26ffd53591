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


def leaf_view():
    return torch.arange(6.0).reshape(2, 3).requires_grad_()


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[:1].mul_(2), lambda x: x.view(-1).fill_(1), lambda x: x.t().copy_(torch.ones(3, 2)),
        lambda x: x[0].unsqueeze_(0), lambda x: x.view(3, 2)[0].zero_(), lambda x: x[:1].set_(torch.ones(2)),
        lambda x: x[:1].__setitem__(0, 1.0),
    ],
)  # fmt: skip
def test_a_leaf_that_is_a_view_itself(write):
    x = leaf_view()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        write(x)
    assert x.is_leaf and x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_the_memory_of_a_leaf_may_be_written_beside_it():
    a = torch.arange(4.0)
    x = a[:3].requires_grad_()
    a[:2].mul_(10)
    x.detach()[2:].mul_(10)
    assert x.tolist() == [0.0, 10.0, 20.0] and x.is_leaf


@pytest.mark.parametrize("turn", [lambda v: v.t_(), lambda v: v.unsqueeze_(0), lambda v: v.transpose_(0, -1)])
def test_turning_in_place_asks_as_writing_does(turn):
    x = base()
    with torch.no_grad():
        v = x[:2]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace"):
        turn(v)
    with pytest.raises(RuntimeError, match="is the output of a function that returns multiple views"):
        turn(base().split(2)[0])
    with torch.inference_mode():
        v = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        turn(v)


def test_views_are_not_detached_in_place():
    for v in (torch.ones(3)[:2], base()[0]):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            v.detach_()


def test_other_memory_under_a_history():
    x = base()
    with torch.no_grad():
        v = x[:2]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        v.resize_(1)
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        x[:2].set_(torch.ones(2))
    with torch.inference_mode():
        y = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        y.resize_(1)


@pytest.mark.parametrize(
    ("start", "tripled"),
    [
        (lambda b: b[1:3], [1, 3, 3, 1]),
        (lambda b: b.view(2, 2).t(), [3, 3, 3, 3]),
        (lambda b: torch.view_as_complex(b.view(2, 2)), [3, 3, 3, 3]),
        (lambda b: torch.view_as_complex(b.view(2, 2)).real, [3, 1, 3, 1]),
        (lambda b: torch.view_as_complex(b.view(2, 2)).imag, [1, 3, 1, 3]),
    ],
)
def test_long_chains_of_views(start, tripled):
    leaf = torch.arange(4.0).requires_grad_()
    base = leaf * 1
    view = start(base)
    for _ in range(40):
        view = view.view_as(view)[...]
    view.mul_(3)
    (base * torch.arange(1.0, 5.0)).sum().backward()
    assert base.tolist() == [i * f for i, f in enumerate(tripled)]
    assert leaf.grad.tolist() == [(i + 1) * f for i, f in enumerate(tripled)]


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.mul_(y),
        lambda y: y[1:].mul_(y[1:]),
        lambda y: y.div_(y[:]),
        lambda y: y[:].mul_(y.detach()),
        lambda y: y.lerp_(y * 2, y),
    ],
)
def test_what_a_write_has_overwritten_is_not_taken_for_its_operand(write):
    y = torch.tensor([0.5, 1.5, 2.5], requires_grad=True) * 2
    write(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("form", ["t_", "squeeze_", "unsqueeze_", "transpose_"])
def test_a_view_turned_in_place_follows_writes_to_its_base(form):
    start = torch.tensor([0.5, -2.0, 0.2, 3.0], requires_grad=True)
    base = start * 1
    view = base.view(2, 2)
    getattr(view, form)(*{"unsqueeze_": (0,), "transpose_": (0, 1)}.get(form, ()))
    view.neg_()
    base.clamp_(-1, 1)
    (view * 3).sum().backward()
    assert start.grad.tolist() == [-3.0, 0.0, -3.0, 0.0]


def test_a_copy_of_itself_counts_as_a_write():
    leaf = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.copy_(leaf)
    x = leaf * 1
    kept = x.sin()
    assert x.copy_(x) is x and x._version == 1 and x.tolist() == [1, 1, 1]
    torch.testing.assert_close(torch.autograd.grad((x * 2).sum(), leaf)[0], torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_tensor_turned_in_place_stays_the_base_of_its_views(dtype):
    leaf = torch.arange(6.0).reshape(2, 3).to(dtype).requires_grad_()
    base = leaf * 1
    view, part = base.view(-1), base[0]
    numbers = torch.view_as_real(base) if dtype.is_complex else base[:, :]
    for _ in range(3):
        base.t_()
    assert base.shape == (3, 2) and not base._is_view() and all(v._base is base for v in (view, part, numbers))
    assert view.grad_fn.name() == "AsStridedBackward0"
    view[1:].mul_(2)
    numbers.mul_(5)
    part.neg_()
    base.mul_(3)
    (numbers * torch.arange(float(numbers.numel())).view(numbers.shape)).sum().backward()
    expected = torch.arange(6.0).reshape(2, 3).to(dtype).requires_grad_()
    factors = torch.tensor([[-15.0, -30, -30], [30, 30, 30]])
    out = expected * factors
    assert torch.equal(base.t(), out) and torch.equal(view, out.view(-1))
    out = torch.view_as_real(out) if dtype.is_complex else out
    (out * torch.arange(float(out.numel())).view(out.shape)).sum().backward()
    assert torch.equal(leaf.grad, expected.grad)
    base.detach_()
    assert not base.requires_grad and view.requires_grad
    plain = torch.zeros(1, 3)
    view = plain.view(-1)
    assert plain.squeeze_().shape == (3,) and not plain._is_view() and view._base is plain

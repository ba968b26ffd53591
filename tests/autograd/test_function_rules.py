"""Custom Functions inside transforms, their rules for batches and tangents, and what they may not do."""

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as fw
from flambeau.autograd import Function
from flambeau.func import grad, jacrev, jvp, vmap

X = torch.tensor([1.0, 2.0, 3.0])


class Square(Function):
    """Its derivatives are wrong by factors that tell which method gave them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 20 * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 200 * x


class Scale(Function):
    @staticmethod
    def forward(x, k):
        return x * k, k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.k, None

    @staticmethod
    def vmap(info, in_dims, x, k):
        assert (info.batch_size, info.randomness, in_dims) == (3, "error", (0, None)) and x.shape == (3,)
        return Scale.apply(x, k), (0, None)


def _dual():
    with fw.dual_level():
        return fw.unpack_dual(Square.apply(fw.make_dual(X, X))).tangent


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: vmap(Square.apply)(X), [1, 4, 9]),
        (lambda: vmap(grad(Square.apply))(X), [20, 40, 60]),
        (lambda: vmap(vmap(grad(Square.apply)))(X[None]), [[20, 40, 60]]),
        (lambda: grad(lambda x: vmap(Square.apply)(x).sum())(X), [20, 40, 60]),
        (lambda: grad(grad(Square.apply))(X[1]), 20),
        (lambda: jacrev(Square.apply)(X).diagonal(), [20, 40, 60]),
        (lambda: jvp(Square.apply, (X,), (X,))[1], [200, 800, 1800]),
        (lambda: vmap(lambda x: jvp(Square.apply, (x,), (x,))[1])(X), [200, 800, 1800]),
        (_dual, [200, 800, 1800]),
        (lambda: vmap(lambda x: Scale.apply(x, 3)[0])(X), [3, 6, 9]),
        (lambda: vmap(grad(lambda x: Scale.apply(x, 3)[0]))(X), [3, 3, 3]),
    ],
)
def test_transforms_use_the_functions_own_rules(function, expected):
    assert function().tolist() == expected


def test_gradients_of_operands_that_are_not_mapped():
    class Times(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

    w = torch.tensor(2.0, requires_grad=True)
    x = X.clone().requires_grad_()
    vmap(Times.apply, in_dims=(0, None))(x, w).sum().backward()
    assert w.grad == 6 and x.grad.tolist() == [2, 2, 2]


class Plain(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class NoRule(Scale):
    vmap = Function.vmap


class TwoRules(Scale):
    generate_vmap_rule = True


class HalfRule(Scale):
    @staticmethod
    def vmap(info, in_dims, x, k):
        return x


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (lambda: grad(lambda x: Plain.apply(x).sum())(X), "override the setup_context"),
        (lambda: vmap(Plain.apply)(X), "override the setup_context"),
        (lambda: vmap(lambda x: NoRule.apply(x, 2))(X), "does not have vmap support"),
        (lambda: vmap(lambda x: TwoRules.apply(x, 2))(X), "both generate_vmap_rule=True"),
        (lambda: vmap(lambda x: HalfRule.apply(x, 2))(X), "to have two returns"),
    ],
)
def test_functions_that_are_not_fit_for_transforms(function, phrase):
    with pytest.raises(RuntimeError, match=phrase):
        function()


def test_forward_mode_needs_jvp():
    with pytest.raises(NotImplementedError, match="implement the jvp function"), fw.dual_level():
        fw.unpack_dual(Plain.apply(fw.make_dual(X, X)))


def test_defaults_are_filled_in_for_setup_context():
    seen = []

    class Power(Function):
        @staticmethod
        def forward(x, n=2, scale=1.0):
            return x**n * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = X.clone().requires_grad_()
    assert Power.apply(x).tolist() == [1, 4, 9]
    assert Power.apply(x, scale=2.0).tolist() == [2, 8, 18]
    assert seen == [(2, 1.0), (2, 2.0)]
    Power.apply(x, 3).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def _function(forward, backward=None, **more):
    methods = {"forward": staticmethod(forward), **more}
    if backward is not None:
        methods["backward"] = staticmethod(backward)
    return type("Made", (Function,), methods)


def _changed(ctx, a):
    ctx.mark_dirty(a)
    a.add_(1)
    return a * 2


def _marked(mark):
    def forward(ctx, a):
        getattr(ctx, mark)(3)
        return a * 2

    return forward


def _double(ctx, *args):
    return args[0] * 2


def _backward(result):
    return lambda: _function(_double, lambda ctx, g: result).apply(X.clone().requires_grad_()).sum().backward()


def _needs(*args):
    return X.clone().requires_grad_()


@pytest.mark.parametrize(
    ("function", "kind", "phrase"),
    [
        (lambda: _function(_changed).apply(_needs() * 1), RuntimeError, "marked as dirty .* not returned as output"),
        (lambda: _function(_changed).apply(X.clone()), RuntimeError, "marked as dirty .* not returned as output"),
        (lambda: _function(_marked("mark_dirty")).apply(X), RuntimeError, "can only accept variables"),
        (lambda: _function(_marked("mark_non_differentiable")).apply(X), RuntimeError, "only accepts variable"),
        (lambda: _function(_marked("save_for_backward")).apply(_needs()), TypeError, "argument 0 is of type int"),
        (lambda: _function(_marked("save_for_forward")).apply(X), AssertionError, "expects all arguments to be tensors"),
        (_backward((X, X)), RuntimeError, r"incorrect number of gradients \(expected 1, got 2\)"),
        (_backward(3), RuntimeError, r"expected Variable or None \(got int\)"),
        (_backward(torch.ones(7)), RuntimeError, r"got \[7\] but expected shape compatible with \[3\]"),
        (
            lambda: _function(_double, lambda ctx, g: (g, g)).apply(_needs(), 3).sum().backward(),
            RuntimeError, "different than None at position 2",
        ),
        (
            lambda: _function(_double, lambda ctx, g: g, vjp=staticmethod(lambda ctx, g: g)).apply(_needs()).sum().backward(),
            RuntimeError, "both 'backward' and 'vjp'",
        ),
        (lambda: _function(_double).apply(_needs()).sum().backward(), NotImplementedError, "either the backward or vjp"),
    ],
)  # fmt: skip
def test_what_functions_may_not_do(function, kind, phrase):
    with pytest.raises(kind, match=phrase):
        function()


def test_what_is_returned():
    x = _needs()
    assert _function(lambda ctx, a: a).apply(X) is not X
    made = _function(lambda ctx, a: [a * 2]).apply(x)  # a list is not looked into
    assert isinstance(made, list) and not made[0].requires_grad
    _function(_double, lambda ctx, g: (g, None)).apply(x).sum().backward()  # missing gradients too many
    assert x.grad.tolist() == [1, 1, 1]


class Kept(Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Kept.seen.append(ctx)
        return g * ctx.saved_tensors[0]


def test_a_ctx_that_backward_keeps_has_its_tensors():
    Kept.seen.clear()
    x = torch.tensor([3.0], requires_grad=True)
    out = Kept.apply(x)
    out.backward(retain_graph=True)
    del out
    ctx = Kept.seen.pop()
    assert ctx.saved_tensors[0] is x
    assert ctx.name() == "KeptBackward" and ctx.next_functions[0][0].variable is x and ctx.metadata == {}


def test_an_instance_of_a_function_can_be_looked_at():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = Kept()
    assert made.next_functions == () and made.name() == "KeptBackward" and made._sequence_nr() >= 0
    made.register_hook(lambda made, got: None)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = made.missing


class Once(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 2, g * 3


def test_what_is_differentiable_once_is_a_node_named_error():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    start = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="create_graph=True"):
        Once.apply(x, y).backward(start, create_graph=True)
    node = x.grad.grad_fn
    assert type(node).__name__ == "CopyBackwards" and node.next_functions[0] == (None, 0)
    error = node.next_functions[1][0]
    assert type(error).__name__ == "Error" and len(error.next_functions) == 2
    assert y.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="differentiate twice"):
        x.grad.sum().backward()


def test_a_ctx_that_backward_does_not_keep_goes_with_its_graph():
    import gc
    import weakref

    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    gc.disable()
    try:
        x = torch.ones(2, requires_grad=True)
        out = Plain.apply(x * 1)
        node = weakref.ref(out.grad_fn)
        out.sum().backward()
        del out
        assert node() is None
    finally:
        gc.enable()


def test_jvp_reads_what_was_saved_for_it_by_name():
    class Product(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            assert ctx.saved_for_forward is None
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, by_x, by_y):
            x, y = ctx.saved_for_forward
            return by_x * y + x * by_y

    push = lambda x, t: jvp(Product.apply, (x, x + 1), (t, t))[1]
    assert push(X, torch.ones(3)).equal(2 * X + 1)
    assert vmap(push)(X, torch.ones(3)).equal(2 * X + 1)
    assert jvp(lambda x: vmap(Product.apply)(x, x + 1), (X,), (torch.ones(3),))[1].equal(2 * X + 1)

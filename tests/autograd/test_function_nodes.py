"""Functions of users: arguments by name, gradients in one list, what their nodes show, writes that are refused."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd.graph import Node


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, y, scale=1.0):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * y * scale

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.scale, g * x * ctx.scale, None


def test_tensors_given_by_name_have_gradients():
    x, y = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    Scaled.apply(y=y, scale=5.0, x=x).backward()
    assert (x.grad.item(), y.grad.item()) == (15.0, 10.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Scaled.apply(x, y, size=1)


def test_gradients_in_one_list():
    class Two(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            assert isinstance(grads, list)
            first, second = grads
            grads.clear()
            return first * 2 + second * 3

    x = torch.ones(2, requires_grad=True)
    _, b = Two.apply(x)
    b.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    made = Two.apply(x)[0].grad_fn.apply(torch.ones(2), torch.ones(2) * 2)
    assert made.tolist() == [8.0, 8.0]


def test_nobody_else_holds_the_gradients_of_a_boxed_function():
    gone = []

    class Frees(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grads):
            made = grads[0] * 2
            reference = weakref.ref(grads[0])
            grads.clear()
            gone.append(reference() is None)
            return made

    x = torch.ones(2, requires_grad=True)
    y = Frees.apply(x)
    y.sum().backward()
    assert gone == [True] and x.grad.tolist() == [2.0, 2.0]
    seen = []
    y = Frees.apply(x)
    y.grad_fn.register_hook(lambda made, got: seen.append((made[0].tolist(), got[0].tolist())))
    y.sum().backward()
    assert seen == [([2.0, 2.0], [1.0, 1.0])]


@pytest.mark.parametrize("view", (False, True))
def test_a_written_input_that_is_saved_keeps_no_circle(view):
    class Doubles(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    leaf = torch.tensor([1.0, 3.0], requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        x = leaf.clone()
        x = x.view_as(x) if view else x
        y = Doubles.apply(x)
        assert y is x
        (g,) = torch.autograd.grad(y.sum(), leaf, create_graph=True)
        assert g.tolist() == [2.0, 6.0]
        assert torch.autograd.grad(g.sum(), leaf)[0].tolist() == [2.0, 6.0]
        reference = weakref.ref(x)
        del x, y, g
        assert reference() is None
    finally:
        gc.enable()


def test_a_node_shows_what_its_function_kept():
    x, y = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0])
    node = Scaled.apply(x, y, 4.0).grad_fn
    assert node.scale == 4.0 and node.saved_tensors[1] is y
    raw = node._raw_saved_tensors
    raw[0].register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v))
    with pytest.raises(RuntimeError, match="already been set"):
        raw[0].register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        raw[1].register_hooks(lambda t: t)
    with pytest.raises(AttributeError):
        _ = node.nothing
    out = Scaled.apply(x, y)
    out.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = out.grad_fn.saved_tensors


def test_what_counts_as_a_node():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(ctx, Node)
            return x.clone()

    out = Same.apply(torch.ones(1, requires_grad=True))
    assert isinstance(out.grad_fn, Node) and issubclass(type(out.grad_fn), Node)
    assert Node not in type(out.grad_fn).mro()
    assert not isinstance(None, Node) and not isinstance(Node, Node) and issubclass(Node, Node)


class AddsOne(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x


def test_views_that_a_function_may_not_write_to():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        AddsOne.apply(a.view_as(a))
    with pytest.raises(RuntimeError, match="output of a function that returns multiple view"):
        AddsOne.apply(a.split_with_sizes([1, 1])[0])

    class Other(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone().view_as(x)
            ctx.mark_dirty(out)
            return out

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Other.apply(a.clone())


def test_what_was_not_saved_for_forward_is_not_there_in_jvp():
    class Copy(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def jvp(ctx, t):
            assert ctx.saved_tensors == ()
            return t

    with torch.autograd.forward_ad.dual_level():
        out = Copy.apply(torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 5.0)))
        assert torch.autograd.forward_ad.unpack_dual(out).tangent.tolist() == [5.0, 5.0]


def test_grad_calls_the_hooks_of_wanted_tensors_only():
    a = torch.tensor(1.0, requires_grad=True)
    b = a * 2
    c = b * 2
    seen = []
    a.register_hook(lambda g: seen.append("a"))
    b.register_hook(lambda g: seen.append("b"))
    leaf = b.grad_fn.next_functions[0][0]
    leaf.register_prehook(lambda g: seen.append("before leaf"))
    leaf.register_hook(lambda i, o: seen.append("after leaf"))
    b.grad_fn.register_prehook(lambda g: seen.append("before b"))
    b.grad_fn.register_hook(lambda i, o: seen.append("after b"))
    torch.autograd.grad(c, b, retain_graph=True)
    assert seen == ["b"]
    seen.clear()
    torch.autograd.grad(c, (a, b), retain_graph=True)
    assert seen == ["b", "before b", "after b", "a"]
    seen.clear()
    c.backward()
    assert seen == ["b", "before b", "after b", "a", "before leaf", "after leaf"]


def test_attributes_that_cannot_be_deleted():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    del x.grad
    assert x.grad is None
    for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks"):
        with pytest.raises(RuntimeError):
            delattr(x, name)


def test_a_class_is_not_to_be_decorated():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @torch.no_grad()
        class Made:
            def __init__(self):
                self.grad = torch.is_grad_enabled()

    assert not Made().grad


def test_a_weak_reference_to_a_tensor():
    x = torch.ones(2)
    reference = torch._C._WeakTensorRef(x)
    assert not reference.expired()
    del x
    gc.collect()
    assert reference.expired()


def test_results_without_derivatives_are_handed_on_as_they_are():
    class Places(Function):
        @staticmethod
        def forward(ctx, x, y):
            Places.place = x.argmax()
            ctx.mark_non_differentiable(Places.place, y)
            return x * 2, Places.place, y, None, 3

        @staticmethod
        def backward(ctx, g, *rest):
            return g * 2, None

    x, y = torch.tensor([1.0, 3.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    out, place, same, nothing, three = Places.apply(x, y)
    assert out.requires_grad and place is Places.place and (nothing, three) == (None, 3)
    # but an input, which has a history of its own, is shown by another tensor
    assert same is not y and not same.requires_grad and same.data_ptr() == y.data_ptr()


def test_saved_results_and_what_was_made_on_the_way():
    class Exponential(Function):
        @staticmethod
        def forward(ctx, x):
            y, between = x.exp(), x * 3
            ctx.save_for_backward(y, between, x, None)
            return y

        @staticmethod
        def backward(ctx, g):
            Exponential.seen = ctx.saved_tensors
            y, between, _, _ = ctx.saved_tensors
            return g * y + 0 * between

    x = torch.tensor([0.0], requires_grad=True)
    y = Exponential.apply(x)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    shown, between, given, nothing = Exponential.seen
    assert shown.grad_fn is y.grad_fn and not between.requires_grad and given is x and nothing is None
    assert torch.autograd.grad(slope, x)[0].item() == 1.0  # through the saved result
    Exponential.seen = shown = None
    gc.collect()
    gc.disable()
    try:
        y = Exponential.apply(x)
        gone = weakref.ref(y)
        del y
        assert gone() is None  # a node does not keep its own result alive
    finally:
        gc.enable()

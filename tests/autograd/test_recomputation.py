"""Checkpoints inside of each other, what selective ones keep, and the lifetime of the graph."""

import functools
import gc
import weakref
from contextlib import nullcontext

import pytest

import flambeau as torch
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)


def again(fn):
    return lambda *args: checkpoint(fn, *args, use_reentrant=False)


def derivative(fn):
    def call(x):
        with torch.enable_grad():
            return torch.autograd.grad(fn(x), x, create_graph=True)[0]

    return call


def curve(x):
    return x.sin().exp().sin()


@pytest.mark.parametrize("early", [True, False])
def test_derivatives_inside_of_checkpoints(early):
    x = torch.randn((), dtype=torch.float64, requires_grad=True)
    with set_checkpoint_early_stop(early):
        for plain, nested in (
            (curve(x), again(again(curve))(x)),
            (derivative(curve)(x), derivative(again(again(curve)))(x)),
            (derivative(derivative(curve))(x), again(derivative(derivative(again(curve))))(x)),
        ):
            assert torch.allclose(plain, nested)


def test_graphs_die_without_the_collector():
    class Mark:
        pass

    def made(fn):
        out = fn(torch.randn((), requires_grad=True))
        nodes, marks = [out.grad_fn], []
        for node in nodes:
            mark = Mark()
            marks.append(weakref.ref(mark))
            node.metadata["mark"] = mark
            nodes += [n for n, _ in node.next_functions if n is not None]
        return marks

    gc.disable()
    try:
        for fn in (curve, again(curve), derivative(again(curve))):
            assert all(mark() is None for mark in made(fn))
    finally:
        gc.enable()


def selective(policy, **options):
    return functools.partial(create_selective_checkpoint_contexts, policy, **options)


def test_a_policy_is_asked_in_the_forward_pass_only():
    asked = []

    def policy(ctx, op, *args, **named):
        asked.append(str(op))
        return (
            CheckpointPolicy.MUST_SAVE
            if op == torch.ops.aten.var_mean.correction
            else CheckpointPolicy.PREFER_RECOMPUTE
        )

    x = torch.randn(3, requires_grad=True)
    out = checkpoint(
        lambda x: torch.mul(*torch.var_mean(x)).sin(), x, use_reentrant=False, context_fn=selective(policy)
    )
    out.backward()
    assert asked == ["aten.var_mean.correction", "aten.mul.Tensor", "aten.sin.default"]
    var, mean = torch.var_mean(y := x.detach().requires_grad_())
    (var * mean).sin().backward()
    assert torch.allclose(x.grad, y.grad)


def test_a_policy_sees_what_an_operation_gave():
    """The result is the one that a mode around the checkpoint made, a custom operator is one operation, views are asked about."""

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            ran.append(str(func))
            made.append(out)
            return out

    @torch.library.custom_op("recomputation::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        counts.append(1)
        return x * 2

    double.register_autograd(lambda ctx, g: g * 2)

    def policy(ctx, op, *args, **named):
        assert ctx.op_output is made[-1] and not ctx.is_recompute
        asked.append(str(op))
        return op is torch.ops.recomputation.double.default

    ran, made, asked, counts = [], [], [], []
    x = torch.ones(2, requires_grad=True)
    with Log():
        out = checkpoint(lambda x: double(x).view(2, 1).sin(), x, use_reentrant=False, context_fn=selective(policy))
        assert asked == ran == ["recomputation.double.default", "aten.view.default", "aten.sin.default"]
        out.sum().backward()
    assert len(counts) == 1 and asked == ["recomputation.double.default", "aten.view.default", "aten.sin.default"]
    assert torch.allclose(x.grad, 2 * torch.cos(torch.tensor(2.0)))


def test_modes_see_the_copies_that_recomputation_and_leaves_keep():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            node = torch._C._current_autograd_node()
            ran.append((str(func), None if node is None else type(node).__name__))
            return func(*args, **(kwargs or {}))

    ran = []
    x = torch.tensor(1.0, requires_grad=True)
    checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=lambda: (nullcontext(), Log())).backward()
    assert [name for name, _ in ran] == ["aten.exp.default", "aten.detach.default"]
    ran.clear()
    x = torch.ones(2, requires_grad=True)
    y, g = x * 2, torch.ones(2)
    with Log():
        y.backward(g)
    assert ran == [("aten.mul.Tensor", "MulBackward0"), ("aten.detach.default", "AccumulateGrad")]


def test_pack_hooks_see_the_history_of_tensors():
    seen = []

    def pack(t):
        seen.append((t.requires_grad, t.is_leaf, type(t.grad_fn).__name__))
        return t

    a, c = torch.ones(2, requires_grad=True), torch.ones(2)
    gc.collect()
    gc.disable()
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = ((a * 2) * c).exp()
        assert seen == [(False, True, "NoneType"), (True, False, "ExpBackward0")]
        out.sum().backward()
        assert torch.allclose(a.grad, 2 * torch.exp(torch.tensor(2.0)))
        reference = weakref.ref(out)
        node = weakref.ref(out.grad_fn)
        del out
        assert reference() is None and node() is None  # a hook that gives the result itself makes no circle
    finally:
        gc.enable()


def test_operations_that_the_forward_pass_did_not_run():
    for keeps, message in ((True, r"invocation index 1 not found in storage"), (False, "not found in storage")):
        calls = []

        def fn(x, calls=calls):
            calls.append(1)
            x = x.sin()
            return (x.sin() if len(calls) > 1 else x).cos()

        policy = selective(lambda ctx, op, *args, keeps=keeps: keeps)
        out = checkpoint(
            fn, torch.randn(3, requires_grad=True), use_reentrant=False, context_fn=policy, early_stop=False
        )
        with pytest.raises(RuntimeError, match=message):
            out.sum().backward()
    with pytest.raises(ValueError, match="update the OpOverloadPacket to a specific OpOverload"):
        create_selective_checkpoint_contexts([torch.ops.aten.sin])


def test_the_layout_of_first_gradients():
    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2, 3)

    x = torch.zeros(3, 2).t().requires_grad_()
    Plain.apply(x).backward()
    assert x.grad.stride() == x.stride() == (1, 2)
    x.grad = None
    with torch.autograd.enforce_grad_layout_policy(False):
        Plain.apply(x).backward()
    assert x.grad.stride() == (3, 1) and torch._C._is_grad_layout_enforcement_enabled()


def test_saved_tensors_as_objects():
    a = torch.tensor(2.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        b = a**2
        kept = torch._C._autograd._make_saved_tensor(a)
    assert b.grad_fn._raw_saved_self.data is a and kept.unpack() is a
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        torch.autograd.SavedTensor()


def test_views_out_of_functions_without_history():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g

    view, b = Same.apply(torch.rand(1, 2)), torch.rand(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
        view += b
    view.add_(1)


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, requires_grad=requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(x):
            return x.inner if isinstance(x, cls) else x

        result = func(*map(unwrap, args), **{k: unwrap(v) for k, v in (kwargs or {}).items()})
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_writes_to_wrappers_with_a_history():
    leaf = Wrapped(torch.tensor([1.0, 2.0], dtype=torch.float64), True)
    x = leaf * 3
    x.mul_(x)
    assert isinstance(x, Wrapped) and x.inner.tolist() == [9.0, 36.0]
    x.sum().backward()
    assert leaf.grad.inner.tolist() == [18.0, 36.0]
    assert type(leaf.data) is Wrapped and not leaf.data.requires_grad
    leaf.data[0] = 5.0
    assert leaf.inner.tolist() == [5.0, 2.0]
    assert torch.autograd.gradcheck(lambda t: t * t, (leaf,))


def test_a_functions_recomputed_tensors_are_given_out_once():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with pytest.raises(RuntimeError, match="already unpacked once"):
                _ = ctx.saved_tensors
            return g * 2 + 0 * x

    x = torch.ones(3, requires_grad=True)
    checkpoint(lambda x: Twice.apply(x * x), x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_custom_operators_are_kept_as_a_whole():
    calls = []

    @torch.library.custom_op("recomputation::sin_and_two", mutates_args=())
    def sin_and_two(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        calls.append(1)
        return x.sin(), 2

    def backward(ctx, g, _):
        return g * ctx.saved_tensors[0].cos()

    sin_and_two.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    x = torch.tensor([0.5], requires_grad=True)

    def f(x):
        return (torch.ops.recomputation.sin_and_two(x)[0] * x.sin()).exp()

    expected = torch.autograd.grad(f(x).sum(), x)[0]
    for kept, count in (([torch.ops.recomputation.sin_and_two.default], 1), ([torch.ops.aten.sin.default], 2)):
        calls.clear()
        out = checkpoint(
            f, x, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, kept)
        )
        assert torch.equal(torch.autograd.grad(out.sum(), x)[0], expected) and len(calls) == count

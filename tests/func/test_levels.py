"""Which transforms are open, how their tensors read, and PyTorch's private names for both."""

import pytest

import flambeau as torch
from flambeau._C import _functorch as compiled
from flambeau._functorch import apis, autograd_function, eager_transforms, make_functional, utils
from flambeau._functorch import vmap as steps
from flambeau.compat import functorch
from flambeau.compat.functorch import experimental
from flambeau.func import grad, jvp, vjp, vmap


def _seen(transform, x):
    found = []

    def f(t):
        found.append((repr(t), compiled.maybe_get_level(t), compiled.is_gradtrackingtensor(t)))
        return t.sum()

    transform(f)(x)
    return found[0]


def test_tensors_of_transforms_say_which_they_belong_to():
    inside = "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 1.])\n)"
    assert _seen(vmap, torch.ones(2)) == (inside, 1, False)
    shifted = "\n".join("    " + line for line in inside.splitlines())
    assert _seen(lambda f: vmap(grad(f)), torch.ones(2)) == (f"GradTrackingTensor(lvl=2, value=\n{shifted}\n)", 2, True)
    text, level, tracked = _seen(lambda f: grad(grad(f)), torch.ones([]))
    assert text.startswith("GradTrackingTensor(lvl=2, value=\n    GradTrackingTensor(lvl=1, value=\n        tensor(1.)")
    assert (level, tracked) == (2, True)


def test_captured_and_escaped_tensors_read_as_ever():
    captured, texts, kept = torch.ones(2), [], []

    def f(x):
        texts.append(repr(captured))
        kept.append(x * 2)
        return x.sum()

    grad(f)(torch.ones(2))
    assert texts == ["tensor([1., 1.])"] and "GradTracking" not in repr(kept[0])


def test_transforms_can_be_opened_and_closed_one_by_one():
    assert compiled.peek_interpreter_stack() is None and compiled.maybe_current_level() is None
    assert compiled._vmap_increment_nesting(3, "error") == 1
    assert compiled._grad_increment_nesting() == 2 and compiled._jvp_increment_nesting() == 3
    assert [one.key().name for one in compiled.get_interpreter_stack()] == ["Vmap", "Grad", "Jvp"]
    compiled.pop_dynamic_layer_stack_and_undo_to_depth(2)
    assert compiled.peek_interpreter_stack().key() is compiled.TransformType.Grad
    assert compiled.current_level() == compiled.get_dynamic_layer_stack_depth() == 2
    compiled.pop_dynamic_layer_stack_and_undo_to_depth(0)
    assert compiled.get_dynamic_layer_stack_depth() == 0
    with pytest.raises(RuntimeError, match="no function transform is open"):
        compiled.current_level()


def test_dimensions_are_joined_and_parted():
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert compiled.reshape_dim_into(0, 1, x).equal(x.movedim(0, 1).reshape(3, 8))
    assert compiled.reshape_dim_into(-3, -1, x).equal(x.movedim(0, 1).reshape(3, 8))
    assert compiled.reshape_dim_outof(-1, 2, x).equal(x.reshape(2, 3, 2, 2))
    with pytest.raises(RuntimeError, match="no parts of 5"):
        compiled.reshape_dim_outof(2, 5, x)


def test_chunks_are_counted():
    sizes = []

    def f(x):
        sizes.append(torch.func.debug_unwrap(x).shape[0])
        return x.sin()

    x = torch.randn(7, 2)
    for chunks, expected in ((1, [7]), (2, [4, 3]), (3, [3, 3, 1]), (10, [1] * 7)):
        sizes.clear()
        assert experimental.chunk_vmap(f, chunks=chunks)(x).equal(x.sin()) and sizes == expected
    assert experimental.chunk_vmap is apis.chunk_vmap


def test_results_come_with_the_places_of_their_batches():
    x, y = torch.randn(2, 3), torch.randn(4, 2)
    out, dims = steps.restore_vmap(lambda x, y: {"a": x + 1, "b": y, "c": 5}, (0, 1), 2, "error")(x, y)
    assert dims == {"a": 0, "b": 1, "c": None} and out["b"] is y and out["c"] == 5 and out["a"].equal(x + 1)


def test_argnums_are_looked_up():
    assert eager_transforms._slice_argnums((1, 2, 3), (0, -1)) == (1, 3)
    assert eager_transforms._slice_argnums((1, 2, 3), 1) == (2,)
    assert eager_transforms._slice_argnums((1, 2, 3), 1, as_tuple=False) == 2
    assert eager_transforms._validate_and_wrap_argnums(-1, 3) == 2
    for argnums, message in (
        ((0, -3), "must be unique"),
        ((), "non-empty"),
        (3, "positional inputs"),
        ([0], "int or Tuple"),
    ):
        with pytest.raises(RuntimeError, match=message):
            eager_transforms._slice_argnums((1, 2, 3), argnums)


def test_a_ctx_can_have_other_saved_tensors():
    class Ctx:
        saved_tensors = (1,)

    ctx = Ctx()
    outer = autograd_function.CtxWithSavedTensors(autograd_function.CtxWithSavedTensors(ctx, (2,)), (3,))
    outer.note = "kept"
    assert outer.saved_tensors == (3,) and ctx.note == "kept" and ctx.saved_tensors == (1,)
    ctx._pt_inner_ctx = 1
    with pytest.raises(RuntimeError, match="name collision"):
        autograd_function.CtxWithSavedTensors(ctx, ())


@pytest.mark.slow
def test_gradients_are_fitted_to_their_inputs():
    fit = autograd_function.reductify_leaf
    g = torch.randn(2, 3, 4)
    assert fit(None, None, 0, 2) is None and fit(g, None, None, 5) is g
    assert fit(g, 0, None, 2).equal(g.sum(0)) and fit(g, 0, 2, 2).equal(g.movedim(0, 2))
    assert fit(g, None, 1, 5).equal(g.unsqueeze(1).expand(2, 5, 3, 4))
    assert fit(g, 0, 1, 2, (4,)).equal(g.sum(1).movedim(0, 1)) and fit(g, 0, 0, 2, (1, 4)).equal(g.sum(1, keepdim=True))


def test_one_level_for_functions_can_be_asked_for():
    with utils.enable_single_level_autograd_function():
        assert compiled.get_single_level_autograd_function_allowed()
    assert not compiled.get_single_level_autograd_function_allowed()
    assert utils.exposed_in("torch.func")(lambda: 1).__module__ == "torch.func"


class _Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(3))
        self.linear = torch.nn.Linear(3, 3)
        self.linear.bias = self.bias
        self.buffer = torch.nn.Buffer(torch.randn(3))
        self.same = self.buffer

    def forward(self, x):
        return self.linear(x) + self.bias + self.buffer * self.same


def test_functional_modules_keep_what_is_shared():
    function, _, _ = make_functional.make_functional_with_buffers(_Tied())
    model = _Tied()
    _, parameters, buffers = make_functional.make_functional_with_buffers(model)
    assert (len(parameters), len(buffers)) == (2, 1)
    x = torch.randn(2, 3)
    assert torch.allclose(function(parameters, buffers, x), model(x))


def test_ensembles_are_made_from_classes():
    weights, function, names = make_functional.functional_init(torch.nn.Linear, (5,))(2, 3)
    assert names == ("weight", "bias") and vmap(function)(weights, (torch.ones(5, 4, 2),)).shape == (5, 4, 3)
    made = make_functional.functional_init_with_buffers(torch.nn.BatchNorm1d, [2])(3)
    assert (
        len(made) == 5
        and made[1][0].shape == (2, 3)
        and made[4] == ("running_mean", "running_var", "num_batches_tracked")
    )
    with pytest.raises(ValueError, match="should be > 0"):
        make_functional.functional_init(torch.nn.Linear, (0,))(2, 3)


def test_derivatives_of_the_older_module_are_refused_inside_transforms():
    functional = torch.autograd.functional
    ways = [
        lambda x: functional.jacobian(torch.sin, x), lambda x: functional.vjp(torch.sin, x, torch.ones_like(x)),
        lambda x: functional.jvp(torch.sin, (x,), (torch.ones_like(x),)),
    ]  # fmt: skip
    for way in ways:
        for transform in (vmap, grad):
            with pytest.raises(RuntimeError, match=r"torch\.autograd\.functional"):
                transform(way)(torch.randn(3))
    with pytest.raises(RuntimeError, match="aten::_make_dual"):
        vmap(lambda x: functional.jacobian(torch.sin, x, strategy="forward-mode", vectorize=True))(torch.randn(3))


def test_open_levels_are_numbered_through():
    seen = []
    jvp(lambda x: vjp(lambda y: seen.append(compiled.current_level()) or y, x)[0], (torch.ones(2),), (torch.ones(2),))
    assert seen == [2]


def test_data_cannot_be_set_inside_transforms():
    def f(x):
        x.data = torch.zeros(2)
        return x.sum()

    x = torch.randn(2)
    for call in (lambda: grad(f)(x), lambda: vjp(f, x), lambda: jvp(f, (x,), (x,))):
        with pytest.raises(RuntimeError, match=r"mutating directly with `\.data` inside functorch transform"):
            call()


def test_functions_inside_transforms_have_generated_nodes_and_record_nothing():
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x):
            seen.append((torch.is_grad_enabled(), torch.autograd.forward_ad._is_fwd_grad_enabled()))
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        y = Twice.apply(x)
        seen.append(type(y.grad_fn).__name__)
        return y

    assert grad(f)(torch.tensor(1.0)) == 2 and seen == [(False, False), "TwiceGeneratedBackward"]


def test_generated_rules_sum_gradients_to_what_was_broadcast():
    class Times(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    x, y = torch.randn(3, 4), torch.randn(3, 2, 1)
    cotangent = torch.randn(3, 2, 4)
    made = vjp(vmap(Times.apply), x, y)[1](cotangent)
    expected = vjp(lambda x, y: x.unsqueeze(1) * y, x, y)[1](cotangent)
    assert all(torch.allclose(a, b) for a, b in zip(made, expected))


class _Pair:
    """A container of another library, which vmap's own steps take for no tensor."""

    def __init__(self, first, second):
        self.first, self.second = first, second


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_steps_of_vmap_can_be_replaced(monkeypatch, chunk_size):
    process, create, unwrap = steps._process_batched_inputs, steps._create_batched_inputs, steps._unwrap_batched

    def parted(in_dims, args, func):
        (pair,) = args
        return process(in_dims, (pair.first, pair.second), func)

    def joined(dims, flat, level, spec):
        return (_Pair(*create(dims, flat, level, spec)),)

    def opened(out, out_dims, level, size, func):
        return unwrap((out.first, out.second), out_dims, level, size, func)

    monkeypatch.setattr(steps, "_process_batched_inputs", parted)
    monkeypatch.setattr(steps, "_create_batched_inputs", joined)
    monkeypatch.setattr(steps, "_unwrap_batched", opened)
    x, y = torch.randn(3, 2), torch.randn(2, 3)
    mapped = vmap(lambda p: _Pair(p.first @ p.second, p.second), (0, 1), (0, 1), chunk_size=chunk_size)
    first, second = mapped(_Pair(x, y))
    assert torch.allclose(first, (x * y.T).sum(1)) and second.equal(y)


def test_older_functions_of_modules_name_what_takes_their_place():
    m = torch.nn.Linear(2, 3)
    for name, arguments, instead in (
        ("make_functional", (m,), "functional_call"),
        ("make_functional_with_buffers", (m,), "functional_call"),
        ("combine_state_for_ensemble", ([m, m],), "stack_module_state"),
    ):
        with pytest.warns(FutureWarning, match=f"integrated functorch.*torch.func.{instead}"):
            getattr(functorch, name)(*arguments)


def test_jacfwd_leaves_the_batch_of_directions_in_front(monkeypatch):
    """Containers that put batches into place themselves can do so in front only."""
    asked, unwrap = [], steps._unwrap_batched
    monkeypatch.setattr(
        steps, "_unwrap_batched", lambda out, dims, *rest: (asked.append(dims), unwrap(out, dims, *rest))[1]
    )
    jacobian = torch.func.jacfwd(lambda x: {"a": x[:2] ** 2})(torch.arange(3.0))
    assert jacobian["a"].tolist() == [[0, 0, 0], [0, 2, 0]] and asked == [0]


def test_jacobians_of_a_batch_lie_one_after_the_other():
    """So that `view` joins the batch with the rows, as in PyTorch."""
    x = torch.rand(4, 2)
    jacobians = torch.vmap(torch.func.jacrev(lambda z: (z[:1] * torch.arange(3.0)).sin() + z[1:]))(x)
    assert jacobians.stride() == (6, 2, 1)
    assert torch.equal(jacobians.view(12, 2), jacobians.reshape(12, 2))

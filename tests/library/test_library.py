"""Operators of programs: definition, kernels, derivatives, batches, schemas."""

import gc
from collections.abc import Sequence

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor, library
from flambeau._library.checking import OpCheckError
from flambeau._library.namespaces import ops
from flambeau.utils._python_dispatch import TorchDispatchMode

_count = iter(range(1000))


def fresh():
    return f"test{next(_count)}"


def make_sine():
    @library.custom_op(f"{fresh()}::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.detach().numpy()))

    return sine


def with_derivative(op):
    op.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return op


def test_custom_op_calls():
    sine, x = make_sine(), torch.randn(3)
    packet = getattr(ops, sine._namespace).sine
    for call in (sine, packet, packet.default, sine._opoverload):
        assert torch.allclose(call(x), x.sin())
    assert packet.default is sine._opoverload
    assert str(packet.default) == f"{sine._namespace}.sine.default"
    assert str(packet.default._schema) == f"{sine._namespace}::sine(Tensor x) -> Tensor"
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        sine()
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        sine(3)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'y'"):
        sine(x, y=1)


def test_derivative():
    sine = make_sine()
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        sine(x).sum().backward()
    with_derivative(sine)
    assert torch.autograd.gradcheck(sine, (x,))


def test_derivative_of_lists():
    @library.custom_op(f"{fresh()}::total", mutates_args=())
    def total(parts: Sequence[Tensor], scale: float = 2.0) -> Tensor:
        return sum(parts) * scale

    def setup(ctx, inputs, output):
        ctx.count, ctx.scale = len(inputs[0]), inputs[1]

    total.register_autograd(lambda ctx, g: ([g * ctx.scale] * ctx.count, None), setup_context=setup)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    total([a, b]).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0]


def test_mutation_and_aliasing():
    @library.custom_op(f"{fresh()}::add_one", mutates_args={"x"})
    def add_one(x: Tensor) -> None:
        x.numpy()[...] += 1

    x = torch.zeros(2)
    before = x._version
    add_one(x)
    assert x.tolist() == [1, 1] and x._version > before
    leaf = torch.zeros(2, requires_grad=True)
    add_one(leaf)
    assert leaf.tolist() == [1, 1] and leaf.is_leaf
    assert add_one(torch.zeros(2, device="meta")) is None  # there is nothing that a rule could say

    def twice(x):
        y = x * 2
        add_one(y)
        return y

    assert torch.compile(twice, fullgraph=True)(x).tolist() == [3, 3]

    @library.custom_op(f"{fresh()}::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not be an input"):
        same(x)


def test_rules_say_that_sizes_depend_on_elements():
    @library.custom_op(f"{fresh()}::places", mutates_args=())
    def places(x: Tensor) -> Tensor:
        return x.nonzero()

    places.register_fake(lambda x: x.new_empty([library.get_ctx().new_dynamic_size(), x.dim()], dtype=torch.long))
    assert set(library.opcheck(places, (torch.ones(2),)).values()) == {"SUCCESS"}

    class Model(torch.nn.Module):
        def forward(self, x):
            return places(x)

    module = torch.export.export(Model(), (torch.ones(2),)).module()
    assert module(torch.tensor([0.0, 1.0])).tolist() == [[1]]


def test_meta_and_devices():
    sine = make_sine()
    with pytest.raises(NotImplementedError, match="register_fake"):
        sine.register_kernel("cpu")(lambda x: x)  # one kernel more does not help
        sine._operator.kernels.pop("")
        sine(torch.empty(3, device="meta"))
    sine.register_fake(lambda x: torch.empty_like(x))
    assert sine(torch.empty(3, device="meta")).shape == (3,)

    @library.custom_op(f"{fresh()}::gpu_only", mutates_args=(), device_types="cuda")
    def gpu_only(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        gpu_only(torch.ones(1))


def test_vmap():
    sine, x = make_sine(), torch.randn(2, 3)
    assert torch.allclose(torch.vmap(lambda t: t.sin())(x), x.sin())
    calls = []

    @sine.register_vmap
    def rule(info, in_dims, x):
        calls.append((info.batch_size, in_dims))
        return sine(x), in_dims[0]

    assert torch.allclose(torch.vmap(sine, in_dims=1, out_dims=1)(x), x.sin())
    assert calls == [(3, (1,))]


@pytest.mark.parametrize("rule", [False, True])
def test_vmap_with_gradients(rule):
    sine = with_derivative(make_sine())
    if rule:
        sine.register_vmap(lambda info, in_dims, x: (sine(x), in_dims[0]))
    x = torch.randn(2, 3, requires_grad=True)
    (g,) = torch.autograd.grad(torch.vmap(sine)(x).sum(), x)
    assert torch.allclose(g, x.cos())
    y = torch.vmap(lambda t, u: t + sine(u), in_dims=(0, None))(x, x[0])  # nothing of the call is batched
    assert torch.allclose(y, x + x[0].sin())
    assert torch.allclose(torch.vmap(torch.func.grad(lambda t: sine(t).sum()))(x.detach()), x.cos())


def test_traces_hold_operators():
    sine = make_sine()
    traced = torch.fx.symbolic_trace(lambda x: sine(x) + 1)
    assert next(n.target for n in traced.graph.nodes if n.op == "call_function") is sine._opoverload
    assert torch.allclose(traced(torch.zeros(2)), torch.ones(2))


def test_libraries():
    space = fresh()
    lib = library.Library(space, "DEF")
    assert lib.define("scale(Tensor x, int by=2) -> Tensor") == "scale"
    lib.define("scale.float(Tensor x, str by) -> Tensor")
    lib.impl("scale", lambda x, by: x * by, "CPU")
    lib.impl("scale.float", lambda x, by: x * float(by), "CompositeImplicitAutograd")
    packet = getattr(ops, space).scale
    assert packet(torch.ones(1)).item() == 2 and packet(torch.ones(1), "1.5").item() == 1.5
    assert packet.overloads() == ["default", "float"]
    with pytest.raises(RuntimeError, match="multiple times"):
        lib.define("scale(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        library.Library(space, "DEF")
    with pytest.raises(ValueError, match="Unsupported kind"):
        library.Library(space, "OTHER")
    library.define(f"{space}::more", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run"):
        getattr(ops, space).more(torch.ones(1))
    library.impl(f"{space}::more", "cpu", lambda x: x + 1)
    assert getattr(ops, space).more(torch.ones(1)).item() == 2
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(getattr(ops, space), "nothing")  # noqa: B009


def test_inferred_schemas():
    def f(
        x: Tensor,
        many: list[Tensor],
        some: Sequence[Tensor | None],
        d: torch.dtype,
        n: int = 3,
        *,
        s: str = "a",
        o: Sequence[int] | None = None,
    ) -> tuple[Tensor, list[Tensor]]: ...

    assert library.infer_schema(f, mutates_args=()) == (
        '(Tensor x, Tensor[] many, Tensor?[] some, ScalarType d, SymInt n=3, *, str s="a", SymInt[]? o=None) -> (Tensor, Tensor[])'
    )
    assert library.infer_schema(f, mutates_args={"x"}).startswith("(Tensor(a0!) x,")
    with pytest.raises(ValueError, match="type annotation"):
        library.infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="not found"):
        library.infer_schema(f, mutates_args={"z"})


def test_aten():
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    assert torch.equal(ops.aten.mm.default(x, x), x @ x)
    assert torch.equal(ops.aten.sum.dim_IntList(x, [1], True), x.sum(1, keepdim=True))
    assert torch.equal(ops.aten.linalg_norm(x), torch.linalg.norm(x))
    assert ops.aten.add.Tensor.name() == "aten::add.Tensor"
    assert repr(ops.aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    with pytest.raises(AttributeError, match="'aten' object has no attribute"):
        getattr(ops.aten, "nothing_at_all")  # noqa: B009


def test_opcheck():
    sine = with_derivative(make_sine())
    sine.register_fake(lambda x: torch.empty_like(x))
    results = library.opcheck(sine, (torch.randn(3, requires_grad=True),))
    assert set(results.values()) == {"SUCCESS"}
    sine.register_fake(lambda x: torch.empty(7))
    with pytest.raises(Exception, match="meta tensors gives"):
        library.opcheck(sine, (torch.randn(3),))


def test_opcheck_compares_compiled_calls_within_tolerances():
    calls = []

    @library.custom_op("test_tolerances::drifting", mutates_args=())
    def drifting(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1e-3 * len(calls)

    drifting.register_fake(lambda x: torch.empty_like(x))
    x, test = torch.ones(3), "test_aot_dispatch_dynamic"
    with pytest.raises(Exception, match="compiled call gives other results"):
        library.opcheck(drifting, (x,), test_utils=test)
    assert library.opcheck(drifting, (x,), test_utils=test, atol=1.0, rtol=0.0) == {test: "SUCCESS"}


@pytest.mark.parametrize(
    "name, more",
    [
        ("upsample_nearest2d", ()),
        ("upsample_bilinear2d", (False,)),
        ("upsample_bicubic2d", (True,)),
        ("_upsample_bilinear2d_aa", (False,)),
    ],
)
def test_gradients_of_upsampling_are_operators(name, more):
    x, g = torch.randn(2, 3, 4, 5, requires_grad=True), torch.randn(2, 3, 6, 7, requires_grad=True)
    getattr(ops.aten, name)(x, [6, 7], *more).backward(g)
    made = getattr(ops.aten, f"{name}_backward")(g, [6, 7], [2, 3, 4, 5], *more)
    torch.testing.assert_close(made, x.grad)
    (second,) = torch.autograd.grad(made.sum(), g)
    torch.testing.assert_close(second, getattr(ops.aten, name)(torch.ones(2, 3, 4, 5), [6, 7], *more))
    with pytest.raises(RuntimeError, match=r"output.size\(2\) = 8 but got grad_output.size\(2\) = 6"):
        getattr(ops.aten, f"{name}_backward")(g, [8, 7], [2, 3, 4, 5], *more)


def test_an_implementation_for_autocast():
    defined = library.Library("test_autocast_key", "DEF")
    defined.define("twice(Tensor x) -> Tensor")
    defined.impl("twice", lambda x: x + x, "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def cast(x):
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return ops.test_autocast_key.twice(x.float())

    defined.impl("twice", cast, "AutocastCPU")
    x = torch.ones(2, dtype=torch.float16)
    assert ops.test_autocast_key.twice(x).dtype is torch.float16
    with torch.autocast("cpu"):
        assert ops.test_autocast_key.twice(x).dtype is torch.float32


def test_implementations_may_come_before_the_definition():
    @torch.library.impl("early::twice", ["CPU", "Meta"])
    def twice(x):
        return x * 2

    library = torch.library.Library("early", "FRAGMENT")
    library.impl("less", lambda x: x - 1, "CPU")
    with pytest.raises(AttributeError, match="twice"):
        _ = torch.ops.early.twice
    torch.library.define("early::twice", "(Tensor x) -> Tensor")
    library.define("less(Tensor x) -> Tensor")
    assert torch.ops.early.twice(torch.ones(2)).tolist() == [2.0, 2.0]
    assert torch.ops.early.twice(torch.ones(2, device="meta")).shape == (2,)
    assert torch.ops.early.less(torch.ones(2)).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.library.register_fake("early::never", twice)


def test_modes_and_classes_are_shown_operators_that_programs_define():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), args[1:]))
            return func(*args, **(kwargs or {}))

    class Quiet(Log):
        pass

    @torch.library.custom_op("shown::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_autograd(
        lambda ctx, g: (g * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
    )
    seen = []
    x = torch.ones(2, requires_grad=True)
    with Log():
        y = scaled(x, 3.0)
    assert seen == [("shown.scaled.default", (3.0,))]  # as one operation, not by its parts
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]

    @torch.library.register_torch_dispatch("shown::scaled", Quiet)
    def quietly(mode, func, types, args, kwargs):
        assert isinstance(mode, Quiet)
        return func(args[0], args[1] + 1)

    with Quiet():
        assert scaled(x, 3.0).tolist() == [4.0, 4.0]
    with Log():
        assert scaled(x, 3.0).tolist() == [3.0, 3.0]
    assert len(seen) == 2


def test_layouts_are_asked_for():
    dense = torch.ones(2)
    assert torch.ops.aten._to_copy.default(dense, layout=torch.strided).layout is torch.strided
    with pytest.raises(RuntimeError, match="different layout"):
        torch.ops.aten._to_copy.default(dense, layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match="layout mismatch"):
        torch.ops.aten._assert_tensor_metadata.default(dense, layout=torch.sparse_coo)


def test_a_dtype_and_a_device_are_defaults():
    seen, CPU = [], torch.device("cpu")

    @library.custom_op(f"{fresh()}::cast", mutates_args=())
    def cast(x: Tensor, kind: torch.dtype = torch.float64, place: torch.device = CPU) -> Tensor:
        seen.append((kind, place))
        return x.to(kind)

    assert cast(torch.ones(2)).dtype is torch.float64
    assert seen == [(torch.float64, CPU)]
    assert "ScalarType kind=float64, Device place=cpu" in str(cast._opoverload._schema)


def test_tags_are_names():
    assert torch.Tag is torch._C.Tag
    assert str(torch.Tag.needs_fixed_stride_order.name) == "needs_fixed_stride_order"
    assert int(torch.Tag.view_copy) == 19
    assert isinstance(torch.ops.aten.add.Tensor, torch._ops.OpOverload)


X = torch.tensor([-2.0, -0.5, 0.25, 3.5], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "forward", "args", "given"),
    [
        ("gelu_backward", torch.nn.functional.gelu, {"approximate": "tanh"}, "input"),
        ("silu_backward", torch.nn.functional.silu, {}, "input"),
        ("mish_backward", torch.nn.functional.mish, {}, "input"),
        ("hardswish_backward", torch.nn.functional.hardswish, {}, "input"),
        ("hardsigmoid_backward", torch.nn.functional.hardsigmoid, {}, "input"),
        ("hardtanh_backward", torch.nn.functional.hardtanh, {"min_val": -1, "max_val": 1}, "input"),
        ("sigmoid_backward", torch.sigmoid, {}, "output"),
        ("tanh_backward", torch.tanh, {}, "output"),
    ],
)
def test_derivatives_as_operators(name, forward, args, given):
    x, g = X.clone().requires_grad_(), X.flip(0)
    y = forward(x, **args)
    (wanted,) = torch.autograd.grad(y, x, g)
    made = getattr(ops.aten, name)(g, x.detach() if given == "input" else y.detach(), **args)
    torch.testing.assert_close(made, wanted)
    assert not made.requires_grad


def _backwards():
    """Operators of derivatives with arguments, and what they are the gradient of."""
    t = torch.arange(40.0).sin()
    x, y, g, target = t[:6].view(2, 3), t[6:12].view(2, 3).sigmoid(), t[12:18].view(2, 3), torch.tensor([0, 2])
    image, weight, one = t[:32].view(1, 2, 4, 4), torch.tensor([1.0, 2.0, 3.0]), torch.tensor(2.0)
    a, f = ops.aten, torch.nn.functional
    labels = torch.tensor([[0, 1, -1], [2, -1, -1]])
    sums = lambda loss: lambda x, *rest, **named: loss(x, *rest, reduction="sum", **named)
    _, mean, rstd = a.native_layer_norm(x, [3], None, None, 1e-5)
    _, *moments = a.native_group_norm(image, None, None, 1, 2, 16, 2, 1e-5)
    return [
        (a.avg_pool2d_backward(image[..., :2, :2], image, [2, 2], [], [0, 0], False, True, None), f.avg_pool2d, (image, 2), image[..., :2, :2]),
        (a.binary_cross_entropy_backward(one, y, x.sigmoid(), None, 2), sums(f.binary_cross_entropy), (y, x.sigmoid()), one),
        (a.glu_backward(g[:, :1], x[:, :2], 1), f.glu, (x[:, :2], 1), g[:, :1]),
        (a.elu_backward(g, 1.5, 1.0, 1.0, False, x), f.elu, (x, 1.5), g),
        (a.elu_backward(g, 1.5, 1.0, 1.0, True, f.elu(x, 1.5)), f.elu, (x, 1.5), g),
        (a.leaky_relu_backward(g, x, 0.1, False), f.leaky_relu, (x, 0.1), g),
        (a.log_sigmoid_backward(g, x, a.log_sigmoid_forward(x)[1]), f.logsigmoid, (x,), g),
        (a.huber_loss_backward(one, x, y, 2, 0.3), lambda x, y: f.huber_loss(x, y, "sum", 0.3), (x, y), one),
        (a.mse_loss_backward(g, x, y, 0), lambda x, y: (x - y) ** 2, (x, y), g),
        (a.multilabel_margin_loss_backward(one, x, labels, 2, x), sums(f.multilabel_margin_loss), (x, labels), one),
        (a.nll_loss_backward(one, x, target, weight, 1, 0, one), lambda *args: f.nll_loss(*args, ignore_index=0), (x, target, weight), one),
        (a.reflection_pad1d_backward(t[:10].view(2, 5), x, [1, 1]), lambda x: f.pad(x, (1, 1), "reflect"), (x,), t[:10].view(2, 5)),
        (a.softplus_backward(g, x, 2.0, 20.0), f.softplus, (x, 2.0), g),
        (a.select_backward(g[0], [2, 3], 0, 1), lambda x: x[1], (x,), g[0]),
        (a.slice_backward(g[:, :2], [2, 3], 1, 0, 3, 2), lambda x: x[:, ::2], (x,), g[:, :2]),
        (a.unfold_backward(image[0, :, :2], [2, 5], 1, 4, 1), lambda x: x.unfold(1, 4, 1), (t[:10].view(2, 5),), image[0, :, :2]),
        (a.embedding_dense_backward(g, target, 3, -1, False), lambda table: table[target], (torch.ones(3, 3),), g),
        (a.native_dropout_backward(g, x > 0, 2.0), lambda x: x * 2 * (x > 0), (x,), g),
        (a.native_layer_norm_backward(g, x, [3], mean, rstd, weight, None, [True] * 3)[0], f.layer_norm, (x, (3,), weight), g),
        (a.native_layer_norm_backward(g, x, [3], mean, rstd, weight, None, [True] * 3)[1], lambda w: f.layer_norm(x, (3,), w), (weight,), g),
        (a.native_group_norm_backward(image + 1, image, *moments, None, 1, 2, 16, 2, [True, False, False])[0], f.group_norm, (image, 2), image + 1),
    ]  # fmt: skip


def test_derivatives_are_those_of_the_operators():
    for made, forward, args, g in _backwards():
        x = args[0].clone().requires_grad_()
        torch.testing.assert_close(made, torch.autograd.grad(forward(x, *args[1:]), x, g)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("train", [True, False])
def test_derivatives_of_batch_norm(train):
    x = torch.arange(24.0).sin().view(3, 2, 4).requires_grad_()
    weight, bias, mean, var = (
        torch.tensor([2.0, 3.0], requires_grad=True),
        torch.ones(2, requires_grad=True),
        torch.ones(2),
        torch.full((2,), 2.0),
    )
    g = torch.arange(24.0).cos().view(3, 2, 4)
    wanted = torch.autograd.grad(
        torch.nn.functional.batch_norm(x, mean.clone(), var.clone(), weight, bias, train), (x, weight, bias), g
    )
    saved = (x.mean((0, 2)), (x.var((0, 2), unbiased=False) + 1e-5).rsqrt()) if train else (None, None)
    with torch.no_grad():
        made = ops.aten.native_batch_norm_backward(g, x, weight, mean, var, *saved, train, 1e-5, [True] * 3)
    for a, b in zip(made, wanted):
        torch.testing.assert_close(a, b)


def test_a_derivative_by_arguments_has_derivatives():
    x, g = X.clone().requires_grad_(), X.flip(0).requires_grad_()
    made = ops.aten.mse_loss_backward(g, x, X * 0, 0)
    first, second = torch.autograd.grad(made.sum(), (g, x))
    torch.testing.assert_close(first, 2 * X)
    torch.testing.assert_close(second, 2 * X.flip(0))


def test_gelu_in_place():
    x = X.clone()
    assert ops.aten.gelu_(x, approximate="tanh") is x
    torch.testing.assert_close(x, torch.nn.functional.gelu(X, approximate="tanh"))


def test_kernels_for_devices_that_are_not_here():
    torch.library.define("elsewhere::twice", "(Tensor x) -> Tensor")

    @torch.library.impl("elsewhere::twice", ("xpu", "mps", "PrivateUse1"))
    def wrong(x):
        raise AssertionError

    torch.library.impl("elsewhere::twice", "AutogradXPU", wrong)
    torch.library.impl("elsewhere::twice", "cpu", lambda x: x * 2)
    assert ops.elsewhere.twice(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="implementations for 'nowhere' are not supported"):
        torch.library.impl("elsewhere::twice", "nowhere", wrong)


def test_products_of_bytes_into_memory():
    a, out = torch.full((2, 3), 2, dtype=torch.int8), torch.empty(2, 2, dtype=torch.int32)
    assert torch._int_mm(a, a.t(), out=out) is out and out.tolist() == [[12, 12], [12, 12]]
    with pytest.raises(RuntimeError, match="Expected result dtype to be int32"):
        torch._int_mm(a, a.t(), out=torch.empty(2, 2))


def test_functions_of_the_compiled_core():
    assert torch._C._VariableFunctions.rsub(torch.ones(2), 3).tolist() == [2, 2]
    assert "rsub" in dir(torch._C._VariableFunctions) and not hasattr(torch._C._VariableFunctions, "nothing")


def test_a_derivative_has_a_derivative():
    x = X.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.nn.functional.silu(x).sum(), x, create_graph=True)
    made = ops.aten.silu_backward(torch.ones_like(X), x)
    torch.testing.assert_close(torch.autograd.grad(made.sum(), x), torch.autograd.grad(wanted.sum(), x))


def test_derivatives_of_softmax_and_threshold():
    x, g = X.clone().requires_grad_(), X.flip(0)
    for forward, backward in (
        (torch.softmax, torch._softmax_backward_data),
        (torch.log_softmax, torch._log_softmax_backward_data),
    ):
        y = forward(x, 0)
        torch.testing.assert_close(backward(g, y.detach(), 0, x.dtype), torch.autograd.grad(y, x, g)[0])
    assert ops.aten.threshold_backward(g, X, 0).tolist() == [0.0, 0.0, -0.5, -2.0]


def test_layers_of_the_compiled_core():
    x = torch.arange(4.0).view(1, 1, 2, 2)
    assert torch._C._nn.upsample_nearest2d(x, (3, 3))[0, 0].tolist() == [[0, 0, 1], [0, 0, 1], [2, 2, 3]]
    assert torch._C._nn.upsample_bilinear2d(x, None, True, [1.5, 1.5])[0, 0, 1].tolist() == [1.0, 1.5, 2.0]
    with pytest.raises(AttributeError, match="no attribute 'upsample_nothing'"):
        torch._C._nn.upsample_nothing  # noqa: B018


def test_products_of_bytes():
    a = torch.full((3, 200), 100, dtype=torch.int8)
    made = torch._int_mm(a, a.T.contiguous())
    assert made.dtype is torch.int32
    assert made.tolist() == [[2000000] * 3] * 3
    with pytest.raises(RuntimeError, match=r"to be int8 or uint8 but got torch\.float32"):
        torch._int_mm(a.float(), a.T)
    with pytest.raises(RuntimeError, match="self to be of dimension 2 but got 1"):
        torch._int_mm(a[0], a.T)
    experts = torch.stack([torch.eye(2), 2 * torch.eye(2)])
    offsets = torch.tensor([1, 3], dtype=torch.int32)
    assert torch._grouped_mm(torch.ones(3, 2), experts, offsets).sum(1).tolist() == [2.0, 4.0, 4.0]


def test_a_custom_op_may_be_defined_again():
    """As when a notebook's cell runs twice."""

    def define(factor):
        @torch.library.custom_op("defined_twice::scaled", mutates_args=())
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        return scaled

    x, first = torch.ones(2), define(2)
    assert first(x).tolist() == torch.ops.defined_twice.scaled(x).tolist() == [2, 2]
    second = define(3)
    for op in (second, first, torch.ops.defined_twice.scaled, torch.ops.defined_twice.scaled.default):
        assert op(x).tolist() == [3, 3]


def test_operators_last_as_long_as_their_library():
    def run(keep=None):
        library = torch.library.Library("short_lived", "DEF")
        library.define("plus(Tensor x) -> Tensor")
        library.impl("plus", lambda x: x + 1, "CPU")
        result = torch.ops.short_lived.plus(torch.ones(1)).item()
        if keep is not None:
            keep.append(library)
        return result

    kept = []
    assert run() == run() == run(kept) == 2
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        run()
    kept.pop()._destroy()
    gc.collect()
    with pytest.raises(AttributeError, match="plus"):
        torch.ops.short_lived.plus  # noqa: B018


def test_one_tag_needs_no_tuple():
    torch.library.define("tagged_once::same", "(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
    assert torch.ops.tagged_once.same.default.tags == [torch.Tag.pt2_compliant_tag]


def test_kernels_for_operators_of_ours_are_not_ignored_in_silence():
    library = torch.library.Library("aten", "IMPL")
    with pytest.warns(UserWarning, match="aten::sum is flambeau's own"):
        library.impl("sum", lambda x: x, "CPU")


def test_what_libraries_refuse():
    space = fresh()
    lib = library.Library(space, "DEF")
    lib.define("plus(Tensor x) -> Tensor", "FROM_SCHEMA")
    for refused, message in (
        (lambda: lib.define("other(Tensor x) -> Tensor", alias_analysis="PURE"), "Invalid alias_analysis type PURE"),
        (lambda: lib.impl("elsewhere::plus", lambda x: x, "CPU"), r"namespace \(elsewhere\)"),
        (lambda: library.register_kernel(f"{space}::plus", "nowhere", lambda x: x), "Expected one of cpu"),
        (lambda: library.register_autocast(f"{space}::plus", "nowhere", torch.float16), "Expected one of cpu"),
    ):
        with pytest.raises(RuntimeError, match=message):
            refused()
    with pytest.raises(ValueError, match="reserved namespace"):
        library.Library("prim", "FRAGMENT")
    seen = []
    lib.impl("plus", lambda keys, x: seen.append(keys) or x + 1, "CPU", with_keyset=True)
    assert getattr(ops, space).plus(torch.ones(1)).item() == 2
    assert seen == [torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)]
    lib.impl("plus", lambda x: x, "ZeroTensor")  # there are none


def test_definitions_last_as_long_as_the_library_that_is_given():
    space = fresh()
    for _ in range(2):
        lib = library.Library(space, "FRAGMENT")
        library.define(f"{space}::plus", "(Tensor x) -> Tensor", lib=lib)
        library.impl(f"{space}::plus", "cpu", lambda x: x + 1, lib=lib)
        assert getattr(ops, space).plus(torch.ones(1)).item() == 2
        lib._destroy()


def test_opcheck_says_which_test_failed():
    sine = make_sine()
    with pytest.raises(OpCheckError, match=r"test_faketensor failed with .* no fake impl"):
        library.opcheck(sine, (torch.ones(2),))
    with pytest.raises(ValueError, match="must be instance of"):
        library.opcheck(sine._qualname, (torch.ones(2),))
    with pytest.raises(ValueError, match="subset"):
        library.opcheck(sine, (torch.ones(2),), test_utils="test_nothing")


def test_calls_with_effects_stay_in_graphs():
    sine = make_sine()
    assert sine._opoverload.tags == [torch.Tag.pt2_compliant_tag]

    def function(x):
        sine(x)
        return x + 1

    for effect, count in ((None, 3), (library.EffectType.ORDERED, 4)):
        sine.register_effect(effect)
        graph = torch.fx.symbolic_trace(function).graph
        graph.eliminate_dead_code()
        assert len(graph.nodes) == count

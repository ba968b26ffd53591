"""`torch.export`: graphs of models, their signatures, and modules that run them."""

import collections
import copy
import dataclasses

import pytest

import flambeau as torch
from flambeau.export import Dim, dims
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from flambeau.utils import _pytree

from .models import zoo

nn = torch.nn


def test_sizes_have_names_and_bounds():
    batch = Dim("batch", min=1, max=4)
    assert (batch.__name__, batch.min, batch.max) == ("batch", 1, 4)
    derived = 2 * batch + 1
    assert (repr(derived), derived.min, derived.max) == ("2*batch + 1", 3, 9)
    assert repr(3 * (batch - 1)) == "3*batch - 3"
    assert [d.__name__ for d in dims("a", "b")] == ["a", "b"]
    assert repr(Dim.AUTO) == "DimHint(AUTO)"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Dim("1b"), AssertionError, "valid identifier"),
        (lambda: Dim("b", min=5, max=2), AssertionError, "inconsistent min=5, max=2"),
        (lambda: Dim("b") * Dim("b"), NotImplementedError, "positive integer was expected"),
        (lambda: 1 - Dim("b"), NotImplementedError, "negate"),
    ],
)
def test_wrong_sizes_are_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_registered_dataclasses_are_containers():
    @dataclasses.dataclass
    class Pair:
        first: torch.Tensor
        second: torch.Tensor

    torch.export.register_dataclass(Pair)
    made = _pytree.tree_map(lambda t: t + 1, Pair(torch.zeros(1), torch.ones(1)))
    assert (made.first.item(), made.second.item()) == (1.0, 2.0)


ZOO = zoo(torch)


def same(got, wanted):
    """Asserts that two structures have the same leaves."""
    for a, b in zip(_pytree.tree_leaves(got), _pytree.tree_leaves(wanted), strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b


@pytest.mark.parametrize("name", ZOO)
def test_graphs_do_what_models_do(name):
    model, args, kwargs = ZOO[name]
    model = copy.deepcopy(model)
    before = copy.deepcopy(model.state_dict())
    ep = torch.export.export(model, args, kwargs)
    same(before, model.state_dict())  # exporting changes nothing
    ep.validate()
    reference, module = copy.deepcopy(model), ep.module()
    for _ in range(2):  # what is written counts
        same(
            module(*copy.deepcopy(args), **copy.deepcopy(kwargs)),
            reference(*copy.deepcopy(args), **copy.deepcopy(kwargs)),
        )
    same([ep.state_dict[k] for k in before], list(reference.state_dict().values()))
    for node in ep.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta["val"], torch.Tensor):
            assert node.meta["val"].is_meta or node.meta["val"].device.type == "cpu"
            assert node.meta["nn_module_stack"] and node.stack_trace


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("temporary", torch.ones(3), persistent=False)
        self.k = torch.ones(3)

    def forward(self, x, d, *, k=None, n=3):
        self.scale.add_(1)
        return self.layer(x) * self.scale + d["a"] * n + self.k + torch.tensor([1.0, 2.0, 3.0]) * self.temporary


def net():
    args = (torch.ones(2, 3), {"a": torch.ones(2, 3), "b": [torch.ones(1)]})
    return torch.export.export(Net(), args, {"k": None, "n": 4}), args


def test_the_signature_names_inputs_and_outputs():
    ep, _ = net()
    assert [(s.kind.name, s.arg.name, s.target, s.persistent) for s in ep.graph_signature.input_specs] == [
        ("PARAMETER", "p_layer_weight", "layer.weight", None), ("PARAMETER", "p_layer_bias", "layer.bias", None),
        ("BUFFER", "b_scale", "scale", True), ("BUFFER", "b_temporary", "temporary", False),
        ("CONSTANT_TENSOR", "c_k", "k", None), ("CONSTANT_TENSOR", "c_lifted_tensor_0", "lifted_tensor_0", None),
        ("USER_INPUT", "x", None, None), ("USER_INPUT", "d_a", None, None), ("USER_INPUT", "d_b_0", None, None),
        ("USER_INPUT", "k", None, None), ("USER_INPUT", "n", None, None),
    ]  # fmt: skip
    signature = ep.graph_signature
    assert (
        signature.input_specs[0].kind is InputKind.PARAMETER
        and signature.output_specs[0].kind is OutputKind.USER_OUTPUT
    )
    assert signature.user_inputs == ("x", "d_a", "d_b_0", None, 4)
    assert (signature.parameters, signature.non_persistent_buffers) == (("layer.weight", "layer.bias"), ("temporary",))
    assert list(ep.state_dict) == ["layer.weight", "layer.bias", "scale"]
    assert sorted(ep.constants) == ["k", "lifted_tensor_0", "temporary"]
    assert [name for name, _ in ep.named_buffers()] == ["scale", "temporary"]
    assert str(signature.input_specs[2]) == "b_scale: BUFFER target='scale' persistent=True"
    assert sorted(ep.module().state_dict()) == ["layer.bias", "layer.weight", "scale"]


def test_programs_print_their_graphs():
    ep, _ = net()
    text = str(ep)
    assert text.startswith(
        'ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self, p_layer_weight: "f32[3, 3]"'
    )
    assert 'linear: "f32[2, 3]" = torch.ops.aten.linear.default(x, p_layer_weight, p_layer_bias)' in text
    assert "code: self.scale.add_(1)" in text and "Range constraints: {}" in text
    node = next(n for n in ep.graph.nodes if n.name == "linear")
    assert [path for path, _ in node.meta["nn_module_stack"].values()] == ["", "layer"]
    assert [c.fqn for c in ep.module_call_graph] == ["", "layer"]


def test_operators_are_those_of_pytorch():
    class Model(nn.Module):
        def forward(self, x):
            x = x + 1
            return (
                x > 0,
                x**2,
                1 - x,
                x[:, 1:],
                x.mean(1, keepdim=True),
                x.masked_fill(x > 0, 2.0),
                x.float(),
                x.relu_() & 1 if False else x,
            )

    ep = torch.export.export(Model(), (torch.ones(2, 3),))
    assert [str(n.target) for n in ep.graph.nodes if n.op == "call_function"] == [
        "aten.add.Tensor", "aten.gt.Scalar", "aten.pow.Tensor_Scalar", "aten.rsub.Scalar", "aten.slice.Tensor", "aten.mean.dim",
        "aten.gt.Scalar", "aten.masked_fill.Scalar", "aten.to.dtype",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda a: ((torch.ones(4, 3), a[1]), {"k": None, "n": 4}), AssertionError, r"Guard failed: x.size\(\)\[0\] == 2"),
        (lambda a: (a, {"k": None, "n": 5}), AssertionError, "Guard failed: n == 4"),
        (lambda a: ((a[0], {"a": a[0]}), {"k": None, "n": 4}), ValueError, "Trying to flatten user inputs with exported input tree spec"),
        (lambda a: (a, {}), ValueError, "Ran into a kwarg keyword mismatch"),
        (lambda a: ((torch.ones(2, 3, 1), a[1]), {"k": None, "n": 4}), AssertionError, "Guard failed"),
    ],
)  # fmt: skip
def test_arguments_are_checked(change, kind, text):
    ep, args = net()
    given, named = change(args)
    with pytest.raises(kind, match=text):
        ep.module()(*given, **named)


def test_positional_arguments_may_come_by_name():
    ep, args = net()
    module = ep.module()
    first = module(*args, k=None, n=4)
    same(
        module(x=args[0], d=args[1], n=4, k=None) - first,
        torch.full((2, 3), 1.0) * (args[0] @ module.layer.weight.T + module.layer.bias),
    )


def test_what_cannot_be_exported_says_so():
    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(
        GuardOnDataDependentSymNode, match=r"Could not guard on data-dependent expression(.|\n)*if x\.sum"
    ):
        torch.export.export(Branch(), (torch.ones(2),))

    class Number(nn.Module):
        def forward(self, x):
            return torch.ones(int(x.item()))

    with pytest.raises(GuardOnDataDependentSymNode, match="data-dependent"):
        torch.export.export(Number(), (torch.tensor(2.0),))
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of"):
        torch.export.export(lambda x: x, (torch.ones(2),))
    with pytest.raises(torch._dynamo.exc.UserError, match="Expecting `args` to be a tuple"):
        torch.export.export(nn.ReLU(), torch.ones(2))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        net()[0](torch.ones(2))


def test_programs_see_that_they_are_exported():
    seen = []

    class Model(nn.Module):
        def forward(self, x):
            seen.append((torch.compiler.is_exporting(), torch.compiler.is_compiling()))
            return x + 1

    torch.export.export(Model(), (torch.ones(1),))
    assert seen == [(True, True)] and not torch.compiler.is_exporting()


def test_exported_modules_train():
    model = nn.Linear(2, 1)
    module = torch.export.export(model, (torch.ones(3, 2),)).module()
    module(torch.ones(3, 2)).sum().backward()
    same([p.grad for p in module.parameters()], [torch.full((1, 2), 3.0), torch.full((1,), 3.0)])
    with pytest.raises(NotImplementedError, match="not supported yet"):
        module.eval()


def test_arguments_of_any_number_before_those_by_name():
    class Rest(nn.Module):
        def forward(self, x, *rest, scale=1.0, **more):
            return x * scale + rest[0] + 2 * rest[1] + more["last"]

    args, named = (torch.ones(2), torch.rand(2), torch.rand(2)), {"scale": 3.0, "last": torch.rand(2)}
    ep = torch.export.export(Rest(), args, named)
    assert [s.arg.name for s in ep.graph_signature.input_specs] == ["x", "rest_0", "rest_1", "scale", "last"]
    assert torch.equal(ep.module()(*args, **named), Rest()(*args, **named))


def test_a_loss_that_looks_at_elements_is_not_exported():
    class Loss(torch.nn.Module):
        def forward(self, x, y, variance):
            return torch.nn.functional.gaussian_nll_loss(x, y, variance)

    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="data-dependent"):  # the check would be missing
        torch.export.export(Loss(), (x, x, x))


def test_buffers_that_are_assigned_are_written():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.calls, self.last = 0, torch.zeros(3)

        def forward(self, x):
            self.total = self.total + x
            self.calls += 1
            self.last = x
            return self.total * 2

    model = Running()
    before = model.total, model.last
    with pytest.warns(UserWarning, match="attribute self.last was assigned during export"):
        ep = torch.export.export(model, (torch.ones(3),))
    assert (model.total, model.last) == before and model.calls == 0
    module = ep.module()
    module(torch.ones(3))
    assert module(torch.ones(3)).tolist() == [4.0] * 3 and ep.state_dict["total"].tolist() == [2.0] * 3
    assert [s.target for s in ep.run_decompositions().graph_signature.output_specs] == ["total", None]


def test_blocks_without_gradients_give_none():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            with torch.no_grad():
                kept = (x * self.weight).exp()
            return kept + self.weight

    module = torch.export.export(Half(), (torch.ones(3),)).module()
    module(torch.ones(3)).sum().backward()
    assert module.weight.grad.tolist() == [1.0] * 3
    with torch.no_grad():
        graph = torch.export.export(Half(), (torch.ones(3),)).graph
    assert "aten.detach.default" not in [str(n.target) for n in graph.nodes]


def test_a_copied_program_keeps_the_names_of_its_inputs():
    linear = nn.Linear(2, 1)
    ep = copy.deepcopy(torch.export.export(linear, (torch.ones(3, 2),)))  # its argument is called `input`
    ep.validate()
    torch.testing.assert_close(ep.module()(torch.ones(3, 2)), linear(torch.ones(3, 2)))


def test_buffers_that_the_module_writes_into_have_no_history_after_the_export():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.zeros(4, 2))
            self.linear = nn.Linear(2, 2)

        def forward(self, x, i):
            self.rows[i] = self.linear(x)
            return self.rows.sum(0)

    model = Cache()
    ep = torch.export.export(model, (torch.ones(1, 2), torch.tensor([1])))
    assert not model.rows.requires_grad and model.rows.is_leaf and not ep.state_dict["rows"].requires_grad
    assert copy.deepcopy(ep).module()(torch.ones(1, 2), torch.tensor([2])).requires_grad


def test_arguments_may_come_as_a_named_tuple():
    Point = collections.namedtuple("Point", "x y")

    class Add(nn.Module):
        def forward(self, x, y):
            return x + y

    point = Point(torch.ones(2), torch.ones(2))
    assert torch.export.export(Add(), point).module()(*point).tolist() == [2, 2]


def test_modules_without_elements_are_exported():
    linear = nn.Linear(2, 3, device="meta")
    ep = torch.export.export(linear, (torch.ones(4, 2, device="meta"),))
    assert ep.module()(torch.ones(4, 2, device="meta")).shape == (4, 3)


def test_checks_of_arguments_are_no_dead_code():
    module = torch.export.export(nn.ReLU(), (torch.ones(2),)).module()
    assert not module.graph.eliminate_dead_code()


def test_parameters_may_be_written_without_gradients():
    class Decay(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            with torch.no_grad():
                self.linear.weight.mul_(0.5)
                largest, _ = self.linear(x).max(1)
            return self.linear(x) * largest

    model, x = Decay(), torch.randn(3, 3)
    module = torch.export.export(model, (x,)).module()
    kept = copy.deepcopy(model)
    for _ in range(2):
        got, wanted = module(x), kept(x)
        torch.testing.assert_close(got, wanted)
    got.sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(module.linear.weight.grad, kept.linear.weight.grad)


def test_lengths_may_be_multiples():
    class Rows(nn.Module):
        def forward(self, x, mask):
            return x.masked_select(mask).view(-1, 3) * 2

    x, mask = torch.randn(4, 3), torch.tensor([[True], [False], [True], [False]])
    module = torch.export.export(Rows(), (x, mask)).module()
    torch.testing.assert_close(module(x, ~mask | (mask.cumsum(0) < 2)), Rows()(x, ~mask | (mask.cumsum(0) < 2)))


def test_decomposed_programs_write_parameters():
    class Decay(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x):
            with torch.no_grad():
                self.scale.mul_(0.5)
            return x * self.scale

    module = torch.export.export(Decay(), (torch.ones(2),)).run_decompositions().module()
    assert module(torch.ones(2)).tolist() == [0.5, 0.5] and module(torch.ones(2)).tolist() == [0.25, 0.25]

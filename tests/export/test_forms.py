"""Other forms of exported programs: modules again, drafts, `torch._dynamo.export`, and what ONNX takes."""

import copy

import pytest

import flambeau as torch
from flambeau.export import Dim, FlatArgsAdapter
from flambeau.export.passes import move_to_device_pass
from flambeau.onnx._export import _of_program, _recorded
from flambeau.utils import _pytree

from .models import zoo

nn = torch.nn
ZOO = zoo(torch)


def assert_same(got, wanted):
    for a, b in zip(_pytree.tree_leaves(got), _pytree.tree_leaves(wanted), strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ZOO)
def test_modules_come_back(name):
    model, args, kwargs = copy.deepcopy(ZOO[name])
    made, reference = torch.export.unflatten(torch.export.export(model, args, kwargs)), copy.deepcopy(model)
    for _ in range(2):
        wanted = reference(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        assert_same(made(*copy.deepcopy(args), **copy.deepcopy(kwargs)), wanted)
    assert set(reference.state_dict()) <= set(made.state_dict())


def test_submodules_can_be_replaced():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x).relu()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(self.inner(x)) + 1

    made = torch.export.unflatten(torch.export.export(Outer(), (torch.ones(1, 2),)))
    assert [n.target for n in made.graph.nodes if n.op == "call_module"] == ["inner", "inner@1"]
    assert [n for n, _ in made.inner.named_children()] == ["layer"]
    with torch.no_grad():
        made.inner.layer.weight.fill_(0.0)
        made.inner.layer.bias.fill_(3.0)
    assert made(torch.ones(1, 2)).tolist() == [[4.0, 4.0]]
    with pytest.raises(AssertionError, match="Guard failed"):
        made(torch.ones(2, 2))


def test_drafts_say_what_was_given_up():
    class Fixed(nn.Module):
        def forward(self, x):
            return x + torch.ones(4, 1)

    x = torch.ones(4, 3)
    draft = torch.export.draft_export(Fixed(), (x,), dynamic_shapes=({0: Dim("n"), 1: Dim("m")},))
    assert not draft._report.successful() and "You marked n as dynamic" in str(draft._report)
    assert draft.module()(torch.ones(4, 7)).shape == (4, 7)
    assert torch.export.draft_export(Fixed(), (x,))._report.successful()


def test_functions_are_exported_by_dynamo():
    def function(x, *, scale=2.0):
        return {"y": x.relu() * scale}

    result = torch._dynamo.export(function)(torch.tensor([-1.0, 2.0]), scale=3.0)
    assert result.graph_module(torch.tensor([1.0, -1.0]), scale=3.0)["y"].tolist() == [3.0, 0.0]
    graph, guards = torch._dynamo.export(nn.Linear(2, 1))(torch.ones(3, 2))
    assert graph(torch.ones(3, 2)).shape == (3, 1) and guards == set()


def test_onnx_takes_programs():
    ep = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("n")},))
    model, args, kwargs, shapes, mode = _of_program(ep, (), None, None)
    assert shapes == {"input": {0: "s0"}}
    recording, parameters, out = _recorded(model, args, dict(kwargs), mode)
    assert [node.op for node in recording.top.nodes()] == ["linear"] and [name for name, _ in parameters] == ["input"]
    assert out.example.shape == (4, 3)


@pytest.mark.parametrize("name", ZOO)
def test_decomposed_programs_do_the_same(name):
    model, args, kwargs = copy.deepcopy(ZOO[name])
    ep = torch.export.export(model, args, kwargs).run_decompositions()
    ep.validate()
    module, reference = ep.module(), copy.deepcopy(model)
    for _ in range(2):
        wanted = reference(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        assert_same(module(*copy.deepcopy(args), **copy.deepcopy(kwargs)), wanted)
    assert_same([ep.state_dict[k] for k in reference.state_dict()], list(reference.state_dict().values()))
    names = {n.target._opname for n in ep.graph.nodes if hasattr(n.target, "_opname")}
    assert not names & {"conv2d", "batch_norm", "add_", "relu_", "transpose", "lift_fresh_copy"}


def test_writes_to_inputs_become_outputs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            x.add_(1)
            self.count += 2
            return x * self.count

    ep = torch.export.export(Model(), (torch.ones(2),)).run_decompositions()
    signature = ep.graph_signature
    assert signature.buffers_to_mutate == {"add_1": "count"} and signature.user_inputs_to_mutate == {"add": "x"}
    assert ep.dialect == "ATEN"
    x = torch.ones(2)
    assert ep.module()(x).tolist() == [4.0, 4.0] and x.tolist() == [2.0, 2.0]


def test_tables_say_what_is_taken_apart():
    aten = torch.ops.aten
    ep = torch.export.export(nn.Sequential(nn.Linear(2, 2), nn.GELU()), (torch.ones(1, 2),))
    table = torch.export.default_decompositions()
    del table[aten.linear.default]
    table[aten.gelu.default] = lambda x, approximate="none": torch.sigmoid(x * 1.702) * x
    made = ep.run_decompositions(table)
    assert [str(n.target) for n in made.graph.nodes if n.op == "call_function"] == [
        "aten.linear.default", "aten.mul.Tensor", "aten.sigmoid.default", "aten.mul.Tensor",
    ]  # fmt: skip
    torch.testing.assert_close(made.module()(torch.ones(1, 2)), ep.module()(torch.ones(1, 2)), atol=0.05, rtol=0.05)


def test_writes_to_one_of_several_views_of_an_input_are_refused():
    class Model(nn.Module):
        def forward(self, x):
            x.unbind(0)[0].add_(1)
            return x

    ep = torch.export.export(Model(), (torch.ones(2, 2),))
    assert ep.module()(torch.ones(2, 2)).tolist() == [[2.0, 2.0], [1.0, 1.0]]
    with pytest.raises(NotImplementedError, match="has no form that does not"):
        ep.run_decompositions()


def test_programs_move_to_other_devices():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.k = nn.Linear(2, 2), torch.ones(2)

        def forward(self, x):
            return self.layer(x) + self.k + torch.zeros(2)

    ep = move_to_device_pass(torch.export.export(Model(), (torch.ones(1, 2),)), {"cpu": "meta"})
    assert {t.device.type for t in (*ep.state_dict.values(), *ep.constants.values(), *ep.example_inputs[0])} == {"meta"}
    (zeros,) = [n for n in ep.graph.nodes if n.name == "zeros"]
    assert zeros.kwargs["device"].type == "meta"
    assert ep.module()(*ep.example_inputs[0]).device.type == "meta"


def test_arguments_are_adapted():
    class Flat(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return list(reversed(input_args))

    class Model(nn.Module):
        def forward(self, d):
            return d["a"] - d["b"]

    ep = torch.export.export(Model(), ({"a": torch.ones(1), "b": torch.zeros(1)},))
    assert torch.export.unflatten(ep, Flat())(torch.tensor([3.0]), torch.tensor([5.0])).tolist() == [2.0]


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, parts, *, more):
        return {"sum": parts["x"] * self.weight + more, "same": parts["x"], "pair": (more, parts["x"].shape[0])}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        out = self.inner({"x": x, "unused": x + 1}, more=x.sum())
        return out["sum"] * out["pair"][1] + self.count


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("shapes", [None, ({0: torch.export.Dim("n")},)])
def test_calls_of_submodules_keep_their_structure(decomposed, shapes):
    x, preserved = torch.ones(4, 3), ("inner",)
    ep = torch.export.export(Outer(), (x,), dynamic_shapes=shapes, preserve_module_call_signature=preserved)
    (entry,) = [c for c in ep.module_call_graph if c.fqn == "inner"]
    assert [a.name for a in entry.signature.inputs] == ["x", "add", "sum_1"]
    module = torch.export.unflatten(ep.run_decompositions() if decomposed else ep)
    x = torch.arange(12.0 if shapes is None else 6.0).reshape(-1, 3)
    wanted, reference = Outer()(x), Inner()
    assert torch.equal(module(x), wanted) and module.count == 1 and torch.equal(module(x), wanted + 1)
    got = module.inner({"x": x, "unused": x}, more=torch.tensor(3.0))
    other = reference({"x": x, "unused": x}, more=torch.tensor(3.0))
    assert list(got) == list(other) and torch.equal(got["sum"], other["sum"]) and got["pair"][1] == len(x)
    module.inner = reference
    assert torch.equal(module(x), wanted + 2)


def test_parts_with_one_result_give_it_as_it_is():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    module, x = torch.export.unflatten(torch.export.export(model, (torch.ones(1, 2),))), torch.ones(1, 2)
    assert torch.equal(getattr(module, "0")(x), model[0](x))


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"]
)
def test_ways_to_compute_distances_are_numbers(mode):
    class Distances(torch.nn.Module):
        def forward(self, x):
            return torch.cdist(x, x * 2, compute_mode=mode)

    x = torch.arange(6.0).reshape(2, 3)
    exported = torch.export.export(Distances(), (x,))
    (node,) = [n for n in exported.graph.nodes if n.target is torch.ops.aten.cdist.default]
    assert node.args[2:] in ((2.0, 1), (2.0, 2), (2.0, None), ())
    assert torch.allclose(exported.module()(x * 3), Distances()(x * 3))
    traced = torch.jit.trace(Distances(), x)
    assert torch.allclose(traced(x * 3), Distances()(x * 3)) and mode not in traced.code


def test_tensors_like_others_are_constants():
    class Shifted(torch.nn.Module):
        def forward(self, x):
            shift = x.new_tensor([1, 2, 3])
            shift[0] = x[0, 0]
            return x + shift * x.new_tensor(2)

    x = torch.arange(6.0).reshape(2, 3)
    exported = torch.export.export(Shifted(), (x,))
    for y in (x, x * 3, x):
        assert torch.equal(exported.module()(y), Shifted()(y))


def test_arguments_that_a_submodule_does_not_use_may_be_gone():
    class First(nn.Module):
        def forward(self, x, a, b):
            return x + a, b

    class Best(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = First()

        def forward(self, x, y):
            return self.first(x, *torch.topk(y, 2))[0]

    ep = torch.export.export(Best(), (torch.ones(2), torch.ones(5)), preserve_module_call_signature=("first",))
    ep.graph.eliminate_dead_code()
    y = torch.arange(5.0)
    assert torch.export.unflatten(ep)(torch.ones(2), y).tolist() == [5.0, 4.0]


def test_drafts_decide_by_the_example_what_elements_decide():
    class Branch(nn.Module):
        def forward(self, x, n):
            k = n.item()
            return x[:k] if k > 0 else x

    class Truth(nn.Module):
        def forward(self, x, n):
            return x + n if n > 0 else x

    x = torch.randn(4)
    for model in (Branch(), Truth()):
        draft = torch.export.draft_export(model, (x, torch.tensor(3)))
        assert (
            len(draft._report.failures) == 1 and draft._report.failures[0].failure_type.name == "DATA_DEPENDENT_ERROR"
        )
        assert "data-dependent expression" in str(draft._report)
        other = torch.tensor(2)
        torch.testing.assert_close(draft.module()(x, other), model(x, other))

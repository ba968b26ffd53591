"""Forward and backward graphs for compilers that programs bring: `functorch.compile`, `torch._dynamo.backends.common`."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._decomp import get_decompositions, register_decomposition
from flambeau._dynamo.backends.common import aot_autograd
from flambeau._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified, make_boxed_func, nop


def _keeping(graphs):
    def compiler(graph, examples):
        assert [e.shape for e in examples] == [
            node.meta["val"].shape for node in graph.graph.nodes if node.op == "placeholder"
        ]
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    return compiler


def _calls(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_both_passes_are_graphs_of_aten():
    forward, backward = [], []
    compiled = aot_function(lambda x, w: (torch.sin(x @ w).sum(), x * 2), _keeping(forward), _keeping(backward))
    x, w = torch.ones(2, 3), torch.ones(3, 3, requires_grad=True)
    loss, doubled = compiled(x, w)
    loss.backward()
    assert torch.allclose(w.grad, torch.full((3, 3), 2 * torch.tensor(3.0).cos().item()))
    assert doubled.tolist() == [[2.0] * 3] * 2 and not doubled.requires_grad
    assert _calls(forward[0]) == ["aten.mm.default", "aten.sin.default", "aten.sum.default", "aten.mul.Tensor"]
    names = [node.name for node in backward[0].graph.nodes if node.op == "placeholder"]
    assert names == ["primals_1", "mm", "tangents_1"]  # what the first pass keeps, then the tangents
    assert all([node.meta["tensor_meta"].shape for node in forward[0].graph.nodes if node.op == "placeholder"])
    assert _calls(backward[0])[:2] == ["aten.expand.default", "aten.cos.default"]
    with torch.no_grad():
        compiled(x, w)
    assert [node.name for node in forward[1].graph.nodes][:2] == ["arg0_1", "arg1_1"] and len(backward) == 1
    compiled(torch.ones(5, 3), w)  # other sizes, another graph
    assert len(forward) == 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.batch = nn.Linear(6, 8), nn.LayerNorm(8), nn.BatchNorm1d(8)
        self.last, self.drop = nn.Linear(8, 3), nn.Dropout(0.3)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.batch(self.norm(self.first(x))))))


def _trained(module, call, x):
    torch.manual_seed(1)
    outs = []
    for _ in range(3):
        out = call(x)
        out.square().sum().backward()
        outs.append(out.detach())
    return [*outs, *[p.grad for p in module.parameters()], *module.buffers()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        lambda module, x: aot_module(module, nop),
        lambda module, x: aot_module_simplified(module, (x,), nop),
        lambda module, x: torch.compile(module, backend=aot_autograd(fw_compiler=_keeping([]))),
    ],
)
def test_modules_train_as_they_do_eagerly(made):
    torch.manual_seed(0)
    module, x = Net(), torch.randn(5, 6)
    own = copy.deepcopy(module)
    expected = _trained(module, module, x)
    torch.testing.assert_close(_trained(own, made(own, x), x), expected)


def test_arguments_that_are_written_and_given_back():
    def stepped(x, w, factor=2, *, both=True):
        x.add_(1)
        return {"product": x * w * factor, "same": w if both else None, "number": 3}

    compiled = aot_function(stepped, nop)
    x, w = torch.zeros(2), torch.ones(2, requires_grad=True)
    for i in range(3):
        out = compiled(x, w)
        assert x.tolist() == [i + 1.0] * 2 and out["product"].tolist() == [2.0 * (i + 1)] * 2
        assert out["same"] is w and out["number"] == 3
    (out["product"].sum() + out["same"].sum()).backward()
    assert w.grad.tolist() == [7.0, 7.0]
    assert compiled(x, w, factor=3, both=False)["same"] is None


def test_backends_are_told_which_examples_need_gradients():
    seen = []

    def backend(graph, examples):
        seen.extend([e.requires_grad for e in examples])
        return graph.forward

    torch.compile(lambda x, w: x * w, backend=backend)(torch.ones(2), torch.ones(2, requires_grad=True))
    assert seen == [False, True]
    with pytest.raises(TypeError, match="fw_compiler"):
        aot_autograd()


def test_registered_decompositions_step_in():
    table, graphs = {}, []
    register_decomposition(torch.ops.aten.silu, table)(lambda x: x * x.sigmoid())
    assert torch.ops.aten.silu.default in table and get_decompositions([torch.ops.aten.mm]) == {}
    compiled = aot_function(torch.nn.functional.silu, _keeping(graphs), decompositions=table)
    assert torch.equal(compiled(torch.ones(2)), torch.nn.functional.silu(torch.ones(2)))
    assert _calls(graphs[0]) == ["aten.sigmoid.default", "aten.mul.Tensor"]

"""`jit._get_trace_graph`: graphs whose values know their sizes, in the scopes that hooks set."""

import flambeau as torch
from flambeau import _C
from flambeau.jit import _get_trace_graph


def test_sizes_constants_and_scopes():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ConvTranspose2d(4, 2, 2, stride=2), torch.nn.ReLU())

    def enter(name):
        return lambda module, args: _C._get_tracing_state().push_scope(name)

    for name, module in model.named_modules():
        module.register_forward_pre_hook(enter(name))
        module.register_forward_hook(lambda module, args, out: _C._get_tracing_state().pop_scope())
    graph, out = _get_trace_graph(model, torch.ones(1, 3, 8, 8))
    nodes = [node for node in graph.nodes() if node.kind().startswith("aten::")]
    assert [(node.kind(), node.scopeName()) for node in nodes] == [
        ("aten::_convolution", "/0"), ("aten::_convolution", "/1"), ("aten::relu", "/2"),
    ]  # fmt: skip
    for node, transposed, shape in zip(nodes, (False, True), ([1, 4, 6, 6], [1, 2, 12, 12])):
        inputs, (result,) = list(node.inputs()), node.outputs()
        assert len(inputs) == 13 and inputs[6].toIValue() is transposed
        assert result.isCompleteTensor() and result.type().sizes() == shape
        assert not inputs[6].isCompleteTensor() and inputs[3].node().kind() == "prim::ListConstruct"
    assert [value.type().sizes() for value in graph.inputs()][:3] == [[1, 3, 8, 8], [4, 3, 3, 3], [4]]
    assert str(next(graph.inputs()).type()) == (
        "Float(1, 3, 8, 8, strides=[192, 64, 8, 1], requires_grad=0, device=cpu)"
    )
    assert next(graph.outputs()).debugName() == next(nodes[-1].outputs()).debugName()
    assert torch.equal(out, out.relu()) and out.shape == (1, 2, 12, 12)
    assert isinstance(graph, _C.Graph)


def test_functions_and_equations():
    graph, out = _get_trace_graph(lambda a, b: torch.einsum("ij,jk->ik", a, b), (torch.ones(2, 3), torch.ones(3, 4)))
    (node,) = [node for node in graph.nodes() if node.kind() == "aten::einsum"]
    equation, operands = list(node.inputs())[:2]
    assert equation.toIValue() == "ij,jk->ik"
    assert [value.type().sizes() for value in operands.node().inputs()] == [[2, 3], [3, 4]]
    assert out.shape == (2, 4)

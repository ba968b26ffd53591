"""Sizes that change, found from examples or from what an error suggests; tables of decompositions."""

import pytest

import flambeau as torch
from flambeau.export import AdditionalInputs, CustomDecompTable, Dim
from flambeau.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def test_sizes_that_differ_among_examples_change():
    examples = AdditionalInputs()
    examples.add((torch.ones(3, 2), torch.ones(3, 2)))
    examples.add((torch.ones(5, 2), torch.ones(5, 2)))
    first = torch.ones(4, 2), torch.ones(4, 2)
    found = examples.dynamic_shapes(Sum(), first)
    assert found == {"x": (Dim.DYNAMIC, None), "y": (Dim.DYNAMIC, None)}
    program = torch.export.export(Sum(), first, dynamic_shapes=examples)
    examples.verify(program)
    assert program.module()(torch.ones(7, 2), torch.ones(7, 2)).shape == (7, 2)
    other = AdditionalInputs()
    other.add((torch.ones(3, 7), torch.ones(3, 7)))
    with pytest.raises(AssertionError, match="Guard failed"):
        other.verify(program)


def test_examples_that_do_not_fit_are_refused():
    examples = AdditionalInputs()
    with pytest.raises(AssertionError, match="must be a tuple"):
        examples.add(torch.ones(1))
    examples.add((torch.ones(2), 5))
    for second, said in (("a", "differing types"), (torch.ones(1), "differing types")):
        with pytest.raises(ValueError, match=said):
            examples.dynamic_shapes(Sum(), (torch.ones(2), second))
    with pytest.raises(ValueError, match="differing ranks"):
        examples.dynamic_shapes(Sum(), (torch.ones(2, 2), 5))
    assert examples.dynamic_shapes(Sum(), (torch.ones(2), 4)) == {"x": (None,), "y": Dim.DYNAMIC}


def test_suggested_fixes():
    dx, dy = Dim("dx"), Dim("dy")
    fixed = refine_dynamic_shapes_from_suggested_fixes(
        "…\nSuggested fixes:\n  dy = 2*dx + 1\n  dx = Dim('dx', max=5)\n", {"x": {0: dx}, "y": {0: dy}}
    )
    assert repr(fixed) == "{'x': {0: Dim('dx', min=0, max=5)}, 'y': {0: 2*dx + 1}}" and fixed["y"][0].max == 11
    fixed = refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\n  dx = 4\n", ({0: dx}, [2 * dx, None]))
    assert fixed == ({0: 4}, [8, None])
    with pytest.raises(torch._dynamo.exc.UserError, match="Suggested fixes not found"):
        refine_dynamic_shapes_from_suggested_fixes("nothing", {"x": {0: dx}})


def test_a_table_of_decompositions():
    silu = torch.ops.aten.silu.default
    table = CustomDecompTable()
    copied = table.copy()
    rule = copied.pop(silu)
    assert silu in table and silu not in copied and callable(rule) and type(copied) is CustomDecompTable
    assert copied.pop(silu, 3) == 3 and type(table.materialize()) is dict
    program = torch.export.export(torch.nn.SiLU(), (torch.ones(2),))
    assert silu in [node.target for node in program.run_decompositions(copied).graph.nodes]
    assert silu not in [node.target for node in program.run_decompositions(table).graph.nodes]

"""Graphs as several modules."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.fx.passes.split_module import split_module


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.p = nn.Linear(3, 3), nn.Linear(3, 3), nn.Parameter(torch.ones(3))
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.seq.register_buffer("shift", torch.full((3,), 2.0))

    def forward(self, x, y=2.0):
        z = self.a(x) + self.p
        w = z.relu() + y
        return self.b(self.seq(w) * self.seq.shift) * z + self.p, w, x


def every(count):
    seen = []

    def choose(node):
        seen.append(node)
        return (len(seen) - 1) // count

    return choose


@pytest.mark.parametrize(
    "options", [{}, {"keep_original_order": True}, {"tuple_return": True}, {"keep_original_input_name": False}]
)
@pytest.mark.parametrize("count", [1, 3, 99])
def test_parts_do_what_the_whole_does(count, options):
    model, x = Model(), torch.rand(2, 3)
    names = {}
    parts = split_module(torch.fx.symbolic_trace(model), model, every(count), names, **options)
    parts.graph.lint()
    for args in ((x,), (x, torch.rand(3))):
        assert all(map(torch.equal, parts(*args), model(*args)))
    parts(x)[0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())  # the modules are those of the whole
    assert sorted(names.values()) == ["a", "b", "seq.0", "seq.1"]


def test_names_and_order_of_parts():
    whole = torch.fx.symbolic_trace(lambda x, y: (x.sin() + 1) * (y.cos() + 2))
    home = {"sin": 5, "add": 5, "cos": 1, "add_1": 1, "mul": "last"}
    choose = lambda node: home[node.name]
    ordered = split_module(whole, whole, choose, keep_original_order=True)
    assert [name for name, _ in ordered.named_children()] == ["submod_5", "submod_1", "submod_last"]
    parts = split_module(whole, whole, choose, partition_affix="p")
    assert [name for name, _ in parts.named_children()] == ["submod_p_1", "submod_p_5", "submod_p_last"]
    assert [node.name for node in parts.submod_p_1.graph.nodes] == ["y", "cos", "add", "output"]
    kept = split_module(whole, whole, choose, keep_original_node_name=True)
    assert [node.name for node in kept.submod_1.graph.nodes] == ["y", "cos", "add_1", "output"]


def test_several_results_are_in_the_order_of_their_use():
    def whole(x):
        first = x.sin()
        second = first.cos()
        return second + 1, first

    parts = split_module(torch.fx.symbolic_trace(whole), None, lambda node: int(node.name == "add"))
    assert "return (cos, sin)" in parts.submod_0.code
    assert all(map(torch.equal, parts(torch.ones(2)), whole(torch.ones(2))))


def test_parts_that_need_each_other_are_refused():
    whole = torch.fx.symbolic_trace(lambda x: x.sin().cos().tan())
    for options in ({}, {"keep_original_order": True}):
        with pytest.raises(RuntimeError, match="cycle exists between partitions"):
            split_module(whole, whole, lambda node: int(node.name == "cos"), **options)

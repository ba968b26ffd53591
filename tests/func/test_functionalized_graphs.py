"""Graphs of functionalized functions: they have no writes, but compute what the function does, and write to its inputs at the end."""

import random

import pytest

import flambeau as torch
from flambeau.func import functionalize
from flambeau.fx.experimental.proxy_tensor import make_fx


def layer(x, w):
    return torch.nn.functional.linear(x, w).relu_()


def row(x, w):
    y = x @ w
    y.add_(1)
    y[0].mul_(2)
    return y


def inputs(x, w):
    y = x.view(-1)
    y.mul_(3)
    x.t()[1:].zero_()
    return x + w, y


def older_views(x, w):
    y = x * 1
    part, turned, same = y[:, 1], y.t(), y.detach()
    y.copy_(w)
    part.add_(5)
    turned[0].sub_(same[1])
    return part * 2, turned, same, y


def other_dtypes(x, w):
    y = x.half()
    y.add_(w)
    y.masked_fill_(w > 1.5, 7)
    return y * 2


def many(x, w):
    y = x.clone()
    a, b = y.split(1)
    b.add_(a)
    a.expand(2, 2).sum()
    y.unsqueeze(0).squeeze(0).diagonal().fill_(4)
    y.permute(1, 0)[0].exp_()
    return y, a, b


def operators(made):
    return [n.target for n in made.graph.nodes if n.op == "call_function" and hasattr(n.target, "_schema")]


def written(made):
    return [t for t in operators(made) if t._schema.is_mutable]


def compare(function, remove="mutations"):
    x, w = torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([[2.0, 0.5], [-1.0, 1.0]])
    made = make_fx(functionalize(function, remove=remove))(torch.ones(2, 2), torch.ones(2, 2))
    mine, theirs = (x.clone(), w.clone()), (x.clone(), w.clone())
    found, expected = made(*mine), function(*theirs)
    if isinstance(expected, torch.Tensor):
        found, expected = (found,), (expected,)
    for a, b in zip((*found, *mine), (*expected, *theirs), strict=True):
        assert a.dtype is b.dtype and torch.equal(a, b)
    return made


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("function", [layer, row, inputs, older_views, other_dtypes])
def test_graphs_have_no_writes(function, remove):
    made = compare(function, remove)
    copies = [torch.ops.aten.copy_.default] if function is inputs else []
    assert written(made) == copies
    if remove == "mutations_and_views":
        views = (torch.ops.aten.t.default, torch.ops.aten.view.default, torch.ops.aten.select.int)
        assert not set(operators(made)) & set(views)


def test_what_has_no_other_form_is_written_to_a_copy():
    compare(many)


def test_layers_are_what_they_are_without_writes():
    made = make_fx(functionalize(layer))(torch.ones(2, 2), torch.ones(2, 2))
    assert [t._opname for t in operators(made)] == ["t", "mm", "relu"]
    twice = make_fx(lambda x, w: (functionalize(layer)(x, w), x.add_(1)))(torch.ones(2, 2), torch.ones(2, 2))
    assert [t._opname for t in operators(twice)] == ["t", "mm", "relu", "add_"]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    steps = random.Random(seed)
    kinds = [steps.randrange(8) for _ in range(8)]
    picks = [steps.random() for _ in range(16)]

    def program(x, w):
        y = x * 1
        known = [x, y]
        for i, kind in enumerate(kinds):
            a, b = (known[int(picks[2 * i + j] * len(known))] for j in range(2))
            if kind == 0:
                known.append(a.t() if a.dim() == 2 else a[:1])
            elif kind == 1:
                known.append(a[1] if a.dim() == 2 else a.unsqueeze(0))
            elif kind == 2:
                known.append(a[..., 1:])
            elif kind == 3:
                a.add_(1)
            elif kind == 4:
                a.mul_(b.sum())
            elif kind == 5:
                known.append(a * 2)
            elif kind == 6:
                a.copy_(w[0, 0])
            else:
                known.append(a.sin() if a.dim() == 2 else a.view(-1))
        return tuple(known)

    assert set(written(compare(program))) <= {torch.ops.aten.copy_.default}

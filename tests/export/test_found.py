"""Numbers that elements decide: lengths of results, numbers that are read, what programs state of them and ask about them."""

import io

import pytest

import flambeau as torch
from flambeau.export import Dim, export
from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from flambeau.utils import _pytree

nn = torch.nn


def module(function):
    class Program(nn.Module):
        def forward(self, *args):
            return function(*args)

    return Program()


def checked_number(x):
    n = x.item()
    torch._check(n >= 2)
    torch._check(n <= 8)
    return torch.zeros(n) + 1


def masks(x):
    z, m = x.clone(), x > 0
    z[m] = x[m] * 2
    return z, x[m].shape[0] * 2, x.masked_select(m).sum()


def places(x):
    i = torch.nonzero(x > 0, as_tuple=True)[0]
    y = torch.nonzero(x)
    return x.index_select(0, i), torch.cat([x, x[i]]), torch.arange(y.shape[0]), y.view(y.shape[0], 1).expand(-1, 3)


def kinds(x):
    return torch.unique(x, return_inverse=True, return_counts=True)


def repeats(x, r):
    return torch.repeat_interleave(x, r, dim=0), torch.bincount(r), torch.where(x > 0), torch.argwhere(x)


def parts(x, lengths):
    sizes = lengths.tolist()
    for n in sizes:
        torch._check_is_size(n)
    return torch.split(x, sizes)


def limited(x, n):
    k = n.item()
    torch._check(k > 0)
    torch._check(k <= x.shape[0])
    values, i = torch.topk(x, k)
    return values * k, x[i], x[:k], torch.full((k, 2), 7.0), k + 1


def cut(x, n):
    y = x[: n.item()]  # as long as x is, if the number is larger
    return y, torch.zeros(y.shape[0])


def scaled(x):
    largest = x.max().item()
    return x / largest + 2 * largest, largest


def implied(x):
    n = x.sum().item()
    torch._check(n > 2)
    y = x[x > 0]
    return (y + 1 if y.shape[0] >= 0 else y), (x + 1 if n > 1 else x)


def masked_loss(x, classes):
    chosen = classes != -1  # two lengths, which are always equal
    return nn.functional.cross_entropy(x.view(-1, 2)[chosen], classes[chosen]), chosen.sum()


def clamped(x):
    largest = x.abs().max().item()
    return (x * 2).clamp(-largest, largest)


F, I = torch.tensor([1.0, 0.0, 2.0, -1.0]), torch.tensor
RUN = {
    "checked_number": (checked_number, (I(4),), (I(7),)),
    "masks": (masks, (F,), (-F.abs(),)),
    "places": (places, (F,), (torch.zeros(4),)),
    "kinds": (kinds, (F,), (torch.ones(4),)),
    "repeats": (repeats, (F.view(2, 2), I([1, 3])), (torch.zeros(2, 2), I([0, 0]))),
    "parts": (parts, (torch.arange(6.0), I([1, 3, 2])), (torch.arange(6.0), I([0, 0, 6]))),
    "limited": (limited, (torch.arange(6.0), I(3)), (torch.arange(6.0), I(1))),
    "cut": (cut, (torch.arange(6.0), I(3)), (torch.arange(6.0), I(10))),
    "scaled": (scaled, (F,), (F * 10,)),
    "masked_loss": (masked_loss, (torch.rand(4, 2), I([0, -1, 1, 1])), (torch.rand(4, 2), I([-1, -1, -1, 0]))),
    "clamped": (clamped, (F,), (F * 10,)),
    "implied": (implied, (I([1, 2]),), (I([0, 7]),)),
}


@pytest.mark.parametrize("name", RUN)
def test_programs_follow_elements(name):
    function, first, other = RUN[name]
    ep = export(module(function), first)
    ep.validate()
    held = io.BytesIO()
    torch.export.save(ep, held)
    read = torch.export.load(held)
    for program in (ep, read, ep.run_decompositions()):
        run = program.module()
        for args in (first, other):
            got, wanted = _pytree.tree_leaves(run(*args)), _pytree.tree_leaves(function(*args))
            assert [getattr(t, "shape", t) for t in got] == [getattr(t, "shape", t) for t in wanted]
            for a, b in zip(got, wanted):
                torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))


def test_graphs_hold_what_is_found_and_what_is_stated():
    ep = export(module(checked_number), (I(4),))
    targets = [str(n.target) for n in ep.graph.nodes if n.op == "call_function"]
    assert targets[0] == "aten.item.default" and targets.count("aten._assert_scalar.default") == 2
    (size,) = next(n for n in ep.graph.nodes if str(n.target) == "aten.zeros.default").meta["val"].shape
    assert str(size) == "u0"
    assert {str(k): tuple(r) for k, r in ep.range_constraints.items()} == {"u0": (2, 8)}
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 <= 8"):
        ep.module()(I(9))


def test_sizes_of_arguments_change_besides():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            y = self.layer(x[x.sum(1) > 0])
            return y.softmax(-1), y.shape[0] + x.shape[0]

    model = Rows()
    ep = export(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: Dim("n", max=64)}})
    for x in (torch.randn(9, 4), torch.ones(3, 4), -torch.ones(4, 4)):
        got, wanted = ep.module()(x), model(x)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1]


def branch(x):
    n = x.sum().item()
    return x + 1 if n > 3 else x


def far_branch(x):
    n = x.sum().item()
    return x + 1 if n > 1000 else x


def empty_branch(x):
    y = x[x > 0]
    return x.sum() if y.numel() == 0 else y.sum()


def loop(x):
    for i in range(x.sum().item()):
        x = x + i
    return x


def read_float(x):
    return x + (1 if (x * 1.0).sum().item() > 3.0 else 2)


def whole(x):
    return torch.ones(int(x.sum().item()))


def table(x):
    return x + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10][x.sum().item()]


@pytest.mark.parametrize("function", [branch, far_branch, empty_branch, loop, read_float, whole, table])
def test_one_way_through_a_program_is_not_taken_for_all(function):
    with pytest.raises(GuardOnDataDependentSymNode, match="data-dependent expression"):
        export(module(function), (I([1, 2]),))


def test_wrong_statements_raise_as_in_eager_runs():
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        export(module(checked_number), (I(1),))


def test_assertions_of_graphs():
    """Operators that graphs of PyTorch's export hold."""
    aten = torch.ops.aten
    aten._assert_async(torch.tensor(1))
    with pytest.raises(RuntimeError, match="single nonzero value"):
        aten._assert_async(torch.tensor(0))
    with pytest.raises(RuntimeError, match="why"):
        aten._assert_async.msg(torch.tensor(False), "why")
    aten.sym_constrain_range_for_size(5, min=1, max=9)
    with pytest.raises(RuntimeError, match="Invalid value range for 5"):
        aten.sym_constrain_range(5, min=7, max=9)
    with pytest.raises(RuntimeError, match="greater than 2"):
        aten.sym_constrain_range_for_size(5, max=1)


NUMBERS = {
    "arange": (lambda n, x: torch.arange(n), 3, 5),
    "zeros": (lambda n, x: torch.zeros(n, 2), 3, 5),
    "full": (lambda n, x: torch.full((2, 2), fill_value=n), 1.0, 3.0),
    "new_full": (lambda n, x: x.new_full((2,), n), 1.0, 3.0),
    "repeat": (lambda n, x: x.repeat(n, 1), 3, 2),
    "slice": (lambda n, x: x[:n, 1:], 3, 5),
    "alpha": (lambda n, x: torch.add(x, x, alpha=n), 2.0, 3.0),
    "literal": (lambda n, x: torch.tensor([n, n]), 2.0, 3.0),
    "literal_of_numbers": (lambda n, x: torch.tensor([[n.item()], [2.0]], dtype=torch.float64), 2.0, 3.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_in_the_place_of_numbers_are_read(name):
    class Model(nn.Module):
        def forward(self, n, x):
            return NUMBERS[name][0](n, x)

    x, (_, first, other) = torch.randn(6, 3), NUMBERS[name]
    module = export(Model(), (torch.tensor(first), x)).module()
    for n in (first, other):
        torch.testing.assert_close(module(torch.tensor(n), x), Model()(torch.tensor(n), x))

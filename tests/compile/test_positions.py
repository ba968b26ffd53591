"""Positions that tensors hold (`x[i]`, `x.select(0, i)`, `x[i.item()]`) are parts of programs; whole numbers that decide about shapes are expected."""

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile.steps import Call
from flambeau._dynamo.exc import Unsupported


def written(x, i):
    y = x * 1
    y[i] += 5.0
    y[i - 1, 1:] = y[i, :-1].clone()
    return y * 2


def aliased(x, i):
    y = x * 3
    z = y[i]
    i = i + 1  # another tensor
    y.mul_(2)
    return z + y.sum() + y[i - 2]


def swapped(x, i):
    y = x * 1
    y[i], y[i - 1] = y[i - 1].clone(), y[i].clone()
    return y


FORMS = {
    "row": lambda x, i: x[i] * 2,
    "itself": lambda x, i: x[i],
    "column": lambda x, i: x[:, i].exp(),
    "dots": lambda x, i: x[..., i],
    "part": lambda x, i: x[i, 1:] * x[None, i, :-1],
    "element": lambda x, i: x[i, i] * x[i][i - 1],
    "select": lambda x, i: x.select(1, i).exp() + torch.select(x, dim=0, index=i).sum(),
    "narrow": lambda x, i: x.narrow(1, i, 1).exp(),
    "computed": lambda x, i: x[i * 2 - i] * x[x[:, 0].argmax()],
    "item": lambda x, i: x[i.item()] * x[i.item() - 1, 2:3],
    "computed item": lambda x, i: x[(i + 1).item() - 1].exp(),
    "select item": lambda x, i: x.select(0, i.item()) * x.narrow(1, i.item(), 1).sum(),
    "list": lambda x, i: x[i, [0, 1]].exp(),
    "written": written,
    "aliased": aliased,
    "swapped": swapped,
}


@pytest.mark.parametrize("history", ["none", "leaf", "made"])
@pytest.mark.parametrize("name", FORMS)
def test_one_program_is_right_for_all_positions(name, history):
    function = FORMS[name]
    compiled = torch.compile(function, fullgraph=True)
    for i in (1, 2, 0, 3, -1, -2):
        found = []
        for call in (compiled, function):
            leaf = torch.arange(16.0).reshape(4, 4).requires_grad_(history != "none")
            x = leaf * 1 if history == "made" else leaf
            out = call(x, torch.tensor(i))
            if out.requires_grad:
                (out * out).sum().backward()
            found.append([out, x, leaf.grad if history != "none" else x])
        assert all([torch.equal(a, b) for a, b in zip(*found)]), i
    assert len(compiled._region.entries) == 1


@pytest.mark.parametrize("i", [4, -5])
@pytest.mark.parametrize("name", ["row", "column", "element", "select", "narrow", "item", "written"])
def test_wrong_positions_are_errors_as_eagerly(name, i):
    function = FORMS[name]
    compiled, x = torch.compile(function, fullgraph=True), torch.ones(4, 4)
    for good in (1, 2, 0):
        compiled(x, torch.tensor(good))
    errors = []
    for call in (function, compiled):
        with pytest.raises((IndexError, RuntimeError)) as error:
            call(x, torch.tensor(i))
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]
    assert torch.equal(compiled(x, torch.tensor(3)), function(x, torch.tensor(3)))


def test_rows_are_read_without_python():
    compiled = torch.compile(FORMS["row"])
    x = torch.arange(16.0).reshape(4, 4).requires_grad_()
    for i in (0, 1, 2):
        compiled(x, torch.tensor(i)).sum().backward()
    program = compiled._region.entries[0].program
    both = program.forward_program, program.backward_program
    assert not [part for p in both for part in p._lowered.parts if isinstance(part, Call)]


def test_what_is_returned_is_a_view_of_the_argument():
    compiled = torch.compile(lambda x, i: x[i], fullgraph=True)
    for i in (0, 1, 2, 1):
        x = torch.zeros(3, 2)
        compiled(x, torch.tensor(i)).fill_(5)
        assert x[i].tolist() == [5.0, 5.0] and x.sum() == 10
    leaf = torch.zeros(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        compiled(leaf, torch.tensor(1)).fill_(5)


def test_writes_through_a_part_stay_in_order_with_those_of_the_whole():
    def many(x, i):
        y = x * 1
        first = y * 3
        row = y[i]
        second = y * 5
        row += 1
        return first + second + (y + 1)

    compiled = torch.compile(many)
    for i in (1, 0, 2, 1):
        x = torch.arange(3.0 * 10000).reshape(3, 10000)
        assert torch.equal(compiled(x, torch.tensor(i)), many(x, torch.tensor(i)))


def test_a_whole_step_with_a_row_of_a_table():
    def made():
        torch.manual_seed(0)
        table, head = nn.Parameter(torch.randn(5, 8)), nn.Linear(8, 3)
        optimizer = torch.optim.Adam([table, *head.parameters()], lr=0.1)

        def step(i, target):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(table[i])[None], target)
            loss.backward()
            optimizer.step()
            return loss

        return step, table

    (one, first), (other, second) = made(), made()
    compiled = torch.compile(one, fullgraph=True)
    for i in (0, 1, 4, -1, 2, 0):
        target = torch.tensor([i % 3])
        assert torch.equal(compiled(torch.tensor(i), target), other(torch.tensor(i), target))
    assert torch.equal(first, second)
    assert len(compiled._region.entries) == 1


def test_a_count_is_a_position():
    class Cursor:
        def __init__(self):
            self.at = 0

    cursor = Cursor()

    @torch.compile(fullgraph=True)
    def following(x):
        cursor.at += 1
        return x[cursor.at - 1] * 2

    x = torch.arange(8.0)
    assert [following(x).item() for _ in range(8)] == [2.0 * i for i in range(8)]
    assert len(following._region.entries) == 1


@pytest.mark.parametrize(
    "sized",
    [
        lambda x, i: x[i:] * 2,
        lambda x, i: x[: i + 1].sum(0),
        lambda x, i: x[i : i + 2],
        lambda x, i: x[i.item() :].exp(),
        lambda x, i: x.narrow(0, 0, i.item()),
        lambda x, i: torch.zeros((i + 1).item()) + x[0, 0],
        lambda x, i: [x, x * 2, x * 3][i],
        lambda x, i: sum([x * k for k in range(i.item() + 1)]),
        lambda x, i: x * 2 if i.item() > 1 else x * 3,
        lambda x, i: x.roll(int(i), 0),
    ],
)
def test_whole_numbers_that_decide_about_shapes_are_a_program_each(sized):
    compiled = torch.compile(sized, fullgraph=True)
    for i in (1, 2, 0, 1, 2, 0, 1):
        x = torch.arange(12.0).reshape(4, 3) * (i + 1)
        assert torch.equal(compiled(x, torch.tensor(i)), sized(x, torch.tensor(i)))
    assert len(compiled._region.entries) in (2, 3)


def test_sizes_that_are_others_in_each_call_are_not_recorded_without_end():
    recorded = 0

    def cut(x, n):
        nonlocal recorded
        recorded += torch.compiler.is_compiling()
        return (x[: n.item()] * 2).sum()

    compiled, x = torch.compile(cut, fullgraph=True), torch.arange(40.0)
    for n in range(1, 40):
        assert compiled(x, torch.tensor(n)) == cut(x, torch.tensor(n))
    assert recorded <= 12


def test_branches_on_elements_are_refused_with_fullgraph():
    x = torch.ones(3)
    for branch in (lambda x: x * 2 if x.sum() > 0 else x, lambda x: x * 2 if x.sum().item() > 0 else x):
        with pytest.raises(Unsupported):
            torch.compile(branch, fullgraph=True)(x)


def test_backends_get_the_position_as_a_number():
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x, i: x[i] * x.narrow(0, i, 1).sum(), backend=backend, fullgraph=True)
    for i in (0, 1, -1):
        x = torch.arange(6.0).reshape(3, 2).requires_grad_()
        out = compiled(x, torch.tensor(i))
        out.sum().backward()
        other = x.detach().clone().requires_grad_()
        (other[i] * other[i].sum()).sum().backward()
        assert torch.equal(x.grad, other.grad)
    (graph,) = graphs
    names = [str(node.target) for node in graph.graph.nodes]
    assert "aten.select.int" in names and "aten._local_scalar_dense.default" in names


def test_positions_of_other_dtypes_and_devices_of_numbers():
    compiled = torch.compile(lambda x, i: x[i] + 1, fullgraph=True)
    x = torch.arange(4.0)
    for dtype in (torch.int32, torch.int16, torch.int64):
        assert compiled(x, torch.tensor(2, dtype=dtype)).item() == 3
    with pytest.raises(IndexError):
        compiled(x, torch.tensor(2.0))
    assert compiled(x, np.int64(1)).item() == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: torch.vmap(lambda row: row[i] * row.sum())(x),
        lambda x, i: torch.vmap(lambda row: row.narrow(0, i, 1))(x),
        lambda x, i: torch.func.jvp(lambda z: z[i] * 2, (x,), (x,))[1],
        lambda x, i: torch.func.hessian(lambda z: (z[i] ** 3).sum())(x),
        lambda x, i: torch.func.jacfwd(lambda z: z[i].sum())(x),
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_positions_inside_of_transforms(function, grad):
    compiled = torch.compile(function, fullgraph=True)
    for i in (1, 2, 0, -1):
        found = []
        for call in (compiled, function):
            x = torch.arange(9.0).reshape(3, 3).requires_grad_(grad)
            out = call(x, torch.tensor(i))
            if out.requires_grad:
                out.sum().backward()
            found.append([out, x.grad if grad else x])
        assert all([(a is None and b is None) or torch.equal(a, b) for a, b in zip(*found)])
    assert len(compiled._region.entries) == 1


def test_numbers_written_beside_lists_of_positions_have_a_history():
    def write(x, i):
        y = x.clone()
        y[[0, 1]] = 3.0
        y[i, torch.tensor([0, 1])] = 4.0
        y[[0, 2], i] += 5
        return y * x[i, [1, 0, 2]]

    compiled = torch.compile(write, fullgraph=True)
    for i in (1, 2, 0, -1):
        found = []
        for call in (compiled, write):
            x = torch.arange(9.0).reshape(3, 3).requires_grad_()
            out = call(x, torch.tensor(i))
            (out * out).sum().backward()
            found.append([out, x.grad])
        assert all([torch.equal(a, b) for a, b in zip(*found)])
    assert len(compiled._region.entries) == 1

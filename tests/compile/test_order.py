"""Operations that wait until their results are needed, and values that are written over as a whole."""

from itertools import pairwise

import pytest
from program_reference import agrees, captured

import flambeau as torch
from flambeau._compile.order import delayed
from flambeau._compile.overwritten import without_copies
from flambeau._compile.program import Program
from flambeau.compiler._region import Region

torch.manual_seed(0)


def names(graph):
    return [node.name for node in graph.nodes]


def make(*shapes):
    def made(seed):
        torch.manual_seed(seed)
        return [torch.randn(*shape) for shape in shapes]

    return made


# -- order ---------------------------------------------------------------------------------------------------------------


def test_what_makes_much_of_little_waits():
    def function(a, b):
        large = a.T @ a  # 1 x 200: 200 x 200
        return (b @ b).cumsum(0), large

    program = agrees(function, make((1, 200), (200, 200)))
    assert names(program.graph)[-1] == "mm" and names(captured(function, make((1, 200), (200, 200))(0)))[1] == "mm"


def test_what_makes_little_of_much_does_not_wait():
    def function(a, b):
        c = a.cumsum(0)
        small = c.T @ c  # of 2000 x 20, which nobody needs any more
        return (b @ b).cumsum(0), small

    given = make((2000, 20), (200, 200))
    program = agrees(function, given)
    assert names(program.graph) == names(captured(function, given(0)))


@pytest.mark.parametrize("width, joined", [(256, 2), (64, 0)])
def test_what_is_made_again_waits_for_its_derivative_if_that_needs_little_memory(width, joined):
    """In the backward pass the gradient of a weight needs the activation before the gradient of what that was made of."""
    wide = torch.nn.Sequential(
        *[
            torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.GELU(), torch.nn.Linear(width, 64))
            for _ in range(2)
        ]
    )
    x = torch.randn(128, 64)
    expected = torch.autograd.grad(wide(x).square().sum(), list(wide.parameters()))
    region = Region(lambda: wide(x).square().sum())
    for _ in range(4):
        wide.zero_grad()
        region().backward()
    for p, g in zip(wide.parameters(), expected):
        assert torch.equal(p.grad, g)
    order = names(region.entries[0].program.backward_program.graph)
    assert sum(pair == ("gelu", "gelu_backward_x") for pair in pairwise(order)) == joined


def test_dropout_follows_its_activation():
    """Its random numbers are drawn before, as many as eagerly and in the same order."""
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Dropout(0.3)) for _ in range(2)]
    )
    x = torch.randn(256, 64)
    region, runs = Region(lambda x: (model(x), torch.rand(3))), []
    for function in (lambda x: (model(x), torch.rand(3)), region, region, region):
        torch.manual_seed(3)
        runs.append([torch.cat(function(x)[:1]), torch.rand(2)])
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))
    order = [name for name in names(region.entries[0].program.forward_program.graph) if "view" not in name]
    assert sum(pair == ("gelu", "dropout_masked") for pair in pairwise(order)) == 2


def test_what_is_kept_anyway_costs_nothing():
    """Two operands that die together with another operation are paid for once."""

    def function(a, b):
        c = a.cumsum(0)
        one = c @ c  # waits for the sake of its result, as the arguments stay
        return (b @ b).cumsum(0), one, c

    program = agrees(function, make((200, 200), (200, 200)))
    assert names(program.graph)[-1] == "mm"


@pytest.mark.parametrize("change", ["operand", "view of it"])
def test_nothing_waits_past_a_change_of_what_it_reads(change):
    def function(a, b):
        large = a.T @ a
        (a if change == "operand" else a[:, :100]).add_(1)
        return (b @ b).cumsum(0), large

    program = agrees(function, make((1, 200), (200, 200)))
    nodes = names(program.graph)
    assert nodes.index("mm") < nodes.index("write")


def test_nothing_waits_past_a_change_of_what_lasts():
    """An error comes before what the program changes."""

    def function(table, index, total):
        found = torch.nn.functional.embedding(index, table)
        total.add_(1)
        return total * 2, found

    table, index, total = torch.randn(10, 400), torch.randint(0, 10, (50,)), torch.zeros(3)
    program = Program(captured(function, [table, index, total]))
    for _ in range(2):
        program.run([table, index, total])
    before = total.clone()
    with pytest.raises(IndexError):
        program.run([table, index + 5, total])
    assert torch.equal(total, before)


@pytest.mark.parametrize("watched", [False, True])
def test_gradients_of_large_weights_come_last(watched):
    """Also where leaves get gradients one by one, because some leaf has had a hook: it shows in none of these."""
    if watched:
        torch.zeros(1, requires_grad=True).register_post_accumulate_grad_hook(lambda p: None)
    layers = torch.nn.Sequential(*[torch.nn.Linear(300, 300) for _ in range(3)])
    optimizer, x = torch.optim.SGD(layers.parameters(), lr=0.1), torch.randn(4, 300)

    def step():
        optimizer.zero_grad()
        layers(x).square().mean().backward()
        optimizer.step()

    region = Region(step)
    for _ in range(3):
        region()
    program = region.entries[0].program.forward_program
    nodes = [n for n in names(program.graph) if n in ("mm", "mul", "accumulate")]
    assert nodes[nodes.index("accumulate") - 3 : nodes.index("accumulate")] == ["mm"] * 3
    assert "mm" not in nodes[nodes.index("accumulate") :]
    assert program._lowered.arena < 300 * 300 * 4  # what else there is lies in the gradients


# -- values that are written over ----------------------------------------------------------------------------------------


def written(function, *shapes):
    program = agrees(function, make(*shapes))
    return names(program.graph).count("write")


def test_a_value_that_is_written_over_is_not_copied():
    def function(x):
        y = x @ x
        y.relu_()
        z = y @ x
        y.mul_(2)
        return z + y.view(-1).view(20, 20)

    assert written(function, (20, 20)) == 0


def test_a_view_sees_what_is_written_later():
    def function(x):
        y = x @ x
        seen = y[0]
        y.relu_()
        return seen + 1

    assert written(function, (20, 20)) == 1


def test_a_part_is_written():
    def function(x):
        y = x @ x
        y.relu_()
        y[0].mul_(2)
        return y + 1

    assert written(function, (20, 20)) == 2


def test_what_is_written_may_change_later():
    def function(x):
        y, z = x @ x, x.T @ x
        y.copy_(z)
        z.mul_(3)
        return y + z

    assert written(function, (20, 20)) >= 1


def test_arguments_and_results_are_written():
    def function(x):
        y = x @ x
        y.relu_()
        x.mul_(2)
        return y

    assert written(function, (20, 20)) == 2


def test_a_value_is_exchanged_with_itself():
    def function(x):
        y, z = x @ x, x.T @ x
        old = y.clone()
        y.copy_(z)
        z.copy_(old)
        return y - 2 * z

    written(function, (20, 20))


def test_programs_without_writes_stay():
    graph = captured(lambda x: x + 1, [torch.randn(3)])
    assert without_copies(graph) == {} and delayed(graph) is graph

"""Branches, loops and scans as functions."""

import pytest

import flambeau as torch
from flambeau._higher_order_ops import associative_scan, cond, map, scan, while_loop


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_the_running_sum(count, dim, reverse):
    x = torch.randn(count, 3, count, dtype=torch.float64)
    want = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    assert torch.allclose(associative_scan(torch.add, x, dim, reverse), want)


def test_associative_scan_of_a_linear_recurrence_has_gradients():
    a = torch.rand(7, dtype=torch.float64, requires_grad=True)
    b = torch.rand(7, dtype=torch.float64, requires_grad=True)
    made = associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), 0, combine_mode="generic")[1]
    h, want = torch.zeros((), dtype=torch.float64), []
    for i in range(7):
        h = a[i] * h + b[i]
        want.append(h)
    want = torch.stack(want)
    assert torch.allclose(made, want)
    for one, other in zip(torch.autograd.grad(made.sum(), (a, b)), torch.autograd.grad(want.sum(), (a, b))):
        assert torch.allclose(one, other)


def test_branches_and_loops():
    x = torch.tensor([1.0, 2.0])
    assert cond(x.sum() > 2, torch.exp, torch.neg, (x,)).equal(x.exp())
    assert cond(False, torch.exp, torch.neg, (x,)).equal(-x)
    with pytest.raises(RuntimeError):
        cond(x > 1, torch.exp, torch.neg, (x,))
    assert while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))[1].equal(x * 8)
    carry, outs = scan(lambda c, v: (c + v, c * v), torch.zeros(2), torch.arange(6.0).view(3, 2), reverse=True)
    assert carry.tolist() == [6.0, 9.0] and outs.tolist() == [[0.0, 8.0], [8.0, 15.0], [0.0, 0.0]]
    assert map(lambda v, y: v + y, torch.eye(2), x).equal(torch.eye(2) + x)


class _Either(torch.nn.Module):
    def __init__(self, true, false):
        super().__init__()
        self.layer, self.true, self.false = torch.nn.Linear(2, 2), true, false

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.true(self.layer(x)), self.false, (x,))


def test_a_condition_is_exported_with_both_branches():
    module = _Either(lambda x: {"a": x.exp(), "b": (x, 3)}, lambda x: {"a": x.neg(), "b": (x * 2, 3)})
    exported = torch.export.export(module, (torch.ones(2),)).module()
    for x in (torch.ones(2), -torch.ones(2)):
        got, wanted = exported(x), module(x)
        assert got["a"].equal(wanted["a"]) and got["b"][0].equal(wanted["b"][0]) and got["b"][1] == 3


@pytest.mark.parametrize("false", [lambda x: x.neg_(), lambda x: x[:1], lambda x: (x, x), lambda x: x.double()])
def test_branches_of_an_exported_condition_must_be_alike_and_write_nothing(false):
    with pytest.raises(RuntimeError, match="cond"):
        torch.export.export(_Either(lambda x: x, false), (torch.ones(2),))


def test_samples_of_a_batch_take_their_own_branches():
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: (x.sin(), x.sum()), lambda x: (x.cos() * 2, x.mean()), (x,))

    rows = torch.arange(12.0).view(4, 3) - 5
    for dim in (0, 1):
        wanted = [torch.stack(parts) for parts in zip(*[branch(row) for row in rows.unbind(dim)])]
        for made, want in zip(torch.vmap(branch, dim)(rows), wanted, strict=True):
            assert torch.equal(made, want)
    loss = lambda x: branch(x)[0].sum()
    wanted = torch.stack([torch.func.grad(loss)(row) for row in rows])
    assert torch.equal(torch.vmap(torch.func.grad(loss))(rows), wanted)
    single = torch.vmap(torch.vmap(lambda x: torch.cond(x > 0, lambda x: x + 1, lambda x: x * 10, (x,))))
    assert torch.equal(single(rows), torch.where(rows > 0, rows + 1, rows * 10))


def test_modules_are_where_pytorch_has_them():
    from flambeau import _higher_order_ops as package
    from flambeau._higher_order_ops.scan import scan
    from flambeau._higher_order_ops.while_loop import while_loop

    assert package.scan is scan and package.while_loop is while_loop


def test_scan_stacks_along_the_dimension_that_it_goes_along():
    x = torch.arange(6.0).reshape(2, 3)
    for dim in (1, -1):
        assert torch.equal(scan(lambda c, v: (c + v, c + v), torch.zeros(2), x, dim=dim)[1], x.cumsum(1))
    assert scan(lambda c, v: (c, v.sum()), torch.zeros(2), x, dim=1)[1].shape == (3,)


def test_functorch_names_branches_and_maps():
    from flambeau.compat.functorch.experimental import control_flow

    assert control_flow.cond is cond and control_flow.map is map


X, INIT = torch.ones(3, 2), torch.zeros(2)
ADD = lambda c, x: (c + x, c * x)
MISTAKES = {
    "an initial value that is no tensor": (lambda: scan(ADD, 1.0, X), "All init leaves must be a Tensor but got 1.0"),
    "no initial value": (lambda: scan(ADD, [], X), "requires init leaves"),
    "another shape": (lambda: scan(ADD, torch.zeros(1), X), "init and carry to have same metadata"),
    "another dtype": (lambda: scan(ADD, torch.zeros(2, dtype=torch.int64), X), "init and carry to have same metadata"),
    "another structure": (lambda: scan(lambda c, x: ([c + x], c), INIT, X), "init and carry to have same"),
    "more is carried on": (lambda: scan(lambda c, x: ((c[0], x), x), (INIT,), X), "same number of outputs"),
    "a number as an output": (lambda: scan(lambda c, x: (c + x, 0.0), INIT, X), "All output leaves must be a Tensor"),
    "one result": (lambda: scan(lambda c, x: c + x, INIT, X), "a carry and an output"),
    "nothing to go along": (lambda: scan(ADD, INIT, X[:0]), "scan dimension > 0"),
    "other lengths": (lambda: scan(lambda c, x: (c, c), INIT, (X, X[:2])), "the same extent"),
    "no function": (lambda: scan(1, INIT, X), "Combine_fn must be a callable"),
    "a loop whose shape grows": (
        lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.cat([x, x])), (torch.tensor(0), X)),
        "body_fn_output and carried_inputs to have same metadata",
    ),
    "a loop that loses something": (
        lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (torch.tensor(0), X)),
        "same number of outputs",
    ),
    "maps of nothing": (lambda: map(lambda x: x, X[:0]), "cannot be 0"),
    "maps of other lengths": (lambda: map(lambda x: x[0], (X, X[:2])), "must be consistent"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_loops_raise(name):
    call, words = MISTAKES[name]
    with pytest.raises(RuntimeError, match=words):
        call()


def test_loops_that_carry_numbers_and_scans_of_nothing():
    assert while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, torch.ones(1)))[1].item() == 8
    assert scan(ADD, INIT, [])[0] is INIT

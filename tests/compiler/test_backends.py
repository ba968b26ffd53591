"""Graphs for backends that programs bring: they do what the function does, in each call."""

import copy

import numpy as np
import pytest

import flambeau as torch


def eager(graph, examples):
    return graph.forward


def test_parameters_are_written_without_history():
    weight, total = torch.nn.Parameter(torch.ones(3)), torch.ones(3)

    def decayed():
        with torch.no_grad():
            total.add_(weight)
            weight.mul_(0.5)
        return total + weight

    compiled = torch.compile(decayed, backend=eager, fullgraph=True)
    outs = [compiled() for _ in range(3)]
    assert weight.tolist() == [0.125] * 3 and outs[-1].tolist() == [2.875] * 3
    outs[-1].sum().backward()
    assert weight.grad.tolist() == [1.0] * 3


def test_numbers_of_numpy():
    compiled = torch.compile(lambda x, a, b: x * (a % b), backend=eager, fullgraph=True)
    assert [compiled(torch.ones(2), np.int64(12), np.int64(5)).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2


def test_a_tensor_that_is_given_twice():
    def joined(x, kept):
        kept.append(x * 2)
        return torch.cat(kept), kept

    compiled, x = torch.compile(joined, backend=eager, fullgraph=True), torch.ones(2)
    for _ in range(2):
        kept = [x]
        out, same = compiled(x, kept)
        assert out.tolist() == [1.0, 1.0, 2.0, 2.0] and same is kept and len(kept) == 2


def test_leaves_that_a_piece_makes_have_gradients():
    linear = torch.nn.Linear(3, 2)

    def tuned(x):
        own = copy.deepcopy(linear)
        found = torch.autograd.grad(own(x).sum(), list(own.parameters()))
        return x * found[0].sum().item()

    def doubled(x):
        leaf = (x * 2).requires_grad_()
        return x * torch.autograd.grad((leaf * leaf).sum(), leaf)[0].sum().item()

    x = torch.ones(4, 3)
    for function in (tuned, doubled):
        compiled = torch.compile(function, backend=eager)
        assert [torch.equal(compiled(x), function(x)) for _ in range(3)] == [True] * 3


def test_records_whose_arguments_stand_in_another_order():
    aten, x = torch.ops.aten, torch.randn(1, 2, 4, 4)
    out, places = aten.max_pool2d_with_indices(x, [2, 2], [2, 2])
    backward = lambda g: aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    compiled = torch.compile(backward)
    assert all([torch.equal(compiled(out), backward(out)) for _ in range(3)])


def test_random_numbers_are_drawn_once():
    function = lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(3)
    found = []
    for one in (function, torch.compile(function, backend=eager)):
        torch.manual_seed(0)
        found.append([one(torch.ones(3)).tolist() for _ in range(3)] + [torch.rand(2).tolist()])
    assert found[0] == found[1]


def test_results_without_history():
    weight = torch.nn.Parameter(torch.ones(3))

    def pieces(x):
        scaled = x * weight
        print(end="")
        return scaled, scaled.detach(), (scaled * 3).detach()

    def whole(x):
        scaled = x * weight
        return scaled, scaled.detach(), (scaled * 3).detach()

    for function in (whole, pieces):
        compiled = torch.compile(function, backend=eager)
        for _ in range(3):
            scaled, same, other = compiled(torch.ones(3))
            assert [t.requires_grad for t in (scaled, same, other)] == [True, False, False]
            same.add_(1)
            assert scaled.tolist() == [2.0] * 3


def test_what_is_written_without_history_leaves_that_of_others():
    def written(x):
        y = x * 2
        with torch.no_grad():
            y.mul_(3)
        y.detach()[0] = 4
        return y

    compiled = torch.compile(written, backend=eager, fullgraph=True)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert (y.tolist(), x.grad.tolist()) == ([4.0, 6.0, 6.0], [2.0] * 3)


def test_derivatives_of_the_program_find_what_the_run_has_changed():
    state = {"factor": 1.0}

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * state["factor"]

        @staticmethod
        def backward(ctx, g):
            return g

    def scaled(x):
        state["factor"] = 3.0
        return Scaled.apply(x)

    compiled = torch.compile(scaled, backend=eager)
    for _ in range(4):
        state["factor"] = 1.0
        assert compiled(torch.ones(2, requires_grad=True)).tolist() == [3.0, 3.0]


class Stretched(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        state["backward"] += 1
        return g * 2


class Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        state["forward"] += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


state = {"forward": 0, "backward": 0, "count": 0}
weight = torch.nn.Parameter(torch.ones(3))


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sin()


def counting(x):
    state["count"] += 1
    return x * state["count"]


def drawing(x):
    return x + torch.distributions.Normal(x, 1.0).rsample() + torch.multinomial(x.detach().softmax(-1), 1)


def block(x):
    state["forward"] += 1
    return torch.dropout(x.sin(), 0.5, True)


def decayed(x):
    out = x * weight * weight
    weight.data.mul_(0.5)
    return out


CASES = {
    "a hook": hooked,
    "a number that changes": counting,
    "random numbers": drawing,
    "a function that notes something": lambda x: Noted.apply(x + 1),
    "a function that writes": lambda x: Stretched.apply(x + 1) * x,
    "a gradient": lambda x: torch.func.grad(lambda a: a.sin().sum())(x),
    "gradients of gradients": lambda x: torch.func.jacrev(lambda a: a.sin() * a.sum())(x),
    "what is computed again": lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False),
    "what is computed again at once": lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True),
    "writes through data": decayed,
}


@pytest.mark.parametrize("name", CASES)
def test_results_gradients_and_changes_are_the_eager_ones(name):
    found = []
    for function in (CASES[name], torch.compile(CASES[name], backend=eager)):
        torch.manual_seed(0)
        state.update(forward=0, backward=0, count=0)
        weight.data.fill_(1)
        seen = []
        for _ in range(4):
            x = torch.randn(3, requires_grad=True)
            out = function(x)
            between, weight.grad = dict(state), None
            out.sum().backward()
            seen += [out.tolist(), x.grad.tolist(), between, dict(state), weight.tolist(), torch.rand(1).tolist()]
        found.append(seen)
    assert found[0] == found[1]

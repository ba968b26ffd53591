"""Scripted modules and functions inside of traces stay calls: branches and sizes follow other inputs."""

import io

import pytest

import flambeau as torch


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x, n: int = 2):
        if x.shape[0] == 7:
            return x.new_zeros(8)
        return self.linear(x) * n


class Several(torch.nn.Module):
    def forward(self, x):
        return x * 2, [x, x + 1], {"a": x}, x.size(0)


class Holder(torch.nn.Module):
    def __init__(self, child):
        super().__init__()
        self.child = torch.jit.script(child)

    def forward(self, x):
        return self.child(x, n=x.shape[0]) + 1


@torch.jit.script
def head(x: torch.Tensor, k: int):
    if x.shape[0] > 3:
        return x[:k]
    return x


def again(made):
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    return torch.jit.load(file)


def test_branches_of_a_scripted_child_stay():
    holder = Holder(Branching())
    traced = torch.jit.trace(holder, torch.ones(3, 2))
    x = torch.arange(10.0).view(5, 2)
    for made in (traced, again(traced)):
        assert made(torch.ones(7, 2)).tolist() == [1.0] * 8
        assert torch.equal(made(x), holder(x))
    assert traced.child.original_name == "Branching"
    assert traced.child.linear.weight is holder.child.linear.weight
    assert "(child).forward(x, n=" in traced.code


def test_functions_stay():
    traced = torch.jit.trace(lambda x: head(x, 2) * 3, torch.ones(2, 2))
    assert traced(torch.ones(6, 2)).tolist() == [[3.0, 3.0]] * 2
    assert traced(torch.ones(3, 2)).shape == (3, 2)
    assert traced.graph.findNode("prim::CallFunction") is not None
    assert again(traced)(torch.ones(6, 2)).shape == (2, 2)


def test_traces_inside_of_traces_follow_sizes():
    class Flat(torch.nn.Module):
        def forward(self, x):
            return head(x.reshape(x.size(0), -1), 2)

    outer = torch.nn.Sequential(torch.jit.trace(Flat(), torch.ones(2, 2, 2)), torch.nn.Linear(4, 1))
    traced = torch.jit.trace(outer, torch.ones(3, 2, 2))
    x = torch.randn(5, 2, 2)
    assert torch.equal(traced(x), outer(x))
    assert torch.equal(again(traced)(x), outer(x))


def test_structures_and_numbers_of_results():
    class Uses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.child = torch.jit.script(Several())

        def forward(self, x):
            double, both, named, count = self.child(x)
            return (double + both[1] + named["a"]).view(count, -1) * count

    traced = torch.jit.trace(Uses(), torch.ones(2, 3))
    assert traced(torch.ones(4, 3)).tolist() == [[20.0] * 3] * 4


def test_a_part_of_a_scripted_module_can_be_called():
    class Uses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.child = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))

        def forward(self, x):
            return self.child[0](x) + self.child[0].bias

    uses = Uses()
    x = torch.randn(4, 2)
    assert torch.equal(torch.jit.trace(uses, torch.ones(1, 2))(x), uses(x))


def test_effects_on_buffers_stay():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            return x

    class Uses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.child = torch.jit.script(Counts())

        def forward(self, x):
            self.child(x)
            return x * 2

    traced = torch.jit.trace(Uses(), torch.ones(1), check_trace=False)
    before = float(traced.child.seen)
    traced(torch.ones(1))
    assert float(traced.child.seen) == before + 1


def test_modules_from_outside_are_refused():
    outside = torch.jit.script(Branching())
    with pytest.raises(RuntimeError, match="must be registered as submodules of the thing being traced"):
        torch.jit.trace(lambda x: outside(x), torch.ones(3, 2))


def test_scripted_modules_with_hooks_are_traced_through():
    class Hooked(torch.nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0], -1)

    class Uses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.child = torch.jit.script(Hooked())
            self.child.register_forward_hook(lambda module, args, out: out + 1)

        def forward(self, x):
            return self.child(x)

    traced = torch.jit.trace(Uses(), torch.ones(2, 2, 2))
    assert traced(torch.ones(3, 2, 2)).tolist() == [[2.0] * 4] * 3

"""Frozen modules, and compiled ones that TorchScript runs: programs with the same results, which notice what changes."""

import copy
import io

import pytest

import flambeau as torch
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(288, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        if x.shape[0] > 3:
            x = x * 2
        for _ in range(3):
            x = x.tanh() * 0.5 + x
        return self.last(x.flatten(1))


def _loaded(module):
    held = io.BytesIO()
    torch.jit.save(module, held)
    held.seek(0)
    return torch.jit.load(held)


def _made(kind):
    torch.manual_seed(0)
    net = Net().eval()
    if kind == "traced":
        return torch.jit.trace(net, torch.randn(2, 3, 8, 8))
    scripted = torch.jit.script(net)
    return scripted if kind == "scripted" else _loaded(scripted)


@pytest.mark.parametrize("kind", ["traced", "scripted", "loaded"])
def test_frozen_modules_run_as_programs(kind):
    module = _made(kind)
    frozen = torch.jit.freeze(module)
    for n in (2, 2, 2, 1, 2) if kind == "traced" else (2, 2, 2, 5, 5, 2):
        x = torch.randn(n, 3, 8, 8)
        out = frozen(x)
        assert torch.equal(out, module(x)) and not out.requires_grad
    region = frozen.__dict__["_frozen"]
    assert region.problem is None and len(region.entries) == 2
    assert isinstance(frozen, torch.jit.ScriptModule) and torch.equal(_loaded(frozen)(x), module(x))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["traced", "loaded"])
def test_changed_state_is_noticed(kind):
    module = _made(kind)
    frozen, x = torch.jit.freeze(module), torch.randn(2, 3, 8, 8)
    for _ in range(3):
        assert torch.equal(frozen(x), module(x))
    with torch.no_grad():
        for m in (frozen, module):
            m.last.bias.fill_(2.0)
    assert torch.equal(frozen(x), module(x))
    for m in (frozen, module):
        m.last.weight = nn.Parameter(torch.ones(4, 288), requires_grad=False)
    assert torch.equal(frozen(x), module(x))
    for m in (frozen, module):
        m.norm.running_mean.data = torch.ones(8)
    assert torch.equal(frozen(x), module(x))
    assert torch.equal(frozen.double()(x.double()), module.double()(x.double()))
    with pytest.raises(RuntimeError):
        frozen(x)


def test_other_modules_are_no_reason_to_record_again():
    frozen, x = torch.jit.freeze(_made("loaded")), torch.randn(2, 3, 8, 8)
    for _ in range(3):
        frozen(x)
        _made("traced")
    assert len(frozen.__dict__["_frozen"].entries) == 1


@pytest.mark.slow
def test_copies_are_frozen_and_apart():
    frozen, x = torch.jit.freeze(_made("loaded")), torch.randn(2, 3, 8, 8)
    expected = frozen(x)
    for other in (copy.deepcopy(frozen), copy.copy(frozen)):
        assert torch.equal(other(x), expected) and other.__dict__["_frozen"] is not frozen.__dict__["_frozen"]
    other = copy.deepcopy(frozen)
    with torch.no_grad():
        other.last.bias.fill_(7.0)
    assert torch.equal(frozen(x), expected) and not torch.equal(other(x), expected)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.count: int = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


@pytest.mark.slow
def test_attributes_that_a_program_changes():
    module = _loaded(torch.jit.script(Counting().eval()))
    compiled = torch.compile(module)
    assert [compiled(torch.ones(1)).item() for _ in range(12)] == [float(i) for i in range(1, 13)]


def test_branches_on_elements_go_their_way():
    @torch.jit.script
    def larger(x):
        if bool(x.sum() > 0):
            return x * 2
        return x - 1

    class Branch(nn.Module):
        def forward(self, x):
            return larger(x)

    frozen = torch.jit.freeze(_loaded(torch.jit.script(Branch().eval())))
    for value in (1.0, -1.0, 1.0, -1.0, 1.0):
        assert frozen(torch.full((2,), value)).tolist() == [value * 2 if value > 0 else value - 1] * 2


@pytest.mark.parametrize("kind", ["traced", "loaded"])
def test_compiled_modules_of_torchscript(kind):
    module = _made(kind)
    compiled, x = torch.compile(module, fullgraph=True), torch.randn(2, 3, 8, 8)
    for _ in range(3):
        assert torch.equal(compiled(x), module(x))
    for m in (compiled, module):
        m.zero_grad()
        m(x).sum().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_optimize_for_inference():
    module = _made("loaded")
    fast, x = torch.jit.optimize_for_inference(module), torch.randn(2, 3, 8, 8)
    assert torch.equal(fast(x), module(x)) and fast.__dict__["_frozen"].entries
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        torch.jit.optimize_for_inference(Net())

"""Calls with other sizes than those that a program was made for: what they cost, and that they are right."""

import itertools

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile import fuse
from flambeau._compile.checks import Guards
from flambeau._compile.guards import Trail
from flambeau._dynamo.utils import counters
from flambeau.compiler import _forms

F = nn.functional


def test_fused_kernels_are_shared_by_sizes(monkeypatch):
    made = []
    real = fuse.pointwise_loop
    monkeypatch.setattr(fuse, "pointwise_loop", lambda *args: made.append(args) or real(*args))

    @torch.compile(dynamic=False)
    def chain(x):
        return torch.tanh(x * 3.25 + 1) * torch.sigmoid(x - 0.125)

    for n in (100, 107, 131):
        x = torch.randn(n, 128)
        for _ in range(3):
            torch.testing.assert_close(chain(x), torch.tanh(x * 3.25 + 1) * torch.sigmoid(x - 0.125), rtol=0, atol=0)
        assert len(made) == 1
    assert len(chain._region.entries) == 3


def test_bodies_with_other_numbers_are_others():
    def run(a):
        @torch.compile
        def scaled(x):
            return torch.copysign(torch.ones_like(x) * a, x * a + a)

        return [scaled(torch.ones(100, 128)) for _ in range(3)]

    assert all([(out == 0).all() and not out.signbit().any() for out in run(0.0)])
    assert all([(out == 0).all() and out.signbit().all() for out in run(-0.0)])


def test_recordings_follow_users_code_and_not_what_operations_do(monkeypatch):
    events = []
    real = Trail._event
    monkeypatch.setattr(Trail, "_event", lambda *args: events.append(args[2]) or real(*args))
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    forward = torch.compile(layer)
    with torch.no_grad():
        forward(torch.randn(2, 5, 16))
    assert forward._region.entries
    assert len(events) < 4000  # nearly 20,000 with all that operations do inside


def test_users_code_that_operations_call_is_followed():
    settings = {"scale": 2.0}

    @torch.library.custom_op("sizes_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * settings["scale"]

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            return out * settings["scale"] if function is torch.exp else out

    @torch.compile
    def function(x):
        with Mode():
            y = torch.exp(x)
        return y + scaled(x + 1)

    x = torch.zeros(3)
    assert [function(x).tolist() for _ in range(3)] == [[4.0] * 3] * 3
    settings["scale"] = 3.0
    assert function(x).tolist() == [6.0] * 3


def test_programs_that_were_dropped_are_not_made_again_and_again(monkeypatch):
    monkeypatch.setattr(_forms, "MOST_FORMS", 3)
    clock = itertools.count(0.0)
    monkeypatch.setattr(_forms, "perf_counter", lambda: next(clock))  # a call takes a second
    compiled = torch.compile(lambda x: x * 2, dynamic=True)
    before = counters["stats"]["unique_graphs"]
    for n in list(range(1, 7)) * 40:
        compiled._region.forms.cost = 1.0
        assert compiled(torch.ones(n)).tolist() == [2.0] * n
    assert len(compiled._region.forms.known) == 3
    assert counters["stats"]["unique_graphs"] - before < 40  # of 240 calls


def test_calls_beyond_the_limit_do_not_ask_what_has_changed(monkeypatch):
    compiled = torch.compile(lambda x: x * 2, dynamic=False, recompile_limit=2)
    for n in range(1, 4):
        compiled(torch.ones(n))
    monkeypatch.setattr(Guards, "reason", lambda *args: 1 / 0)
    assert compiled(torch.ones(5)).tolist() == [2.0] * 5 and len(compiled._region.entries) == 2


@pytest.mark.slow
def test_new_sizes_are_no_recompiles_and_give_what_they_give_eagerly():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))

    def function(x):
        y = model(x)
        if x.shape[0] > 6:
            y = y[:5] * x.size(0)
        return y.reshape(-1, 4).sum(0) + len(x)

    for dynamic in (True, None):
        compiled = torch.compile(function, dynamic=dynamic)
        for n in [*range(2, 14)] * 3:
            x = torch.randn(n, 8)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=1e-6)
            compiled._region.forms.cost /= 10
        assert len({form[0] for form in compiled._region.forms.known}) >= 2


def test_what_programs_for_several_sizes_found_is_looked_at_in_one_place():
    settings = {"scale": 2.0}
    model = nn.Linear(4, 4)

    @torch.compile(dynamic=False)
    def function(x):
        return model(x) * settings["scale"] if len(x) < 5 else model(x).tanh() + helper(x)

    def helper(x):
        return x * settings["other"]

    def scans():
        return {id(entry.guards._scan) for entry in function._region.entries}

    settings["other"] = 1.0
    for n in (2, 3, 4):
        function(torch.ones(n, 4))
    assert len(scans()) == 1
    for n in (5, 6):
        function(torch.ones(n, 4))
    assert len(scans()) == 2  # which ran other code
    for key, n in (("scale", 2), ("scale", 4), ("other", 5), ("other", 6)):
        x = torch.randn(n, 4)
        settings[key] += 1.0
        expected = model(x) * settings["scale"] if n < 5 else model(x).tanh() + x * settings["other"]
        torch.testing.assert_close(function(x), expected, rtol=0, atol=0)
    model.weight.data = torch.zeros(4, 4)
    torch.testing.assert_close(function(torch.ones(2, 4)), model.bias.expand(2, 4) * settings["scale"])

"""What the tests of changing programs share: a module, and how guards and compiled functions are asked about a change."""

import collections
import types

import flambeau as torch
from flambeau import nn
from flambeau._compile.guards import Arguments, Trail
from flambeau._core.collector import uncollected
from flambeau.utils._pytree import tree_leaves

F = nn.functional


def guards_of(function, *args, **kwargs):
    trail = Trail(function, Arguments(function, args, kwargs))
    with uncollected(), trail:  # what others do when garbage is collected is no part of it
        function(*args, **kwargs)
    return trail.guards()


def x():
    return torch.ones(2, 4)


def net():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Sequential(nn.Linear(4, 3), nn.ReLU()))


class Block(nn.Module):
    """A user's module with all sorts of attributes."""

    scale = 2.0
    table = {"a": 1}

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))])
        self.named = nn.ModuleDict({"one": nn.Linear(4, 4)})
        self.register_buffer("mask", torch.ones(4))
        self.register_buffer("none", None)
        self.count, self.text, self.flag, self.ratio = 3, "relu", False, 0.5
        self.sizes = [1, 2, [3, 4]]
        self.options = {"bias": True, "inner": {"depth": 2}}
        self.fixed = (1, [2])
        self.chosen = {"a", "b"}
        self.activation = torch.relu
        self.setting = types.SimpleNamespace(width=4)
        self.queue = collections.deque([1, 2])
        self._hidden = 1.0
        self.plain = torch.ones(4)

    @property
    def hidden(self):
        return self._hidden

    def helper(self, h):
        return h + self.count

    def forward(self, h):
        h = self.helper(self.lin(h)) * self.scale * self.table["a"] * self.mask * self.ratio * self.hidden * self.plain
        for layer in self.layers:
            h = layer(h)
        for gain in self.gains:
            h = h * gain
        h = self.named["one"](h)
        if self.none is not None:
            h = h + self.none
        if self.flag or self.text == "gelu":
            h = F.gelu(h)
        h = h * sum(self.sizes[:2]) * self.sizes[2][0] * self.options["inner"]["depth"] * self.fixed[1][0]
        if self.options["bias"] and "a" in self.chosen:
            h = h + self.setting.width + self.queue[0]
        return self.activation(h)


def check_seen(make):
    """Asserts that guards see a change: `make` gives (function, arguments, change[, undo])."""
    function, args, change, *undo = make()
    guards = guards_of(function, *args)
    assert guards.check(args, {}), guards.reason(args, {})
    assert guards.reason(args, {}) == ""
    change()
    try:
        assert not guards.check(args, {})
        assert guards.reason(args, {})
    finally:
        for one in undo:
            one()


def outcome(function, args):
    """What a call gives, in comparable form: values with types, or the type of the error."""
    torch.manual_seed(0)
    try:
        out = function(*args)
    except Exception as error:
        return type(error)
    return [
        (a.dtype, a.device, a.requires_grad, a.detach().double().cpu()) if isinstance(a, torch.Tensor) else a
        for a in tree_leaves(out)
    ]


def alike(a, b):
    if isinstance(a, type) or isinstance(b, type) or len(a) != len(b):
        return a == b
    return all(
        p[:3] == q[:3] and (p[1].type == "meta" or torch.allclose(p[3], q[3], equal_nan=True))
        if isinstance(p, tuple)
        else p == q
        for p, q in zip(a, b)
    )


def check_compiled(make):
    """Asserts that a compiled function gives, after a change, what the function itself gives then."""
    torch.compiler.reset()
    function, args, change, *undo = make()
    compiled = torch.compile(function)
    for _ in range(2):
        outcome(compiled, args)
    change()
    try:
        got = outcome(compiled, args)
        want = outcome(function, args)
        again = outcome(compiled, args)
    finally:
        for one in undo:
            one()
    assert alike(got, want) and alike(again, want)

"""Hooks of modules and of tensors inside compiled functions do what they do eagerly."""

import pytest

import flambeau as torch
from flambeau import nn


class Keeper:
    """An object that keeps what hooks show it."""

    def __init__(self):
        self.log, self.activation = [], None

    def note(self, *args):
        self.log.append(args[-1][0].sum() if isinstance(args[-1], tuple) else args[-1].detach().sum())

    def activate(self, module, args, out):
        self.activation = out

    def gated(self, module, inputs, outputs):
        self.log.append(self.activation.detach().sum())
        return tuple([g if g is None else g * 0.5 for g in inputs])


HOOKS = {
    "forward": lambda m, k: m[0].register_forward_hook(k.note),
    "forward that changes": lambda m, k: m[1].register_forward_hook(lambda mod, args, out: out * 2 + args[0]),
    "forward with names": lambda m, k: m[1].register_forward_hook(lambda mod, args, named, out: out - 1, with_kwargs=True),
    "before": lambda m, k: m[2].register_forward_pre_hook(lambda mod, args: (args[0] + 1,)),
    "backward": lambda m, k: m[2].register_full_backward_hook(k.note),
    "backward that changes": lambda m, k: m[2].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,)),
    "before backward": lambda m, k: m[2].register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,)),
    "backward with state": lambda m, k: (m[1].register_forward_hook(k.activate), m[1].register_full_backward_hook(k.gated)),
    "of a parameter": lambda m, k: m[0].weight.register_hook(lambda g: k.note(g)),
}  # fmt: skip
TENSORS = {
    "sees": lambda h, k: h.register_hook(lambda g: k.log.append(g.sum())),
    "changes": lambda h, k: h.register_hook(lambda g: g * 3),
    "of an object": lambda h, k: h.register_hook(k.note),
    "several": lambda h, k: (
        h.register_hook(lambda g: g * 3),
        h.register_hook(k.note),
        h.register_hook(lambda g: g + 1),
    ),
    "removed": lambda h, k: h.register_hook(lambda g: g * 3).remove(),
    "of a node": lambda h, k: h.grad_fn.register_hook(lambda made, given: k.log.append(given[0].sum())),
    "before a node": lambda h, k: h.grad_fn.register_prehook(lambda given: (given[0] * 2,)),
}


def _runs(wrap, hooks, inside, whole):
    """Gradients, results and what hooks kept, of several calls."""
    torch.manual_seed(0)
    model, keeper = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), Keeper()
    if hooks is not None:
        hooks(model, keeper)

    def function(x):
        h = model[1](model[0](x))
        if inside is not None:
            inside(h, keeper)
        loss = (model[2](h) ** 2).sum()
        if whole:
            loss.backward()
        return loss

    run, found = wrap(function), []
    for i in range(5):
        if i == 3:  # added later
            model[0].register_forward_hook(lambda m, a, out: out * 1.5)
        model.zero_grad()
        loss = run(torch.randn(2, 5, requires_grad=True))
        if not whole:
            loss.backward()
        found.append([loss, *keeper.log, *[p.grad.clone() for p in model.parameters()]])
    return found


def _compare(hooks, inside, whole):
    expected = _runs(lambda f: f, hooks, inside, whole)
    found = _runs(lambda f: torch.compile(f, fullgraph=True), hooks, inside, whole)
    for a, b in zip(expected, found):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            torch.testing.assert_close(other.detach(), one.detach())


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_of_modules(name, whole):
    _compare(HOOKS[name], None, whole)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", [n for n in TENSORS if "node" not in n])
def test_hooks_of_tensors(name, whole):
    _compare(None, TENSORS[name], whole)


@pytest.mark.parametrize("name", [n for n in TENSORS if "node" in n])
def test_hooks_of_nodes(name):
    expected = _runs(lambda f: f, None, TENSORS[name], False)
    found = _runs(torch.compile, None, TENSORS[name], False)
    for a, b in zip(expected, found):
        assert len(a) == len(b) and all([torch.allclose(one, other) for one, other in zip(a, b)])


def test_a_hook_that_knows_tensors_of_the_run():
    def function(x, y):
        h, mask = x * 2, y.exp()
        h.register_hook(lambda g: g * mask)
        return (h * h).sum()

    compiled = torch.compile(function, fullgraph=True)
    for i in range(4):
        y, found = torch.full((2,), float(i)), []
        for run in (function, compiled):
            x = torch.ones(2, requires_grad=True)
            run(x, y).backward()
            found.append(x.grad)
        assert torch.equal(*found)


def test_gradients_that_are_kept():
    def function(x):
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad

    compiled = torch.compile(function)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        assert torch.equal(compiled(x), function(x))


def test_second_derivatives_past_hooks_are_refused():
    def function(x):
        h = x * x
        h.register_hook(lambda g: g * 2)
        return (h * h).sum()

    x = torch.ones(2, requires_grad=True)
    out = torch.compile(function)(x)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(out, x, create_graph=True)


def test_hooks_for_what_is_saved_hold_in_each_call():
    settings = {"scale": 2.0}

    @torch.compile
    def function(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * settings["scale"], lambda t: t):
            y = x.exp()
        (g,) = torch.autograd.grad(y.sum(), x)
        return g

    x = torch.zeros(3, requires_grad=True)
    assert [function(x).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    settings["scale"] = 3.0
    assert function(x).tolist() == [3.0] * 3


def hooks_itself(x):
    x.register_hook(lambda g: g * 2)
    return x


def hooks_twice(x):
    y = x * 3
    x.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g + 1)
    return y * x


def hooks_and_lets_go(x):
    x.register_hook(lambda g: g * 2).remove()
    return x * x


def accumulates(x):
    (x if x.is_leaf else LEAF).register_post_accumulate_grad_hook(doubles)
    return x * x


def doubles(t):
    t.grad.mul_(2)


LEAF = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("function", [hooks_itself, hooks_twice, hooks_and_lets_go, accumulates])
@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("options", [{}, {"backend": lambda graph, _: graph.forward}, {"fullgraph": True}])
def test_hooks_of_arguments_are_theirs(function, leaf, options):
    found = []
    for run in (function, torch.compile(function, **options)):
        for i in range(3):
            x = torch.full((3,), i + 1.0, requires_grad=True)
            given = x if leaf else x * 2
            (run(given).sum() + (given * given).sum()).backward()  # also for what is made of it elsewhere
            found.append(x.grad.tolist())
    assert found[:3] == found[3:]

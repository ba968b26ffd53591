"""When compiled functions and modules are recorded again: changes, branches, state, sizes, switches."""

import collections
import time

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.exc import Unsupported
from flambeau.compiler._forms import _FIRST, _TIMED, Trial
from flambeau.compiler._region import _HOPELESS

F = nn.functional


def programs(compiled):
    return len(getattr(compiled, "_region", None).entries)


def test_leaves_that_were_changed_in_between_are_noticed():
    w = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: x * w.exp() * w)
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        out = compiled(x)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


class _Changing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale, self.options = nn.Linear(3, 3), 2.0, {"add": 1}

    def forward(self, x):
        x = self.linear(x) * self.scale + self.options["add"]
        return F.dropout(x, 0.5, self.training) if self.training else x


def _replace(model):
    model.linear = nn.Linear(3, 3)


CHANGES = {
    "attribute": lambda m: setattr(m, "scale", 3.0),
    "dictionary": lambda m: m.options.update(add=5),
    "training": lambda m: m.train(),
    "submodule": _replace,
    "parameter": lambda m: setattr(m.linear, "weight", nn.Parameter(torch.zeros(3, 3))),
    "data": lambda m: setattr(m.linear.weight, "data", torch.zeros(3, 3)),
    "in place": lambda m: m.linear.weight.data.zero_(),
    "hook": lambda m: m.linear.register_forward_hook(lambda module, args, out: out * 7),
    "dtype": lambda m: m.double(),
    "method": lambda m: setattr(m, "forward", lambda x: x + 1),
    "frozen": lambda m: m.requires_grad_(False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_no_change_is_missed(name):
    torch.manual_seed(0)
    model = _Changing().eval()
    compiled = torch.compile(model)
    x = torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(compiled(x), model(x))
    CHANGES[name](model)
    x = x.to(next(model.parameters()).dtype)
    for _ in range(2):
        torch.manual_seed(5)
        expected = model(x)
        torch.manual_seed(5)
        got = compiled(x)
        assert torch.equal(got, expected) and got.requires_grad == expected.requires_grad


class _Skipping(nn.Module):
    """Gives its argument itself in evaluation, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 2 if self.training else x


def test_what_computes_nothing_is_recorded_once(monkeypatch):
    model = _Skipping().eval()
    compiled = torch.compile(model, fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    for _ in range(3):
        assert compiled(x) is x
    region = compiled._region
    monkeypatch.setattr(region, "_recorded", lambda *_: pytest.fail("recorded again"))
    for _ in range(40):
        assert compiled(x) is x
    monkeypatch.undo()
    assert model.calls == 43
    model.train()
    for _ in range(3):
        assert torch.equal(compiled(x), x * 2)
    assert compiled.eval()(x) is x and len(region.entries) == 2 and model.calls == 47


class _Decaying(nn.Module):
    """Its factor is another in each call, until it is not."""

    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, 40

    def forward(self, x):
        self.calls = min(self.calls + 1, self.last)
        return x * len(str(self.calls)) + int(f"{self.calls}")


def test_programs_are_looked_for_seldom_when_none_is_right_for_many_calls(monkeypatch):
    model = _Decaying()
    compiled = torch.compile(model)
    for i in range(1, 41):
        assert compiled(torch.zeros(2)).tolist() == [i, i]
    region = compiled._region
    assert len(region.entries) == 8 and region.misses > _HOPELESS
    looked = []
    monkeypatch.setattr(region, "limit", lambda: looked.append(1) or 8)
    for _ in range(2 * _HOPELESS):
        compiled(torch.zeros(2))
    assert len(looked) == 2
    model.calls = 3  # for which there is a program
    for _ in range(_HOPELESS):
        model.calls = 3
        assert compiled(torch.zeros(2)).tolist() == [4, 4]
    assert region.misses == 0


def test_shapes_and_dtypes_have_programs_of_their_own_up_to_a_limit():
    compiled = torch.compile(lambda x: (x * 2).sum(), dynamic=False)
    for n in range(1, 12):
        assert compiled(torch.ones(n)) == 2 * n
    assert programs(compiled) == 8
    compiled._region.forget()
    assert compiled(torch.ones(3, dtype=torch.int64)).dtype is torch.int64


def test_branches_on_elements_are_expected_to_go_the_same_way():
    @torch.compile
    def f(x):
        y = x.exp()
        return y * 2 if y.sum() > 3 else y - 1

    for value in (1.0, 1.0, 2.0, -5.0, 1.0, -5.0):
        x = torch.full((3,), value, requires_grad=True)
        out = f(x)
        out.sum().backward()
        e = torch.full((3,), value).exp()
        up = bool(e.sum() > 3)
        assert torch.equal(out.detach(), e * 2 if up else e - 1) and torch.equal(x.grad, e * 2 if up else e)
    assert programs(f) == 2 and f._region.problem is None


def test_a_branch_that_keeps_changing_runs_eagerly():
    @torch.compile
    def halved(x):
        n = 0
        while x.sum() > 1:
            x, n = x * 0.5, n + 1
        return x, n

    for k in range(12):
        x, n = halved(torch.full((2,), 2.0**k))
        assert n == k + 1 and x.tolist() == [0.5, 0.5]
    assert "another way" in str(halved._region.problem)


def test_a_branch_is_asked_before_a_write():
    count = torch.zeros(1)

    @torch.compile
    def f(x):
        count.add_(1)
        return x * 2 if x.sum() > 0 else x * 3

    for value in (1.0, -1.0, 1.0, -1.0):
        assert f(torch.tensor([value])).item() == (2.0 if value > 0 else -3.0)
    assert count.item() == 4 and programs(f) == 2


def test_a_branch_on_what_is_written_is_asked_of_what_is_to_be_written():
    count = torch.zeros(1)

    @torch.compile
    def f(x):
        count.add_(x)
        return x * 2 if count > 2 else x * 3

    assert [f(torch.ones(1)).item() for _ in range(5)] == [3.0, 3.0, 2.0, 2.0, 2.0]
    assert count.item() == 5 and programs(f) == 2


def test_a_branch_on_a_part_of_what_is_written_ends_the_program():
    count = torch.zeros(2)

    @torch.compile
    def f(x):
        count[1].add_(x[0])
        return x * 2 if count[1] > 2 else x * 3

    assert [f(torch.ones(1)).item() for _ in range(5)] == [3.0, 3.0, 2.0, 2.0, 2.0]
    assert count.tolist() == [0.0, 5.0] and "changed before" in str(f._region.problem)


class _Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.h, self.last = nn.Linear(3, 3), torch.zeros(2, 3), None
        self.register_buffer("mean", torch.zeros(3))
        self.table = {"sum": torch.zeros(3)}

    def forward(self, x):
        y = self.lin(x + self.h)
        self.last = y
        self.h = self.h * 0.5 + y.detach()
        self.mean = self.mean * 0.9 + x.mean(0)
        self.table["sum"] = self.table["sum"] + 1
        return (y * self.last).sum() + self.mean.sum()


def test_state_that_a_module_replaces_is_carried_from_call_to_call():
    def ran(compiled):
        torch.manual_seed(0)
        m = _Stateful()
        run = torch.compile(m) if compiled else m
        found = []
        for i in range(12):
            loss = run(torch.randn(2, 3))
            loss.backward()
            parts = (loss, m.h, m.mean, m.last, m.table["sum"], m.lin.weight.grad)
            found.append([t.detach().tolist() for t in parts])
            if i == 5:
                m.h = torch.ones(2, 3)
            if i == 7:
                m.h = m.h.t().contiguous().t()
            if i == 9:
                m.last = m.h
        return found, run

    eager, _ = ran(False)
    found, run = ran(True)
    assert found == eager
    assert run._region.problem is None and len(run._region.entries) <= 5


@pytest.mark.parametrize("place", ["parameter", "attribute", "list"])
def test_state_whose_memory_another_tensor_has_is_not_mistaken_for_that(place):
    """Layers that scale their weights before each call begin with the original's own memory."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            original = torch.arange(3.0)
            self.original = nn.Parameter(original) if place == "parameter" else original
            self.kept = [original] if place == "list" else None
            self.weight = self.original.detach()

        def forward(self, x):
            self.weight = (self.kept[0] if self.kept else self.original) * 0.5
            return x + self.weight

    model, twin = Scaled(), Scaled()
    compiled = torch.compile(model)
    with torch.no_grad():
        for i in range(4):
            x = torch.full((3,), float(i))
            assert torch.equal(compiled(x), twin(x)) and torch.equal(model.weight, twin.weight)
            assert torch.equal(model.original, twin.original)


def test_a_number_is_put_where_the_recorded_run_has_found_the_same():
    """A layer that says how many groups it has, and is called with other batches in between."""

    class Modulated(nn.Conv2d):
        def forward(self, x, style):
            n = len(x)
            weight = (self.weight * style.view(n, 1, 2, 1, 1)).view(n * 2, 2, 1, 1)
            self.groups = n
            return self._conv_forward(x.view(1, n * 2, 3, 3), weight, None).view(n, 2, 3, 3)

    torch.manual_seed(0)
    model = Modulated(2, 2, 1, bias=False)
    compiled = torch.compile(model)
    with torch.no_grad():
        for n in (2, 2, 2, 3, 2, 3, 3, 2):
            x, style = torch.rand(n, 2, 3, 3), torch.rand(n, 2)
            out = compiled(x, style)
            assert model.groups == n
            torch.testing.assert_close(out, model(x, style))


def test_state_that_lies_in_two_places_is_known_by_who_it_is():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = torch.ones(2)

        def forward(self, x):
            out = self.a + 2 * self.b + x
            self.a = self.a * 3
            return out

    eager, m = Twice(), Twice()
    run = torch.compile(m)
    for _ in range(6):
        assert torch.equal(run(torch.zeros(2)), eager(torch.zeros(2)))


@pytest.mark.parametrize("dynamic, most", [(None, 2), (True, 1)])
def test_changing_sizes_are_not_recorded_one_by_one(dynamic, most):
    compiled = torch.compile(
        lambda x, n: (x[:n] * 2).sum() if x.shape[0] < 9 else x.sum(), dynamic=dynamic, fullgraph=True
    )
    compiled._region.forms.cost = 9.0
    for n in range(1, 30):
        assert compiled(torch.ones(n), 2) == (2 * min(n, 2) if n < 9 else n)
        compiled._region.forms.cost = 9.0  # as if recording took long
    assert programs(compiled) == most
    compiled._region.forms.cost = 0.0
    for _ in range(2):
        assert compiled(torch.ones(7), 2) == 4
    assert programs(compiled) == most + 1


def test_marked_sizes():
    def f(x):
        return x * 2

    compiled = torch.compile(f)
    for n in (3, 4):
        x = torch.ones(n)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)
        compiled._region.forms.cost = 9.0
    assert programs(compiled) == 1  # the second set of sizes is no reason to record at once
    compiled = torch.compile(f, dynamic=True)
    for n in range(3, 20):
        x = torch.ones(n)
        torch._dynamo.mark_static(x)
        assert torch.equal(compiled(x), x * 2)
    assert programs(compiled) == 17  # each counts
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch._dynamo.mark_dynamic(torch.ones(2), 1)


def test_marked_sizes_have_limits():
    from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError

    def called(compiled, n, mark=torch._dynamo.mark_dynamic, **limits):
        x = torch.ones(n, 2)
        mark(x, 0, **limits)
        return compiled(x)

    compiled = torch.compile(lambda x: x * 2)
    for n in (3, 4):
        assert torch.equal(called(compiled, n, min=2, max=10), torch.full((n, 2), 2.0))
    for n in (1, 11):
        with pytest.raises(ConstraintViolationError, match=rf"{n} not in range \[2, 10\]"):
            called(compiled, n, min=2, max=10)
    assert len(compiled(torch.ones(11, 2))) == 11  # nothing was said of this one


SPECIAL = {
    "branch": lambda x: x * 2 if x.shape[0] == 5 else x * 3,
    "sum": lambda x: x + torch.ones(5, 2),
    "view": lambda x: x.view(5, 2) + 1,
    "loop": lambda x: sum([x * i for i in range(x.shape[0])]),
}
FOLLOWED = {
    "step": lambda x: x.view(2, -1) * 2,
    "limit": lambda x: x * 2 if x.shape[0] > 5 else x * 3,
    "float": lambda x: x * x.shape[0] ** -0.5,
    "new": lambda x: x + torch.ones(x.shape[0], 2),
    "elements": lambda x: x * 2 if x.sum() > 3 else x,
}


@pytest.mark.parametrize("name", [*SPECIAL, *FOLLOWED])
def test_marked_sizes_that_cannot_change(name):
    from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError

    f = {**SPECIAL, **FOLLOWED}[name]
    x, perhaps = torch.ones(6 if name == "step" else 5, 2), torch.ones(5, 2)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.maybe_mark_dynamic(perhaps, 0)
    if name in SPECIAL:
        with pytest.raises(
            ConstraintViolationError, match=r"L\['x'\].size\(\)\[0\] as dynamic but your code specialized it .*\(5\)"
        ):
            torch.compile(f)(x)
        assert torch.equal(torch.compile(f)(perhaps), f(perhaps))
    else:
        assert torch.equal(torch.compile(f)(x), f(x))


FACTOR = 2


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.norm = 2, nn.LayerNorm(2)

    def forward(self, x):
        return self.norm(x) * self.factor + FACTOR


def _kept(choice, change):
    """Whether a program is run as it was after a change, if guards were chosen so."""
    model, x = Scaled(), torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    compiled = torch.compile(model, options={"guard_filter_fn": choice})
    before = [compiled(x) for _ in range(2)][1]
    change(model)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1)
    after = compiled(x)
    stale = torch.equal(after, before)
    assert stale or torch.equal(after, model(x))
    assert len(compiled._region.entries) == (1 if stale else 2)
    return stale


def test_guards_are_chosen(monkeypatch):
    compiler, seen = torch.compiler, []

    def look(entries):
        seen.extend(entries)
        return [True] * len(entries)

    factor = lambda model: setattr(model, "factor", 3)
    eps = lambda model: setattr(model.norm, "eps", 1.0)
    world = lambda model: monkeypatch.setitem(globals(), "FACTOR", FACTOR + 1)
    weight = lambda model: setattr(model.norm, "weight", nn.Parameter(torch.tensor([3.0, 4.0])))
    assert _kept(compiler.skip_guard_on_inbuilt_nn_modules_unsafe, eps)
    assert not _kept(compiler.skip_guard_on_inbuilt_nn_modules_unsafe, factor)
    assert not _kept(compiler.skip_guard_on_inbuilt_nn_modules_unsafe, world)
    assert _kept(compiler.skip_guard_on_all_nn_modules_unsafe, factor)
    assert not _kept(compiler.skip_guard_on_all_nn_modules_unsafe, world)
    assert _kept(compiler.skip_guard_on_globals_unsafe, world)
    assert not _kept(compiler.skip_guard_on_globals_unsafe, factor)
    for choice in (compiler.keep_tensor_guards_unsafe, compiler.skip_all_guards_unsafe):
        assert all([_kept(choice, change) for change in (factor, eps, world)])
        assert not _kept(choice, weight)  # tensors are looked at in any case
    assert _kept(look, lambda model: None)
    named = {entry.name: entry for entry in seen}
    assert (named["G['FACTOR']"].is_global, named["G['FACTOR']"].guard_type) == (True, "CONSTANT_MATCH")
    assert {"x", "model.factor", "model.norm.weight"} <= named.keys()
    assert named["x"].guard_type == named["model.norm.weight"].guard_type == "TENSOR_MATCH"


def test_a_guard_of_an_argument_is_dropped():
    @torch.compile(options={"guard_filter_fn": lambda entries: [e.name != "n" for e in entries]}, fullgraph=True)
    def f(x, n, m):
        return x * n + m

    assert [f(torch.ones(1), n, m).item() for n, m in ((2, 1), (3, 1), (3, 2), (5, 1))] == [3, 3, 5, 3]
    assert f(torch.ones(2), 4, 1).tolist() == [5, 5]  # another shape is another program
    with pytest.raises(AssertionError, match="filter_results length"):
        torch.compile(lambda x: x + 1, options={"guard_filter_fn": lambda entries: []})(torch.ones(1))


def test_programs_that_were_not_used_for_long_go(monkeypatch):
    from flambeau.compiler import _forms

    monkeypatch.setattr(_forms, "MOST_FORMS", 3)
    compiled = torch.compile(lambda x: x * 2)
    for n in (1, 2, 3, 4, 1, 5):
        compiled._region.forms.cost = 0.0
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0))
    assert [form[0] for form in compiled._region.forms.known] == [(4,), (1,), (5,)]


def test_switches_for_recompiling():
    from flambeau._dynamo import config, exc

    compiled = torch.compile(lambda x: x * 2, dynamic=False)
    compiled(torch.ones(1))
    with config.patch(error_on_recompile=True), pytest.raises(RuntimeError, match="recompile"):
        compiled(torch.ones(2))
    with config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True), pytest.raises(exc.FailOnRecompileLimitHit):
        compiled(torch.ones(2))
    assert compiled(torch.ones(2)).tolist() == [2, 2] and programs(compiled) == 2
    automatic = torch.compile(lambda x: x * 3)
    with config.patch(automatic_dynamic_shapes=False):
        for n in range(1, 6):
            automatic(torch.ones(n))
    assert programs(automatic) == 5


def test_switches_and_marks_that_keep_functions_eager():
    from flambeau._dynamo import config

    def f(x):
        torch._dynamo.skip_frame("not this one")
        return x * 2

    assert torch.compile(f)(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(Unsupported, match="not this one"):
        torch.compile(f, fullgraph=True)(torch.ones(2))
    with config.patch(disable=True):
        assert torch.compile(f) is f
    compiled = torch.compile(lambda x: x * 3, dynamic=False)
    with config.patch(cache_size_limit=2):
        for n in range(1, 5):
            compiled(torch.ones(n))
    assert programs(compiled) == 2


@pytest.mark.parametrize("forget", ["optimizer", "module", "none", "zeros"])
def test_gradients_that_a_step_forgets_are_those_from_before_it(forget):
    """The code that asks for gradients is reached when they are forgotten already."""

    def trained(compile):
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), torch.rand(5, 2, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def forgotten():
            if forget == "none":
                for p in optimizer.param_groups[0]["params"]:
                    p.grad = None
            elif forget == "module":
                model.zero_grad()
            else:
                optimizer.zero_grad(set_to_none=forget != "zeros")

        def loss():
            u = model(x)
            (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
            return (slope + u).square().mean()

        def step():
            forgotten()
            value = loss()
            value.backward()
            optimizer.step()
            return value

        run = compile(step)
        losses = [run().item() for _ in range(4)]
        x.grad = None
        return [*losses, *[run().item() for _ in range(2)], x.grad.tolist()], run

    expected, _ = trained(lambda step: step)
    found, run = trained(torch.compile)
    assert found == expected
    assert programs(run) <= 3  # without gradients, with them, and without that of x


def test_a_gradient_that_appears_outside_is_noticed():
    w, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def seen(x):
        return x * 2 if other.grad is None else x * other.grad

    def step(x):
        optimizer.zero_grad()
        return seen(x)

    compiled = torch.compile(step)
    assert compiled(torch.ones(2)).tolist() == compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    other.grad = torch.tensor([3.0, 4.0])
    assert compiled(torch.ones(2)).tolist() == [3.0, 4.0]


def test_short_programs_that_are_slower_than_their_functions_are_left():
    for quick, slow, lost in (
        (0.0, 2e-3, False),
        (2e-5, 0.0, True),
        (1e-3, 0.0, False),
    ):  # a long program is not compared
        trial, calls = Trial(()), collections.Counter()

        def run(name, seconds, calls=calls):
            calls[name] += 1
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            return name

        program, function = (lambda q=quick: run("program", q)), (lambda s=slow: run("function", s))
        while not trial.is_over:
            trial.run(function, program, (), {})
        assert trial.is_lost is lost and calls["program"] >= _FIRST and calls["function"] <= _TIMED
    compiled = torch.compile(lambda x: x * 2 if x.sum() > 0 else x * 3)
    for i in range(60):
        x = torch.full((2,), float(1 - 2 * (i % 3 == 0)))
        assert compiled(x).tolist() == [2.0, 2.0] if i % 3 else [-3.0, -3.0]
    assert compiled._region.forms.trial is None


@pytest.mark.parametrize("f", [lambda x: x.view(-1)[1:], lambda x: x.exp().chunk(2), lambda x: (x * 2, x.t())])
def test_small_programs_that_are_lost_run_the_function_where_their_guards_hold(f):
    flags = {"twice": False}

    def g(x):
        calls.append(x)
        found = f(x)
        return (found, found) if flags["twice"] else found

    calls, compiled = [], torch.compile(g)
    shown = lambda out: [t.tolist() for t in torch.utils._pytree.tree_leaves(out)]
    x = torch.ones(2, 2, requires_grad=True)
    expected = shown(g(x))
    for _ in range(3):
        assert shown(compiled(x)) == expected
    trial, region = compiled._region.forms.trial, compiled._region
    trial.times[0][:], trial.times[1][:] = [3e-6] * _TIMED, [2e-6] * _TIMED
    compiled(x)
    assert region.forms.trial is None and region.entries[0].function is g
    before = len(calls)
    for _ in range(3):
        assert shown(compiled(x)) == expected
    assert len(calls) == before + 3
    flags["twice"] = True
    assert [shown(compiled(x)) for _ in range(2)] == [shown(g(x))] * 2
    assert programs(compiled) == 2 and region.entries[0].function is None


def test_parts_that_are_slower_than_their_modules_are_called_as_they_are():
    layer = torch.nn.Linear(2, 2)
    compiled = torch.compile(lambda x: layer(x)[x[:, 0] > 0])  # of a size that depends on elements
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.ones(2, 2))
        (part,) = compiled._region.parts.values()
        part.forms.trial = None
        part.forms.slow.update(part.forms.known)  # as if the trial had ended so
        part.function = None  # it is not asked
        assert compiled(torch.ones(2, 2)).equal(layer(torch.ones(2, 2)))


@pytest.mark.parametrize(
    ("sizes", "marked", "counts"),
    [
        ([(3, 2), (4, 2), (5, 2), (6, 2)], [0], [1, 1, 1, 1]),
        ([(3, 2), (4, 2), (5, 7), (6, 9)], [0, -1], [1, 1, 1, 1]),
        ([(3, 2), (4, 2), (5, 7), (6, 9), (6, 10)], [0], [1, 1, 2, 2, 2]),
        ([(3, 2), (4, 2), (5, 7), (6, 9), (6, 10)], [], [1, 2, 3, 3, 3]),
    ],
)
def test_a_size_is_a_reason_to_record_again_once(sizes, marked, counts):
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x, y: (x * 2).sum(0) + y.sum(), backend=counter)
    found = []
    for size in sizes:
        x = torch.ones(*size)
        for dim in marked if not found else ():  # of the first call's tensor alone
            torch._dynamo.mark_dynamic(x, dim)
        assert compiled(x, torch.ones(3)).tolist() == [2.0 * size[0] + 3] * size[1]
        found.append(counter.frame_count)
    assert found == counts


def _sorts(x, flag=False, mode=None):
    if flag:
        x = x[x > 0]
    if mode is not None:
        time.time()
    return x.exp() + 1


def test_what_fails_for_one_kind_of_call_is_recorded_for_others():
    x = torch.tensor([1.0, -2.0, 3.0])
    compiled = torch.compile(_sorts)
    for flag in (True, True, False, True, False, False):
        assert torch.equal(compiled(x, flag), _sorts(x, flag))
    assert programs(compiled) == 1
    assert compiled._region.attempts == 1  # the other kind is not tried again
    for mode in "abcdefghijk":  # at some time it is enough
        assert torch.equal(compiled(x, mode=mode), x.exp() + 1)
    assert compiled._region.attempts == compiled._region.limit()
    again = torch.compile(_sorts)
    assert torch.equal(again(x), x.exp() + 1) and torch.equal(again(x, True), _sorts(x, True))
    nest = [x]
    nest.append(nest)
    assert torch.equal(again(x, nest), _sorts(x, True))
    assert torch.equal(again(x.double()), x.double().exp() + 1)
    assert programs(again) == 2


def test_a_model_that_cannot_be_recorded_in_training_is_in_evaluation():
    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            out = self.inner(x)
            return out * (time.time() > 0) if self.training else out + 1

    model = Drops()
    compiled = torch.compile(model)
    for training in (True, True, False, True, False):
        model.train(training)
        assert torch.equal(compiled(torch.ones(1, 2)), model(torch.ones(1, 2)))
    assert programs(compiled) == 1 and len(compiled._region.parts) == 1
    assert compiled._region.attempts == 1

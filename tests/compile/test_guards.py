"""What a run depended on: what ends a region, what the run changed, which tensors it could find. See `test_changes` for guards."""

import collections
import contextlib
import copy
import decimal
import enum
import functools
import itertools
import logging
import math
import random
import re
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile.guards import Arguments, Break, Trail
from flambeau._compile.holders import MISSING, same
from flambeau._compile.lookups import Lookups
from flambeau._core.collector import uncollected

ARRAY, OBJECTS = np.ones(3), np.array([None])
LOCK, COUNTER = threading.Lock(), itertools.count()
MANY = dict.fromkeys(range(20_000))
LOGGER = logging.getLogger("flambeau.test")


def followed(function, *args, **kwargs):
    trail = Trail(function, Arguments(function, args, kwargs))
    with uncollected(), trail:  # what others do when garbage is collected is no part of it
        function(*args, **kwargs)
    return trail


@functools.lru_cache
def remembered(n):
    return n + 1


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.seen, self.table = 0, [], {}
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.count += 1
        self.total = self.total + x
        return x


# -- what cannot be part of a program --------------------------------------------------------------------------------


def prints(x):
    y = x + 1
    print(end="")
    return y


def opens(x):
    with open(__file__) as file:
        return x, file


def logs(x):
    LOGGER.warning("now")
    return x


def warns(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("now", stacklevel=1)
    return x


BREAKS = {
    "print": (prints, "print() cannot be part of a compiled program"),
    "open": (opens, "open"),
    "time": (lambda x: x + time.time(), "time.time()"),
    "perf_counter": (lambda x: x + time.perf_counter(), "time.perf_counter()"),
    "random": (lambda x: x + random.random(), "random"),
    "randint": (lambda x: x + random.randint(0, 3), "random.randint"),
    "numpy_file": (lambda x: np.loadtxt(["1"]), "numpy.lib"),
    "numpy_random": (lambda x: np.random.rand(2), "np.random"),
    "numpy_array": (lambda x: x * OBJECTS.size, "OBJECTS is a ndarray"),
    "logging": (logs, "logging.warning()"),
    "warning": (warns, "warn"),
    "lock": (lambda x: LOCK.locked(), "LOCK"),
    "iterator": (lambda x: x + next(COUNTER), "COUNTER is a count"),
    "cache": (lambda x: x + remembered(1), "remembered"),
    "identity": (lambda x: x + id(x) * 0, "id() cannot be part"),
    "globals": (lambda x: globals()["ARRAY"], "globals()"),
    "exec": (lambda x: exec("pass"), "exec()"),
    "too_many": (lambda x: x + len(MANY), "20,000 entries"),
    "frames": (lambda x: sys._getframe().f_lineno, "_getframe"),
    "set_that_grows": (lambda x, seen=set(): seen.add(1), "changes"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_cannot_be_guarded_ends_the_region(name):
    function, reason = BREAKS[name]
    remembered.cache_clear()
    trail = followed(function, torch.ones(3))
    assert isinstance(trail.problem, Break) and reason in trail.problem.reason
    with pytest.raises(Break):
        trail.guards()


def test_a_break_has_the_line_of_the_program():
    problem = followed(prints, torch.ones(2)).problem
    assert problem.file == __file__ and problem.line == prints.__code__.co_firstlineno + 2
    assert str(problem) == f"{problem.reason} ({__file__}:{problem.line})"


def test_what_is_given_as_an_argument_cannot_be_an_iterator():
    trail = Trail(list, Arguments(list, ((n for n in range(3)),), {}))
    assert "generator" in trail.problem.reason


def test_what_is_given_may_be_changed():
    (effect,) = followed(lambda items: items.append(1), [1, 2]).effects
    assert (effect.key, effect.new, effect.kind) == (2, 1, "append")


# -- what can --------------------------------------------------------------------------------------------------------


def everyday(x, names=("b", "a")):
    assert x.dim() == 2, "two dimensions"
    total = 0
    for i, (name, size) in enumerate(zip(sorted(names), x.shape)):
        total += max(i, size) + len(name) + math.floor(2.5)
    values = {name: total for name in names}
    values.update(c=round(1.5))
    parts = [x * v for v in values.values() if isinstance(v, int)]
    text = f"{total:>5}".strip() + ",".join(map(str, range(3)))
    try:
        values["missing"]
    except KeyError:
        parts.append(x)
    with torch.no_grad():
        parts = list(map(torch.relu, parts))
    kept = collections.defaultdict(list)
    kept[text].append(functools.reduce(torch.add, parts))
    seen = {part.shape for part in parts}
    return kept[text][0], all(p.ndim for p in parts), seen, hasattr(x, "grad"), (n for n in range(2))


def test_everyday_python_is_no_problem():
    trail = followed(everyday, torch.ones(2, 3))
    assert trail.problem is None and trail.effects == []
    assert trail.guards().check((torch.ones(2, 3),), {})


def test_classes_and_functions_made_in_the_run():
    def f(x):
        class Local:
            def __init__(self, by):
                self.by = by

        @functools.wraps(f)
        def inner(y, local):
            return y * local.by

        return inner(x, Local(2))

    trail = followed(f, torch.ones(2))
    assert trail.problem is None and trail.effects == []


def test_a_cache_that_is_not_asked_does_not_matter():
    def f(x, deep=False):
        return remembered(1) if deep else x

    assert followed(f, torch.ones(2)).problem is None


def test_an_error_leaves_the_function():
    trail = Trail(dict, Arguments(dict, (), {}))
    with pytest.raises(KeyError), trail:
        {}["a"]
    assert sys.getprofile() is None


def test_computed_names_concern_their_objects_alone():
    class Settings:
        def __init__(self):
            self.width_0, self.width_1 = 1, 2

    class Other:
        def __init__(self):
            self.width, self.lock = 1, LOCK

    settings, other = Settings(), Other()

    def f(x):
        return x * sum(getattr(settings, f"width_{i}") for i in range(2)) * sum(vars(settings).values()) * other.width

    assert followed(f, torch.ones(2)).problem is None


def test_builtins_are_themselves_again():
    before = getattr, hasattr, setattr, delattr, vars, dir
    followed(everyday, torch.ones(2, 3))
    with pytest.raises(KeyError):
        followed(lambda: {}["a"])
    assert before == (getattr, hasattr, setattr, delattr, vars, dir)
    assert all(function.__module__ == "builtins" for function in before)


def test_the_names_at_a_place_are_that_places():
    """`dir()` and `vars()` without arguments ask for the caller's names, also while the builtins tell what they are asked."""
    lookups = Lookups(lambda name: None, lambda thing: None)
    lookups.open()
    try:

        def inside(first, second=2):
            return dir(), dict(vars())

        assert inside(1) == (["first", "second"], {"first": 1, "second": 2})
        module = {"__name__": "made"}
        exec(
            "a = 1\nvars()['b'] = 2\nnames = dir()\nclass C:\n    x = 3\n    seen = sorted(n for n in dir() if n[0] != '_')",
            module,
        )
        assert module["b"] == 2
        assert module["names"] == sorted(["__builtins__", "__name__", "a", "b"])
        assert module["C"].seen == ["x"]
    finally:
        lookups.close()


def test_a_profiler_that_was_there_is_there_again():
    events = []

    def profiler(frame, event, arg):
        events.append(event)

    sys.setprofile(profiler)
    try:
        followed(everyday, torch.ones(2, 3))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert events


# -- effects and tensors ---------------------------------------------------------------------------------------------


def test_changed_attributes_are_effects():
    model = Counter()
    before = model.total
    guards = followed(model, torch.ones(3)).guards()
    effects, after = {e.path: e for e in guards.effects}, model.total
    assert set(effects) == {"model.count", "model['total']"}
    count, total = effects["model.count"], effects["model['total']"]
    assert (count.holder, count.key, count.old, count.new, count.kind) == (model, "count", 0, 1, "attribute")
    assert guards.check((torch.ones(3),), {})  # how far it has counted is all the same
    model.count, model.total = 0.5, before
    assert not guards.check((torch.ones(3),), {}) and guards.reason((torch.ones(3),), {}) == "type(model.count) is int"
    assert total.holder is model._buffers and total.old is before and total.new is after and total.kind == "item"


STATE = {"last": None}


def test_changed_items_globals_and_cells_are_effects():
    calls = 0
    history = []

    def f(x):
        nonlocal calls
        global LAST
        calls += 1
        LAST = x
        STATE["last"] = x * 2
        STATE[calls] = 5
        history.append(x)
        return x

    effects = followed(f, torch.ones(2)).effects
    found = {e.path: (e.kind, e.old) for e in effects}
    assert found == {
        "calls": ("cell", 0), "LAST": ("item", MISSING), "STATE['last']": ("item", None), "STATE[1]": ("item", MISSING),
        "history[0]": ("append", MISSING),
    }  # fmt: skip
    assert all(e.new is STATE["last"] for e in effects if e.path == "STATE['last']")


@pytest.mark.parametrize(
    "change, undo",
    [
        (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
        (lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
        (lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    ],
)
def test_a_run_that_leaves_a_switch_changed_is_no_program(change, undo):
    def f(x):
        change()
        return x

    try:
        assert "changes a switch" in followed(f, torch.ones(2)).problem.reason
    finally:
        undo()


def test_gradients_are_effects():
    weight = torch.ones(3, requires_grad=True)
    trail = followed(lambda x: (weight * x).sum().backward(), torch.ones(3))
    (effect,) = trail.effects
    assert effect.holder is weight and effect.kind == "grad" and effect.old is None and effect.new is weight.grad


@pytest.mark.slow
def test_tensors_that_could_be_found():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    scale, unused = torch.ones(3), torch.ones(3)
    guards = followed(lambda x: model(x) * scale, torch.ones(2, 3)).guards()
    found = {path: t for t, path in guards.tensors.values()}
    assert found["model[0].weight"] is model[0].weight and found["model[1].running_mean"] is model[1].running_mean
    assert found["scale"] is scale and id(unused._array) not in guards.tensors
    assert guards.tensors[id(scale._array)] == (scale, "scale")


def test_reasons_have_the_path():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Dropout()))
    x = torch.ones(2, 3)
    guards = followed(model, x).guards()
    model[0][1].eval()
    assert guards.reason((x,), {}) == "model[0][1].training == True"
    model.train()
    assert guards.check((x,), {})
    assert guards.reason((torch.ones(2, 4),), {}) == "input.shape == (2, 3)"
    with torch.no_grad():
        assert guards.reason((x,), {}) == "grad mode is True"


class WithCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 2

    @functools.cached_property
    def table(self):
        return [self.width, 2]

    def forward(self, x):
        return x * self.table[0]


class Colour(enum.Enum):
    RED, BLUE = 1, 2


PATTERN = re.compile("layer([0-9]+)")
COUNTS, DATA = collections.Counter("abca"), collections.UserDict(a=1)


@contextlib.contextmanager
def scaled(by):
    yield by * 2


def library(x):
    with scaled(2) as by, contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
        stack.callback(len, ())
        x = x * by
    if Colour(1) is Colour.RED and sys.version_info >= (3, 8) and isinstance(COUNTS, collections.abc.Mapping):
        x = x * int(PATTERN.match("layer3").group(1)) * COUNTS["a"] * DATA["a"]
    pairs = list(itertools.product([1, 2], [3]))
    return x * len(pairs) * len(re.sub("a+", "b", "aab")) * len(str(decimal.Decimal(1)))


@pytest.mark.parametrize("make", [lambda: library, WithCache], ids=["functions", "cached property"])
def test_the_library_is_no_problem(make):
    function, x = make(), torch.ones(2)
    function(x)
    trail = followed(function, x)
    assert trail.problem is None and trail.effects == []
    assert trail.guards().check((x,), {})


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_steps_of_optimizers(name):
    model = nn.Linear(3, 3)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    x = torch.ones(2, 3)
    step(x)
    guards = followed(step, x).guards()
    assert {e.kind for e in guards.effects} == {"grad"}
    for _ in range(3):
        step(x)
        assert guards.check((x,), {}), guards.reason((x,), {})
    optimizer.param_groups[0]["lr"] = 0.2
    assert not guards.check((x,), {}) and "['lr'] == 0.1" in guards.reason((x,), {})


def test_a_schedule_is_an_effect():
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    effects = {e.path.rpartition(".")[2]: e.new for e in followed(schedule.step).effects}
    assert effects["last_epoch"] == 1 and any("['lr']" in name for name in effects)


@pytest.mark.parametrize(
    "a, b, alike",
    [
        (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (math.nan, float("nan"), True), ("a", "a", True),
        ((1, 2.0), (1, 2.0), True), ((1, (0.0,)), (1, (-0.0,)), False), (complex(0.0, -0.0), 0j, False), (1j, 1j, True),
        (slice(1, 2), slice(1, 2), True), (slice(1, 2), slice(1, 3), False), (torch.float32, torch.float64, False),
        (torch.device("cpu"), torch.device("cpu"), True), (np.float32(1), np.float32(1), True), (np.float32(1), 1.0, False),
        (torch.Size([1]), (1,), False), ([1], [1], False), (frozenset("a"), frozenset("a"), True), (b"a", b"a", True),
    ],
)  # fmt: skip
def test_values_are_compared_with_their_types(a, b, alike):
    assert same(a, b) is alike and same(b, a) is alike


def test_many_calls_of_check_are_cheap():
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(20)))
    x = torch.ones(2, 3)
    guards = followed(model, x).guards()
    start = time.process_time()
    for _ in range(100):
        assert guards.check((x,), {})
    assert time.process_time() - start < 1.0


class Making(collections.OrderedDict):
    """Holds classes, and gives objects of them."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


class Doubling(list):
    def __iter__(self):
        return (2 * n for n in super().__iter__())


def test_containers_that_give_other_things_than_they_hold():
    kinds, numbers = Making(a=nn.ReLU, b=nn.Tanh), Doubling([1, 2])
    compiled = torch.compile(lambda x: kinds["a"](x) + sum(numbers), fullgraph=True)
    x = torch.tensor([-1.0, 2.0])
    assert compiled(x).tolist() == compiled(x).tolist() == [6.0, 8.0]
    numbers.append(3)
    assert compiled(x).tolist() == [12.0, 14.0]
    kinds["a"] = nn.Identity
    assert compiled(x).tolist() == [11.0, 14.0]


class Settings:
    def __init__(self):
        self.factor, self.log = 2, logging.getLogger("settings")


def test_copies_of_objects_that_hold_loggers():
    """As configurations of models: what they lead to are handlers with locks."""
    settings = Settings()
    logging.getLogger("settings").addHandler(logging.StreamHandler())
    compiled = torch.compile(lambda x: x * copy.copy(settings).factor, fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    settings.factor = 3
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]


def test_functions_are_recorded_while_a_profile_is_made():
    import cProfile

    model = torch.nn.Linear(4, 4)
    compiled = torch.compile(lambda x: model(x).cumsum(0))
    with cProfile.Profile() as profile:
        for _ in range(2):
            compiled(torch.ones(3, 4)).sum().backward()
    assert compiled._region.entries and compiled._region.problem is None
    assert len(profile.getstats()) > 10

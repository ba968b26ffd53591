"""What training loops do around their steps: meters, counters, schedules by hand, scalers, results as objects. One program, equal results."""

import collections
import copy
import dataclasses
import typing

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional
PROGRAMS = {}
LIKE_OTHERS = {"warming_up", "counters", "a_scaled_step"}  # an epoch, meters, numbers as operands


def program(count):
    """Registers a generator of results, and how many programs its function becomes."""

    def add(f):
        PROGRAMS[f.__name__] = f, count
        return f

    return add


def _made():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _data(count=9):
    torch.manual_seed(1)
    return [(torch.randn(5, 6), torch.randint(0, 3, (5,))) for _ in range(count)]


class Trainer:
    def __init__(self):
        self.model, self.optimizer = _made()
        self.average = copy.deepcopy(self.model)
        self.steps, self.running = 0, 0.0

    def train(self, x, y):
        out = self.model(x)
        loss = F.cross_entropy(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return out, loss


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


@program(1)
def meters(wrap):
    trainer, meter = Trainer(), Meter()

    def step(x, y):
        _, loss = trainer.train(x, y)
        meter.update(loss.item(), x.size(0))

    step = wrap(step)
    for i, (x, y) in enumerate(_data()):
        step(x, y)
        yield dict(vars(meter))
        if i == 5:  # somebody else changes what it finds
            meter.sum, meter.count = 2.5, 1 << 40


@program(1)
def counters(wrap):
    trainer, seen = Trainer(), {"correct": 0, "total": 0}

    def step(x, y):
        out, _ = trainer.train(x, y)
        seen["correct"] += (out.argmax(1) == y).sum().item()
        seen["total"] += y.size(0)
        return seen["correct"] / seen["total"], -seen["correct"] // 2, seen["correct"] << 1

    step = wrap(step)
    for x, y in _data():
        yield step(x, y)
        yield dict(seen)


@program(1)
def an_epoch(wrap):
    trainer = Trainer()

    def epoch(batches):
        total, count, correct = 0.0, 0, 0
        for x, y in batches:
            out, loss = trainer.train(x, y)
            total += loss.item() * x.size(0)
            count += x.size(0)
            correct += (out.argmax(1) == y).sum().item()
        return total / count, correct / count, correct

    epoch = wrap(epoch)
    for _ in range(4):
        yield epoch(_data(3))


@program(1)
def average_by_a_count(wrap):
    trainer = Trainer()

    def step(x, y):
        trainer.steps += 1
        trainer.train(x, y)
        decay = min(0.99, (1 + trainer.steps) / (10 + trainer.steps))
        with torch.no_grad():
            for p, q in zip(trainer.average.parameters(), trainer.model.parameters()):
                p.mul_(decay).add_(q, alpha=1 - decay)

    step = wrap(step)
    for x, y in _data():
        step(x, y)
        yield [p.detach().clone() for p in trainer.average.parameters()]


@program(2)
def warming_up(wrap):
    trainer = Trainer()

    def step(x, y):
        rate = 0.1 * min(1.0, (trainer.steps + 1) / 5)
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        _, loss = trainer.train(x, y)
        trainer.steps += 1
        return loss.detach(), rate

    step = wrap(step)
    for x, y in _data(12):
        yield step(x, y)


@program(1)
def decaying_rate(wrap):
    trainer = Trainer()

    def step(x, y):
        trainer.optimizer.param_groups[0]["lr"] *= 0.9
        return trainer.train(x, y)[1].detach()

    step = wrap(step)
    for x, y in _data(12):
        yield step(x, y)
        yield trainer.optimizer.param_groups[0]["lr"]


@program(2)
def accumulated_gradients(wrap):
    trainer = Trainer()

    def step(x, y):
        loss = F.cross_entropy(trainer.model(x), y) / 2
        loss.backward()
        trainer.steps += 1
        if trainer.steps % 2 == 0:
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
        return loss.detach()

    step = wrap(step)
    for x, y in _data():
        yield step(x, y)


@program(1)
def numbers_as_operands(wrap):
    state = Trainer()

    def f(x, y):
        state.steps += 1
        state.running = state.running * 0.5 + x.sum().item()
        z = x * state.steps + state.running
        z.sub_(x, alpha=state.steps).div_(state.steps)
        return (
            z.half() * state.running,
            torch.where(z > 0, z, state.running),
            z.clamp(max=state.running),
            (y + state.steps) ** 2,
        )

    f = wrap(f)
    for x, y in _data():
        yield f(x, y)


@program(1)
def a_scaled_step(wrap):
    trainer = Trainer()
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2)

    def step(x, y):
        trainer.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(trainer.model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(trainer.optimizer)
        nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        scaler.step(trainer.optimizer)
        scaler.update()
        return loss.item(), scaler.get_scale()

    step = wrap(step)
    for i, (x, y) in enumerate(_data()):
        loss, scale = step(x * float("inf") if i == 4 else x, y)  # a step that is left out
        yield f"{loss:.4f}", scale  # sums are rounded in another order


@dataclasses.dataclass
class Output:
    loss: typing.Any = None
    logits: typing.Any = None
    more: typing.Any = None


class Pair(typing.NamedTuple):
    loss: typing.Any
    logits: typing.Any


class Mapping(collections.OrderedDict):
    """What models of some libraries give: a dictionary with attributes."""

    def __init__(self, **parts):
        super().__init__(**parts)
        self.__dict__.update(parts)


def _objects(kind, **more):
    def objects(wrap):
        trainer = Trainer()

        def step(x, y):
            out, loss = trainer.train(x, y)
            return kind(loss=loss.item(), logits=out), [kind(loss=loss.detach(), logits=(x, 2))]

        step = wrap(step)
        for x, y in _data():
            one, (other,) = step(x, y)
            assert type(one) is type(other) is kind and other.logits[0] is x
            yield [one.loss, one.logits, other.loss, other.logits, list(one) if kind is not Output else one.more]

    objects.__name__ = f"objects_{kind.__name__}"
    return objects


for _kind in (Output, Pair, Mapping):
    program(1)(_objects(_kind))


@program(2)  # with gradients from before, and without
def masks(wrap):
    model, _ = _made()

    def f(x, y):
        model.zero_grad()
        h = model(x)
        h[y == 1] = 0.5
        h[:, torch.tensor([True, False, True])] = h.detach().mean()
        h[h > 0.4] = -1.0
        h = h.masked_fill(h < -2, 0.0)
        (h * h).sum().backward()
        x = x.clone()
        x[x < 0] = 0
        return h.detach(), x, model[0].weight.grad.clone()

    f = wrap(f)
    for x, y in _data():
        yield f(x, y)


def _seen(a):
    if isinstance(a, torch.Tensor):
        return str(a.dtype), a.requires_grad, a.detach().float().numpy().tobytes()
    return [_seen(b) for b in a] if isinstance(a, (list, tuple)) else a


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_OTHERS else []) for name in PROGRAMS]
)
def test_loops_are_compiled_whole(name, whole):
    run, count = PROGRAMS[name]
    regions = []

    def wrap(f):
        compiled = torch.compile(f, fullgraph=whole)
        regions.append(compiled._region)
        return compiled

    for i, (expected, found) in enumerate(zip(map(_seen, run(lambda f: f)), map(_seen, run(wrap)))):
        assert found == expected, i
    (region,) = regions
    assert region.problem is None and len(region.entries) == count


# -- what must not be kept -----------------------------------------------------------------------------------------------

_names = list("abcdefgh")
_scale = np.float64(2.0)
CHANGING = {
    "an index": lambda self, n: _names[n],
    "a part": lambda self, n: _names[1:n],
    "a length": lambda self, n: list(range(n)),
    "a repetition": lambda self, n: "x" * n + str([0] * n),
    "an old format": lambda self, n: "%d" % n,  # noqa: UP031
    "an old format by a name": lambda self, n: self.form % n,
    "a key": lambda self, n: self.table.get(n),
    "a text": lambda self, n: str(n).zfill(3),
    "an array": lambda self, n: float(np.arange(9.0)[n]),
    "a number of NumPy's": lambda self, n: _scale * n,
    "bits": lambda self, n: (n.bit_length(), n.real, ~n, n ^ 3),
    "truth": lambda self, n: (n > 2, n == 3, bool(n), not n),
    "a container": lambda self, n: n in (1, 3),
    "a view": lambda self, n: torch.arange(6)[:n].sum().item(),
    "a size": lambda self, n: tuple(torch.zeros(n).shape),
    "a method": lambda self, n: list("abcdefgh").pop(n),
    "counted from": lambda self, n: list(enumerate("ab", n)),
    "rounded": lambda self, n: (round(n / 3, 1), abs(-n), divmod(n, 2), int(n) + 1, float(n)),
    "largest": lambda self, n: (max(n, 2), min(n, 2), sum([n, 1]), sorted([2, n])),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("bits", "a view") else []) for name in CHANGING]
)
@pytest.mark.parametrize("where", ["read", pytest.param("kept", marks=pytest.mark.slow)])
def test_what_is_made_of_whole_numbers_is_never_that_of_another_call(name, where):
    class Own:
        form, table = "<%d>", {1: "one", 3: "three"}

        def __init__(self):
            self.n = 0

        def call(self, x):
            y = x * 2
            if where == "kept":
                self.n += 1
                return y, CHANGING[name](self, self.n)
            return y, CHANGING[name](self, y.sum().long().item())

    def ran(wrap):
        own = Own()
        call = wrap(own.call)
        return [(own.n, call(torch.tensor([float(i % 5) / 2]))[1]) for i in (1, 2, 3, 4, 0, 3, 1)]

    assert ran(torch.compile) == ran(lambda f: f)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adafactor", "Rprop", "LBFGS"])
@pytest.mark.parametrize("within", [False, True])
def test_steps_that_are_given_a_closure(name, within):
    """Closures are a part of the program where they are called first; others, and steps with hooks, run eagerly."""

    def train(wrap, hook=None):
        torch.manual_seed(0)
        model, calls = nn.Linear(3, 1), []
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
        if hook is not None:
            optimizer.register_step_pre_hook(lambda *_: hook.append(1))

        def closure(x):
            optimizer.zero_grad()
            calls.append(1)
            loss = model(x).square().mean()
            loss.backward()
            return loss

        def step(x):
            loss = optimizer.step(closure=lambda: closure(x)) if within else optimizer.step(lambda: closure(x))
            schedule.step()
            return loss

        run = wrap(step)
        losses = [run(torch.full((4, 3), float(i))).item() for i in range(6)]
        return losses, model.weight.tolist(), calls, optimizer.param_groups[0]["lr"], run

    *eager, _ = train(lambda f: f)
    *compiled, run = train(torch.compile)
    assert compiled == eager
    assert len(run._region.entries) == (name != "LBFGS"), run._region.problem
    for wrap in (torch.compile, lambda f: f):
        hook = []
        assert train(wrap, hook)[:3] == tuple(eager[:3]) and len(hook) == 6

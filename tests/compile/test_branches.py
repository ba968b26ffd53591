"""Programs that branch on elements, in the midst of training steps: each answer has its program, and a wrong guess leaves nothing behind."""

import contextlib
import itertools
import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils._pytree import tree_map


class Trained:
    """A model with all that a step may change."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
        self.best, self.waited, self.seen, self.parts = 1e9, 0, [], torch.zeros(3)

    def loss(self, x, none=True):
        self.optimizer.zero_grad(set_to_none=none)
        loss = self.model(x).square().mean()
        loss.backward()
        return loss

    def state(self):
        own = [v["momentum_buffer"] for v in self.optimizer.state.values()]
        grads = [p.grad for p in self.model.parameters()]
        numbers = self.best, self.waited, list(self.seen)
        return plain([numbers, self.parts, torch.get_rng_state(), *self.model.state_dict().values(), *own, *grads])


def plain(a):
    return repr(tree_map(lambda b: b.tolist() if hasattr(b, "tolist") else b, a))


LIMIT, NORM = 0.35, 1.0  # the loss and the norm of gradients are above these for some inputs


def after_the_step(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    if loss.item() > LIMIT:
        t.seen.append("large")
        return loss * 2
    return loss


def of_a_tensor(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    return loss * 2 if loss > LIMIT else loss


def best_so_far(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    if loss.item() < t.best:
        t.best, t.waited = loss.item(), 0
    else:
        t.waited += 1
    return loss


def smallest(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    t.best = min(t.best, loss.item())
    return loss


def largest(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    t.best = max(loss.item(), 0.3)
    return loss


def skipped(t, x):
    loss = t.loss(x)
    if not math.isfinite(loss.item()) or loss.item() > LIMIT:
        t.optimizer.zero_grad()
        return loss.detach()
    t.optimizer.step()
    return loss.detach()


def not_a_number(t, x):
    loss = t.loss(x)
    if math.isnan(loss.item()) or math.isinf(loss.item()):
        raise ValueError("no number")
    t.optimizer.step()
    return loss.item()


def asserted(t, x):
    loss = t.loss(x)
    assert torch.isfinite(loss).all(), "no number"
    t.optimizer.step()
    return loss


def gradients(t, x):
    loss = t.loss(x)
    if any(bool(torch.isnan(p.grad).any()) for p in t.model.parameters()):
        t.optimizer.zero_grad()
        return loss
    t.optimizer.step()
    return loss


def clipped_by_hand(t, x):
    loss = t.loss(x)
    norm = torch.stack([p.grad.norm() for p in t.model.parameters()]).norm()
    if norm > NORM:
        for p in t.model.parameters():
            p.grad.mul_(NORM / norm)
    t.optimizer.step()
    return loss, norm


def clipped(t, x):
    loss = t.loss(x)
    norm = nn.utils.clip_grad_norm_(t.model.parameters(), 0.3)
    t.optimizer.step()
    if norm > NORM:
        t.waited += 1
    return loss, norm


def skipped_by_norm(t, x):
    loss = t.loss(x)
    norm = nn.utils.clip_grad_norm_(list(t.model.parameters()), 0.3, norm_type=3.0)
    if not torch.isfinite(norm) or norm.item() > NORM:
        t.seen.append("skipped")
        return loss
    t.optimizer.step()
    return loss


def clipped_but_for_some(t, x):
    loss = t.loss(x)
    norm = nn.utils.clip_grad_norm_([*t.model.parameters(), t.fixed], 0.3)
    t.optimizer.step()
    return loss if norm.item() > NORM else -loss


def norm_in_numbers(t, x):
    loss = t.loss(x)
    norm = sum(p.grad.square().sum() for p in t.model.parameters()).item() ** 0.5
    t.optimizer.step()
    if norm > NORM:
        t.seen.append(norm)
    return loss


def after_an_update_of_gradients(t, x):
    loss = t.loss(x)
    p = t.model[0].weight
    p.grad.mul_(0.5)
    t.optimizer.step()
    return loss if p.grad.sum().item() > 0 else -loss


def nearly(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    return loss if abs(loss.item() - 0.3) < 0.1 else loss + 1


def two_passes(t, x):
    t.optimizer.zero_grad()
    a, b = t.model(x).mean(), t.model(x).square().mean()
    (a + b).backward()
    t.optimizer.step()
    return a if b.item() > LIMIT else b


def whole_numbers(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    return [loss, loss * 2, loss * 3, loss * 4][min(3, int(loss.item() * 8))]


def index(t, x):
    y = t.model(x)
    k = y.mean(0).argmax().item()
    t.waited = k
    return y[:, k]


def sizes(t, x):
    n = int((x[:, 0] > 0).sum() > 2) + 1
    t.parts.add_(1)
    return x[:n], x[(x.sum() > 0).long().item() :]


def times(t, x):
    t.parts.add_(1)
    for i in range((x[:, 0] > 0).sum().clamp(max=2).item()):
        x = x * (i + 2)
    return x


def key(t, x):
    t.parts.add_(1)
    return {0: x, 1: -x}[(x.sum() > 0).long().item()]


def repeated(t, x):
    v = x.abs().sum()
    t.parts.add_(1)
    while v.item() > 4:
        v, t.waited = v / 2, t.waited + 1
    return v


def memory_of_the_run(t, x):
    y = torch.zeros(5, 4)
    y[:, 1:] = x[:, 1:] * 2
    t.parts.mul_(2).add_(1)
    y[0] = t.model(x).sum()
    return y if y.sum().item() > 0 else -y


def written_twice(t, x):
    t.parts.add_(x.sum())
    t.parts.mul_(0.5)
    return x if t.parts.sum().item() > 0 else -x


def drawn(t, x):
    noise = torch.rand(3)
    t.parts.copy_(noise)
    y = t.model(x)
    return y if (noise.sum() + torch.randn(()) + y.sum()).item() > 1.5 else -y


def several(t, x):
    total, loss = x.sum(), t.loss(x)
    big = loss.item() > LIMIT
    t.optimizer.step()
    if total > 0 and not big:
        t.waited += 1
        return loss * 2
    return loss if big else -loss


def printed(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    if loss.item() > LIMIT:
        print(f"large {loss.item():.3f}")
    return loss


EARLY = [
    after_the_step, of_a_tensor, best_so_far, smallest, largest, skipped, not_a_number, asserted, gradients, clipped_by_hand,
    clipped, skipped_by_norm, clipped_but_for_some, norm_in_numbers, after_an_update_of_gradients, nearly, two_passes, whole_numbers, index, sizes, times, key, repeated, memory_of_the_run, written_twice,
    drawn, several, printed,
]  # fmt: skip


def of_a_parameter(t, x):
    loss = t.loss(x)
    t.optimizer.step()
    return loss if t.model[0].weight.sum().item() > 0 else -loss


def of_the_next_loss(t, x):
    first = t.loss(x)
    t.optimizer.step()
    second = t.loss(x)
    t.optimizer.step()
    return first if first.item() < second.item() else second


def of_gradients_that_were_there(t, x):
    loss = t.loss(x, none=False)
    norm = sum(p.grad.square().sum() for p in t.model.parameters())
    t.optimizer.step()
    return loss if norm > 0.2 else -loss


def of_a_view_of_what_was_written(t, x):
    t.parts[1:].add_(x.sum())
    return x if t.parts[1].item() > 0 else -x


LONG = {
    best_so_far,
    smallest,
    norm_in_numbers,
    nearly,
    whole_numbers,
    index,
    repeated,
    skipped_by_norm,
}  # others are like them
LATE = [of_a_parameter, of_the_next_loss, of_gradients_that_were_there, of_a_view_of_what_was_written]
SCALES = {"alternating": (0.1, 3.0), "one after another": (3.0, 3.0, 3.0, 0.1, 0.1)}


def trained(step, wrap, scales, calls):
    t = Trained()
    run = wrap(lambda x: step(t, x))
    g = torch.Generator().manual_seed(1)
    found = []
    for scale in itertools.islice(itertools.cycle(scales), calls):
        out = run(torch.randn(5, 4, generator=g) * scale)
        found.append((plain(out), t.state()))
    return found, run


@pytest.mark.parametrize("scales", ["alternating", pytest.param("one after another", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.slow] if step in LONG else []) for step in [*EARLY, *LATE]]
)
def test_answers_change_in_the_midst_of_training(step, scales, capsys):
    calls = 12
    eager, _ = trained(step, lambda f: f, SCALES[scales], calls)
    said = capsys.readouterr().out
    found, compiled = trained(step, torch.compile, SCALES[scales], calls)
    for i, (a, b) in enumerate(zip(eager, found, strict=True)):
        assert a == b, i
    assert said == capsys.readouterr().out
    assert (compiled._region.problem is None) == (step in EARLY), compiled._region.problem


def test_all_generators_go_back():
    own = torch.Generator()

    def f(x):
        noise = torch.randn(2, generator=own) + torch.randn(2)
        return x + noise if noise.sum() > 0 else x - noise

    def runs(f):
        own.manual_seed(3)
        torch.manual_seed(4)
        return [f(torch.zeros(2)).tolist() for _ in range(12)], own.get_state().tolist(), torch.get_rng_state().tolist()

    compiled = torch.compile(f)
    assert runs(f) == runs(compiled)
    assert len(compiled._region.entries) == 2 and compiled._region.surprises


def test_gradients_of_before_matter():
    """Where a gradient is looked at that is the first of its leaf, it must be the first in each call."""
    w = torch.ones(2, requires_grad=True)

    def f(x):
        (w * x).sum().backward()
        return 1 if w.grad.sum().item() > 3 else 2

    def runs(f):
        w.grad = None
        found = []
        for i in range(8):
            if i == 5:
                w.grad = None
            found.append((f(torch.ones(2)), w.grad.tolist()))
        return found

    assert runs(f) == runs(torch.compile(f))


def test_the_order_of_programs_follows_the_answers():
    compiled = torch.compile(lambda x: x * 2 if x.sum() > 0 else x * 3)
    up, down = torch.ones(2), -torch.ones(2)
    for x in (up, down, up, up, up, up):
        compiled(x)
    missed = compiled._region.surprises
    for _ in range(5):
        assert compiled(up).tolist() == [2.0, 2.0]
    assert compiled._region.surprises == missed
    for x in (down, down, down, down):
        assert compiled(x).tolist() == [-3.0, -3.0]
    assert compiled._region.surprises == missed + 2


def test_second_derivatives_go_through_programs_with_branches():
    def f(x):
        return (x**3).sum() if x.sum().item() > 0 else (x**2).sum()

    compiled = torch.compile(f)
    for value in (1.0, 2.0, -1.0, 3.0):
        x = torch.tensor([value], requires_grad=True)
        (g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        assert h.item() == (6 * value if value > 0 else 2)


def test_counts_that_are_set_besides():
    """A place that is set in one branch and counted in the other is not only counted."""

    class Counter:
        n = 3
        reset = False

    def make():
        counter = Counter()
        counter.n = 3

        def f(x):
            if counter.reset:
                counter.n = 0
            else:
                counter.n += 1
            return x * 2

        return counter, f

    found = []
    for wrap in (lambda f: f, torch.compile):
        counter, f = make()
        f = wrap(f)
        for reset in (False, False, True, False, False, True, True, False):
            counter.reset = reset
            f(torch.ones(2))
            found.append(counter.n)
    assert found[:8] == found[8:]


@pytest.mark.parametrize("order", [(9, 1, 2, 9, 3), (1, 2, 9, 3, 1)])
def test_errors_that_depend_on_elements_and_are_caught(order):
    def safe(x, i):
        try:
            y = x[i]
        except IndexError:
            y = x[0] * 0
        return y + 1

    def suppressed(x, i):
        y = x[0] * 0
        with contextlib.suppress(IndexError):
            y = x[i] * 2
        return y

    x = torch.arange(4.0) + 5
    for function in (safe, suppressed):
        compiled = torch.compile(function)
        for i in order:
            assert torch.equal(compiled(x, torch.tensor(i)), function(x, torch.tensor(i)))


def test_errors_of_shapes_that_are_caught_are_parts_of_programs():
    def shaped(x):
        try:
            return x.view(3, 3)
        except RuntimeError:
            return x * 2

    compiled = torch.compile(shaped, fullgraph=True)
    for size in (4, 9, 4, 9):
        assert torch.equal(compiled(torch.ones(size)), shaped(torch.ones(size)))

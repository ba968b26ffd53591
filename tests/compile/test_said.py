"""What compiled functions print, log and show: at each call, with that call's values, in order."""

import contextlib
import io
import logging
import sys

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


class Trainer:
    """A training step in an object; `say(self, loss, out)` is what it has to say."""

    def __init__(self, say):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.steps, self.running, self.log, self.names = 0, 0.0, [], ["a", "b", "c", "d"]
        self.say = say

    def step(self, x, y):
        self.steps += 1
        self.optimizer.zero_grad()
        out = self.model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        self.optimizer.step()
        self.running += loss.item()
        self.say(self, loss, out)
        return loss.detach()


def _data(count=8):
    torch.manual_seed(1)
    return [(torch.randn(5, 6), torch.randint(0, 3, (5,))) for _ in range(count)]


def _ran(wrap, say):
    trainer = Trainer(say)
    step = wrap(trainer.step)
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        made = [step(x, y) for x, y in _data()]
    return made, text.getvalue(), (trainer.steps, trainer.running, trainer.log), step


def _formatted(self, loss, out):
    print(f"step {self.steps}: loss {loss.item():.4f}, mean {self.running / self.steps:>8.3f}")


def _percent(self, loss, out):
    print("step %d: loss %.3f" % (self.steps, loss.item()))  # noqa: UP031
    print("loss {:.3f} of {}".format(float(loss.detach()), self.steps), end="!\n")  # noqa: UP032


def _tensors(self, loss, out):
    print("loss", loss, out.shape, out.dtype, out[0].detach(), (out > 0).sum())


def _before_and_after(self, loss, out):
    print("before", loss.item())
    self.running = 0.5
    self.log.append(self.steps)
    print("after", self.running)
    self.running += loss.item()


def _streams(self, loss, out):
    sys.stdout.write(f"{loss.item():.5f}\n")
    print(loss.item(), file=sys.stderr, flush=True)
    sys.stdout.flush()


def _in_a_loop(self, loss, out):
    for i, row in enumerate(out.detach()):
        print(i, row.sum().item(), end=", ")
    print()


def _in_blocks(self, loss, out):
    try:
        with torch.no_grad():
            print("inside", (out * 2).mean().item())
    finally:
        print("at last", loss.item())


def _sometimes(self, loss, out):
    if self.steps % 3 == 0:
        print(f"[{self.steps}] {self.running / 3:.3f}")
        self.running = 0.0


def _as_an_index(self, loss, out):
    print(self.names[out[0].argmax().item()], self.names[self.steps % 4])


def _of_a_closure():
    total = 0.0

    def say(self, loss, out):
        nonlocal total
        total += loss.item()
        print("total", round(total, 3), min(total, 3.0))

    return say


def _long(self, loss, out):
    a = out.detach()
    a = a + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20
    a = a + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20
    a = a + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20
    a = a + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20
    print(f"far away {a.mean().item():.4f}", *[1, 2], sep="-")
    a.zero_()


def _written_later(self, loss, out):
    a = out.detach() * 2
    print(a)
    a.zero_()
    print(a)


_log = logging.getLogger("flambeau.tests.said")


def _logged(self, loss, out):
    _log.info("loss %.3f", loss.item())
    _log.warning(f"{loss.item():.3f} in step {self.steps}")
    _log.debug("never %d", loss.item())


def _in_a_helper(self, loss, out):
    for name, number in (("loss", loss.item()), ("mean", out.mean().item())):
        _show(name, number)


def _show(name, number):
    print(f"{name:>6} = {number:.4f}")


SAID = [
    _formatted, _percent, _tensors, _before_and_after, _streams, _in_a_loop, _in_blocks, _sometimes, _as_an_index, _of_a_closure(), _long,
    _written_later, _logged, _in_a_helper,
]  # fmt: skip
LIKE_OTHERS = {_percent, _before_and_after, _in_blocks, _as_an_index, _long, _in_a_helper}


@pytest.fixture(autouse=True)
def handler():
    class Handler(logging.Handler):
        def emit(self, record):
            sys.stdout.write(self.format(record) + "\n")

    own = Handler()
    _log.setLevel(logging.INFO)
    _log.addHandler(own)
    _log.propagate = False
    yield
    _log.removeHandler(own)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "say",
    [pytest.param(say, marks=[pytest.mark.slow] if say in LIKE_OTHERS else []) for say in SAID],
    ids=lambda f: f.__name__,
)
def test_what_is_said_is_that_of_each_call(say, whole):
    if say.__name__ == "say":
        say, other = _of_a_closure(), _of_a_closure()
    else:
        other = say
    made, text, kept, _ = _ran(lambda f: f, say)
    found, other_text, other_kept, step = _ran(lambda f: torch.compile(f, fullgraph=whole), other)
    assert other_text == text and other_kept == kept
    assert all(torch.equal(a, b) for a, b in zip(made, found))
    region = step._region
    assert region.problem is None and 1 <= len(region.entries) <= 2


def _of_weights(self, loss, out):
    print(self.model[0].weight.sum().item())
    with torch.no_grad():
        self.model[0].weight.mul_(0.9)


def _draws(self, loss, out):
    print(torch.rand(()).item())


def _takes(self, loss, out):
    self.log.extend([loss.item(), 2.0])
    print(self.log.pop())


def _counts(self, loss, out):
    print(_next(self))


def _next(self):
    self.running += 1
    return self.running


def _gives(self, loss, out):
    self.log.append(print(loss.item()))


@pytest.mark.parametrize("say", [_of_weights, _draws, _takes, _counts, _gives])
def test_what_cannot_be_said_again_runs_eagerly(say):
    made, text, kept, _ = _ran(lambda f: f, say)
    found, other_text, other_kept, step = _ran(torch.compile, say)
    assert (other_text, other_kept) == (text, kept) and all(torch.equal(a, b) for a, b in zip(made, found))
    assert not step._region.entries


def test_modules_that_print():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.a(x).relu()
            print("hidden", tuple(h.shape), h.mean().item())
            return self.b(h).sum()

    def ran(wrap):
        torch.manual_seed(0)
        own = Own()
        call, text = wrap(own), io.StringIO()
        with contextlib.redirect_stdout(text):
            for x, _ in _data():
                call(x).backward()
        return text.getvalue(), [p.grad for p in own.parameters()], call

    (text, gradients, _), (found, others, _) = ran(lambda f: f), ran(lambda f: torch.compile(f, fullgraph=True))
    assert found == text and all(torch.allclose(a, b) for a, b in zip(gradients, others))


def test_progress_bars():
    tqdm = pytest.importorskip("tqdm").tqdm

    def ran(wrap):
        bar = tqdm(total=8, file=io.StringIO(), mininterval=0)
        shown = []

        def say(self, loss, out):
            bar.set_postfix(loss=loss.item(), step=self.steps)
            bar.update(1)

        trainer = Trainer(say)
        step = wrap(trainer.step)
        for x, y in _data():
            step(x, y)
            shown.append((bar.n, bar.postfix))
        bar.close()
        return shown, step

    (shown, _), (found, step) = ran(lambda f: f), ran(torch.compile)
    assert found == shown and step._region.problem is None

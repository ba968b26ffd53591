"""Lists that a function only appends to grow without another recording, also by numbers that it reads from tensors."""

import collections

import pytest

import flambeau as torch
from flambeau import nn

losses = []
others = []
nest = [others]


class Trainer:
    def __init__(self, function):
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.history, self.counts, self.function = [], collections.Counter(), function

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        out = self.function(self, loss)
        self.optimizer.step()
        return out


class Doubling(list):
    def append(self, number):
        super().append(2 * number)


class Counting:
    def __init__(self):
        self.items, self.total = [], 0.0

    def append(self, number):
        self.items.append(number)
        self.total += number


doubled, counted = Doubling(), Counting()


def everything(self, t):
    self.history.append(t.item())
    losses.append(float(t.detach()))
    losses.append(t.detach())
    return t.detach()


def helper(self, t):
    keep(t * 2)


def keep(t):
    losses.append(t.item())


def several(self, t):
    for i in range(3):
        losses.append((t * i).item())


def overwritten(self, t):
    y = t.detach() * 2
    losses.append(y.item())
    y.zero_()
    return y


def by_name(self, t):
    self.history.append(t.item())
    return getattr(self, "hist" + "ory")[-1]


def by_another_name(self, t):
    others.append(t.item())
    return nest[0][-1]


GROWS = {
    "global": lambda self, t: losses.append(t.item()),
    "attribute": lambda self, t: self.history.append(t.item()),
    "tensors": lambda self, t: losses.append(t.detach()),
    "everything": everything,
    "by another function": helper,
    "in a loop": several,
    "written later": overwritten,
}
READ = {
    "its end": lambda self, t: (losses.append(t.item()), losses[-1])[1],
    "its sum": lambda self, t: (self.history.append(t.item()), sum(self.history))[1],
    "by a computed name": by_name,
    "by another name": by_another_name,
    "a class of its own": lambda self, t: doubled.append(t.item()),
    "something else": lambda self, t: counted.append(t.item()),
    "a whole number": lambda self, t: losses.append((t * 100).long().item()),
    "used, too": lambda self, t: losses.append(t.item()) or t.item() * 2,
}


def state(trainer):
    numbers = lambda a: [float(b) for b in a]
    return [*map(numbers, (losses, others, doubled, counted.items, trainer.history)), counted.total]


def run(name, compiled):
    for a in (losses, others, doubled, counted.items):
        a.clear()
    counted.total = 0.0
    trainer = Trainer(GROWS.get(name) or READ[name])
    step = torch.compile(trainer.step) if compiled else trainer.step
    x, found = torch.arange(12.0).view(4, 3) / 10, []
    for i in range(5):
        out = step(x + i)
        found.append(out.item() if isinstance(out, torch.Tensor) else out)
    return step, found, state(trainer)


@pytest.mark.parametrize("name", [*GROWS, *READ])
def test_lists_hold_what_each_call_gave(name):
    compiled, *found = run(name, True)
    assert found == list(run(name, False)[1:])
    if name in GROWS:
        assert len(compiled._region.entries) == 1


def test_lists_that_are_replaced_or_emptied():
    box = {"list": []}
    target = box["list"]

    def step(x):
        target.append((x * 2).sum().item())
        return x + 1

    compiled = torch.compile(step)
    for i in range(3):
        compiled(torch.full((2,), float(i)))
    old = list(target)
    target.clear()
    compiled(torch.ones(2))
    assert (old, target) == ([0.0, 4.0, 8.0], [4.0])
    target = []
    compiled(torch.ones(2))
    assert target == [4.0]
    assert len(compiled._region.entries) == 2


def test_code_that_begins_to_read_the_list():
    seen, looks = [], [False]

    def step(x):
        seen.append(x.sum().item())
        return x * len(seen) if looks[0] else x

    compiled = torch.compile(step)
    for i in range(4):
        looks[0] = i > 1
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * (i + 1 if i > 1 else 1))
    assert seen == [2.0] * 4

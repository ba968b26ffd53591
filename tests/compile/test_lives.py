"""What a compiled function knows is freed when the program that it was recorded from lets go of it."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau import nn


class Owner:
    pass


def network():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())


def argument(x):
    model = network()
    compiled = torch.compile(lambda model, x: model(x))
    for _ in range(3):
        compiled(model, x).sum().backward()
    return compiled, model, next(model.parameters())


def attribute(x):
    owner = Owner()
    owner.model = network().eval()
    compiled = torch.compile(lambda x: owner.model(x))
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
    found = compiled, owner.model, next(owner.model.parameters())
    owner.model = None
    return found


def step(x):
    owner = Owner()
    owner.model = network()
    owner.optimizer = torch.optim.AdamW(owner.model.parameters())

    def function(x):
        owner.optimizer.zero_grad()
        loss = owner.model(x).sum()
        loss.backward()
        owner.optimizer.step()
        return loss

    compiled = torch.compile(function)
    for _ in range(3):
        compiled(x)
    found = compiled, owner.model, owner.optimizer
    owner.model = owner.optimizer = None
    return found


def tensor(x):
    owner = Owner()
    owner.table = torch.ones(4)
    compiled = torch.compile(lambda x: x * owner.table)
    for _ in range(3):
        compiled(x)
    found = compiled, owner.table
    owner.table = torch.zeros(4)
    return found


def several(x):
    models = [network() for _ in range(3)]
    compiled = torch.compile(lambda model, x: model(x))
    for i in range(6):
        compiled(models[i % 3], x)
    return compiled, models[1], models[2]


def trainer(x):
    """An object whose class is known by what it holds from the second one on."""
    owners = [Owner() for _ in range(2)]
    compiled = torch.compile(lambda owner, x: owner.model(x))
    for owner in owners:
        owner.model = network()
        compiled(owner, x)
    return compiled, owners[0], owners[1].model


@pytest.mark.parametrize("case", [argument, attribute, step, tensor, several, trainer])
def test_what_nobody_else_has_is_freed(case):
    compiled, *objects = case(torch.ones(2, 4))
    known = [weakref.ref(a) for a in objects]
    assert compiled._region.entries
    del objects
    gc.collect()
    assert [a() for a in known] == [None] * len(known)


def test_programs_end_with_what_they_were_made_for_and_with_their_function():
    model, x = network().eval(), torch.ones(2, 4)
    compiled = torch.compile(lambda model, x: model(x) + 1)
    for _ in range(3):
        assert torch.allclose(compiled(model, x), model(x) + 1)
    entry = weakref.ref(compiled._region.entries[0])
    del compiled
    gc.collect()
    assert entry() is None  # also where the model lives on

    compiled, results = torch.compile(lambda model, x: model(x) + 1), []
    for _ in range(20):  # more models than programs may be kept
        model = network().eval()
        results += [torch.allclose(compiled(model, x), model(x) + 1) for _ in range(2)]
        del model
        gc.collect()
        assert not compiled._region.entries
    assert all(results)


def test_a_tensor_that_is_another_in_each_call_does_not_record_without_end():
    owner = Owner()
    compiled, before = torch.compile(lambda x: x * owner.table), torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for i in range(20):
        owner.table = torch.full((4,), float(i))
        assert compiled(torch.ones(4)).tolist() == [i] * 4
        gc.collect()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= before + 10


def test_objects_that_come_anew_are_known_by_what_they_hold_though_the_old_ones_are_gone():
    def function(owner, x):
        owner.count += 1
        return x * owner.factor

    compiled, before = torch.compile(function), torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for i in range(6):
        owner = Owner()
        owner.factor, owner.count = torch.full((2,), float(i)), 0
        assert compiled(owner, torch.ones(2)).tolist() == [i, i] and owner.count == 1
        del owner
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= before + 2

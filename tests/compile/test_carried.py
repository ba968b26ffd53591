"""Tensors and containers of them that each call finds where the last one left them."""

import pytest

import flambeau as torch
from flambeau import nn


class Holder:
    pass


STATE = None


def _leave(own, how, y):
    """Leaves something for the next call, made of what the last one has left; gives what this call returns."""
    global STATE
    if how == "list":
        for i in range(3):
            own.list[i] = torch.tanh(own.list[i] + y)
    elif how == "turned":
        own.list.append(own.list[0] + y)
        own.list.pop(0)
    elif how == "new list":
        own.list = [*own.list[1:], y]
    elif how == "tuple":
        own.tuple = (own.tuple[1] + y, own.tuple[0])
        return own.tuple
    elif how == "nest":
        own.nest = {"a": [own.nest["a"][0] * 0.5 + y], "b": (own.nest["a"][0], y)}
    elif how == "later":
        own.later = (y, y) if own.later is None else (own.later[1], own.later[0] + y)
    elif how == "shifted":
        own.first, own.second = own.second, y
    elif how == "twice":
        own.first = own.second = own.first + own.second + y
    elif how == "global":
        STATE = (STATE[0] + y, STATE[1] * y)
        return STATE[0]
    elif how == "length":
        own.list = [*own.list, y]
    return y * 2


HOWS = ("list", "turned", "new list", "tuple", "nest", "later", "shifted", "twice", "global", "length")


def _made():
    global STATE
    own = Holder()
    own.list, own.tuple = [torch.zeros(2), torch.ones(2), torch.zeros(2)], (torch.zeros(2), torch.ones(2))
    own.nest, own.later = {"a": [torch.ones(2)], "b": (torch.ones(2), torch.ones(2))}, None
    own.first = own.second = torch.zeros(2)
    STATE = (torch.zeros(2), torch.ones(2))
    return own


def _seen(own):
    held = [own.list, own.tuple, own.nest, own.later, own.first, own.second, STATE]
    return repr(held), own.first is own.second


def _calls(how, compiled, change):
    own, found = _made(), []
    step = lambda x: _leave(own, how, x.exp())
    step = torch.compile(step) if compiled else step
    for i in range(8):
        if i == 5:
            change(own)
        kept = own.tuple, [*own.list], own.first
        found.append((repr(step(torch.full((2,), i / 8))), _seen(own), repr(kept)))
    return found, step


def _other_objects(own):
    own.list[1] = own.list[0]
    own.tuple = (own.tuple[0], own.tuple[0])
    own.second = own.first


def _other_shapes(own):
    own.list, own.tuple = [torch.ones(1)] * 3, (torch.ones(1), torch.ones(2))
    own.nest, own.first = {"a": [torch.ones(1)], "b": own.nest["b"]}, torch.ones(1)


def _other_kinds(own):
    own.list, own.tuple = own.list * 2, [*own.tuple]
    own.nest = {"b": 1, "a": own.nest["a"]}


def _same_memory(own):
    own.list[0] = own.list[1].view(2)
    own.tuple = (own.tuple[0], own.tuple[0].detach())
    own.second = own.first[:]


CHANGES = (lambda own: None, _other_objects, _other_shapes, _other_kinds, _same_memory)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", HOWS)
def test_what_a_call_leaves_is_found_by_the_next(how, change):
    found, step = _calls(how, True, change)
    assert found == _calls(how, False, change)[0]
    if change is CHANGES[0] and how != "length":
        assert step._region.problem is None and len(step._region.entries) <= 3


def test_variables_of_functions_around():
    def make():
        h, pair = torch.zeros(2), (torch.zeros(2), torch.ones(2))

        def step(x):
            nonlocal h, pair
            h = (h + x).tanh()
            pair = (pair[0] + h, pair[1] * 0.5)
            return h + pair[1]

        return step

    eager, compiled = make(), torch.compile(make())
    for i in range(5):
        assert torch.equal(compiled(torch.full((2,), float(i))), eager(torch.full((2,), float(i))))
    assert len(compiled._region.entries) == 1


def test_a_recurrent_module_keeps_its_state():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.state = nn.LSTMCell(2, 2), None

        def forward(self, x):
            self.state = tuple([s.detach() for s in self.cell(x, self.state)])
            return self.state[0]

    torch.manual_seed(0)
    model = Cell()
    compiled = torch.compile(model)
    found = [compiled(torch.ones(1, 2) * i) for i in range(5)]
    assert len(compiled._region.entries) == 2
    model.state = None
    assert all([torch.equal(model(torch.ones(1, 2) * i), found[i]) for i in range(5)])

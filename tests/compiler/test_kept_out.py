"""Functions that are kept out of programs, results that are leaves, arguments that answer any name, and what a first call holds."""

import contextlib
import random
import subprocess
import sys
import weakref

import pytest

import flambeau as torch


class Holder:
    pass


def _given_back():
    made = Holder()
    made.value = random.random()
    return made


@torch.compiler.disable
def grown(kept):
    kept.append(random.random())


def appended(x):
    kept = []
    grown(kept)
    return x * kept[0]


def _outside(function):
    return torch.compiler.disable(function)


number = _outside(lambda: random.randint(1, 100))
numbers = _outside(lambda: [random.random(), 2])
flag = _outside(lambda: random.random() > 0.5)
made = _outside(_given_back)
sized = _outside(lambda: torch.ones(random.randint(1, 5)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * number(),
        lambda x: x * numbers()[0],
        lambda x: x + 1 if flag() else x - 1,
        lambda x: x * made().value,
        lambda x: x * sized().shape[0],
        appended,
    ],
)
def test_what_a_function_that_is_kept_out_gives_is_another_in_each_call(function):
    x = torch.ones(3)
    random.seed(0)
    expected = [function(x).tolist() for _ in range(5)]
    random.seed(0)
    compiled = torch.compile(function)
    assert [compiled(x).tolist() for _ in range(5)] == expected


def _raising(x):
    if _STATE["turn"] % 3 == 2:
        raise ValueError("expected")
    return x * 2


def caught(x):
    try:
        return outside(x) + 1
    except ValueError:
        return x - 1


def written(x):
    y = own(x)
    y.add_(1)
    return y, x * 2


_STATE = {"turn": 0}
_BUFFER, _LAYER = torch.zeros(2, 3), torch.nn.Linear(3, 3)
outside = _outside(_raising)
own = _outside(lambda x: (x, _BUFFER, x.clone())[_STATE["turn"] % 3])
cast = _outside(lambda x: x.to((torch.float32, torch.float64)[_STATE["turn"] % 2]))
turned = _outside(lambda x: x.t().contiguous().t() if _STATE["turn"] % 2 else x * 1)
layer = _outside(lambda x: _LAYER(x))
counted = _outside(lambda: _STATE.update(factor=random.random()))


def scaled(x):
    counted()
    return x * _STATE["factor"]


@pytest.mark.parametrize(
    "function",
    [
        caught,
        written,
        scaled,
        lambda x: cast(x) + 1,
        lambda x: (turned(x) + 1, turned(x).stride()),
        lambda x: layer(x * 2) + 1,
    ],
)
def test_a_function_that_is_kept_out_may_do_something_else_in_each_call(function):
    found = []
    for one in (function, torch.compile(function)):
        random.seed(0)
        _BUFFER.zero_()
        _LAYER.zero_grad()
        _STATE.clear()
        for turn in range(7):
            _STATE["turn"] = turn
            x = torch.ones(2, 3)
            out = one(x)
            y = out[0] if isinstance(out, tuple) else out
            if y.requires_grad:
                y.sum().backward()
            found += [(str(out), x.tolist(), _BUFFER.tolist(), str(_LAYER.weight.grad))]
    assert found[:7] == found[7:]


def _leaf_and_loss(x):
    leaf = (x * 2).requires_grad_()
    return leaf, (leaf * 3).sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.Parameter(x * 2),
        lambda x: torch.zeros(3, requires_grad=True) * 1.0,
        lambda x: torch.zeros(3, requires_grad=True),
        _leaf_and_loss,
    ],
)
def test_leaves_that_a_run_makes_are_leaves(function):
    x = torch.ones(3)
    about = lambda out: [(type(t), t.is_leaf, t.requires_grad) for t in (out if isinstance(out, tuple) else (out,))]
    compiled = torch.compile(function)
    assert [about(compiled(x)) for _ in range(3)] == [about(function(x))] * 3
    leaf, loss = torch.compile(_leaf_and_loss)(x)
    loss.backward()
    assert leaf.grad.tolist() == [3.0] * 3


class Settings(dict):
    def __getattr__(self, name):
        return self[name]


class Strange:
    def __getattr__(self, name):
        raise KeyError(name)


def test_arguments_may_answer_every_name():
    x = torch.ones(2)
    settings, compiled = Settings(offset=5), torch.compile(lambda settings, x: x + settings.offset)
    assert [compiled(settings, x)[0].item() for _ in range(3)] == [6.0] * 3
    settings["offset"] = 7
    assert compiled(settings, x)[0].item() == 8.0
    assert torch.compile(lambda strange, x: x + 1)(Strange(), x)[0].item() == 2.0


_RELEASE = """
import gc, weakref
import flambeau
flambeau.install_as_torch()
import torch
gc.disable()
compiled = torch.compile(lambda x: x + x)
for _ in range(3):
    x = torch.rand(4)
    seen = weakref.ref(x)
    compiled(x)
    del x
    assert seen() is None
"""


def test_arguments_are_let_go_of_after_a_call():
    compiled = torch.compile(lambda x: x * x)
    for _ in range(3):
        x = torch.rand(4)
        seen = weakref.ref(x)
        compiled(x)
        del x
        assert seen() is None
    subprocess.run([sys.executable, "-c", _RELEASE], check=True)  # under the other name, too


def test_arguments_are_let_go_of_after_an_error():
    def caught(x):
        try:
            raise ValueError("expected")
        except ValueError:
            return x + 1

    def raised(x):
        raise ValueError("expected")

    for function in (caught, raised):
        x = torch.rand(4)
        seen = weakref.ref(x)
        with contextlib.suppress(ValueError):
            torch.compile(function)(x)
        del x
        assert seen() is None


def test_compiled_modules_may_change_their_class():
    module = torch.nn.Linear(2, 2)
    compiled = torch.compile(module)
    compiled.__class__ = type("Other", (type(compiled),), {})
    assert type(module) is torch.nn.Linear and type(compiled).__name__ == "Other"
    assert torch.equal(compiled(torch.ones(1, 2)), module(torch.ones(1, 2)))

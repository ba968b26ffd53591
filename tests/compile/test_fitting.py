"""Tensors among the arguments of a compiled function, looked at by one native call."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._compile.fitting import MOST, fitting
from flambeau._kernel.native.site import usable

pytestmark = pytest.mark.skipif(not usable(), reason="without the native entry Python looks at them")

WEIGHT = torch.zeros(8)


def _tensors():
    return torch.ones(2, 3), torch.ones(4)


def _with_attribute():
    t = torch.ones(2, 3)
    t.tag = "x"
    return t


def _of_another_class():
    t = torch.ones(2, 3)
    t._array = t._array.view(np.memmap)
    return t


def _halves():
    whole = torch.ones(10)
    return whole[:6].view(2, 3), whole[6:]


OTHERS = {
    "class": lambda: (torch.nn.Parameter(torch.ones(2, 3), requires_grad=False), torch.ones(4)),
    "requires_grad": lambda: (torch.ones(2, 3, requires_grad=True), torch.ones(4)),
    "dtype": lambda: (torch.ones(2, 3, dtype=torch.int32), torch.ones(4)),
    "rank": lambda: (torch.ones(2, 3, 1), torch.ones(4)),
    "shape": lambda: (torch.ones(2, 3), torch.ones(5)),
    "strides": lambda: (torch.ones(3, 2).t(), torch.ones(4)),
    "attributes": lambda: (_with_attribute(), torch.ones(4)),
    "array": lambda: (_of_another_class(), torch.ones(4)),
    "no tensor": lambda: (torch.ones(2, 3), 4.0),
    "memory of each other": _halves,
    "memory from elsewhere": lambda: (torch.ones(2, 3), WEIGHT[:4]),
    "itself from elsewhere": lambda: (torch.ones(2, 3), WEIGHT[:4].detach()),
}


@pytest.mark.parametrize("what", OTHERS)
def test_tensors_that_look_otherwise(what):
    fits, _kept = fitting(_tensors(), {id(WEIGHT._array), *range(3)})
    assert fits(_tensors()) is True
    assert fits(OTHERS[what]()) is False
    assert fits(_tensors()) is True


def test_what_is_left_to_python():
    assert fitting([], ()) is None
    assert fitting([_with_attribute()], ()) is None
    assert fitting([_of_another_class()], ()) is None
    assert fitting([torch.ones(1)] * (MOST + 1), ()) is None


def test_views_that_python_finds_apart_are_good_nevertheless():
    compiled = torch.compile(lambda x, y: x.sum() + 2 * y.sum())
    for _ in range(3):
        assert compiled(*_tensors()).item() == 14.0
    assert compiled(*_halves()).item() == 14.0  # of one memory, but they do not overlap
    assert len(compiled._region.entries) == 1

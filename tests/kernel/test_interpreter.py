"""What native code knows of the interpreter that runs it."""

import os
import sys

import pytest

import flambeau as torch
from flambeau._compile import frames, words
from flambeau._kernel.native import direct, site
from flambeau._kernel.training import optim_step

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="an interpreter whose objects nobody has described",
)


def test_short_ways_are_taken():
    """They are looked for in objects, and left where something lies elsewhere: quietly, so that a new version loses its speed."""
    assert direct.known_layout() and optim_step._supported()
    if os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0":
        assert site.usable() and words.known()
        assert frames._place() is not None or sys.version_info < (3, 11)


def test_optimizers_step_natively():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(3)
    optimizer.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(optimizer), "_change_apart", None)
        optimizer.step()

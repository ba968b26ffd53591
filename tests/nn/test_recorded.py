"""Results, derivatives and errors are as they were recorded on PyTorch."""

import sys
from pathlib import Path

import pytest

import flambeau as torch

sys.path.insert(0, str(Path(__file__).parents[1] / "recorded"))
import calls

FILES = ("modules",)


@pytest.mark.parametrize(("call", "expected"), calls.parameters(*FILES))
def test_recorded(call, expected):
    calls.check(torch, call, expected)

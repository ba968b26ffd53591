"""Results, derivatives and errors are as they were recorded on PyTorch."""

import sys
from pathlib import Path

import pytest

import flambeau as torch

sys.path.insert(0, str(Path(__file__).parents[1] / "recorded"))
import calls

FILES = (
    "samples",
    "losses",
    "reductions",
    "cumulative",
    "pointwise",
    "sorting",
    "shapes",
    "indexing",
    "products",
    "linalg",
    "fft",
    "networks",
    "norms",
)


@pytest.mark.parametrize("rows", calls.in_groups(calls.parameters(*FILES)))
def test_recorded(rows):
    calls.check_each(calls.check, torch, rows)


@pytest.mark.slow
@pytest.mark.parametrize("rows", calls.in_groups(calls.parameters("corners")))
def test_recorded_again(rows):
    """Operands that lie unusually, views that are written to, given memory: the third call goes by the plan of the others."""
    calls.check_each(calls.check_again, torch, rows)

"""Recorded calls as traces that were stored and loaded."""

import sys
from pathlib import Path

import pytest

import flambeau as torch

sys.path.insert(0, str(Path(__file__).parents[1] / "recorded"))
import calls
import other_ways


@pytest.mark.parametrize("rows", calls.in_groups(other_ways.parameters("trace")))
def test_traced(rows):
    calls.check_each(other_ways.check_trace, torch, rows)


def test_a_table_that_changes_is_not_traced():
    with pytest.raises(NotImplementedError, match="max_norm"):
        torch.jit.trace(lambda w: torch.nn.functional.embedding(torch.tensor([0]), w, max_norm=1.0), torch.ones(2, 3))
    with pytest.raises(NotImplementedError, match="max_norm"):
        torch.jit.trace(torch.nn.EmbeddingBag(4, 3, max_norm=1.0), torch.tensor([[0, 1]]))

"""What is told to NCCL, without a GPU."""

from types import SimpleNamespace

import pytest

import flambeau.distributed as dist
from flambeau.distributed import _nccl


@pytest.mark.parametrize("number", [b"\x00\x7f\xff", (0, 127, -1)], ids=["bytes", "signed numbers"])
def test_all_ranks_join_by_the_number_that_the_first_one_made(monkeypatch, number):
    joined = []
    nccl = SimpleNamespace(get_unique_id=lambda: number, NcclCommunicator=lambda *given: joined.append(given))
    cupy = SimpleNamespace(cuda=SimpleNamespace(nccl=nccl, Stream=lambda non_blocking: None))
    monkeypatch.setattr(_nccl, "require", lambda: cupy)
    store = dist.HashStore()
    for rank in range(2):
        _nccl.Channel(store, rank, 2)
    assert joined == [(2, number, 0), (2, number, 1)]

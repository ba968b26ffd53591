"""A program that is started in different ways; `test_starting.py` does so. It prints a line for each process."""

import os
import sys

import flambeau as torch
import flambeau.distributed as dist
import flambeau.multiprocessing as mp


def work(rank, method, size, backend="gloo"):
    dist.init_process_group(backend, method, rank=rank, world_size=size)
    x = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(x)
    os.write(1, f"{dist.get_rank()} of {dist.get_world_size()}: {x.item():g} {dist.get_backend()}\n".encode())
    dist.destroy_process_group()
    assert not dist.is_initialized()


def twice(rank, method, size):
    """A world, and others after it in the same processes: met at another file, and by the same store."""
    work(rank, method, size)
    store = dist.FileStore(method.replace("first", "second").removeprefix("file://"), size)
    for _ in range(2):
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        dist.all_reduce(x := torch.ones(1))
        assert x.item() == size
        dist.destroy_process_group()
    work(rank, method.replace("first", "third"), size)


def fail(rank, method=None):
    if method:  # the others wait in a call; they hear of it, but this error is the one that counts
        dist.init_process_group("gloo", method, rank=rank, world_size=2)
    if rank == 1:
        raise ValueError("the second process fails")
    if method:
        dist.barrier()


if __name__ == "__main__":
    how, *rest = sys.argv[1:]
    if how == "spawn":
        mp.spawn({"work": work, "twice": twice}[rest[0]], (rest[1], 2), nprocs=2)
    elif how == "fail":
        mp.spawn(fail, tuple(rest), nprocs=2)
    else:  # started by mpiexec or a launcher
        assert not os.environ.get("PMI_FD") or how == "mpi"
        work(-1, None, -1, how)

"""What every process of a world checks; `test_collectives.py` runs it on two and on four."""

import flambeau as torch
import flambeau.distributed as dist


def same_everywhere(rank, size):
    x = torch.arange(6.0).reshape(2, 3) * (rank + 1)
    dist.all_reduce(x)
    total = sum(range(1, size + 1))
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3) * total)
    x = torch.full((3,), float(rank))
    dist.broadcast(x, size - 1)
    assert x.tolist() == [size - 1.0] * 3
    x = torch.full((2,), rank + 1)
    dist.reduce(x, 1)
    assert rank != 1 or x.tolist() == [total, total]
    dist.barrier()


def parts(rank, size):
    own = torch.tensor([rank, rank + 0.5])
    found = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(found, own)
    assert [t.tolist() for t in found] == [[r, r + 0.5] for r in range(size)]
    whole = torch.zeros(size, 2)
    dist.all_gather_into_tensor(whole, own)
    assert torch.equal(whole, torch.stack(found))
    chunks = list(torch.zeros(2 * size).chunk(size))  # one piece of memory: no copies
    dist.all_gather(chunks, own)
    assert torch.equal(torch.cat(chunks), whole.reshape(-1))
    dist.gather(own, found if rank == 0 else None, 0)
    out = torch.zeros(2)
    dist.scatter(out, [torch.full((2,), float(r)) for r in range(size)] if rank == 1 else None, 1)
    assert out.tolist() == [rank, rank]
    dist.reduce_scatter(out, [torch.full((2,), float(r + rank)) for r in range(size)])
    assert out.tolist() == [size * rank + sum(range(size))] * 2
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * size))
    assert out.tolist() == [size * (2.0 * rank), size * (2.0 * rank + 1)]
    got = [torch.zeros(1) for _ in range(size)]
    dist.all_to_all(got, [torch.tensor([10.0 * rank + r]) for r in range(size)])
    assert [t.item() for t in got] == [10.0 * r + rank for r in range(size)]


def background(rank, size):
    x = torch.ones(1000)
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future().wait()[0] is x and work.is_completed() and work.is_success() and work.wait()
    assert x[0] == size and work.exception() is None
    with dist.distributed_c10d._coalescing_manager() as manager:
        a, b = torch.ones(2), torch.ones(3)
        dist.all_reduce(a)
        dist.broadcast(b, 0)
    assert a[0] == size and len(manager.works) == 2


def objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(size)]
    shared = ["a", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == ["a", 0]
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert own == [f"for {rank}"]


def one_to_another(rank, size):
    if rank == 0:
        dist.send(torch.arange(4), 1)
        assert dist.recv(out := torch.zeros(2), tag=5) == 1 and out.tolist() == [7, 7]
    elif rank == 1:
        dist.recv(out := torch.zeros(4, dtype=torch.int64), 0)
        assert out.tolist() == [0, 1, 2, 3]
        dist.isend(torch.full((2,), 7.0), 0, tag=5).wait()
    after, before = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(1)
    ops = [dist.P2POp(dist.isend, torch.tensor([float(rank)]), after), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.item() == before


def groups(rank, size):
    some = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x, group=some)
        assert x.item() == 1 + size and dist.get_world_size(some) == 2
        dist.broadcast(x := torch.tensor([rank]), group=some, group_src=1)
        assert x.item() == size - 1 and dist.get_global_rank(some, 1) == size - 1
    else:
        assert some == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(some) == -1
    own, every = dist.new_subgroups(size // 2)
    x = torch.ones(1)
    dist.all_reduce(x, group=own)
    assert x.item() == size // 2 and len(every) == 2

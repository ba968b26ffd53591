"""What every process of a world checks; `test_collectives.py` runs it on two and on four."""

import atexit
import os
import sys

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
    large = torch.arange(size).repeat_interleave(300_000) + 10 * rank  # parts that travel without a copy in between
    dist.all_to_all_single(large, large)
    assert torch.equal(large, (10 * torch.arange(size) + rank).repeat_interleave(300_000))


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
    received_as_sent(rank)


def wrong(kind, call):
    """The text of the error that a call must raise."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def received_as_sent(rank):
    """A tensor of another dtype or size is an error; messages from anybody in between do not confuse which is which."""
    if rank == 0:
        for tag in (1, 2):
            dist.send(torch.ones(2), 1, tag=tag)
        dist.send(torch.ones(3), 1)
        for x in (torch.ones(70_000), torch.arange(2), torch.ones(2)):
            dist.isend(x, 1, tag=3)
        dist.send(torch.ones(4, dtype=torch.bfloat16), 1)
    elif rank == 1:
        for tag, source in ((1, 0), (2, None)):
            error = wrong(RuntimeError, lambda: dist.recv(torch.zeros(2, dtype=torch.int32), source, tag=tag))
            assert "rank 0 of the group sent another dtype than the int32" in error
        assert "sent 12 bytes, not the 16" in wrong(RuntimeError, lambda: dist.recv(torch.zeros(4), 0))
        big, middle, last = torch.zeros(70_000), torch.zeros(2, dtype=torch.int64), torch.zeros(2)
        works = [dist.irecv(big, tag=3), dist.irecv(middle, 0, tag=3), dist.irecv(last, tag=3)]
        for work in reversed(works):
            work.wait()
        assert big.min() == 1 and middle.tolist() == [0, 1] and last.tolist() == [1, 1]
        dist.recv(out := torch.zeros(4, dtype=torch.bfloat16), 0)
        assert out.tolist() == [1] * 4
    assert "a tag is a number" in wrong(ValueError, lambda: dist.isend(torch.ones(1), (rank + 1) % 2, tag=-1))


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


def dtypes(rank, size):
    """Sums of 1, 2, … and every other reduction, in all dtypes; values observed on PyTorch where it has them."""
    total, product = sum(range(1, size + 1)), {2: 2, 4: 24}[size]
    expected = {"SUM": total, "PRODUCT": product, "MIN": 1, "MAX": size}
    kinds = [
        "float32",
        "float64",
        "bfloat16",
        "float16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "complex64",
        "complex128",
    ]
    for kind in kinds:
        for op, value in expected.items():
            x = torch.full((5,), rank + 1, dtype=getattr(torch, kind))
            if x.is_complex() and op != "SUM":
                continue
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            assert x.tolist() == [value] * 5, (kind, op, x)
        x = torch.full((3,), rank + 1, dtype=getattr(torch, kind))
        if x.is_floating_point():
            dist.all_reduce(x, dist.ReduceOp.AVG)
            assert x.tolist() == [total / size] * 3
            dist.all_reduce(x := torch.ones_like(x), dist._make_nccl_premul_sum(0.5))
            assert x.tolist() == [size / 2] * 3
        elif not x.is_complex():
            dist.all_reduce(x, dist.ReduceOp.BXOR)
            assert x.tolist() == [{2: 3, 4: 4}[size]] * 3
        x = torch.full((2,), rank, dtype=getattr(torch, kind))
        dist.broadcast(x, 1)
        assert x.tolist() == [1, 1]
    x = torch.tensor([True, rank == 0, False])
    dist.all_reduce(x)
    assert x.tolist() == [True, True, False]
    x = torch.tensor([rank + 1.0]).to(torch.float8_e4m3fn)
    dist.broadcast(x, 1)
    assert x.float().item() == 2
    x = torch.arange(100003, dtype=torch.bfloat16) % 7  # more than a message, and no multiple of a vector
    dist.all_reduce(x)
    assert torch.equal(x, (torch.arange(100003, dtype=torch.bfloat16) % 7) * size)


def layouts(rank, size):
    """Tensors whose memory is not dense get the result all the same, and the rest of their memory stays."""
    whole = torch.ones(4, 4)
    dist.all_reduce(whole[:, ::2])
    assert whole.tolist() == [[size, 1, size, 1]] * 4
    x = torch.arange(6.0).reshape(2, 3).t()
    dist.broadcast(x.mul_(rank + 1), 1)
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3).t() * 2)
    x = torch.ones(3, requires_grad=True)
    version = x._version
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3 and x._version > version and x.requires_grad
    dist.all_reduce(empty := torch.zeros(0))
    dist.all_reduce(number := torch.tensor(1.0))
    assert empty.numel() == 0 and number.item() == size
    out = torch.zeros(size * size)  # uneven parts
    dist.all_to_all_single(out[: (rank + 1) * size], torch.full((sum(range(1, size + 1)),), float(rank)),
                           [rank + 1] * size, list(range(1, size + 1)))  # fmt: skip
    assert out[: (rank + 1) * size].tolist() == [r for r in range(size) for _ in range(rank + 1)]
    rows = [[2 if 0 in (i, j) else 1 + (i + j) % size for j in range(size)] for i in range(size)]  # even at rank 0 only
    out = torch.zeros(sum(row[rank] for row in rows))
    dist.all_to_all_single(out, torch.full((sum(rows[rank]),), float(rank)), [row[rank] for row in rows], rows[rank])
    assert out.tolist() == [float(r) for r in range(size) for _ in range(rows[r][rank])]


def forked(rank, size):
    """A forked process has none of its parent's connections, and its end does not end them."""
    child = os.fork()
    if not child:
        code = 1
        try:
            dist.all_reduce(torch.ones(2))
        except ValueError as error:
            code = 0 if "was forked" in str(error) else 2
        finally:
            sys.stdout.flush()
            atexit._run_exitfuncs()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [size, size]


def wrong_calls(rank, size):
    """Errors as PyTorch's; no process has begun a call that the others do not make."""
    x = torch.ones(3)
    for call, error, text in [
        (
            lambda: dist.all_reduce(x, dist.ReduceOp.BAND),
            RuntimeError,
            "Cannot use ReduceOp.BAND with non-integral dtype",
        ),
        (lambda: dist.all_reduce(torch.ones(1, dtype=torch.int64), dist.ReduceOp.AVG), RuntimeError, "can't be cast"),
        (lambda: dist.all_reduce(x, "sum"), TypeError, "incompatible function arguments"),
        (lambda: dist.broadcast(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.broadcast(x, 0, group_src=0), ValueError, "Can't specify both group_rank and global_rank"),
        (lambda: dist.broadcast(x, 9), RuntimeError, "invalid root rank: 9"),
        (lambda: dist.broadcast(x, "0"), TypeError, "a rank is a number, got '0'"),
        (lambda: dist.all_gather([x], x), RuntimeError, f"expected length {size}, got 1"),
        (lambda: dist.all_gather([torch.ones(2)] * size, x), RuntimeError, "invalid tensor size at index 0"),
        (lambda: dist.all_gather([x] * size, x.double()), ValueError, "different dtypes"),
        (lambda: dist.reduce_scatter(x, [x]), RuntimeError, "must be world size"),
        (lambda: dist.all_to_all_single(x, x, [1] * size, [9] * size), RuntimeError, "Split sizes doesn't match"),
        (lambda: dist.send(x, rank), ValueError, "should not be the same as the rank of the current process"),
        (lambda: dist.new_group([9]), ValueError, "Rank 9 is out of range"),
        (lambda: dist.new_group([0, 0]), ValueError, "must not contain duplicate entries"),
        (lambda: dist.all_reduce(x.to(torch.float8_e5m2)), RuntimeError, "Invalid scalar type"),
    ]:
        try:
            call()
        except error as found:
            assert text in str(found), (text, found)
        else:
            raise AssertionError(text)


def graphs(rank, size):
    """Gradients go back through collectives."""
    import flambeau.distributed._functional_collectives as functional
    import flambeau.distributed.nn as collectives

    world, weight = dist.group.WORLD, rank + 1.0
    total = sum(range(1, size + 1))

    def gradient(function):
        x = torch.full((size, 2), float(rank), requires_grad=True)
        out = function(x)
        (out * weight).sum().backward()
        return out, x.grad

    out, grad = gradient(lambda x: functional.all_reduce(x, "sum", world))
    assert out[0, 0] == sum(range(size)) and grad.unique().tolist() == [total]
    _, grad = gradient(lambda x: collectives.all_reduce(x, dist.ReduceOp.AVG))
    assert grad.unique().tolist() == [total / size]
    out, grad = gradient(lambda x: functional.all_gather_tensor(x, 1, world))
    assert out.shape == (size, 2 * size) and out[0].tolist() == [r for r in range(size) for _ in (0, 1)]
    assert grad.unique().tolist() == [total]
    out, grad = gradient(lambda x: functional.reduce_scatter_tensor(x, "sum", 0, world))
    assert out.shape == (1, 2) and grad[:, 0].tolist() == list(range(1, size + 1))
    out, grad = gradient(lambda x: functional.all_to_all_single(x, None, None, world))
    assert out[:, 0].tolist() == list(range(size)) and grad[:, 0].tolist() == list(range(1, size + 1))
    out, grad = gradient(lambda x: functional.permute_tensor(x, [(r + 1) % size for r in range(size)], world))
    assert out[0, 0] == (rank - 1) % size and grad[0, 0] == (rank + 1) % size + 1
    out, grad = gradient(lambda x: collectives.broadcast(x, 1))
    assert out[0, 0] == 1 and grad[0, 0] == (total if rank == 1 else 0)
    out, grad = gradient(lambda x: collectives.reduce(x, 1))
    assert out[0, 0] == (sum(range(size)) if rank == 1 else 0) and grad[0, 0] == 2
    out, grad = gradient(lambda x: torch.stack(collectives.gather(x, 1)))
    assert out[:, 0, 0].tolist() == (list(range(size)) if rank == 1 else [0] * size) and grad[0, 0] == 2
    out, grad = gradient(lambda x: collectives.scatter(list(x), 1))
    assert out.tolist() == [1, 1] and grad[:, 0].tolist() == (
        [1.0 + r for r in range(size)] if rank == 1 else [0] * size
    )
    out, grad = gradient(lambda x: torch.stack(collectives.all_gather(x)))
    assert out[:, 0, 0].tolist() == list(range(size)) and grad[0, 0] == total


def methods(rank, size):
    """Groups have the calls as methods, which give works."""
    world = dist.group.WORLD
    world.allreduce([x := torch.ones(2)]).wait()
    assert x.tolist() == [size, size]
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    world.allreduce(x := torch.tensor([float(rank)]), options).wait()
    assert x.item() == size - 1
    world.broadcast(x := torch.tensor([rank]), 1).wait()
    assert x.item() == 1
    world.allgather([out := [torch.zeros(1) for _ in range(size)]], [torch.tensor([float(rank)])]).wait()
    assert torch.cat(out).tolist() == list(range(size))
    world._allgather_base(out := torch.zeros(size), torch.tensor([float(rank)])).wait()
    assert out.tolist() == list(range(size))
    world._reduce_scatter_base(part := torch.zeros(1), torch.arange(float(size))).wait()
    assert part.item() == size * rank
    world.barrier().wait()


def sparse(rank, size):
    """Sums of sparse tensors have the places of all."""
    place, value = torch.tensor([[rank, size]]), torch.tensor([1.0, 2.0])
    x = torch.sparse_coo_tensor(place, value, (size + 1,))
    dist.all_reduce(x)
    assert x.is_sparse and x.to_dense().tolist() == [1.0] * size + [2.0 * size]

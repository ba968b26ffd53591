"""What every process of a world checks of `DistributedDataParallel`; `test_ddp.py` runs it on two and on four."""

import copy

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from flambeau.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_localSGD
from flambeau.distributed.algorithms.join import Join
from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from flambeau.nn.parallel import DistributedDataParallel as DDP


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))


def batches(steps, rows, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(rows, 6, generator=generator), torch.randn(rows, 2, generator=generator)) for _ in range(steps)
    ]


def part(tensor, rank, size):
    return tensor.chunk(size)[rank]


def train(model, data, rank=0, size=1, optimizer=None):
    """Losses of the whole batch, and the model."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(part(x, rank, size)), part(y, rank, size))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if size > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def close(a, b, tolerance=1e-6):
    assert len(a) == len(b) and all(abs(x - y) <= tolerance * max(1, abs(y)) for x, y in zip(a, b)), (a, b)


def equal_everywhere(model):
    for tensor in model.state_dict().values():
        first = tensor.clone()
        dist.broadcast(first, 0)
        assert torch.equal(first, tensor)


def like_one_process(rank, size):
    data = batches(100, 8)
    expected = train(network(0), data)
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0001},
        {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
    ):
        steps = 100 if not options else 12
        model = DDP(network(rank), **options)  # other numbers in every process: those of rank 0 count
        close(train(model, data[:steps], rank, size), expected[:steps])
        equal_everywhere(model)
        assert next(iter(model.state_dict())) == "module.0.weight"
        if "bucket_cap_mb" in options:
            assert len(model.reducer.buckets) > 1 and model.reducer.buckets[-1].is_last()
            assert any(model.reducer.buckets[0].parameters()[0] is p for p in model.module[4].parameters())


def gradients_add_up(rank, size):
    data = batches(3, 4 * size)
    one, model = network(0), DDP(network(0))
    with model.no_sync():
        for x, y in data[:2]:
            nn.functional.mse_loss(model(part(x, rank, size)), part(y, rank, size)).backward()
    own = model.module[0].weight.grad.clone()
    found = [torch.zeros_like(own) for _ in range(size)]
    dist.all_gather(found, own)
    assert not torch.equal(found[0], found[1])
    x, y = data[2]
    nn.functional.mse_loss(model(part(x, rank, size)), part(y, rank, size)).backward()
    for x, y in data:
        nn.functional.mse_loss(one(x), y).backward()
    for p, q in zip(one.parameters(), model.parameters()):
        torch.testing.assert_close(p.grad, q.grad)


class Looked(nn.Module):
    """Rows of a table, looked up; a second table is looked at on request."""

    def __init__(self, sparse):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.other = nn.Embedding(6, 2, sparse=sparse), nn.EmbeddingBag(3, 2, sparse=sparse)
        self.last = nn.Linear(2, 1)

    def forward(self, rows, both=True):
        x = self.table(rows)
        return self.last(x + self.other(rows % 3, torch.arange(len(rows))) if both else x)


def sparse_gradients(rank, size):
    """They stay sparse, and are the mean over all processes; who did not use a table has no rows to give."""
    rows = [torch.tensor([r, r + 1, 2]) for r in range(size)]
    for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        one, many = Looked(False), DDP(Looked(True), **options)
        first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (one, many))
        for _ in range(3):
            first.zero_grad()
            second.zero_grad()
            sum(one(r).square().mean() for r in rows).div(size).backward()
            many(rows[rank]).square().mean().backward()
            assert many.module.table.weight.grad.is_sparse and many.module.other.weight.grad.is_sparse
            first.step()
            second.step()
        for p, q in zip(one.parameters(), many.parameters()):
            torch.testing.assert_close(q, p)
    many = DDP(Looked(True), find_unused_parameters=True)
    with many.no_sync():
        many(rows[rank], both=False).sum().backward()
    many(rows[rank], both=rank == 0).sum().backward()
    weight = many.module.last.weight[0].detach()
    expected = torch.zeros(6, 2)
    for r in rows:
        expected.index_add_(0, r, (2 / size * weight).expand(3, 2))
    torch.testing.assert_close(many.module.table.weight.grad.to_dense(), expected)
    assert many.module.other.weight.grad.to_dense()[:, 0].ne(0).tolist() == [True] * 3
    with many.join():
        for _ in range(1 + rank):
            many.zero_grad()
            many(rows[rank]).sum().backward()
    unexpected = DDP(Functional())
    raises(NotImplementedError, "is sparse", lambda: unexpected(rows[rank]).sum().backward())


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 2))

    def forward(self, rows):
        return nn.functional.embedding(rows, self.weight, sparse=True)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.never = nn.Linear(6, 2), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x, which):
        return {"out": [(self.a if which == 0 else self.b)(x)]}


def raises(kind, phrase, call):
    try:
        call()
    except kind as error:
        assert phrase in str(error), error
        return
    raise AssertionError(f"no {kind.__name__} about {phrase!r}")


def unused(rank, size):
    torch.manual_seed(1)
    model = DDP(Branches(), find_unused_parameters=True)
    x = torch.ones(2, 6)
    for _ in range(2):
        model.zero_grad()
        model(x, rank % 2)["out"][0].sum().backward()
        share = (size + 1) // 2 / size
        assert torch.allclose(model.module.a.weight.grad, torch.full((2, 6), 2.0 * share))
        assert torch.allclose(model.module.b.weight.grad, torch.full((2, 6), 2.0 * (1 - share)))
        assert model.module.never.weight.grad is None
    still = DDP(Branches(), static_graph=True)
    for _ in range(3):
        still.zero_grad()
        still(x, 0)["out"][0].sum().backward()
        assert torch.equal(still.module.a.bias.grad, torch.full((2,), 2.0)) and still.module.b.bias.grad is None
    strict = DDP(Branches())
    strict(x, 0)["out"][0].sum().backward()
    raises(RuntimeError, "Expected to have finished reduction in the prior iteration", lambda: strict(x, 0))
    dist.barrier()


def wrong_models(rank, size):
    raises(
        RuntimeError, "appears not to match sizes of the same param in process 0", lambda: DDP(nn.Linear(2, rank + 1))
    )
    layers = [nn.Linear(2, 2) for _ in range(1 + (rank > 0))]
    raises(RuntimeError, "DDP expects same model across all ranks", lambda: DDP(nn.Sequential(*layers)))
    raises(RuntimeError, "not needed", lambda: DDP(nn.ReLU()))
    raises(TypeError, "must be callable", lambda: DDP(nn.Linear(1, 1)).register_comm_hook(None, 1))
    model = DDP(nn.Linear(2, 2))
    checkpointed = lambda x: torch.utils.checkpoint.checkpoint(model.module, x, use_reentrant=True)
    out = model(torch.ones(1, 2, requires_grad=True)) + checkpointed(torch.ones(1, 2, requires_grad=True))
    raises(RuntimeError, "Expected to mark a variable ready only once", out.sum().backward)


def buffers(rank, size):
    model = DDP(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)))
    for x, y in batches(3, 4 * size):
        nn.functional.mse_loss(model(part(x, rank, size)), part(y, rank, size)).backward()
    model(part(x, rank, size))
    mean = model.module[0].running_mean
    model.require_forward_param_sync = True
    with torch.no_grad():
        model.eval()
        model(x)  # evaluation begins with the statistics of rank 0
    equal_everywhere(model)
    own = DDP(nn.BatchNorm1d(6), broadcast_buffers=False)
    own(part(x, rank, size)).sum().backward()
    own(part(x, rank, size))
    found = [torch.zeros(6) for _ in range(size)]
    dist.all_gather(found, own.module.running_mean)
    assert not torch.equal(found[0], found[1]) and mean.shape == (6,)


def one_batch_norm(rank, size):
    torch.manual_seed(2)
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).double()
    joined = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)))
    assert isinstance(joined.module[1], nn.SyncBatchNorm)
    x, y = torch.randn(4 * size, 3, 6, 6).double(), torch.randn(4 * size, 2).double()
    for _ in range(3):
        for model, a, b in ((plain, x, y), (joined, part(x, rank, size), part(y, rank, size))):
            model.zero_grad()
            nn.functional.mse_loss(model(a), b).backward()
        for p, q in zip(plain.parameters(), joined.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
    for p, q in zip(plain.buffers(), joined.module.buffers()):
        torch.testing.assert_close(p, q)
    uneven = nn.SyncBatchNorm(3)  # ranks with different numbers of rows
    whole = torch.randn(size * (size + 1) // 2, 3)
    begin = rank * (rank + 1) // 2
    out = uneven(whole[begin : begin + rank + 1])
    torch.testing.assert_close(out, nn.BatchNorm1d(3)(whole)[begin : begin + rank + 1])
    uneven.eval()
    uneven(whole)


def hooks(rank, size):
    data = batches(10, 8)
    expected = train(network(0), data)
    named = [
        (None, default_hooks.allreduce_hook, 1e-6),
        (None, default_hooks.fp16_compress_hook, 1e-2),
        (None, default_hooks.bf16_compress_hook, 5e-2),
        (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-2),
        (post_localSGD.PostLocalSGDState(None, dist.group.WORLD, 3), post_localSGD.post_localSGD_hook, 1e-6),
        (powerSGD_hook.PowerSGDState(None, 32, 2, min_compression_rate=0), powerSGD_hook.powerSGD_hook, 1e-4),
    ]
    for state, hook, tolerance in named:
        model = DDP(network(0))
        model.register_comm_hook(state, hook)
        close(train(model, data, rank, size), expected, tolerance)
        equal_everywhere(model)
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model = DDP(network(0))
        state = powerSGD_hook.PowerSGDState(None, 1, 2, min_compression_rate=1)
        model.register_comm_hook(state, hook)
        losses = train(model, batches(1, 8) * 40, rank, size, torch.optim.SGD(model.parameters(), lr=0.05))
        assert losses[-1] < 0.8 * losses[0] and state.compression_stats()[0] > 2, losses
        equal_everywhere(model)
    raises(
        RuntimeError, "can only be called once", lambda: model.register_comm_hook(None, default_hooks.allreduce_hook)
    )


def uneven(rank, size):
    """Each process has one batch more than the one before it."""
    for options in ({}, {"static_graph": True}, {"find_unused_parameters": True}):
        model = DDP(nn.Linear(1, 1, bias=False), **options)
        steps = 0
        with model.join():
            for _ in range(rank + 1):
                model.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                steps += 1
                assert abs(model.module.weight.grad.item() - (size - steps + 1) / size) < 1e-6
        equal_everywhere(model)
    model = DDP(nn.Linear(1, 1, bias=False))
    with model.join(divide_by_initial_world_size=False):
        for _ in range(rank + 1):
            model.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            assert abs(model.module.weight.grad.item() - 1) < 1e-6

    def early():
        with Join([model], throw_on_early_termination=True):
            for _ in range(rank + 1):
                model(torch.ones(1, 1)).sum().backward()

    raises(RuntimeError, "exhausted", early)


def compiled(rank, size):
    data = batches(6, 8)
    expected = train(network(0), data)
    close(train(DDP(torch.compile(network(0))), data, rank, size), expected)
    close(train(torch.compile(DDP(network(0))), data, rank, size), expected)


def again(rank, size):
    """A module in a second wrapper is averaged once; copies and pickles work."""
    inner = network(0)
    DDP(inner)
    model = copy.deepcopy(DDP(inner))
    data = batches(4, 8)
    close(train(model, data, rank, size), train(network(0), data))
    sampler = torch.utils.data.DistributedSampler(range(4 * size + 1), shuffle=True, seed=3)
    sampler.set_epoch(2)
    found = [None] * size
    dist.all_gather_object(found, list(sampler))
    assert sorted({i for some in found for i in some}) == list(range(4 * size + 1)) and len(found[0]) == 5


def averaged_parameters(rank, size):
    """Parameters with gradients become means at the steps of a period, after some steps of warming up."""
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.fill_(rank), layer.bias.fill_(rank)
    layer.bias.requires_grad_(False)
    layer(torch.ones(1, 2)).sum().backward()
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    found = []
    for _ in range(4):
        with torch.no_grad():
            layer.weight += rank
        averager.average_parameters(layer.parameters())
        found.append(layer.weight[0, 0].item())
    assert found == [[0.0, 1.5, 1.5, 2.5], [2.0, 1.5, 2.5, 2.5]][rank] and layer.bias.item() == rank, found
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with torch.no_grad():
        layer.weight.fill_(rank)
    PeriodicModelAverager(3).average_parameters(optimizer.param_groups)
    assert layer.weight.tolist() == [[0.5, 0.5]]
    raises(ValueError, "``period`` must be a positive value", lambda: PeriodicModelAverager(0))
    raises(ValueError, "must be a non-negative number", lambda: PeriodicModelAverager(2, -1))
    raises(NotImplementedError, "is not supported", lambda: PeriodicModelAverager(2).average_parameters([3]))
    assert not DDP(nn.Linear(1, 1)).will_sync_module_buffers() and DDP(nn.BatchNorm1d(1)).will_sync_module_buffers()

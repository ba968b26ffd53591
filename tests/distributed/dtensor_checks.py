"""What every process of a world checks of meshes and divided tensors; `test_sharded.py` runs it."""

import copy

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

F = nn.functional


def meshes(rank, size):
    line = init_device_mesh("cpu", (size,))
    assert line.get_coordinate() == [rank] and line.size() == size and line.get_group() is dist.group.WORLD
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model"))
    assert grid["data"].size() == 2 and grid["model"].size() == size // 2
    assert grid.get_coordinate() == [rank // (size // 2), rank % (size // 2)]
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=grid.get_group("data"))
    assert x.item() == rank % (size // 2) * 2 + size // 2
    assert dist.get_world_size(grid["model"].get_group()) == size // 2


def redistribution(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    for shape in ((6, 4), (5, 3), (1, 2)):
        whole = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        kinds = [Shard(0), Shard(1), Replicate()]
        for a in kinds:
            x = distribute_tensor(whole, mesh, [a])
            assert x.shape == whole.shape and torch.equal(x.full_tensor(), whole)
            for b in kinds:
                y = x.redistribute(placements=[b])
                assert y.placements == (b,) and torch.equal(y.full_tensor(), whole)
                assert torch.equal(y.to_local(), distribute_tensor(whole, mesh, [b]).to_local())
        part = DTensor.from_local(whole * (rank + 1), mesh, [Partial()])
        total = whole * (size * (size + 1) // 2)
        for b in kinds:
            torch.testing.assert_close(part.redistribute(placements=[b]).full_tensor(), total)
    grid = init_device_mesh("cpu", (2, size // 2))
    whole = torch.arange(30.0).view(5, 6)
    for places in ([Shard(0), Shard(0)], [Shard(1), Shard(0)], [Replicate(), Shard(1)], [Shard(0), Replicate()]):
        x = distribute_tensor(whole, grid, places)
        assert torch.equal(x.full_tensor(), whole)
        for others in ([Shard(1), Shard(1)], [Shard(0), Shard(1)], [Replicate(), Replicate()]):
            assert torch.equal(x.redistribute(placements=others).full_tensor(), whole)


def operations(rank, size):
    """Values and gradients of expressions, however the operands lie, are those of whole tensors."""
    mesh = init_device_mesh("cpu", (size,))
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(4, 8, generator=generator), torch.randn(8, 4, generator=generator)
    w, b = torch.randn(4, 8, generator=generator), torch.randn(4, generator=generator)
    row = torch.randn(8, generator=generator)
    expressions = [
        (lambda x, row: (x * row + x.tanh() - 2).exp(), (x, row)),
        (lambda x, y: x @ y, (x, y)),
        (lambda x, w, b: F.linear(x, w, b), (x, w, b)),
        (lambda x, w, b: F.linear(x.view(2, 2, 8), w, b).relu(), (x, w, b)),
        (lambda x: F.softmax(x, -1).sum(0) + x.mean(), (x,)),
        (lambda x: x.mean(1, keepdim=True) * x.sum(), (x,)),
        (lambda x, row: F.layer_norm(x, (8,), row, row), (x, row)),
        (lambda x: x.view(4, 4, 2).transpose(0, 2).unsqueeze(0).reshape(2, -1)[:, :5], (x,)),
        (lambda x, y: x.t() * y, (x, y)),
        (lambda x: F.mse_loss(x, x.detach() * 2), (x,)),
        (lambda x, w: torch.cat([x, w * 2, x], 1).tanh(), (x, w)),
        (lambda x, w: torch.cat([x, w]) * torch.stack([x, w], 1).view(8, 8), (x, w)),
        (lambda x: x.sort(0)[0] + x.sort(1, descending=True).values, (x,)),
    ]
    for number, (function, operands) in enumerate(expressions):
        leaves = [t.clone().requires_grad_() for t in operands]
        expected = function(*leaves)
        weights = torch.arange(expected.numel()).view(expected.shape) / 7.0
        (expected * weights).sum().backward()
        for places in ((0, 0, 0), (1, 1, 0), (1, 0, 0), (0, 1, 0), (None, 0, 0), (0, None, None), (None, 1, None)):
            divided = []
            for t, place in zip(operands, places):
                place = None if place is None or place >= t.dim() else place
                kind = Replicate() if place is None else Shard(place)
                divided.append(distribute_tensor(t.clone().requires_grad_(), mesh, [kind]))
            out = function(*divided)
            message = f"expression {number} with {places}"
            torch.testing.assert_close(out.full_tensor(), expected, msg=lambda m, at=message: f"{at}: {m}")
            (out * distribute_tensor(weights, mesh, [Replicate()])).sum().backward()
            for leaf, whole in zip(divided, leaves):
                assert leaf.grad.placements == leaf.placements
                torch.testing.assert_close(leaf.grad.full_tensor(), whole.grad, msg=lambda m, at=message: f"{at}: {m}")


def wrong(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    for call, kind, phrase in (
        (lambda: torch.linalg.svd(x), NotImplementedError, "does not have a sharding strategy registered"),
        (lambda: x + torch.ones(4, 4), RuntimeError, "got mixed torch.Tensor and DTensor"),
        (lambda: torch.cat([x, torch.ones(4, 4)]), RuntimeError, "got mixed torch.Tensor and DTensor"),
        (lambda: x.redistribute(placements=[Partial()]), RuntimeError, "redistributing to Partial is for internal use"),
        (lambda: distribute_tensor(torch.ones(2), mesh, [Shard(0)] * 2), ValueError, "same length"),
    ):
        try:
            call()
        except kind as error:
            assert phrase in str(error), error
        else:
            raise AssertionError(f"no {kind.__name__}")


def training(rank, size):
    """A module with divided weights trains as the whole one does; norms of gradients count all parts."""
    mesh = init_device_mesh("cpu", (size,))

    def divide(name, module, mesh):
        if isinstance(module, nn.Linear):
            place = Shard(0) if name == "0" else Shard(1)
            module.weight = nn.Parameter(distribute_tensor(module.weight.detach(), mesh, [place]))
            if name == "0":
                module.bias = nn.Parameter(distribute_tensor(module.bias.detach(), mesh, [Shard(0)]))

    def network():
        torch.manual_seed(4)
        return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))

    one = network()
    many = distribute_module(network(), mesh, divide)
    assert isinstance(many[0].weight, nn.Parameter) and many[0].weight.to_local().shape == (8 // size, 6)
    assert many[2].bias.placements == (Replicate(),)
    first, second = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (one, many))
    for step in range(5):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        first.zero_grad()
        second.zero_grad()
        loss = one(x).square().mean()
        other = many(distribute_tensor(x, mesh, [Replicate()])).square().mean()
        torch.testing.assert_close(other.full_tensor(), loss)
        loss.backward()
        other.backward()
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.05) for m in (one, many)]
        torch.testing.assert_close(norms[1].full_tensor(), norms[0])
        first.step()
        second.step()
    for p, q in zip(one.parameters(), many.parameters()):
        torch.testing.assert_close(q.full_tensor(), p)
    assert isinstance(second.state[many[0].weight]["exp_avg"], DTensor)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, 2)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


def styles(rank, size):
    """Attention and a feed-forward net, divided by heads and columns, give what the whole ones do, gradients included."""
    mesh = init_device_mesh("cpu", (size,))

    def network():
        torch.manual_seed(6)
        net = nn.Sequential(nn.LayerNorm(8), Attention(), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        return nn.ModuleDict({"words": nn.Embedding(10, 8), "net": net})

    columns = {name: ColwiseParallel() for name in ("net.1.q", "net.1.k", "net.1.v", "net.2")}
    plan = {
        **columns,
        "net.1.out": RowwiseParallel(),
        "net.4": RowwiseParallel(),
        "words": RowwiseParallel(input_layouts=Replicate()),
    }
    one, many = network(), parallelize_module(network(), mesh, plan)
    tokens = torch.tensor([[1, 2, 3], [4, 5, 1]])
    results = []
    for model in (one, many):
        out = model["net"](model["words"](tokens))
        out.square().sum().backward()
        results.append(out)
    torch.testing.assert_close(results[1], results[0])
    assert many["net"][1].q.weight.to_local().shape == (8 // size, 8)
    for p, q in zip(one.parameters(), many.parameters()):
        g = q.grad.full_tensor() if isinstance(q, DTensor) else q.grad
        torch.testing.assert_close(g, p.grad)
    both = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4))
    divided = parallelize_module(
        copy.deepcopy(both),
        mesh,
        {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())},
    )
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(2))
    out = divided(x.chunk(size, 1)[rank])
    torch.testing.assert_close(out, both(x))
    out.sum().backward()
    both(x).sum().backward()
    torch.testing.assert_close(divided[0].weight.grad.full_tensor(), both[0].weight.grad)


def divided_losses(rank, size):
    """Cross entropy of divided classes, and its gradient, as on the whole."""
    from flambeau.distributed.tensor.parallel import loss_parallel

    mesh = dist.init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    for shape, reduction in [((6, 5), "mean"), ((2, 5, 3), "sum"), ((6, 8), "none")]:
        whole = torch.randn(shape, requires_grad=True)
        target = torch.randint(0, shape[1], (shape[0], *shape[2:]))
        target.view(-1)[0] = -100
        expected = nn.functional.cross_entropy(whole, target, reduction=reduction)
        (expected * 2).sum().backward()
        parts = distribute_tensor(whole.detach(), mesh, [Shard(1)]).requires_grad_()
        with loss_parallel():
            loss = nn.functional.cross_entropy(parts, target, reduction=reduction)
            assert isinstance(loss, DTensor) and loss.placements == (Replicate(),)
            (loss * 2).sum().backward()
        torch.testing.assert_close(loss.to_local(), expected)
        torch.testing.assert_close(parts.grad.full_tensor(), whole.grad)

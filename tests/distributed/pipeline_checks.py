"""Pipelines whose gradients are those of one process; `test_pipelining.py` runs them on two and on four."""

import copy

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import PipelineStage, SplitPoint, pipe_split, pipeline

CPU = torch.device("cpu")


def layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(count)]


def batch(rows):
    torch.manual_seed(1)
    return torch.randn(rows, 6), torch.randn(rows, 6)


def whole_gradients(modules, x, y, parts):
    """The mean over parts of their losses, by one process: outputs, losses and gradients of each module."""
    modules = copy.deepcopy(modules)
    out = x
    for module in modules:
        out = module(out)
    losses = [nn.functional.mse_loss(o, t) for o, t in zip(out.tensor_split(parts), y.tensor_split(parts))]
    (sum(losses) / parts).backward()
    return out.detach(), [loss.item() for loss in losses], [[p.grad for p in m.parameters()] for m in modules]


def close(a, b):
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def run(schedule, indices, modules, parts, rows, rank, size):
    """One step of a schedule; checks results, losses and gradients."""
    x, y = batch(rows)
    out, losses, grads = whole_gradients(modules, x, y, parts)
    count = len(modules)
    mine = {i: copy.deepcopy(modules[i]) for i in indices}
    stages = [PipelineStage(mine[i], i, count, CPU) for i in indices]
    kind = pipelining.schedules.get_schedule_class(schedule)
    single = issubclass(kind, pipelining.schedules.PipelineScheduleSingle)
    made = kind(stages[0] if single else stages, parts, loss_fn=nn.MSELoss())
    got_losses = []
    got = made.step(*([x] if 0 in mine else []), target=y if count - 1 in mine else None, losses=got_losses)
    if count - 1 in mine:
        assert close(got, out) and torch.allclose(torch.tensor(losses), torch.stack(got_losses))
    else:
        assert got is None and got_losses == []
    for i, module in mine.items():
        assert all(close(p.grad, g) for p, g in zip(module.parameters(), grads[i])), (schedule, i)
    with torch.no_grad():
        got = made.eval(*([x] if 0 in mine else []), target=y if count - 1 in mine else None)
    assert count - 1 not in mine or close(got, out)


def schedules(rank, size):
    one, two = layers(size), layers(2 * size)
    for name, parts, rows in [("GPipe", 3, 12), ("1F1B", 2, 8), ("1F1B", 2 * size + 1, 4 * size + 5)]:
        run(name, [rank], one, parts, rows, rank, size)  # also parts of unlike sizes
    looped, folded = [rank, rank + size], [rank, 2 * size - 1 - rank]
    for name in ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"):
        run(name, looped, two, 2 * size, 4 * size, rank, size)
    run("ZBVZeroBubble", folded, two, 2 * size, 4 * size, rank, size)


class Skips(nn.Module):
    """The second stage uses an argument, and the last one what the first made."""

    def __init__(self, count):
        super().__init__()
        self.blocks = nn.ModuleList(layers(count))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x, shift=None):
        first = x = self.blocks[0](x)
        for block in self.blocks[1:]:
            pipe_split()
            x = block(x + shift)
        return {"out": x + first * self.scale, "first": first}


def cut_models(rank, size):
    model = Skips(size)
    x, y = batch(8)
    shift = torch.ones(8, 6) * 0.1
    alone = copy.deepcopy(model)
    out = alone(x, shift=shift)["out"]
    parts = list(zip(out.chunk(4), y.chunk(4)))
    (sum(nn.functional.mse_loss(o, t) for o, t in parts) / 4).backward()
    pipe = pipeline(model, (x[:2],), {"shift": shift[:2]})
    assert pipe.num_stages == size and close(pipe(x[:2], shift=shift[:2])[0], out[:2])
    stage = pipe.build_stage(rank, CPU)
    loss = lambda results, target: nn.functional.mse_loss(results[0], target)
    schedule = pipelining.Schedule1F1B(stage, 4, loss_fn=loss)
    got = schedule.step(*([x] if rank == 0 else []), target=y, **({"shift": shift} if rank == 0 else {}))
    assert rank != size - 1 or close(got[0], out)
    wanted = dict(alone.named_parameters())
    named = dict(stage.submod.named_parameters())
    assert sorted(named) == [f"blocks.{rank}.0.bias", f"blocks.{rank}.0.weight"]
    assert all(close(p.grad, wanted[name].grad) for name, p in named.items())


def split_by_paths(rank, size):
    model = nn.Sequential(*layers(size))
    x, y = batch(8)
    _, _, grads = whole_gradients(list(model), x, y, 2)
    pipe = pipeline(model, (x[:4],), split_spec={str(i): SplitPoint.BEGINNING for i in range(1, size)})
    stage = pipelining.build_stage(pipe.get_stage_module(rank), rank, pipe.info(), CPU)
    spec = pipelining.microbatch.TensorChunkSpec.from_tuple((0,))
    schedule = pipelining.ScheduleGPipe(stage, 2, nn.MSELoss(), args_chunk_spec=spec if rank == 0 else None)
    optimizer = torch.optim.SGD(stage.submod.parameters(), 0.1)
    schedule.step(*([x] if rank == 0 else []), target=y)
    named = dict(stage.submod.named_parameters())
    assert all(close(named[f"{rank}.0.{name}"].grad, g) for name, g in zip(("weight", "bias"), grads[rank]))
    optimizer.step()


def replicas_of_stages(rank, size):
    """Two pipelines of size/2 stages; replicas of a stage average their gradients once."""
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "pp"))
    place, group = mesh.get_local_rank("pp"), mesh.get_group("pp")
    x, y = batch(8)
    x, y = x.chunk(2)[mesh.get_local_rank("dp")], y.chunk(2)[mesh.get_local_rank("dp")]
    modules = layers(size // 2)
    _, _, grads = whole_gradients(modules, x, y, 2)
    replica = nn.parallel.DistributedDataParallel(modules[place], process_group=mesh.get_group("dp"))
    schedule = pipelining.ScheduleGPipe(PipelineStage(replica, place, size // 2, CPU, group=group), 2, nn.MSELoss())
    schedule.step(*([x] if place == 0 else []), target=y)
    for p, g in zip(replica.parameters(), grads[place]):
        dist.all_reduce(g, dist.ReduceOp.AVG, mesh.get_group("dp"))
        assert close(p.grad, g)

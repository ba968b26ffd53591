"""What every process of a world checks of checkpoints and divided optimizers; `test_checkpoint.py` runs it."""

import os
import pathlib

from ddp_checks import batches, close, network, raises, train

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import format_utils
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.optim import ZeroRedundancyOptimizer
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from flambeau.nn.parallel import DistributedDataParallel as DDP

FOLDER = pathlib.Path(os.environ.get("CHECKPOINTS", "."))
WHOLE = {
    "rows": torch.arange(14.0).view(7, 2),
    "columns": torch.arange(10).view(2, 5),
    "same": torch.arange(3.0).to(torch.bfloat16),
}


def state(size, filled):
    """Tensors that lie in all ways, and other objects."""
    mesh = init_device_mesh("cpu", (size,))
    value = {name: t if filled else torch.zeros_like(t) for name, t in WHOLE.items()}
    return {
        "rows": distribute_tensor(value["rows"], mesh, [Shard(0)]),
        "inner": {
            "columns": distribute_tensor(value["columns"], mesh, [Shard(1)]),
            "same": distribute_tensor(value["same"], mesh, [Replicate()]),
            "plain": value["rows"] * 2,
            "list": [1, value["same"] + 1] if filled else [0, value["same"]],
        },
        "step": 7 if filled else 0,
        "name": "x" if filled else "",
    }


def check(found):
    assert torch.equal(found["rows"].full_tensor(), WHOLE["rows"])
    assert torch.equal(found["inner"]["columns"].full_tensor(), WHOLE["columns"])
    assert torch.equal(found["inner"]["same"].full_tensor(), WHOLE["same"])
    assert torch.equal(found["inner"]["plain"], WHOLE["rows"] * 2)
    assert found["inner"]["list"][0] == 1 and torch.equal(found["inner"]["list"][1], WHOLE["same"] + 1)
    assert found["step"] == 7 and found["name"] == "x"


def write(rank, size):
    dcp.save(state(size, True), checkpoint_id=FOLDER / "parts")


def read(rank, size):
    """Written by another number of processes."""
    found = state(size, False)
    dcp.load(found, checkpoint_id=FOLDER / "parts")
    check(found)


def again(rank, size):
    kept = state(size, True)
    future = dcp.async_save(kept, checkpoint_id=FOLDER / "later")
    with torch.no_grad():
        kept["rows"].zero_()  # it was copied already
    future.result()
    dist.barrier()
    found = state(size, False)
    dcp.load(found, checkpoint_id=FOLDER / "later")
    check(found)
    wrong = {"rows": torch.zeros(3)}
    raises(dcp.CheckpointException, "Size mismatch", lambda: dcp.load(wrong, checkpoint_id=FOLDER / "later"))
    raises(
        dcp.CheckpointException,
        "Missing key in checkpoint state_dict: other",
        lambda: dcp.load({"other": torch.zeros(3)}, checkpoint_id=FOLDER / "later"),
    )


def published(rank, size):
    """Parts as safetensors files, joined to files of whole tensors; what all processes have is written by one."""
    mesh = init_device_mesh("cpu", (size,))
    parts = {
        "rows": distribute_tensor(WHOLE["rows"], mesh, [Shard(0)]),
        "columns": distribute_tensor(WHOLE["columns"], mesh, [Shard(1)]),
        "first": torch.arange(64.0),
        "second": torch.arange(8.0),
    }
    writer = dcp.HuggingFaceStorageWriter(str(FOLDER / f"st{size}"), save_distributed=True, enable_consolidation=True)
    found = dcp.save(parts, storage_writer=writer)
    homes = {
        index.fqn: info.relative_path[:11]
        for index, info in found.storage_data.items()
        if index.fqn in ("first", "second")
    }
    assert len(set(homes.values())) == 2, homes  # the work is shared
    for folder in (FOLDER / f"st{size}", FOLDER / f"st{size}" / "sharded"):
        again = {name: torch.zeros_like(t) for name, t in parts.items()}
        dcp.load(again, storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
        assert torch.equal(again["columns"].full_tensor(), WHOLE["columns"])
        assert torch.equal(again["rows"].full_tensor(), WHOLE["rows"]) and torch.equal(again["second"], parts["second"])
    if rank == 0:
        torch.save({"rows": WHOLE["rows"]}, FOLDER / "one.pt")
    dist.barrier()
    sent = {"rows": torch.zeros_like(parts["rows"])}
    reader = format_utils.BroadcastingTorchSaveReader(FOLDER / "one.pt")
    dcp.load(sent, storage_reader=reader, planner=format_utils.DynamicMetaLoadPlanner())
    assert torch.equal(sent["rows"].full_tensor(), WHOLE["rows"])


def models(rank, size):
    """A divided model and its optimizer go on from a checkpoint as if nothing had happened."""
    data = batches(8, 4 * size)
    expected = train(network(0), data)

    def make(seed):
        model = network(seed)
        fully_shard(model[0])
        fully_shard(model)
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    model, optimizer = make(0)
    close(train(model, data[:4], rank, size, optimizer), expected[:4])
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=FOLDER / "training")
    model, optimizer = make(9)
    train(model, data[:1], rank, size, optimizer)
    weights, states = get_state_dict(model, optimizer)
    kept = {"model": weights, "optimizer": states}
    dcp.load(kept, checkpoint_id=FOLDER / "training")
    set_state_dict(model, optimizer, model_state_dict=kept["model"], optim_state_dict=kept["optimizer"])
    close(train(model, data[4:], rank, size, optimizer), expected[4:])
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert type(whole["0.weight"]) is torch.Tensor
    other, _ = make(3)
    set_model_state_dict(other, whole, options=StateDictOptions(full_state_dict=True))
    assert torch.equal(other[2].weight.full_tensor(), whole["2.weight"])


def divided_optimizer(rank, size):
    data = batches(8, 4 * size)
    one = network(0)
    first = torch.optim.Adam(one.parameters(), lr=0.01)
    expected = train(one, data, optimizer=first)
    model = DDP(network(0))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    close(train(model, data[:5], rank, size, optimizer), expected[:5])
    held = [None] * size
    dist.all_gather_object(held, len(optimizer.optim.state))
    assert sum(held) == 6 and max(held) < 6
    if rank == 0:
        raises(RuntimeError, "has not been consolidated", optimizer.state_dict)
    optimizer.consolidate_state_dict(0)
    shared = [optimizer.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(shared, 0)
    assert len(shared[0]["state"]) == 6
    other = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.5)
    other.load_state_dict(shared[0])
    assert other.param_groups[0]["lr"] == 0.01
    close(train(model, data[5:], rank, size, other), expected[5:])


def scaler(rank, size):
    """An overflow in one process is one in all: the step is left out everywhere."""
    model = DDP(torch.nn.Linear(2, 1))
    before = model.module.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = torch.amp.GradScaler("cpu", init_scale=4.0)
    x = torch.full((1, 2), float("inf") if rank == 0 else 1.0)
    scale.scale(model(x).sum()).backward()
    scale.step(optimizer)
    scale.update()
    assert torch.equal(model.module.weight, before) and scale.get_scale() == 2.0
    optimizer.zero_grad()
    scale.scale(model(torch.ones(1, 2)).sum()).backward()
    scale.step(optimizer)
    scale.update()
    torch.testing.assert_close(model.module.weight, before - 0.1)

"""What every process of a world checks of divided parameters; `test_sharded.py` runs it."""

import functools

from ddp_checks import batches, close, network, part, raises, train

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
from flambeau.distributed.fsdp import MixedPrecisionPolicy, StateDictType, fully_shard
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.fsdp.wrap import size_based_auto_wrap_policy
from flambeau.distributed.tensor import DTensor, Shard, init_device_mesh


def divided(seed=0, **options):
    model = network(seed)
    for index in (0, 2):
        fully_shard(model[index], **options)
    return fully_shard(model, **options)


def like_one_process(rank, size):
    data = batches(100, 4 * size)
    expected = train(network(0), data, optimizer=None)
    for options in ({}, {"reshard_after_forward": False}, {"reshard_after_forward": True}):
        steps = 100 if not options else 8
        model = divided(**options)
        close(train(model, data[:steps], rank, size), expected[:steps])
    model = divided()
    model.set_modules_to_forward_prefetch([model[0]])
    model[0].set_modules_to_forward_prefetch([model[2]])
    model[2].set_modules_to_backward_prefetch([model[0]])
    model.set_reshard_after_forward(False)
    close(train(model, data[:8], rank, size), expected[:8])
    weight = model[0].weight
    assert isinstance(weight, DTensor) and weight.placements == (Shard(0),) and weight.shape == (32, 6)
    assert weight.to_local().shape == (32 // size, 6) and isinstance(model[4].bias, nn.Parameter)
    one, many = network(0), divided()
    first, second = torch.optim.AdamW(one.parameters(), lr=0.01), torch.optim.AdamW(many.parameters(), lr=0.01)
    close(train(many, data[:10], rank, size, second), train(one, data[:10], optimizer=first))
    assert second.state[many[0].weight]["exp_avg"].to_local().numel() * size == 32 * 6


def details(rank, size):
    data = batches(2, 4 * size)
    one, many = network(0), divided()
    many.set_requires_gradient_sync(False)
    x, y = data[0]
    nn.functional.mse_loss(many(part(x, rank, size)), part(y, rank, size)).backward()
    assert many[0].weight.grad is None
    many.set_requires_gradient_sync(True)
    x, y = data[1]
    nn.functional.mse_loss(many(part(x, rank, size)), part(y, rank, size)).backward()
    for x, y in data:
        nn.functional.mse_loss(one(x), y).backward()
    norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.1) for m in (one, many)]
    torch.testing.assert_close(norms[1].full_tensor(), norms[0])
    for p, q in zip(one.parameters(), many.parameters()):
        torch.testing.assert_close(q.grad.full_tensor(), p.grad)
    state = many.state_dict()
    other = divided(5)
    other.load_state_dict(state)
    for p, q in zip(other.parameters(), one.parameters()):
        assert torch.equal(p.full_tensor(), q)
    with torch.no_grad():
        torch.testing.assert_close(other(x), one(x))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output_dtype=torch.float32)
    half = fully_shard(network(0), mp_policy=policy)
    out = half(part(x, rank, size))
    assert out.dtype == torch.float32
    out.sum().backward()
    assert half[0].weight.grad.dtype == torch.float32 == half[0].weight.dtype
    torch.testing.assert_close(out, one(part(x, rank, size)), rtol=0.1, atol=0.05)
    if size == 4:
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "parts"))
        data = batches(6, 8)
        close(train(divided(mesh=grid), data, rank, size), train(network(0), data))
        one, many = network(0), divided(mesh=grid)
        many.set_requires_all_reduce(False)
        for (x, y), last in zip(data[:2], (False, True)):
            many.set_requires_all_reduce(last)
            nn.functional.mse_loss(many(part(x, rank, size)), part(y, rank, size)).backward()
            nn.functional.mse_loss(one(x), y).backward()
            assert (many[0].weight.grad is not None) == last
        torch.testing.assert_close(many[0].weight.grad.full_tensor(), one[0].weight.grad)


def divided_by(rank, size):
    """A module's gradients are the sum over all processes divided by its own factor, and what its hook makes of that."""
    grids = [init_device_mesh("cpu", (size,))]
    if size == 4:
        grids.append(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "parts")))
    for grid in grids:
        one, many = network(0), divided(mesh=grid)
        many[0].set_gradient_divide_factor(3.0)
        many.set_force_sum_reduction_for_comms(True)
        many[2].set_all_reduce_hook(lambda g: g.mul_(10))
        x = torch.ones(size, 6)
        one(x).sum().backward()
        many(part(x, rank, size)).sum().backward()
        for index, factor in ((0, 1 / 3), (2, 10 / size), (4, 1 / size)):
            torch.testing.assert_close(many[index].weight.grad.full_tensor(), one[index].weight.grad * factor)


def overflow(rank, size):
    """What is infinite in the part of one process leaves the step out in all."""
    model = fully_shard(nn.Linear(2, size, bias=False))
    before = model.weight.full_tensor().clone()
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    weights = torch.ones(size)
    weights[0] = float("inf")
    scaler.scale((model(torch.ones(1, 2)) * weights).sum()).backward()
    scaler.step(torch.optim.SGD(model.parameters(), lr=0.1))
    scaler.update()
    assert scaler.get_scale() == 2.0 and torch.equal(model.weight.full_tensor(), before)


def older_form(rank, size):
    data = batches(8, 4 * size)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=500)
    expected = train(network(0), data)
    model = FSDP(network(0 if rank == 0 else 7), auto_wrap_policy=policy, sync_module_states=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    close(train(model, data, rank, size, optimizer), expected)
    whole = model.state_dict()
    assert list(whole) == list(network(0).state_dict()) and whole["0.weight"].shape == (32, 6)
    assert not isinstance(whole["0.weight"], DTensor)
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        assert isinstance(model.state_dict()["0.weight"], DTensor)
    again = FSDP(network(3), auto_wrap_policy=policy)
    again.load_state_dict(whole)
    assert torch.equal(again.state_dict()["2.weight"], whole["2.weight"])
    states = FSDP.optim_state_dict(model, optimizer)
    assert states["state"]["0.weight"]["momentum_buffer"].shape == (32, 6)
    other = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    other.load_state_dict(FSDP.optim_state_dict_to_load(again, other, states))
    with FSDP.summon_full_params(model):
        assert model[0] is model.module[0]
        assert model.module[0].weight.shape == (32, 6) and not isinstance(model.module[0].weight, DTensor)
        with torch.no_grad():
            model.module[0].bias.fill_(2.0)
    assert torch.equal(model.state_dict()["0.bias"], torch.full((32,), 2.0))
    total = model.clip_grad_norm_(1e-3)
    assert total > 1e-3
    made = []

    def make(module):
        made.append(type(module).__name__)
        module.to_empty(device="cpu", recurse=False)
        for p in module.parameters(recurse=False):
            nn.init.constant_(p, 0.25)

    with torch.device("meta"):
        nothing, other = network(0), network(0)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=200)
    model = FSDP(nothing, auto_wrap_policy=policy, param_init_fn=make)
    assert made == ["Linear", "Linear", "Sequential", "ReLU", "Tanh", "Linear"]
    assert all(p.full_tensor().eq(0.25).all() for p in model.parameters())
    assert not any(p.is_meta for p in FSDP(nn.Sequential(*other[::2])).parameters())  # by reset_parameters
    raises(ValueError, "param_init_fn has left", lambda: FSDP(nn.Linear(2, 2, device="meta"), param_init_fn=id))


def memory(rank, size):
    """Parameters, gradients and states at rest are this process's share; whole parameters go when they are not needed."""
    layers, width = 8, 512
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model(torch.randn(2, width)).sum().backward()
    count = layers * width * width // size
    assert sum(p.to_local().numel() for p in model.parameters()) == count
    assert sum(p.grad.to_local().numel() for p in model.parameters()) == count
    assert not any(m._fsdp.is_whole for m in model)
    dist.barrier()


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network(0)

    def forward(self, x):
        x = torch.utils.checkpoint.checkpoint(self.inner[:2], x, use_reentrant=False)
        return torch.utils.checkpoint.checkpoint(self.inner[2:], x, use_reentrant=False)


def computed_again(rank, size):
    """Parts of the module run again in backward, with whole parameters; compiled or not, the losses are the same."""
    data = batches(6, 4 * size)
    expected = train(network(0), data)
    model = Checkpointed()
    fully_shard(model.inner[0])
    close(train(torch.compile(fully_shard(model)), data, rank, size), expected)
    close(train(nn.parallel.DistributedDataParallel(Checkpointed()), data, rank, size), expected)
    inside = network(0)
    for index in (0, 2, 4):
        fully_shard(inside[index])
    optimizer = torch.optim.SGD(inside.parameters(), lr=0.1, momentum=0.9)
    close(train(torch.compile(inside), data, rank, size, optimizer), expected)


def from_nothing(rank, size):
    """A model without memory gets its parameters afterwards: by `to_empty`, or from a state of rank 0."""
    from flambeau.distributed.checkpoint import state_dict as states

    data, options = batches(3, 4 * size), states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    expected = train(network(0), data)
    for way in ("empty", "state"):
        with torch.device("meta"):
            model = network(0)
        for index in (0, 2):
            fully_shard(model[index])
        fully_shard(model)
        whole = network(0).state_dict()
        if way == "empty":
            model.to_empty(device="cpu")
            states.set_model_state_dict(model, whole, options=states.StateDictOptions(full_state_dict=True))
        else:
            states.set_model_state_dict(model, whole if rank == 0 else {}, options=options)
        assert isinstance(model[0].weight, DTensor) and not model[0].weight.is_meta
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        states._init_optim_state(optimizer)
        assert optimizer.state[model[0].weight]["step"].item() == 1 and optimizer.param_groups[0]["lr"] == 0.01
        close(train(model, data, rank, size), expected)
        saved = states.get_optimizer_state_dict(model, optimizer, options=states.StateDictOptions(full_state_dict=True))
        once = states.get_state_dict(
            model, optimizer, options=states.StateDictOptions(full_state_dict=True, cpu_offload=True)
        )
        assert [bool(state) for state in once] == [dist.get_rank() == 0] * 2  # one copy of all for all processes
        states.set_optimizer_state_dict(model, optimizer, saved if rank == 0 else {}, options=options)

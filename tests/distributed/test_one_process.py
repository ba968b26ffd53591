"""A world of one process."""

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel


@pytest.fixture
def world():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_before_it_is_ready():
    assert dist.is_available() and not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(torch.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(ValueError, match="MASTER_ADDR expected"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(ValueError, match="Default process group"):
        DistributedDataParallel(nn.Linear(1, 1))


def test_environment(monkeypatch):
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group()
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_nccl_refuses_without_a_gpu():
    for backend in ("nccl", "cpu:gloo,cuda:nccl"):
        with pytest.raises((RuntimeError, ValueError), match=r"NCCL|GPUs"):
            dist.init_process_group(backend, rank=0, world_size=1, store=dist.HashStore())
    assert not dist.is_initialized()
    dist.init_process_group(rank=0, world_size=1, store=dist.HashStore())
    assert dist.get_backend() == "undefined"
    dist.all_reduce(x := torch.ones(1))
    assert x.item() == 1
    dist.destroy_process_group()
    for wrong, error in (("foo", ValueError), ("cpu:gloo,cpu:mpi", ValueError), ("ucc", RuntimeError)):
        with pytest.raises(error):
            dist.init_process_group(wrong, rank=0, world_size=1, store=dist.HashStore())


def test_collectives(world):
    x = torch.arange(3.0)
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo", rank=0, world_size=1)
    for call in (lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0), lambda: dist.reduce(x, 0), dist.barrier):
        assert call() is None and x.tolist() == [0, 1, 2]
    work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
    assert work.wait() and work.is_completed() and work.get_future().wait() == [x]
    for fill in (
        lambda out: dist.all_gather([out], x),
        lambda out: dist.all_gather_into_tensor(out, x),
        lambda out: dist.gather(x, [out]),
        lambda out: dist.scatter(out, [x]),
        lambda out: dist.reduce_scatter(out, [x]),
        lambda out: dist.reduce_scatter_tensor(out, x),
        lambda out: dist.all_to_all([out], [x]),
        lambda out: dist.all_to_all_single(out, x),
    ):
        out = torch.zeros(3)
        fill(out)
        assert out.tolist() == [0, 1, 2]


def test_objects(world):
    found = [None]
    dist.all_gather_object(found, {"a": 1})
    assert found == [{"a": 1}]
    dist.gather_object(5, found)
    assert found == [5]
    dist.scatter_object_list(found, [7])
    assert found == [7]
    dist.broadcast_object_list(found, 0)
    assert found == [7]


def test_wrong_calls(world):
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="invalid root rank"):
        dist.broadcast(x, 1)
    with pytest.raises(RuntimeError, match="invalid tensor size"):
        dist.all_gather([torch.zeros(2)], x)
    with pytest.raises(TypeError, match="Expected parameter `tensor`"):
        dist.all_reduce([1])
    with pytest.raises(ValueError, match="complex"):
        dist.all_reduce(torch.ones(1, dtype=torch.complex64), op=dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="gather_list"):
        dist.gather(x)
    with pytest.raises(ValueError, match="same as the rank"):
        dist.send(x, 0)
    with pytest.raises(ValueError, match="not part of group"):
        dist.recv(x, 1)


def test_groups(world):
    group = dist.new_group([0])
    assert dist.get_rank(group) == 0 and dist.get_world_size(group) == 1 and dist.get_process_group_ranks(group) == [0]
    assert dist.group.WORLD is dist.GroupMember.WORLD and dist.get_backend() == "gloo" == dist.Backend.GLOO
    assert dist.new_group([]) == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(dist.new_group([])) == -1
    with pytest.raises(ValueError, match="out of range"):
        dist.new_group([3])
    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    assert mesh["a"].size() == 1 and mesh.get_local_rank("b") == 0 and mesh.get_group("a").size() == 1


def test_stores(tmp_path):
    from datetime import timedelta

    shared = dist.FileStore(str(tmp_path / "store"), 1)
    for store in (
        dist.HashStore(),
        shared,
        dist.PrefixStore("p", dist.HashStore()),
        dist.TCPStore("localhost", 0, 1, True),
    ):
        store.set("a", "b")
        assert store.get("a") == b"b" and store.add("n", 2) == 2 and store.add("n", 3) == 5
        assert store.check(["a", "n"]) and store.num_keys() >= 2 and store.delete_key("a") and not store.check(["a"])
        assert store.compare_set("z", "", "q") == b"q" and store.compare_set("z", "x", "y") == b"q"
        store.queue_push("line", "1")
        assert store.queue_len("line") == 1 and store.queue_pop("line") == b"1"
        with pytest.raises(TypeError, match="incompatible function arguments"):
            store.set("number", 3)
        with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
            store.queue_pop("nobody", False)
        with pytest.raises(dist.DistStoreError, match="wait timeout after 20ms"):
            store.wait(["missing"], timedelta(milliseconds=20))
    assert dist.FileStore(str(tmp_path / "store")).get("n") == b"5"


def test_data_parallel(world):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    parallel = DistributedDataParallel(model)
    assert next(iter(parallel.state_dict())) == "module.0.weight" and parallel.module is model
    x = torch.randn(4, 2)
    parallel(x).sum().backward()
    assert model[0].weight.grad is not None
    with parallel.no_sync():
        assert not parallel.require_backward_grad_sync
    with pytest.raises(RuntimeError, match="not needed"):
        DistributedDataParallel(nn.ReLU())
    from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    optimizer = torch.optim.Adam(parallel.parameters())
    optimizer.step()
    weights, state = get_state_dict(parallel, optimizer)
    assert "0.weight" in weights and "0.weight" in state["state"]
    set_state_dict(parallel, optimizer, model_state_dict=weights, optim_state_dict=state)


def test_options_that_do_nothing_refuse(world):
    from flambeau.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    for option in ({"bucket_cap_mb_list": [1]}, {"skip_all_reduce_unused_params": True}, {"mixed_precision": object()}):
        with pytest.raises(NotImplementedError, match="leave it out"):
            DistributedDataParallel(nn.Linear(1, 1), **option)
    for option in (
        {"sharding_strategy": ShardingStrategy.HYBRID_SHARD},
        {"process_group": (dist.group.WORLD, dist.group.WORLD)},
    ):
        with pytest.raises(NotImplementedError, match="device_mesh="):
            FullyShardedDataParallel(nn.Linear(1, 1), **option)


def test_absent_devices():
    from flambeau import accelerator, mps, mtia, xpu

    for module in (mps, xpu, mtia):
        assert not module.is_available() and module.device_count() == 0
        with pytest.raises((RuntimeError, AssertionError), match="not compiled"):
            module.synchronize()
    if not torch.cuda.is_available():
        assert accelerator.current_accelerator() is None
        with pytest.raises(RuntimeError, match="none is available"):
            accelerator.synchronize()


def test_collectives_in_graphs_and_optimizers(world):
    import flambeau.distributed.nn as collectives
    from flambeau.distributed.optim import ZeroRedundancyOptimizer

    x = torch.ones(2, requires_grad=True)
    (collectives.all_reduce(x) + torch.cat(collectives.all_gather(x))).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    optimizer = ZeroRedundancyOptimizer([x], torch.optim.Adam, lr=0.1)
    optimizer.step()
    assert x[0].item() == pytest.approx(0.9) and optimizer.state[x]["step"].item() == 1
    other = ZeroRedundancyOptimizer([x], torch.optim.Adam, lr=0.5)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.1


def test_groups_that_ended_say_so(world):
    some = dist.new_group([0])
    dist.destroy_process_group(some)
    with pytest.raises(ValueError, match="is not initialized in the world group map: destroy_process_group ended it"):
        dist.all_reduce(torch.ones(1), group=some)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.destroy_process_group(some)


def test_checkpoint_wrappers_keep_names_and_gradients():
    from flambeau import nn
    from flambeau.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    names, x = list(plain.state_dict()), torch.randn(4, 2)
    plain(x).sum().backward()
    grads = [p.grad.clone() for p in plain.parameters()]
    for options in ({}, {"checkpoint_wrapper_fn": wrappers.offload_wrapper}):
        wrapped = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        wrappers.apply_activation_checkpointing(wrapped, check_fn=lambda m: isinstance(m, nn.Linear), **options)
        assert isinstance(wrapped[0], wrappers.ActivationWrapper) and list(wrapped.state_dict()) == names
        wrapped.load_state_dict(plain.state_dict())
        wrapped(x).sum().backward()
        assert all(torch.equal(p.grad, g) for p, g in zip(wrapped.parameters(), grads))
    single = wrappers.checkpoint_wrapper(plain[0], wrappers.CheckpointImpl.REENTRANT)
    assert [name for name, _ in single.named_parameters()] == ["weight", "bias"] and single.weight is plain[0].weight
    assert single(input=x.requires_grad_()).requires_grad and single.in_features == 2


def test_elastic_sampler_begins_in_the_middle():
    from flambeau.distributed.elastic.utils.data import ElasticDistributedSampler

    parts = [list(ElasticDistributedSampler(range(10), 2, rank, start_index=3)) for rank in range(2)]
    assert parts[0] == [7, 8, 5, 4] and {*parts[0], *parts[1]} == set(range(3, 10)) and len(parts[1]) == 4
    with pytest.raises(ValueError, match="Start index 10 should be less than dataset size 10"):
        ElasticDistributedSampler(range(10), 2, 0, start_index=10)


def test_methods_and_inputs_of_divided_modules(world):
    from flambeau.distributed.fsdp import (
        DataParallelMeshDims,
        fully_shard,
        register_fsdp_forward_method,
        share_comm_ctx,
    )
    from flambeau.distributed.tensor import DTensor, Replicate, Shard
    from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module

    class Net(torch.nn.Linear):
        def encode(self, x):
            return torch.nn.functional.linear(x, self.weight, self.bias) * 2

    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    net = fully_shard(Net(2, 3), mesh=mesh, dp_mesh_dims=DataParallelMeshDims(shard="data"))
    assert net.weight.device_mesh.mesh_dim_names == ("data",)
    register_fsdp_forward_method(net, "encode")
    net.encode(torch.ones(1, 2)).sum().backward()
    assert net.weight.grad.full_tensor().tolist() == [[2, 2]] * 3
    share_comm_ctx([net])
    with pytest.raises(ValueError, match="Expects list of FSDPModules"):
        share_comm_ctx([torch.nn.Linear(1, 1)])
    with pytest.raises(ValueError, match="does not have a method nothing"):
        register_fsdp_forward_method(net, "nothing")
    with pytest.raises(ValueError, match="At least one of shard or replicate"):
        DataParallelMeshDims()

    class Kinds(torch.nn.Module):
        def forward(self, x):
            self.seen = type(x), x.placements
            return x

    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), output_layouts=Replicate(), desired_output_layouts=Shard(1)
    )  # fmt: skip
    model = parallelize_module(Kinds(), mesh["model"], style)
    out = model(torch.ones(2, 2))
    assert model.seen == (DTensor, (Replicate(),)) and type(out) is torch.Tensor


def test_names_of_older_programs(world):
    from flambeau.distributed import distributed_c10d
    from flambeau.distributed import nn as dnn
    from flambeau.distributed.optim import as_functional_optim

    assert distributed_c10d.reduce_op.SUM is dist.ReduceOp.SUM is dist.reduce_op.SUM
    assert dnn.all_reduce(torch.ones(2), dnn.ReduceOp.SUM, dnn.group.WORLD).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="no remote calls"):
        dnn.RemoteModule("worker", torch.nn.Linear)
    one, two = torch.ones(1, requires_grad=True), torch.ones(1)
    optimizer = as_functional_optim(torch.optim.SGD, lr=0.5, momentum=0.5)
    for _ in range(2):
        optimizer.step_param(two, torch.ones(1))
    assert two.tolist() == [-0.25] and optimizer.state[two]["momentum_buffer"].tolist() == [1.5]
    optimizer.param_group["params"] = [one, two]
    optimizer.step([torch.ones(1), None])
    assert one.tolist() == [0.5] and one.grad is None and two.tolist() == [-0.25]
    with pytest.raises(ValueError, match="does not equal to the size of the parameters"):
        optimizer.step([None])


def test_a_rule_of_the_programs_own(world, monkeypatch):
    from flambeau.distributed.tensor import Replicate, Shard, _rules, distribute_tensor
    from flambeau.distributed.tensor.experimental import register_sharding

    monkeypatch.setattr(_rules, "RULES", rules := dict(_rules.RULES))
    monkeypatch.setattr("flambeau.distributed.tensor.experimental._register_sharding.RULES", rules)
    seen = []

    @register_sharding(torch.ops.aten._softmax.default)
    def along_others(x, dim, half_to_float=None):
        seen.append((tuple(x.shape), x.placements, x.mesh.ndim))
        others = [([Shard(d)], [Shard(d), None, None]) for d in range(x.ndim) if d != dim]
        return [([Replicate()], [Replicate(), None, None]), *others]

    x = torch.arange(12.0).view(4, 3)
    divided = distribute_tensor(x, dist.init_device_mesh("cpu", (1,)), [Shard(0)]).requires_grad_()
    out = torch.softmax(divided, 1)
    assert out.placements == (Shard(0),) and torch.equal(out.full_tensor(), x.softmax(1))
    assert torch.softmax(divided, 0).placements == (Replicate(),)
    assert seen[0] == ((4, 3), (Shard(0),), 1)
    out.sum().backward()
    assert divided.grad.placements == (Shard(0),)


def test_collectives_are_operators(world):
    calls, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
    x = torch.arange(4.0)
    assert torch.equal(calls.wait_tensor(calls.all_reduce(x, "sum", name)), x)
    assert torch.equal(calls.all_gather_into_tensor.default(x, 1, name), x)
    assert torch.equal(calls.reduce_scatter_tensor(x, "sum", 1, name), x)
    assert torch.equal(calls.broadcast(x, 0, name), x)
    assert torch.equal(calls.all_to_all_single(x, [4], [4], name), x)
    out = [torch.zeros(4)]
    torch.ops.c10d.scatter_.default(out, [[x]], dist.group.WORLD, 0, True, -1)
    assert torch.equal(out[0], x)


def test_no_gradients_through_remote_calls():
    """Libraries import it and ask; who uses it is told what there is instead."""
    remote = dist.autograd
    assert not remote.is_available()
    with pytest.raises(NotImplementedError, match="DistributedDataParallel"), remote.context():
        pass
    with pytest.raises(NotImplementedError, match=r"loss.backward\(\)"):
        remote.backward(0, [])


def test_dtensor_from_a_spec():
    """Checkpoints of sharded models are made so: a local part, and what is known of the whole."""
    from flambeau.distributed._tensor.placement_types import DTensorSpec, TensorMeta
    from flambeau.distributed.tensor import DTensor, Shard, init_device_mesh

    mesh = init_device_mesh("cpu", (1,))
    try:
        spec = DTensorSpec(mesh, (Shard(0),), TensorMeta(torch.Size((2, 3)), (3, 1), torch.float32))
        x = DTensor(torch.ones(2, 3), spec, requires_grad=True)
        assert x._spec == spec and x.requires_grad and x.placements == (Shard(0),) and spec.ndim == 2
        (x * 2).sum().backward()
        assert x.grad.full_tensor().tolist() == [[2.0] * 3] * 2
        with pytest.raises(ValueError, match="TensorMeta"):
            DTensor(torch.ones(2, 3), DTensorSpec(mesh, (Shard(0),)))
    finally:
        dist.destroy_process_group()


def test_state_from_names_alone(tmp_path):
    from flambeau.distributed.checkpoint import save
    from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

    save({"model": {"a": torch.ones(2), "b": torch.zeros(1)}, "step": 3}, checkpoint_id=tmp_path)
    assert _load_state_dict_from_keys(checkpoint_id=tmp_path)["step"] == 3
    found = _load_state_dict_from_keys("model.a", checkpoint_id=tmp_path)
    assert found["model"]["a"].tolist() == [1, 1] and "b" not in found["model"] and "step" not in found

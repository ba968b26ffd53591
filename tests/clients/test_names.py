"""Names that well-known libraries import, and rare functions of the top namespace."""

import importlib

import pytest

import flambeau as torch
from flambeau import _C, _checks, _rare, _streams, _tensor_str

NAMES = """
_C: DisableTorchFunctionSubclass Generator Node _TensorMeta _disabled_torch_function_impl _get_privateuse1_backend_name _nn
_custom_ops: get_ctx impl_abstract
_dynamo: OptimizedModule allow_in_graph disable is_compiling mark_static_address reset
_dynamo._trace_wrapped_higher_order_op: TransformGetItemToIndex
_dynamo.eval_frame: OptimizedModule is_dynamo_supported
_dynamo.utils: is_compile_supported
_inductor: config
_tensor_str: PRINT_OPTS _tensor_str
distributed: TCPStore rpc is_available
distributed._composable.fsdp: fully_shard
distributed._functional_collectives: wait_tensor
distributed.algorithms.join: Join
distributed.checkpoint.hf_storage: HuggingFaceStorageReader HuggingFaceStorageWriter
distributed.constants: default_pg_timeout
distributed.elastic.multiprocessing.errors: ChildFailedError record
distributed.fsdp.fully_sharded_data_parallel: FullyShardedDataParallel ShardingStrategy StateDictType
distributed.tensor: DTensor Partial Replicate Shard distribute_tensor
distributed.tensor.placement_types: Shard _StridedShard
functional: einsum norm
fx._compatibility: compatibility
fx.graph_module: _CodeOnlyModule _USER_PRESERVED_ATTRIBUTES_KEY _copy_attr
fx.node: Argument Target map_arg
hub: HASH_REGEX _get_torch_home download_url_to_file load_state_dict_from_url urlparse
jit: Final ScriptModule _overload_method
jit.annotations: BroadcastingList2 List
library: custom_op impl register_fake triton_op
nn.parallel: DistributedDataParallel
types: Device FileLike Number Storage _device _dtype _size
"""


@pytest.mark.parametrize("line", NAMES.strip().split("\n"))
def test_importable(line):
    home, names = line.split(": ")
    module = importlib.import_module("flambeau." + home)
    for name in names.split():
        assert hasattr(module, name), name


def test_core_names():
    assert _C._nn._parse_to("cpu", torch.float64, non_blocking=True) == (torch.device("cpu"), torch.float64, True, None)
    assert isinstance(torch.ones(1), _C.TensorBase) and _C._get_tracing_state() is None
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.AutocastCPU)),
    ):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    assert _tensor_str._tensor_str(torch.tensor([1.0, 2.0]), 0) == "[1., 2.]"


def test_checks():
    _checks._check(True)
    for check, kind in (
        (_checks._check, RuntimeError),
        (_checks._check_value, ValueError),
        (_checks._check_index, IndexError),
    ):
        with pytest.raises(kind, match="mine"):
            check(False, lambda: "mine")
    with pytest.raises(TypeError, match="must be a bool"):
        _checks._check(torch.tensor(True))
    with pytest.raises(AssertionError, match="why"):
        _checks._assert(False, "why")
    with pytest.raises(RuntimeError):
        _checks._check_tensor_all(torch.tensor([True, False]))


def test_rare_functions(tmp_path):
    assert _rare.cond(False, lambda x: x, lambda x: -x, (3,)) == -3
    x = torch.randn(3, 4)
    assert torch.allclose(_rare.norm_except_dim(x, 2, 0), x.norm(dim=1, keepdim=True))
    mean, inverse = _rare.batch_norm_stats(x, 1e-5)
    out = _rare.batch_norm_elemt(x, None, None, mean, inverse, 1e-5)
    assert torch.allclose(out, torch.nn.functional.batch_norm(x, None, None, training=True), atol=1e-5)
    halves = [_rare.batch_norm_stats(part, 0.0) for part in (x[:1].repeat(2, 1) + x[1:], x[1:])]
    both = torch.cat([x[:1].repeat(2, 1) + x[1:], x[1:]])
    together = _rare.batch_norm_gather_stats(
        x, torch.stack([h[0] for h in halves]), torch.stack([h[1] for h in halves]), None, None, 0.1, 0.0, 2
    )
    assert torch.allclose(together[0], both.mean(0), atol=1e-5)
    assert torch.allclose(together[1], both.var(0, correction=0).rsqrt(), rtol=1e-3)
    weight = torch.full((3, 4), 2.0)
    _rare.embedding_renorm_(weight, torch.tensor([1, 1]), 1.0, 2.0)
    assert weight.norm(dim=1).tolist() == pytest.approx([4.0, 1.0, 4.0], rel=1e-4)
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(_rare.hspmm(sparse, torch.ones(3, 2)).to_dense(), torch.ones(3, 2))
    shared = _rare.from_file(str(tmp_path / "t.bin"), shared=True, size=4)
    shared.fill_(2.0)
    assert _rare.from_file(str(tmp_path / "t.bin"), size=4).tolist() == [2.0] * 4
    assert _rare.get_device_module("cpu") is torch.cpu
    base = torch.arange(12.0).view(3, 4)
    assert torch.equal(_rare.slice_inverse(base[1:3], base, 0, 1, 3), base)


def test_anomaly_switch():
    _rare.set_anomaly_enabled(True, False)
    assert _rare.is_anomaly_enabled() and not _rare.is_anomaly_check_nan_enabled()
    _rare.set_anomaly_enabled(False)
    assert not _rare.is_anomaly_enabled()


def test_streams():
    stream = _streams.Stream("cpu")
    with stream:
        event = stream.record_event()
    assert stream.query() and event.query() and event.elapsed_time(stream.record_event()) >= 0

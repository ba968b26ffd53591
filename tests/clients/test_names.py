"""Names that well-known libraries import, and rare functions of the top namespace."""

import importlib

import pytest

import flambeau as torch
from flambeau import _C, _tensor_str
from flambeau._names import checks as _checks
from flambeau._names import rare as _rare
from flambeau._names import streams as _streams

NAMES = """
_C: DisableTorchFunctionSubclass Generator Node _TensorMeta _disabled_torch_function_impl _get_privateuse1_backend_name _nn
_C: Tag _cpu
_custom_ops: get_ctx impl_abstract
_higher_order_ops.inline_asm_elementwise: inline_asm_elementwise
_ops: OpOverload OpOverloadPacket
nn.utils._per_sample_grad: call_for_per_sample_grads
_dynamo: OptimizedModule allow_in_graph disable is_compiling mark_static_address reset
_dynamo._trace_wrapped_higher_order_op: TransformGetItemToIndex
_dynamo: is_dynamo_supported is_inductor_supported
_dynamo.eval_frame: OptimizedModule is_dynamo_supported
_dynamo.utils: is_compile_supported
_inductor: config
_tensor_str: PRINT_OPTS _tensor_str
distributed: TCPStore rpc is_available
_C._profiler: _ExperimentalConfig
nn.utils.clip_grad: _no_grad _tensor_or_tensors
distributed.autograd: backward context get_gradients is_available
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
_C: TensorType _are_functorch_transforms_active _is_alias_of _is_torch_function_mode_enabled
_C._functorch: get_unwrapped is_batchedtensor
_dynamo.exc: Unsupported
_functorch.vmap: _add_batch_dim _broadcast_to_and_flatten _create_batched_inputs _maybe_remove_batch_dim _process_batched_inputs _unwrap_batched
_guards: active_fake_mode
_tensor_str: printoptions
autograd.function: _ContextMethodMixin
cuda: _initialized
distributions.transforms: _InverseTransform
distributed._tensor.experimental: implicit_replication
fx._compatibility: compatibility
fx.graph_module: _CodeOnlyModule _USER_PRESERVED_ATTRIBUTES_KEY _copy_attr
fx.node: Argument Target map_arg
hub: HASH_REGEX _get_torch_home download_url_to_file load_state_dict_from_url urlparse
jit: Final ScriptModule _overload_method _script_if_tracing
jit.annotations: BroadcastingList2 List
library: custom_op impl register_fake triton_op
nn.parallel: DistributedDataParallel
_ops: HigherOrderOperator OpOverload
ops: aten
serialization: MAP_LOCATION
utils._contextlib: _DecoratorContextManager context_decorator
utils._python_dispatch: is_traceable_wrapper_subclass
utils._pytree: is_structseq_instance
utils._foreach_utils: _group_tensors_by_device_and_dtype
utils.checkpoint: get_device_states set_device_states
utils.data._utils.collate: np_str_obj_array_pattern
utils.data.dataloader: _collate_fn_t
utils.weak: TensorWeakRef WeakIdKeyDictionary WeakTensorKeyDictionary
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
    torch.embedding_renorm_(weight, torch.tensor([1, 1]), 1.0, 2.0)
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


def test_batched_tensors_are_known():
    seen = []
    torch.func.vmap(lambda x: seen.append(_C._functorch.is_batchedtensor(x)) or x * 2)(torch.ones(3))
    assert seen == [True] and not _C._functorch.is_batchedtensor(torch.ones(3))


def test_private_functions():
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    rows = torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
    assert rows.tolist() == [0, 2, 2, 3, 3]
    pairs = torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 1, 2]))
    assert pairs.tolist() == [[0, 0, 2], [0, 1, 2]]
    torch._assert_async(torch.tensor(1))
    with pytest.raises(RuntimeError, match="mine"):
        torch._assert_async(torch.tensor(0), "mine")
    assert torch.eye(torch.tensor(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_swapped_tensors():
    a, b = torch.zeros(1, requires_grad=True), torch.nn.Parameter(torch.ones(2))
    torch.utils.swap_tensors(a, b)
    (a * 2).sum().backward()
    assert type(a) is torch.nn.Parameter and a.grad.tolist() == [2.0, 2.0] and b.tolist() == [0.0]


@pytest.mark.filterwarnings("ignore:functorch.*is deprecated")
def test_functorch():
    from flambeau.compat import functorch

    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval(), torch.randn(5, 4)
    function, parameters, buffers = functorch.make_functional_with_buffers(model)
    assert torch.equal(function(parameters, buffers, x), model(x))
    with pytest.raises(RuntimeError, match="has buffers"):
        functorch.make_functional(model)
    models = [torch.nn.Linear(4, 2) for _ in range(3)]
    function, parameters, buffers = functorch.combine_state_for_ensemble(models)
    with pytest.warns(FutureWarning, match="functorch.vmap is deprecated"):
        out = functorch.vmap(function, (0, 0, None))(parameters, buffers, x)
    assert torch.allclose(out[1], models[1](x), atol=1e-6)


def test_contexts_that_decorate():
    from flambeau.utils._contextlib import _DecoratorContextManager

    log = []

    class Noted(_DecoratorContextManager):
        def __enter__(self):
            log.append("in")

        def __exit__(self, *error):
            log.append("out")

    @Noted()
    def steps():
        log.append("step")
        yield 1

    assert list(steps()) == [1] and log == ["in", "step", "out", "in", "out"]

"""Names that libraries import from private modules, and what they do there."""

import logging
import typing
import warnings

import pytest

import flambeau as torch
from flambeau import _jit_internal
from flambeau.utils.module_tracker import ModuleTracker

# -- return_types ----------------------------------------------------------------------------------------------------


def test_results_with_out_have_their_own_class():
    out = torch.max(torch.ones(2, 3), 0, out=(torch.empty(0), torch.empty(0, dtype=torch.long)))
    assert type(out) is torch.return_types.max_out
    assert repr(out).startswith("torch.return_types.max_out(\nvalues=")
    assert type(torch.ones(2).sort()) is torch.return_types.sort


def test_all_return_types_are_listed():
    import flambeau.return_types as module

    assert module is torch.return_types
    assert len(module.all_return_types) == 67
    assert not hasattr(module, "histogramdd_out")


# -- __future__ ------------------------------------------------------------------------------------------------------


@pytest.fixture
def conversions():
    yield torch.__future__
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    torch.__future__.set_swap_module_params_on_conversion(False)


def test_parameters_are_new_objects_if_wanted(conversions):
    conversions.set_overwrite_module_params_on_conversion(True)
    layer = torch.nn.Linear(2, 2)
    before = layer.weight
    layer.double()
    assert layer.weight is not before
    assert (before.dtype, layer.weight.dtype) == (torch.float32, torch.float64)
    assert layer.weight.requires_grad


def test_parameters_are_swapped_if_wanted(conversions):
    conversions.set_swap_module_params_on_conversion(True)
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    before = layer.weight
    layer.double()
    assert layer.weight is before
    assert before.dtype is torch.float64
    assert before.grad.dtype is torch.float64
    layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    assert torch.equal(before.grad, torch.full((2, 2), 2.0, dtype=torch.float64))


# -- _jit_internal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "kinds"),
    [
        (typing.List[int], {"is_list"}),  # noqa: UP006
        (list[int], {"is_list"}),
        (int | None, {"is_optional", "is_union"}),
        (dict[str, int], {"is_dict"}),
        (tuple[int, ...], {"is_tuple"}),
        (int | str, {"is_union"}),
        (typing.Final[int], {"is_final"}),
        (int, set()),
    ],
)
def test_annotations(annotation, kinds):
    names = ("is_list", "is_optional", "is_union", "is_dict", "is_tuple", "is_final")
    assert {name for name in names if getattr(_jit_internal, name)(annotation)} == kinds


def test_annotations_need_what_they_contain():
    for bare in (typing.List, list):  # noqa: UP006
        with pytest.raises(RuntimeError, match="without a contained type"):
            _jit_internal.is_list(bare)


def test_marks_of_functions():
    def plain():
        pass

    assert _jit_internal.get_torchscript_modifier(plain) == _jit_internal.FunctionModifiers.DEFAULT
    unused = torch.jit.unused(lambda: None)
    ignored = torch.jit.ignore(lambda: None)
    assert (_jit_internal.should_drop(unused), _jit_internal.should_drop(ignored)) == (True, False)
    assert _jit_internal.is_ignored_fn(ignored) and not _jit_internal.is_ignored_fn(plain)
    _jit_internal.copy_torchscript_modifier(ignored, plain)
    assert _jit_internal.is_ignored_fn(plain)


def test_dispatch_by_a_boolean():
    both = _jit_internal.boolean_dispatch(
        arg_name="r", arg_index=1, default=False, if_true=lambda x, r=True: 1, if_false=lambda x, r=False: 2,
        module_name="m", func_name="fn",
    )  # fmt: skip
    assert (both(0), both(0, True), both(0, r=True), both.__name__, both.__module__) == (2, 1, 1, "fn", "m")
    assert _jit_internal._try_get_dispatched_fn(both)["index"] == 1
    assert _jit_internal._try_get_dispatched_fn(len) is None


def test_qualified_names():
    assert _jit_internal._qualified_name(torch.nn.Linear) == "__torch__.torch.nn.modules.linear.Linear"
    assert _jit_internal._qualified_name(torch.nn.Linear, mangle_name=False) == "torch.nn.modules.linear.Linear"


# -- switches --------------------------------------------------------------------------------------------------------


def test_patched_switches():
    config = torch._dynamo.config
    with config.patch(verbose=True, suppress_errors=True):
        assert config.verbose and config.suppress_errors
    with config.patch("verbose", True):
        assert config.verbose

    @config.patch({"verbose": True})
    def inside():
        return config.verbose

    assert inside() is True
    assert config.verbose is False
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        assert torch._inductor.config.triton.cudagraphs
    assert not torch._inductor.config.triton.cudagraphs
    saved = config.save_config()
    config.verbose = True
    config.load_config(saved)
    assert config.verbose is False
    assert config.get_config_copy()["recompile_limit"] == 8
    with pytest.raises(AttributeError, match="nowhere"):
        _ = config.nowhere


def test_deterministic_fill_is_a_bool():
    assert torch.utils.deterministic.fill_uninitialized_memory is True
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    torch.utils.deterministic.fill_uninitialized_memory = True
    with pytest.raises(RuntimeError, match="bool"):
        torch.utils.deterministic.fill_uninitialized_memory = 3


# -- modules that run ------------------------------------------------------------------------------------------------


def test_module_tracker_forward_and_backward():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
    seen = []
    with ModuleTracker() as tracker:
        for part in model.modules():
            part.register_forward_pre_hook(lambda m, args: seen.append((len(tracker.parents), tracker.is_bw)))
            part.register_full_backward_hook(
                lambda m, i, o: seen.append((max(tracker.parents, key=len), tracker.is_bw))
            )
        model(torch.ones(1, 2, requires_grad=True)).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    assert seen == [
        (2, False), (3, False), (3, False), (4, False),
        ("Sequential.1.0", True), ("Sequential.1", True), ("Sequential.0", True), ("Sequential", True),
    ]  # fmt: skip


def test_callbacks_at_the_end_of_backward():
    x, calls = torch.ones(1, requires_grad=True), []
    engine = torch.autograd.Variable._execution_engine
    x.register_hook(lambda g: engine.queue_callback(lambda: calls.append(x.grad.item())))
    (x * 3).sum().backward()
    assert calls == [3.0]  # the gradient is there already
    with pytest.raises(RuntimeError, match="during backward"):
        engine.queue_callback(print)


# -- logs ------------------------------------------------------------------------------------------------------------


def test_logs(caplog):
    torch._logging.set_logs(dynamo=logging.DEBUG, guards=True)
    guards = torch._logging.getArtifactLogger("torch._dynamo.thing", "guards")
    graphs = torch._logging.getArtifactLogger("torch._dynamo.thing", "graph")
    guards.debug("kept")
    graphs.debug("left out")
    torch._logging.set_logs()
    guards.warning("later")
    assert [record.message for record in caplog.records] == ["kept"]
    assert logging.getLogger("torch._dynamo").level == 0
    with pytest.raises(ValueError, match="Unrecognized log level for log dynamo"):
        torch._logging.set_logs(dynamo="loud")


def test_warnings_once_and_hidden(caplog):
    logger = logging.getLogger("once")
    torch._logging.warning_once(logger, "seen %s", 1)
    torch._logging.warning_once(logger, "seen %s", 1)
    assert [record.message for record in caplog.records] == ["seen 1"]
    with warnings.catch_warnings(record=True) as caught, torch._logging.hide_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("x", UserWarning, "f", 1)
    assert not caught


# -- compiler --------------------------------------------------------------------------------------------------------


def test_guards_that_stay():
    class Entry:
        def __init__(self, kind, value=None, is_global=False):
            self.guard_type, self.value, self.is_global = kind, value, is_global

    parameter = torch.nn.Parameter(torch.ones(1))
    entries = [
        Entry("TENSOR_MATCH", parameter),
        Entry("ID_MATCH", is_global=True),
        Entry("TENSOR_MATCH", torch.ones(1)),
    ]
    assert torch.compiler.keep_tensor_guards_unsafe(entries) == [False, False, True]
    assert torch.compiler.keep_tensor_guards_unsafe(entries, keep_parameters=True) == [True, False, True]
    assert torch.compiler.skip_guard_on_globals_unsafe(entries) == [True, False, True]
    assert torch.compiler.skip_all_guards_unsafe(entries) == [False] * 3
    assert torch.compiler.keep_portable_guards_unsafe(entries) == [True, False, True]


def test_backends_by_name():
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    assert torch._dynamo.lookup_backend("eager")(module, [])(torch.ones(1)).item() == 2.0
    with pytest.raises(torch._dynamo.InvalidBackend, match="nowhere"):
        torch._dynamo.lookup_backend("nowhere")


# -- operators and objects -------------------------------------------------------------------------------------------


def test_labels_as_operators():
    with torch.profiler.profile() as prof:
        handle = torch.ops.profiler._record_function_enter("mine", None)
        torch.ones(2) + 1
        torch.ops.profiler._record_function_exit(handle)
        other = torch.ops.profiler._record_function_enter_new("other")
        torch.ops.profiler._record_function_exit._RecordFunction(other)
    assert {"mine", "other"} <= {event.name for event in prof.events()}
    with pytest.raises(AttributeError, match="nowhere"):
        _ = torch.ops.profiler.nowhere


def test_objects_have_a_number():
    x = torch.ones(2)
    assert isinstance(x._cdata, int) and x._cdata == x._cdata != x.view(2)._cdata


def test_operators_as_keys_and_types_of_programs():
    relu = torch.ops.aten.relu.default
    assert relu._overloadpacket is relu.overloadpacket is torch.ops.aten.relu
    x, w = torch.ones(1, 1, 4), torch.ones(1, 1, 2)
    options = ([0], 1, False, False, True, True)
    assert torch.ops.aten._convolution(x, w, None, [2], [0], [1], False, *options).tolist() == [[[2.0, 2.0]]]
    assert torch.ops.aten._convolution(x, w, None, [1], [0], [1], True, *options).tolist() == [[[1.0, 2, 2, 2, 1]]]
    scripted = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert isinstance(scripted._script.method("forward"), torch._C.ScriptMethod)
    assert scripted._script.method("forward").name == "forward"
    assert isinstance(torch.jit.script(_doubled), torch._C.ScriptFunction)
    assert isinstance(scripted, torch._C.ScriptModule)


def _doubled(x):
    return x * 2


def test_a_warning_is_given_once():
    with pytest.warns(UserWarning, match="only once") as caught:
        for _ in range(2):
            torch._dynamo.utils.warn_once("said only once")
    assert len(caught) == 1


def test_factors_of_inverses():
    from flambeau.distributions.multivariate_normal import _precision_to_scale_tril

    factor = _precision_to_scale_tril(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    assert torch.allclose(factor @ factor.mT, torch.tensor([[5.0, -2.0], [-2.0, 4.0]]) / 16)


def test_helpers_about_shapes_and_dtypes():
    from flambeau import _prims_common as common

    x = torch.ones(2, 3, 4, 5)
    assert common.suggest_memory_format(x) is torch.contiguous_format
    assert common.suggest_memory_format(x.to(memory_format=torch.channels_last)) is torch.channels_last
    assert common.suggest_memory_format(x.permute(3, 2, 1, 0)) is torch.contiguous_format
    volume = torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    assert common.suggest_memory_format(volume) is torch.channels_last_3d
    assert common.make_contiguous_strides_for((2, 0, 4)) == (4, 4, 1)
    assert common.canonicalize_dims(3, (-1, 0)) == (2, 0) and common.canonicalize_dim(0, -1) == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 5"):
        common.canonicalize_dim(3, 5)
    assert common.dtype_to_type(torch.half) is float and common.dtype_to_type(torch.bool) is bool
    assert common.corresponding_real_dtype(torch.complex32) is torch.half
    assert common.corresponding_complex_dtype(torch.double) is torch.complex128
    assert not common.is_integer_dtype(torch.bool) and not common.is_float_dtype(torch.complex64)
    assert common.is_contiguous_or_false(x) and not common.is_contiguous(x.mT)


def test_kernels_that_are_not_here_say_so():
    from flambeau._inductor.decomposition import decompositions, register_decomposition
    from flambeau.sparse import _triton_ops_meta
    from flambeau.utils._triton import has_triton, has_triton_package

    assert has_triton() is has_triton_package() is False
    assert _triton_ops_meta.get_meta("bsr_dense_addmm", (1, 2)) is None
    relu = torch.ops.aten.relu.default
    assert register_decomposition([relu])(_doubled) is _doubled is decompositions.pop(relu)
    assert not isinstance(torch.ones(2), torch.sparse.SparseSemiStructuredTensor)
    with pytest.raises(NotImplementedError, match="sparse tensor cores"):
        torch.sparse.to_sparse_semi_structured(torch.ones(4, 4))
    with pytest.raises(NotImplementedError, match="call scaled_mm for each"):
        torch.nn.functional.scaled_grouped_mm(*[torch.ones(2, 2)] * 6)
    assert torch.nn.functional.ScalingType.RowWise == 1


def test_products_in_a_wider_dtype():
    from flambeau._higher_order_ops.out_dtype import out_dtype

    a = torch.full((2, 2), 100, dtype=torch.int8)
    made = out_dtype(torch.ops.aten.mm.default, torch.int32, a, a)
    assert made.dtype is torch.int32 and made.tolist() == [[20000, 20000]] * 2


def test_figures_of_memory_are_found_where_programs_look():
    assert torch.cuda.host_memory_stats is torch.cuda.memory.host_memory_stats
    assert torch.cuda.memory_snapshot is torch.cuda.memory.memory_snapshot
    assert torch.cuda.get_sync_debug_mode() == 0
    torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(NotImplementedError, match="waits are not reported"):
        torch.cuda.set_sync_debug_mode("warn")
    with pytest.raises(RuntimeError, match="expected one of default, warn, error"):
        torch.cuda.set_sync_debug_mode("loud")


def test_contents_of_tensors_can_change_places():
    dense, other = torch.ones(2), torch.ones(3, dtype=torch.int32)
    assert torch._has_compatible_shallow_copy_type(dense, other)
    assert not torch._has_compatible_shallow_copy_type(dense, dense.to_sparse())
    assert not torch._has_compatible_shallow_copy_type(dense, dense.to("meta"))


def test_compiling_without_limits():
    from flambeau._dynamo import config
    from flambeau._dynamo.utils import disable_cache_limit

    limit = config.recompile_limit
    with disable_cache_limit():
        assert config.recompile_limit > 1 << 30
    assert config.recompile_limit == limit
    assert torch._disable_dynamo(len)([1]) == 1


def test_backends_that_look_at_graphs_and_devices_for_a_while():
    from flambeau._dynamo.backends import debugging, registry
    from flambeau.utils import _device

    told = torch._dynamo.explain(lambda x: x + 1)(torch.ones(2))
    assert isinstance(told, debugging.ExplainOutput) and told.graph_count == 1
    assert registry.lookup_backend(debugging.eager) is debugging.eager
    assert torch.compile(lambda x: x + 1, backend=debugging.eager)(torch.ones(1)).item() == 2.0
    with _device.DeviceContext("meta") as context:
        assert torch.ones(1).is_meta and context.device.type == "meta"
    assert _device.set_device("meta")(lambda: torch.ones(1))().is_meta and not torch.ones(1).is_meta


def test_no_process_was_forked_from_one_with_a_gpu():
    assert not any(getattr(torch, name)._is_in_bad_fork() for name in ("cuda", "xpu", "mps", "mtia"))


def test_calls_that_want_a_gpu_wait_for_one(monkeypatch):
    called = []
    torch.cuda._lazy_call(lambda: called.append(1))
    assert len(called) == torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    torch.cuda._lazy_call(lambda: called.append(2), seed=True)
    assert called[-1] == 2

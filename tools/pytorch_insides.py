"""Stand-ins for insides of PyTorch that its test helpers import, so that the files can be collected here.

Only names that flambeau does not have are supplied; what a stand-in names does nothing and, when a test calls it, skips
that test, which then counts as not passed. Nothing here belongs to the package.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import packaging.version
from pytorch_imports import StandIn, placeholder

import flambeau

# Modules that are PyTorch's insides as a whole (compilers, reference implementations, logging, tests of graphs).
MODULES = """
    __future__ _custom_op _opaque_base testing._internal.generated _inductor _refs _prims _prims_common _native _lazy _logging _export _vendor _torch_docs
    _utils_internal _numpy
    _dynamo.test_case _dynamo.testing _dynamo.trace_rules _dynamo.device_interface _dynamo.source _dynamo.guards
    _dynamo.convert_frame _dynamo.variables _dynamo.bytecode_transformation _dynamo.bytecode_analysis _dynamo.functional_export
    _dynamo.symbolic_convert _dynamo.output_graph _dynamo.side_effects _dynamo.types _dynamo.compiled_autograd _dynamo.package _dynamo.comptime _C._profiler
    _subclasses.schema_check_mode _subclasses.meta_utils _higher_order_ops backends.python_native backends.xnnpack ao.ns ao.pruning
    ao.nn.intrinsic.quantized fx.experimental jit.mobile jit._logging jit._recursive jit._state jit.quantized nested._internal
    utils._config_module utils._dtype_abbrs utils._helion utils._import_utils utils._mode_utils utils._pallas
    utils._triton utils._python_dispatch nn.parallel._functions
    nn.modules.linear_cross_entropy_options autograd._functions
    compat.functorch.experimental compat.functorch.compile _functorch.eager_transforms
    _functorch.make_functional _functorch.utils _functorch.vmap
    export._trace ao.nn.qat.modules ao.nn.quantizable ao.nn.quantized.modules
    ao.quantization.quantize_fx ao.quantization.quantization_mappings
    masked.maskedtensor.unary masked.maskedtensor.binary masked.maskedtensor.reductions
""".split()  # noqa: SIM905
# Names that helpers take from modules which are here.
NAMES = {
    "": "_nnpack_available ScriptObject Tag _disable_dynamo _softmax_backward_data _native_batch_norm_legit"
    " _scaled_mm _scaled_mm_v2 _chunk_cat _segment_reduce",
    "_C": "ScriptDict ScriptList ScriptFunction ScriptMethod ScriptModule ScriptObject Block TensorType"
    " _jit_set_emit_hooks _jit_get_emit_hooks _set_print_stack_traces_on_fatal_signal _jit_set_profiling_executor _get_graph_executor_optimize"
    " _get_privateuse1_backend_name _set_autograd_fallback_mode _get_autograd_fallback_mode _ConvBackend"
    " _jit_clear_class_registry _set_default_mobile_cpu_allocator _unset_default_mobile_cpu_allocator"
    " _TorchFunctionState _len_torch_function_stack _get_torch_function_state _set_torch_function_state"
    " _jit_set_tracer_state_warn _jit_get_tracer_state_warn _get_cpu_capability _DisableFuncTorch",
    "_C._functorch": "TransformType reshape_dim_into reshape_dim_outof",
    "compat.functorch": "make_fx",
    "compat.functorch.experimental": "control_flow",
    "func": "make_fx",
    "cuda": "jiterator",
    "overrides": "enable_reentrant_dispatch",
    "_dynamo.config": "patch",
    "_inductor.config": "patch",
    "profiler": "itt",
    "ao.nn.quantized": "MaxPool2d",
    "ao.nn.quantized.modules": "__all__",
    "_dynamo.utils": "LazyString clone_input",
    "_functorch.vmap": "restore_vmap",
    "_functorch.make_functional": "functional_init functional_init_with_buffers",
    "_ops": "HigherOrderOperator",
    "_higher_order_ops": "InvokeQuant invoke_quant_packed",
    "_higher_order_ops.cond": "cond_op",
    "_prims_common": "DimsType",
    "_utils": "_is_privateuse1_backend_available _maybe_view_chunk_cat",
    "ao.quantization": "QConfigMapping QuantType default_symmetric_qnnpack_qat_qconfig get_default_qat_qconfig_mapping"
    " get_default_qconfig_mapping quantize_dynamic_jit quantize_jit",
    "autograd": "_calculate_shape kineto_available",
    "autograd.function": "InplaceFunction _nested_map",
    "autograd.gradcheck": "_get_numerical_jacobian _iter_tensors get_analytical_jacobian get_numerical_jacobian",
    "autograd.profiler": "emit_itt",
    "nn.attention.flex_attention": "_create_empty_block_mask",
    "nn.parallel._functions": "Broadcast",
    "nn.functional": "ScalingType SwizzleType",
    "masked.maskedtensor.core": "_masks_match _tensors_match",
    "nn": "_reduction",
    "utils._pytree": "_cxx_pytree_dynamo_traceable",
    "utils._python_dispatch": "TorchDispatchMode return_and_correct_aliasing _get_current_dispatch_mode",
    "utils.checkpoint": "CheckpointPolicy create_selective_checkpoint_contexts",
}


# The operations that masked tensors know, by name.
_MASKED_UNARY = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil
    clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10
    log1p log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn
    signbit sin sinc sinh sqrt square tan tanh trunc
""".split()  # noqa: SIM905
_MASKED_BINARY = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide floor_divide
    fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater
    greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal
""".split()  # noqa: SIM905


def _operators(names: list[str]) -> list[Any]:
    return [getattr(flambeau.ops.aten, name) for name in names if hasattr(flambeau.ops.aten, name)]


def _in_place(names: list[str]) -> list[Any]:
    return _operators([name + "_" for name in names])


def _same_masks(first: Any, second: Any) -> bool:
    masks = [getattr(t, "_masked_mask", None) for t in (first, second)]
    return None in masks or flambeau.equal(*masks)


def _same_metadata(assert_equal: Any, first: Any, second: Any, **_: Any) -> None:
    for name in ("shape", "dtype", "layout", "requires_grad", "is_leaf"):
        assert_equal(getattr(first, name), getattr(second, name))


def _same(first: Any, second: Any, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
    return flambeau.equal(first, second) if exact else flambeau.allclose(first, second, rtol=rtol, atol=atol)


def _serialized(program: Any, *_: Any, **__: Any) -> bytes:
    file = io.BytesIO()
    flambeau.export.save(program, file)
    return file.getvalue()


def _deserialized(data: bytes, *_: Any, **__: Any) -> Any:
    return flambeau.export.load(io.BytesIO(data))


def _exported(module: Any, args: Any, kwargs: Any = None, dynamic_shapes: Any = None, **_: Any) -> Any:
    return flambeau.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)


class Finder:
    """Gives stand-ins for modules of `MODULES` that are not found otherwise; stands last on `sys.meta_path`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        inner = name.removeprefix("flambeau.")
        if inner != name and any(inner == module or inner.startswith(module + ".") for module in MODULES):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        values = VALUES.get(module.__name__.removeprefix("flambeau."), {})
        for name, value in values.items():
            setattr(module, name, value)


def _check_module_exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # its parent is missing
        return False


# What has to have a meaning for the helpers to work.
VALUES: dict[str, dict[str, Any]] = {
    "": {"_nnpack_available": lambda: False},
    "_C": {
        "_len_torch_function_stack": lambda: 0,
        "_get_torch_function_state": lambda: "enabled",
        "_TorchFunctionState": types.SimpleNamespace(ENABLED="enabled"),
        "_get_privateuse1_backend_name": lambda: "privateuseone",
        "_set_autograd_fallback_mode": lambda mode: None,
        "_get_autograd_fallback_mode": lambda: "nothing",
        "_DisableFuncTorch": contextlib.nullcontext,
        "_get_cpu_capability": lambda: "DEFAULT",
        "_set_print_stack_traces_on_fatal_signal": lambda on: None,
        "_jit_set_emit_hooks": lambda *hooks: None,
        "_jit_get_emit_hooks": lambda: (None, None),
        "_jit_clear_class_registry": lambda: None,
    },
    "_dynamo.compiled_autograd": {"reset": lambda: None},
    "_logging._internal": {"_get_log_state": lambda: None, "_set_log_state": lambda state: None},
    "_higher_order_ops.wrap": {"wrap": lambda function, *args, **named: function(*args, **named)},
    "jit._recursive": {"ConcreteTypeStore": object},
    "jit._state": {"_clear_class_state": lambda: None},
    "_custom_op.impl": {"global_registry": {}},
    "testing._internal.generated.annotated_fn_args": {"annotated_args": {}},
    "_inductor.utils": {"GPU_TYPES": ["cuda", "mps", "xpu"]},
    "_functorch.eager_transforms": {
        "jvp": flambeau.func.jvp,
        "_as_tuple": lambda value: tuple(value) if isinstance(value, (tuple, list)) else (value,),
    },
    "_native.dsl_registry": {"dsl_registry": types.SimpleNamespace(is_dsl_available=lambda name: False)},
    "_subclasses.meta_utils": {"assert_metadata_eq": _same_metadata},
    "masked.maskedtensor.core": {"_masks_match": _same_masks, "_tensors_match": _same},
    "masked.maskedtensor.unary": {
        "UNARY_NAMES": _MASKED_UNARY,
        "NATIVE_UNARY_FNS": _operators(_MASKED_UNARY),
        "NATIVE_INPLACE_UNARY_FNS": _in_place(_MASKED_UNARY),
    },
    "masked.maskedtensor.binary": {
        "BINARY_NAMES": _MASKED_BINARY,
        "NATIVE_BINARY_FNS": _operators(_MASKED_BINARY),
        "NATIVE_INPLACE_BINARY_FNS": _in_place(_MASKED_BINARY),
    },
    "masked.maskedtensor.reductions": {
        "REDUCE_NAMES": ["sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "all", "norm", "var", "std"]
    },
    "profiler": {"itt": types.SimpleNamespace(is_available=lambda: False)},
    "ao.nn.quantized.modules": {"__all__": []},
    "ao.nn.quantizable": {"modules": StandIn("modules")},
    "backends.python_native": {"available_dsls": []},
    "_utils": {"_is_privateuse1_backend_available": lambda: False},
    "_vendor.packaging": {"version": packaging.version},
    "_export.serde.serialize": {"serialize": _serialized, "deserialize": _deserialized},
    "export._trace": {"_export": _exported},
    "_export.db.case": {"SupportLevel": types.SimpleNamespace(SUPPORTED=True)},
    "_export.db.examples": {"all_examples": lambda: {"fn_with_kwargs": types.SimpleNamespace(support_level=True)}},
    "autograd": {"kineto_available": lambda: False},
    "utils._pytree": {"_cxx_pytree_dynamo_traceable": False},
    "utils._mode_utils": {"no_dispatch": contextlib.nullcontext},
    "utils._import_utils": {"_check_module_exists": _check_module_exists},
    "_utils_internal": {"IS_FBSOURCE": False, "get_file_path_2": lambda *parts: str(Path(*parts))},
    "_logging.scribe": {"open_source_signpost": lambda **told: None},  # told of every failure: it must not hide it
    "utils._triton": {"has_triton": lambda: False},
}


def install(checkout: Path) -> None:
    """Makes the names importable, and the helpers of the checkout with them."""
    sys.meta_path.append(Finder())  # type: ignore[arg-type]
    testing = importlib.import_module("flambeau.testing")
    testing.__path__.insert(0, str(checkout / "torch" / "testing"))
    # The comparisons behind `TestCase.assertEqual` are the checkout's own.
    del sys.modules["flambeau.testing._comparison"]
    sys.modules.pop("torch.testing._comparison", None)
    functorch = importlib.import_module("flambeau.compat.functorch")
    functorch.__path__ = getattr(functorch, "__path__", [])
    flambeau.ops.load_library = lambda path: (
        None
    )  # tests that use operators of PyTorch's own libraries fail by themselves
    importlib.import_module("flambeau.testing._utils")
    for name in MODULES:
        importlib.import_module("flambeau." + name)
    for module_name, names in NAMES.items():
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(("flambeau." + module_name).rstrip("."))
            for name in names.split():
                if not hasattr(module, name):
                    setattr(module, name, VALUES.get(module_name, {}).get(name, placeholder(name)))
    bound = importlib.import_module("flambeau.testing._internal.torchbind_impls")
    flambeau.ops._TorchScriptTesting = StandIn("_TorchScriptTesting")
    bound.init_torchbind_implementations = lambda: None  # classes of a C++ library, which tests that use them miss

"""Names that are loaded when a program first uses them, so that importing the package stays quick."""

# Submodules.
MODULES = [
    "_C",
    "_VF",
    "__config__",
    "__future__",
    "_classes",
    "_custom_ops",
    "_dynamo",
    "_functorch",
    "_guards",
    "_higher_order_ops",
    "_inductor",
    "_jit_internal",
    "_library",
    "_lobpcg",
    "_logging",
    "_prims_common",
    "_subclasses",
    "_tensor_str",
    "_utils",
    "_vmap_internals",
    "accelerator",
    "amp",
    "ao",
    "backends",
    "compat",
    "compiler",
    "cpu",
    "cuda",
    "distributed",
    "distributions",
    "doctor",
    "drawing",
    "export",
    "fft",
    "func",
    "functional",
    "futures",
    "fx",
    "hub",
    "jit",
    "library",
    "linalg",
    "masked",
    "metrics",
    "monitor",
    "mps",
    "mtia",
    "multiprocessing",
    "nested",
    "nn",
    "onnx",
    "optim",
    "overrides",
    "package",
    "profiler",
    "quantization",
    "quasirandom",
    "return_types",
    "serialization",
    "signal",
    "sparse",
    "special",
    "storage",
    "testing",
    "torch_version",
    "types",
    "utils",
    "version",
    "vision",
    "xpu",
]

# Functions and classes, by the submodule that holds them.
NAMES = {
    "_C": "AVG AggregationType SUM StorageBase has_lapack has_mkl has_openmp has_spectral",
    "_C._types": "AnyType BoolType ComplexType DeviceObjType DictType FloatType FutureType IntType ListType NoneType "
    "NumberType OptionalType StringType TensorType TupleType Type UnionType",
    "_names.class_sets": "_storage_classes _tensor_classes",
    "_library.aten": "_log_softmax _softmax",
    "_library.aten_backward": "_log_softmax_backward_data _softmax_backward_data",
    "_library.aten_layers": "_add_relu _add_relu_ _grid_sampler_2d_cpu_fallback _grouped_mm _int_mm _masked_softmax _nested_tensor_from_mask "
    "_nested_tensor_from_mask_left_aligned quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d",
    "_names.checks": "_assert _assert_async _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_type "
    "_check_value _check_with",
    "_library.schema": "Tag parse_schema",
    "_lobpcg": "lobpcg",
    "_classes": "classes",
    "_library.namespaces": "ops",
    "_names.rare": "FatalError batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats "
    "batch_norm_update_stats ccol_indices_copy col_indices_copy cond crow_indices_copy dsmm from_file "
    "get_autocast_ipu_dtype get_autocast_xla_dtype get_device_module hsmm hspmm indices_copy init_num_threads "
    "is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_ipu_enabled is_autocast_xla_enabled is_distributed "
    "is_vulkan_available kl_div native_norm norm_except_dim row_indices_copy saddmm set_anomaly_enabled "
    "set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled slice_inverse spmm "
    "sspaddmm sym_constrain_range sym_constrain_range_for_size sym_fresh_size values_copy _shape_as_tensor "
    "_debug_has_internal_overlap _disable_dynamo _has_compatible_shallow_copy_type _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _fft_c2c "
    "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo",
    "_serialization.records": "PyTorchFileReader PyTorchFileWriter",
    "_names.streams": "Event Stream",
    "_core.symbolic": "SymBool SymFloat SymInt",
    "amp": "GradScaler",
    "amp.autocast_mode": "autocast is_autocast_available is_autocast_enabled set_autocast_enabled "
    "is_autocast_cache_enabled set_autocast_cache_enabled get_autocast_dtype set_autocast_dtype get_autocast_cpu_dtype "
    "get_autocast_gpu_dtype set_autocast_cpu_dtype set_autocast_gpu_dtype is_autocast_cpu_enabled "
    "set_autocast_cpu_enabled autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache",
    "compat": "install_as_torch",
    "compiler": "compile",
    "drawing": "draw",
    "func": "vmap",
    "futures": "Future",
    "jit": "CompilationUnit ScriptFunction ScriptModule fork wait",
    "jit._ir": "import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_type_comment "
    "unify_type_list",
    "jit._errors": "JITException",
    "random": "thread_safe_generator",
    "serialization": "load save",
}

HOME = {name: name for name in MODULES} | {name: home for home, names in NAMES.items() for name in names.split()}

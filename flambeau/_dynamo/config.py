"""Switches of `torch.compile`.

`recompile_limit` (or its older name `cache_size_limit`), `automatic_dynamic_shapes`, `error_on_recompile`,
`fail_on_recompile_limit_hit`, `suppress_errors` (of backends that programs bring) and `disable` have an effect. The others say how PyTorch's own capture goes about its work; they are kept
for programs that set and read them, and change nothing here: results are the eager ones whatever they say.
"""

import sys as _sys

from ..utils._config_module import install_config_module as _install

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
suppress_errors = False
verbose = False
optimize_ddp: "bool | str" = True
automatic_dynamic_shapes = True
assume_static_by_default = True
dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
compiled_autograd = False
disable = False
allow_unspec_int_on_nn_module = False
specialize_int = False
raise_on_ctx_manager_usage = True
error_on_recompile = False
force_parameter_static_shapes = force_nn_module_property_static_shapes = True
fail_on_recompile_limit_hit = False
specialize_float = False
trace_numpy = True
log_file_name = None
repro_after = None
skip_fsdp_guards = True
allow_rnn = False

verify_correctness = leaf_function_validate_outputs = leaf_function_check_escaped_gradients = generate_pycode = False
fail_on_cache_limit_hit = automatic_dynamic_exclusion_guard = log_graph_in_out_metadata = False
allow_ignore_mark_dynamic = prepare_freezing = replay_record_enabled = cprofile = dynamo_profiler = False
repro_forward_only = repro_ignore_non_fp = prefer_deferred_runtime_asserts_over_guards = False
force_unspec_int_unbacked_size_like_on_torchrec_kjt = do_not_emit_runtime_asserts = dont_skip_tracing = False
optimize_ddp_lazy_compile = skip_guards_on_constant_func_defaults = use_recursive_dict_tags_for_guards = False
raise_on_unsafe_aot_autograd = force_compile_during_fx_trace = trace_autograd_ops = use_numpy_random_stream = False
enable_cpp_symbolic_shape_guards = enable_trace_unittest = enable_trace_load_build_class = nested_graph_breaks = False
error_on_dynamo_callback_in_fullgraph_compiled_code = install_free_tensors = use_graph_deduplication = False
track_nodes_for_deduplication = graph_deduplication_lint = allow_empty_graphs = debug_force_nested_calls = False
debug_force_graph_break_on_leaf_return = debug_disable_compile_counter = record_compile_time_instruction_count = False
cudagraph_backend_keep_input_mutation = cudagraph_backend_support_input_mutation = False
only_allow_pt2_compliant_ops = capture_profiler_record_function = fake_tensor_cache_crosscheck_enabled = False
caching_precompile = strict_precompile = skip_fwd_side_effects_in_bwd_under_checkpoint = False
enable_compiler_collectives = enable_p2p_compilation = constant_fold_autograd_profiler_enabled = False
wrap_top_frame = enable_invoke_subgraph_regional_compile = inline_invoke_subgraph = False
debug_backend_override = debug_inductor_config_override = debug_dynamo_config_override = ""
minimum_call_count = 1
dead_code_elimination = automatic_dynamic_remote_pgo = pt2_compile_id_prefix = None
invalidate_compile_context_weakrefs = None
replay_side_effects = skip_code_recursive_on_recompile_limit_hit = skip_code_recursive_on_cache_limit_hit = True
use_lazy_graph_module = guard_nn_modules_using_dict_tags = rewrite_assert_with_torch_assert = True
same_two_models_use_fp64 = skip_torchrec = use_lamba_guard_for_object_aliasing = skip_nnmodule_hook_guards = True
skip_no_tensor_aliasing_guards_on_parameters = skip_tensor_guards_with_matching_dict_tags = True
assume_dunder_attributes_remain_unchanged = error_on_nested_jit_trace = error_on_nested_fx_trace = True
capture_sparse_compute = report_guard_failures = enable_cpp_guard_manager = enable_trace_contextlib = True
enable_faithful_generator_behavior = install_free_tensors_for_export = enable_cpp_framelocals_guard_eval = True
issue_3_13_0_warning = capture_autograd_function = capture_func_transforms = log_compilation_metrics = True
fake_tensor_cache_enabled = fake_tensor_disable_inference_mode = enable_dynamo_decompositions = True
graph_break_on_nn_param_ctor = inline_torch_dispatch_torch_compile = automatic_dynamic_local_pgo = True
run_gc_after_compile = record_runtime_overhead = enable_aot_compile = inline_single_use_invoke_subgraph = True
side_effect_replay_policy = "info"
automatic_dynamic_shapes_mark_as = "dynamic"
traceable_tensor_subclasses = set()
nontraceable_tensor_subclasses = set()
reorderable_logging_functions = set()
ignore_logging_functions = set()
ignore_logger_methods = set()
skipfiles_inline_module_allowlist = {}
compiled_autograd_kwargs_override = {}
allowed_functions_module_string_ignorelist = {
    "torch.testing",
    "torch._refs",
    "torch._prims",
    "torch.distributions",
    "torch._decomp",
}
repro_level = 2
repro_tolerance = 0.001
max_saved_pointers_for_recursive_dict_tags_check = 256
numpy_default_float = "float64"
numpy_default_complex = "complex128"
numpy_default_int = "int64"

_install(_sys.modules[__name__])

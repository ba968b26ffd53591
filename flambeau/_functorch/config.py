"""Switches of graphs for compilers that programs bring: kept for programs that set them, and without effect. Results are the eager ones."""

import sys as _sys

from ..utils._config_module import install_config_module as _install

debug_assert = debug_partitioner = False
fake_tensor_allow_meta = False
functionalize_rng_ops = False
donated_buffer = False
enable_autograd_cache = False
aggressive_recomputation = recompute_views = False
activation_memory_budget = 1.0
treat_parameters_as_free_to_save = True
cse = True

decompose_custom_triton_ops = static_weight_shapes = autograd_cache_normalize_inputs = check_custom_op_aliasing = True
view_replay_for_aliased_outputs = ban_recompute_used_far_apart = ban_recompute_long_fusible_chains = True
ban_recompute_materialized_backward = ban_recompute_not_in_allowlist = ban_recompute_reductions = True
remat_using_tags_for_fwd_loss_bwd_graph = fake_tensor_allow_unsafe_data_ptr_access = True
graphsafe_rng_functionalization = guess_tangent_strides_as_outputs = True
unsafe_treat_script_objects_as_zero_size = autograd_cache_allow_custom_autograd_functions = False
bundled_autograd_cache = bypass_autograd_cache_key = error_on_custom_op_aliasing = is_non_builtin_to_include = False
visualize_memory_budget_pareto = enable_activation_offloading = activation_offload_separate_stream = False
activation_offload_sink_wait = activation_reload_prefetch = unlift_effect_tokens = fake_tensor_crossref = False
fake_tensor_propagate_real_tensors = generate_fake_kernels_from_real_mismatches = False
force_non_lazy_backward_lowering = strict_autograd_cache = unsafe_allow_optimization_of_collectives = False
disable_guess_zero_tangent_for_mutated_input_subclass = force_autograd_cache = selective_decompose = False
enable_complex_wrapper = False
enable_remote_autograd_cache = memory_budget_pareto_dir = fake_tensor_prefer_device_type = joint_custom_pass = None
max_dist_from_bw = 1000
activation_memory_budget_runtime_estimator = "flops"
activation_memory_budget_solver = "dp"
activation_offload_cpu_gpu_bw = 50.0
custom_op_default_layout_constraint = "needs_exact_strides"
backward_pass_autocast = "same_as_forward"
torch_compile_graph_format = "svg"
saved_tensors_hooks_filtering_mode = "donated"

_install(_sys.modules[__name__])

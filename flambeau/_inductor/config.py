"""Switches of the compiler. `max_autotune` has programs tried in several forms; the others are kept for programs that set them, and change
nothing: they say how PyTorch's compiler goes about its work, and results are the eager ones whatever they say."""

import sys as _sys
from types import SimpleNamespace as _Group

from ..utils._config_module import install_config_module as _install

debug = False
max_autotune = max_autotune_gemm = max_autotune_pointwise = False
max_autotune_gemm_backends = "ATEN"
coordinate_descent_tuning = coordinate_descent_check_all_directions = False
epilogue_fusion = True
freezing = False
fx_graph_cache = fx_graph_remote_cache = autotune_local_cache = True
cpp_wrapper = False
shape_padding = True
fallback_random = False
compile_threads = 1
force_fuse_int_mm_with_mul = use_mixed_mm = False
conv_1x1_as_mm = False
reorder_for_compute_comm_overlap = False
triton = _Group(
    cudagraphs=False, cudagraph_skip_dynamic_graphs=False, cudagraph_trees_history_recording=False,
    cudagraph_trees_objgraph=False, force_cudagraph_sync=False, force_cudagraphs_warmup=False,
    cudagraph_or_error=False, fast_path_cudagraph_asserts=False, skip_cudagraph_warmup=False,
    debug_sync_graph=False, debug_sync_kernel=False, dense_indexing=False, prefer_nd_tiling=False,
    autotune_with_sample_inputs=False, tile_reductions=False, native_matmul=False, unique_user_kernel_names=False,
    decompose_sort_ops=False, cooperative_reductions=False, force_cooperative_reductions=False, store_cubin=False,
    use_block_ptr=False, use_tensor_descriptor=False, enable_persistent_tma_matmul=False,
    enable_template_tma_store=False, enable_tma_load_for_template_epilogue=False, skip_l1_cache=False,
    enable_pdl=False, mix_order_reduction_autotune_split_size=False, mix_order_reduction_non_strict_mode=False,
    nested_reduction=False, proton_profiling=False, cudagraph_trees=True, slow_path_cudagraph_asserts=True,
    cudagraph_support_input_mutation=True, reorder_for_reducing_graph_partitions=True,
    coalesce_tiling_analysis=True, autotune_pointwise=True, autotune_cublasLt=True,
    tiling_prevents_pointwise_fusion=True, tiling_prevents_reduction_fusion=True, unique_kernel_names=True,
    persistent_reductions=True, divisible_by_16=True, emit_pointer_range_32=True,
    transpose_discontiguous_tensor_descriptor=True, codegen_upcast_to_fp32=True, mix_order_reduction=True,
    mix_order_reduction_allow_multi_stages=True, proton_group_by_sm=True, proton_split_invocations=True,
    proton_per_cta_occupancy=True, dynamic_disable_pipelining=True, cudagraph_capture_sizes=None, max_tiles=None,
    autotune_at_compile_time=None, mix_order_reduction_split_size=None, proton_output_dir=None,
    cudagraph_min_partition_size=0, multi_kernel=0, cudagraph_unexpected_rerecord_limit=128,
    cudagraph_dynamic_shape_warn_limit=8, cudagraph_partition_memory_budget=1.1, descriptive_names="original_aten",
    use_two_step_variance_min_numel=1024, use_two_step_variance_threshold=32768, min_split_scan_rblock=256,
    spill_threshold=16, num_decompose_k_splits=10, mix_order_reduction_max_reads=10, decompose_k_threshold=32,
    mix_order_reduction_initial_xblock=1, debug_dump_kernel_inputs={}, max_kernel_dump_occurrences=3,
)  # fmt: skip
cpp = _Group(
    threads=-1, no_redundant_loops=True, weight_prepack=True, fallback_scatter_reduce_sum=True,
    enable_tiling_heuristics=True, enable_loop_tail_vec=True, use_constexpr_for_int_array=True,
    dynamic_threads=False, enable_kernel_profile=False, enable_unsafe_math_opt_flag=False,
    enable_grouped_gemm_template=False, enable_concat_linear=False, use_decompose_tanh=False,
    use_small_dequant_buffer=False, force_inline_kernel=False, simdlen=None, march=None, vec_isa_ok=None,
    gemm_cache_blocking=None, gemm_thread_factors=None, min_chunk_size=512, cxx=(None, "g++"),
    descriptive_names="original_aten", max_horizontal_fusion_size=16, enable_floating_point_contract_flag="off",
    gemm_max_k_slices=1, use_two_step_variance_threshold=1024,
)  # fmt: skip
trace = _Group(
    enabled=False, save_real_tensors=False, debug_log=False, info_log=False, graph_diagram=False,
    draw_orig_fx_graph=False, compile_profile=False, log_autotuning_results=False, debug_dir=None,
    dot_graph_shape=None, log_url_for_graph_xform=None, upload_tar=None, fx_graph=True, fx_graph_transformed=True,
    ir_pre_fusion=True, ir_post_fusion=True, output_code=True, graph_diagram_format="svg",
    orig_fx_graph_diagram_format="svg", provenance_tracking_level=0,
)  # fmt: skip
aot_inductor = _Group(
    autotune_per_kernel_alloc=False, debug_compile=False, debug_symbols=False, use_runtime_constant_folding=False,
    force_mmap_weights=False, package=False, dump_aoti_minifier=False, allow_stack_allocation=False,
    use_minimal_arrayref_interface=False, weight_use_caching_allocator=False, enable_lto=False, output_path="",
    serialized_in_spec="", serialized_out_spec="", enable_frame_pointer=True, enable_line_tables=True,
    use_consts_asm_build=True, dynamic_linkage=True, raise_error_on_ignored_optimization=True,
    check_lowerbound=True, package_constants_in_so=True, precompile_headers=True, link_libtorch=True,
    compile_wrapper_opt_level="O1", debug_intermediate_value_printer="0", filtered_kernel_names=None,
    package_cpp_only=None, package_constants_on_disk_format=None, embed_kernel_binary=None,
    emit_multi_arch_kernel=None, model_name_for_generated_files=None, custom_op_libs=None,
    cross_target_platform=None, aoti_shim_library=None, aoti_shim_library_path=None, metadata={}, presets={},
    custom_ops_to_c_shims={}, repro_level=2,
)  # fmt: skip

inplace_padding = enable_auto_functionalized_v2 = disable_progress = bundle_triton_into_fx_graph_cache = True
non_blocking_remote_cache_write = cpp_cache_precompile_headers = online_softmax = apply_gumbel_max_trick = True
static_weight_shapes = size_asserts = scalar_asserts = alignment_asserts = pick_loop_orders = inplace_buffers = True
allow_buffer_reuse = benchmark_harness = prologue_fusion = pattern_matcher = split_cat_fx_passes = batch_fusion = True
reorder_for_locality = dynamic_scale_rblock = keep_addmm_fused_for_half_dtypes = reorder_for_peak_memory = True
use_experimental_benchmarker = max_autotune_report_choices_stats = graph_partition = use_dce = True
use_pre_grad_passes = use_joint_graph_passes = use_post_grad_passes = layout_optimization = keep_output_stride = True
delay_realize_cheap_outputs = implicit_fallbacks = loop_ordering_after_fusion = loop_reindexing_after_fusion = True
loop_index_inversion_in_fusion = benchmark_epilogue_fusion = split_reductions = constant_and_index_propagation = True
assert_indirect_indexing = combo_kernel_foreach_dynamic_shapes = combo_kernel_autotune_grouping = True
joint_graph_constant_folding = optimize_scatter_upon_const_tensor = worker_suppress_logging = True
quiesce_async_compile_pool = use_static_cuda_launcher = use_static_triton_launcher = use_fast_triton_launcher = True
use_launch_metadata_schema = comprehensive_padding = disable_padding_cpu = bw_outputs_user_visible = True
enable_caching_generated_triton_templates = write_are_deterministic_algorithms_enabled = True
emulate_precision_casts_on_saved_tensors = True
can_inplace_pad_graph_input = verbose_progress = remote_gemm_autotune_cache = force_disable_caches = False
unsafe_skip_cache_dynamic_shape_guards = cpp_wrapper_build_separate = fx_wrapper = dce = nan_asserts = False
runtime_triton_nan_asserts = memory_planning = use_fast_math = epilogue_fusion_with_atomic_add = False
epilogue_fusion_first = epilogue_fusion_user_defined_triton_kernel = b2b_gemm_pass = False
efficient_conv_bn_eval_fx_passes = is_predispatch = group_fusion = reorder_for_peak_memory_debug = False
dedup_reduce_scatters = runtime_estimations_mms_benchmark = distributed_max_autotune_gemm = False
pipeline_max_autotune_gemm = use_torch_profiler_benchmarker = incremental_autotune = False
max_autotune_prune_choices_based_on_shared_mem = triton_disable_device_detection = False
max_autotune_allow_flexible_layouts = nvgemm_supplement_configs = fallback_by_default = selective_decompose = False
cutedsl_enable_autotuning = autotune_fallback_to_aten = search_autotune_cache = save_args = False
autotune_in_subproc = autotune_multi_device = run_jit_post_compile_hook = force_layout_optimization = False
cache_sdpa_constraint = warn_mix_layout = align_random_eager = fallback_embedding_bag_byte_unpack = False
assume_unaligned_fallback_output = aggressive_fusion = debug_fusion = benchmark_fusion = force_pointwise_cat = False
comment_origin = deterministic = batch_invariant = benchmark_kernel = always_keep_tensor_constants = False
do_not_emit_runtime_assertions = compute_all_bounds = combo_kernels = benchmark_combo_kernel = False
combo_kernel_per_subkernel_blocks = combo_kernels_pointwise_only = debug_index_asserts = is_nightly_or_source = False
developer_warnings = log_tlparse = partitioned_scatter_enabled = static_launch_user_defined_triton_kernels = False
strict_static_cuda_launcher = strict_static_triton_launcher = keep_static_cubin_raw = pad_channels_last = False
pad_dynamic_shapes = expand_dimension_for_pointwise_nodes = pad_outputs = force_shape_pad = permute_fusion = False
profiler_mark_wrapper_call = generate_intermediate_hooks = debug_ir_traceback = profile_bandwidth = False
profile_bandwidth_with_do_bench_using_profiling = disable_cpp_codegen = freezing_discard_parameters = False
decompose_mem_bound_mm = wrap_inductor_compiled_regions = assume_aligned_inputs = assume_32bit_indexing = False
unsafe_ignore_unsupported_triton_autotune_args = enable_linear_binary_folding = annotate_training = False
enable_autograd_for_aot = emulate_precision_casts = False
worker_log_path = autotune_remote_cache = bundled_autotune_remote_cache = post_grad_custom_pre_pass = None
post_grad_custom_post_pass = custom_partitioner_fn = joint_custom_pre_pass = joint_custom_post_pass = None
pre_grad_custom_pass = reorder_prefetch_limit = bucket_all_gathers_fx_bucket_size_determinator = None
bucket_reduce_scatters_fx_bucket_size_determinator = bucket_all_reduces_fx_bucket_size_determinator = None
intra_node_bw = inter_node_bw = cudagraph_policy = realize_opcount_threshold = realize_acc_reads_threshold = None
realize_acc_reads_size_threshold = inductor_choices_class = max_fusion_unique_io_buffers = None
combo_kernel_peak_memory_increase_gb = add_pre_grad_passes = remove_pre_grad_passes = global_cache_dir = None
profile_bandwidth_output = None
precompilation_timeout_seconds = 300
unsafe_marked_cacheable_functions = {}
pre_grad_fusion_options = {}
post_grad_fusion_options = {}
autotune_lookup_table = {}
triton_kernel_default_layout_constraint = "needs_fixed_stride_order"
memory_pool = "intermediates"
fx_passes_numeric_check = {"pre_grad": False, "precision": 0.0001, "num_iterations": 1, "requires_optimizer": True}
mixed_mm_choice = "heuristic"
reorder_for_compute_comm_overlap_passes = []
custom_should_partition_ops = []
cudagraph_unsafe_unbacked_ops = []
multi_kernel_hints = []
external_matmul = []
size_threshold_for_succ_based_strategy = min_num_split = compile_worker_wait_timeout = 0
bucket_all_gathers_fx = bucket_reduce_scatters_fx = bucket_all_reduces_fx = "none"
bucket_all_gathers_bucket_mode = bucket_reduce_scatters_bucket_mode = estimate_op_runtime = "default"
pre_grad_pass_timing = "default"
cpu_gpu_bw = 50.0
inductor_default_autotune_warmup = 25
inductor_default_autotune_rep = 100
autotune_num_choices_displayed = score_fusion_memory_threshold = kernel_name_max_ops = 10
nvgemm_max_profiling_configs = 5
max_autotune_conv_backends = "ATEN,TRITON"
max_autotune_conv_bwd_weight_backends = max_autotune_conv_bwd_input_backends = "ATEN"
max_autotune_gemm_search_space = max_autotune_flex_search_space = autoheuristic_log_path = "DEFAULT"
unbacked_symint_fallback = 8192
max_autotune_subproc_result_timeout_seconds = 60.0
max_autotune_subproc_graceful_timeout_seconds = max_autotune_subproc_terminate_timeout_seconds = 0.0
collective_benchmark_nruns = realize_cpu_opcount_threshold = 50
collective_benchmark_timeout = 30.0
coordinate_descent_search_radius = max_epilogue_benchmarked_choices = combo_kernels_autotune = 1
combo_kernel_allow_mixed_sizes = 1
layout_opt_default = "1"
realize_reads_threshold = 4
realize_cpu_acc_reads_threshold = 12
enabled_metric_tables = disabled_passes = profile_bandwidth_regex = torchinductor_worker_logpath = ""
max_fusion_size = max_fusion_buffer_group_pairwise_attempts = 64
min_overlap_ratio = 1.1
max_complex_pointwise_cat_inputs = max_pointwise_cat_inputs = unroll_reductions_threshold = 8
combo_kernel_max_num_nodes = 8
combo_kernel_max_num_args = 250
combo_kernel_peak_memory_pct_threshold = 0.05
combo_kernel_max_distance = -1
worker_start_method = "subprocess"
small_memory_access_threshold = 16777216
partitioned_scatter_min_partitions = 2
partitioned_scatter_max_partitions = padding_alignment_bytes = 128
partitioned_scatter_memory_budget = 0.1
quiesce_async_compile_time = 60
padding_stride_threshold = 1024
file_lock_timeout = 600
cpu_backend = "cpp"
cuda_backend = xpu_backend = "triton"
tpu_backend = "pallas"

_install(_sys.modules[__name__])

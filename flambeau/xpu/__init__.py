"""Intel's GPUs, which flambeau does not use: `is_available()` is False."""

from .._names.absent_devices import namespace

default_generators: tuple[()] = ()
globals().update(
    namespace(
        "XPU",
        AssertionError,
        "device_count empty_cache get_arch_list get_gencode_flags get_rng_state_all is_available is_bf16_supported "
        "is_initialized is_tf32_supported manual_seed manual_seed_all max_memory_allocated max_memory_reserved "
        "memory_allocated memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict "
        "reset_accumulated_memory_stats reset_peak_memory_stats seed seed_all set_rng_state_all",
        "can_device_access_peer change_current_allocator clock_rate current_device current_stream device_memory_used "
        "get_device_capability get_device_name get_device_properties get_per_process_memory_fraction get_rng_state "
        "get_stream_from_external graph_pool_handle init initial_seed is_current_stream_capturing make_graphed_callables "
        "mem_get_info memory_usage power_draw set_device set_per_process_memory_fraction set_rng_state set_stream stream "
        "synchronize temperature use_mem_pool utilization",
        "Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator device device_of graph",
    )
)

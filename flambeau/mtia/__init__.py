"""Meta's accelerators, which flambeau does not use: `is_available()` is False."""

from .._names.absent_devices import namespace

globals().update(
    namespace(
        "MTIA",
        RuntimeError,
        "device_count get_rng_state_all is_available is_bf16_supported is_initialized manual_seed manual_seed_all "
        "max_memory_allocated memory_allocated memory_stats record_memory_history reset_peak_memory_stats seed seed_all "
        "set_rng_state_all",
        "attach_out_of_memory_observer current_device current_stream default_stream empty_cache get_device_capability "
        "get_device_properties get_rng_state graph_pool_handle init initial_seed set_device set_rng_state set_stream snapshot "
        "stream synchronize",
        "Event MTIAGraph Stream StreamContext device graph",
    )
)

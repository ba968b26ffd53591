"""Apple's GPUs, which flambeau does not use: `is_available()` is False."""

from .._names.absent_devices import namespace

globals().update(
    namespace(
        "MPS",
        RuntimeError,
        "device_count is_available",
        "compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state load_metallib manual_seed "
        "recommended_max_memory seed set_per_process_memory_fraction set_rng_state synchronize",
        "Event",
    )
)

"""Switches of graph capture, kept for programs that set them. They have no effect."""

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

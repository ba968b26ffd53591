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

_install(_sys.modules[__name__])

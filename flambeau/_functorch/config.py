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

_install(_sys.modules[__name__])

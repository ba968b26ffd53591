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
triton = _Group(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=False, cudagraph_skip_dynamic_graphs=False)
cpp = _Group(threads=-1, simdlen=None, weight_prepack=True, enable_kernel_profile=False)
trace = _Group(enabled=False)
aot_inductor = _Group(output_path="", package=False, debug_compile=False)

_install(_sys.modules[__name__])

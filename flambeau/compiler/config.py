"""Switches of `torch.compiler`. Those that `torch._dynamo.config` has as well are the same ones; the others are kept and have no effect."""

import sys as _sys
from typing import Any as _Any

from ..utils._config_module import ConfigModule as _ConfigModule

job_id = pgo_extra_read_key = pgo_extra_write_key = None
cache_key_tag = dynamic_sources = dynamic_values = unbacked_sources = ""
force_disable_caches = force_cudagraph_gc = False
_SHARED = frozenset((
    "accumulated_recompile_limit", "allow_unspec_int_on_nn_module", "assume_static_by_default", "automatic_dynamic_shapes",
    "capture_dynamic_output_shape_ops", "capture_scalar_outputs", "dynamic_shapes", "enable_cpp_symbolic_shape_guards",
    "fail_on_recompile_limit_hit", "log_file_name", "recompile_limit", "reorderable_logging_functions",
    "skip_tensor_guards_with_matching_dict_tags", "verbose", "wrap_top_frame",
))  # fmt: skip


def _of_dynamo() -> _Any:
    from .._dynamo import config  # which needs this package first

    return config


class _Config(_ConfigModule):
    def __getattr__(self, name: str) -> _Any:
        if name not in _SHARED:
            raise AttributeError(f"torch.compiler.config.{name} does not exist")
        return getattr(_of_dynamo(), name)

    def __setattr__(self, name: str, value: _Any) -> None:
        if name in _SHARED:
            setattr(_of_dynamo(), name, value)
        else:
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Config

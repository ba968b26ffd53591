"""TorchScript: `trace` records programs, `script` checks and writes them, `save` and `load` exchange them with PyTorch.
Programs from files are interpreted: nothing in a file is executed as Python."""

from __future__ import annotations

from ..futures import Future
from . import frontend
from ._annotations import (
    Attribute,
    Final,
    _overload,
    _overload_method,
    annotate,
    export,
    export_opnames,
    ignore,
    interface,
    isinstance,
    script_if_tracing,
    unused,
)  # fmt: skip
from ._archive import load, save
from ._errors import JITException
from ._runtime import (
    Error,
    enable_onednn_fusion,
    fork,
    freeze,
    fuser,
    jit_module_from_flatbuffer,
    last_executed_optimized_graph,
    onednn_fusion_enabled,
    optimize_for_inference,
    optimized_execution,
    run_frozen_optimizations,
    save_jit_module_to_flatbuffer,
    set_fusion_strategy,
    strict_fusion,
    wait,
)  # fmt: skip
from ._script_module import RecursiveScriptModule, ScriptModule, TopLevelTracedModule, TracedModule
from ._scripting import is_scripting, script, script_method
from ._tracer import TracerWarning, is_tracing
from ._tracing import TracingCheckError, _get_trace_graph, trace, trace_module
from ._units import CompilationUnit, ScriptFunction


def _unwrap_optional(x: object) -> object:
    """What a script knows to be there, for it is not None."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


_script_if_tracing = script_if_tracing  # the name that libraries use
_fork, _wait = fork, wait

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "JITException", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "_get_trace_graph", "_overload",
    "_overload_method", "annotate", "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "frontend",
    "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "jit_module_from_flatbuffer",
    "last_executed_optimized_graph", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "run_frozen_optimizations", "save", "save_jit_module_to_flatbuffer", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

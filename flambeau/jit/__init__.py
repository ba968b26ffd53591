"""TorchScript's names. Programs run as Python here: annotations change nothing, and `script` and `trace` give modules that
call the original. Saving such modules is not implemented; `torch.save(module.state_dict(), file)` is the way."""

from __future__ import annotations

from ..futures import Future
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
from ._modules import (
    CompilationUnit,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    is_scripting,
    is_tracing,
    script,
    script_method,
    trace,
    trace_module,
)  # fmt: skip
from ._runtime import (
    Error,
    JITException,
    enable_onednn_fusion,
    fork,
    freeze,
    fuser,
    jit_module_from_flatbuffer,
    last_executed_optimized_graph,
    load,
    onednn_fusion_enabled,
    optimize_for_inference,
    optimized_execution,
    run_frozen_optimizations,
    save,
    save_jit_module_to_flatbuffer,
    set_fusion_strategy,
    strict_fusion,
    wait,
)  # fmt: skip

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "JITException", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracedModule", "_overload", "_overload_method", "annotate",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "jit_module_from_flatbuffer", "last_executed_optimized_graph", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save",
    "save_jit_module_to_flatbuffer", "script", "script_if_tracing", "script_method", "set_fusion_strategy",
    "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

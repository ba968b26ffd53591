"""Where programs take classes of recorded scripts from."""

from ._script_module import TopLevelTracedModule, TracedModule
from ._tracer import TracerWarning, is_tracing
from ._tracing import TracingCheckError, _get_trace_graph, trace, trace_module

__all__ = [
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "_get_trace_graph", "is_tracing", "trace",
    "trace_module",
]  # fmt: skip

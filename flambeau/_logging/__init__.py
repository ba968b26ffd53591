"""Loggers by part and by artifact, as in `torch._logging`: how much they say, and warnings that are said once."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "LazyString", "dtrace_structured", "getArtifactLogger", "get_structured_logging_overhead", "hide_warnings", "set_logs",
    "trace_structured", "warning_once",
]  # fmt: skip

_PARTS = {
    "all": "torch", "dynamo": "torch._dynamo", "aot": "torch._functorch.aot_autograd", "autograd": "torch.autograd",
    "inductor": "torch._inductor", "dynamic": "torch.fx.experimental.symbolic_shapes", "distributed": "torch.distributed",
    "c10d": "torch.distributed.distributed_c10d", "ddp": "torch.nn.parallel.distributed", "dtensor": "torch.distributed.tensor",
    "fsdp": "torch.distributed.fsdp", "onnx": "torch.onnx", "export": "torch.export",
}  # fmt: skip
_LEVELS = (50, 40, 30, 20, 10, 0)
_chosen: set[str] = set()  # artifacts that are wanted


class LazyString:
    """A text that is made when it is needed.

    >>> from flambeau._logging import LazyString
    >>> str(LazyString(lambda word: word * 2, "ha"))
    'haha'
    """

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


class _Artifact(logging.Filter):
    def __init__(self, artifact: str):
        super().__init__()
        self.artifact = artifact

    def filter(self, record: logging.LogRecord) -> bool:
        return self.artifact in _chosen


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger of one kind of output of a module; it is silent until `set_logs` chooses that kind."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {artifact_name!r} not registered; there are {', '.join(sorted(_ARTIFACTS))}")
    logger = logging.getLogger(f"{module_qname}.__{artifact_name}")
    logger.artifact_name = artifact_name  # type: ignore[attr-defined]
    if not any(isinstance(f, _Artifact) for f in logger.filters):
        logger.addFilter(_Artifact(artifact_name))
    return logger


def set_logs(
    *,
    all: int | None = None,
    dynamo: int | None = None,
    aot: int | None = None,
    autograd: int | None = None,
    dynamic: int | None = None,
    inductor: int | None = None,
    distributed: int | None = None,
    c10d: int | None = None,
    ddp: int | None = None,
    fsdp: int | None = None,
    dtensor: int | None = None,
    onnx: int | None = None,
    bytecode: bool = False,
    aot_graphs: bool = False,
    aot_joint_graph: bool = False,
    ddp_graphs: bool = False,
    graph: bool = False,
    graph_code: bool = False,
    graph_code_verbose: bool = False,
    graph_breaks: bool = False,
    side_effects: bool = False,
    graph_sizes: bool = False,
    guards: bool = False,
    recompiles: bool = False,
    recompiles_verbose: bool = False,
    trace_source: bool = False,
    trace_call: bool = False,
    trace_bytecode: bool = False,
    output_code: bool = False,
    kernel_code: bool = False,
    schedule: bool = False,
    perf_hints: bool = False,
    pre_grad_graphs: bool = False,
    post_grad_graphs: bool = False,
    ir_pre_fusion: bool = False,
    ir_post_fusion: bool = False,
    onnx_diagnostics: bool = False,
    fusion: bool = False,
    overlap: bool = False,
    export: int | None = None,
    modules: dict[str, int | bool] | None = None,
    cudagraphs: bool = False,
    sym_node: bool = False,
    compiled_autograd: bool = False,
    compiled_autograd_verbose: bool = False,
    cudagraph_static_inputs: bool = False,
    benchmarking: bool = False,
    autotuning: bool = False,
    incremental: bool = False,
    graph_region_expansion: bool = False,
    inductor_metrics: bool = False,
    hierarchical_compile: bool = False,
    compute_dependencies: bool = False,
    caching: bool = False,
) -> None:
    """How much parts say (`dynamo=logging.DEBUG`) and which artifacts are shown (`guards=True`); all others are reset.

    >>> import logging
    >>> import flambeau as torch
    >>> torch._logging.set_logs(dynamo=logging.DEBUG)
    >>> logging.getLogger("torch._dynamo").level
    10
    >>> torch._logging.set_logs()
    """
    chosen = dict(locals())
    levels = {}
    for name, qualified in _PARTS.items():
        value = chosen[name]
        if value is not None and value not in _LEVELS:
            raise ValueError(
                f"Unrecognized log level for log {name}: {value}, valid level values are: {','.join(map(str, _LEVELS))}"
            )
        levels[qualified] = value or logging.NOTSET
    _chosen.clear()
    _chosen.update(name for name, value in chosen.items() if name in _ARTIFACTS and value)
    for qualified in _PARTS.values():
        logging.getLogger(qualified).setLevel(levels.get(qualified, logging.NOTSET))
    for qualified, value in (modules or {}).items():
        logging.getLogger(qualified).setLevel(int(value))


_ARTIFACTS = frozenset(name for name, usual in (set_logs.__kwdefaults__ or {}).items() if usual is False)


@functools.lru_cache(None)
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """`logger_obj.warning`, once for each text."""
    logger_obj.warning(*args, **kwargs)


@contextlib.contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *_: True) -> Iterator[None]:
    """Leaves out warnings of which `filter_fn(message, category, filename, lineno, file, line)` is true."""
    shown = warnings.showwarning

    def show(*args: Any, **kwargs: Any) -> None:
        if not filter_fn(*args, **kwargs):
            shown(*args, **kwargs)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


# -- traces of the compiler: none is running, so that there is nobody to read them -----------------------------------


def trace_structured(
    name: str,
    metadata_fn: Callable[[], Any] = dict,
    *,
    payload_fn: Callable[[], Any] = lambda: None,
    suppress_context: bool = False,
    expect_trace_id: bool = True,
    record_logging_overhead: bool = True,
    compile_id: Any = None,
) -> None:
    """Writes a record to the compiler's trace; without a trace nothing, and the functions are not called."""


def dtrace_structured(
    name: str,
    metadata_fn: Callable[[], Any] = dict,
    *,
    payload_fn: Callable[[], Any] = lambda: None,
    suppress_context: bool = False,
    expect_trace_id: bool = False,
    record_logging_overhead: bool = True,
) -> None:
    """The same for records about the process."""


def get_structured_logging_overhead() -> float | None:
    """The seconds that traces took; None without a trace."""
    return None

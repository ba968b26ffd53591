"""Recorded GPU work. flambeau does not record: the names are there for annotations and checks, and refuse to work."""

from __future__ import annotations

from typing import Any

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_REFUSAL = "CUDA graphs are not supported by flambeau; run the work directly"


class CUDAGraph:
    """A record of GPU work, to be replayed; cannot be made."""

    def __init__(self, keep_graph: bool = False):
        raise RuntimeError(f"Tried to instantiate dummy base class CUDAGraph: {_REFUSAL}")


class graph:
    """Records the GPU work of a `with` block; cannot be made."""

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ):
        raise RuntimeError(f"graph: {_REFUSAL}")


def graph_pool_handle() -> Any:
    """Memory that several records share; refused."""
    raise RuntimeError(f"graph_pool_handle: {_REFUSAL}")


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """Modules whose work is recorded and replayed; refused."""
    raise RuntimeError(f"make_graphed_callables: {_REFUSAL}")


def is_current_stream_capturing() -> bool:
    """Whether work is being recorded instead of done."""
    return False

"""Settings for all pipes of a chain at once: shuffling, seeds, and the part that a worker reads."""

from __future__ import annotations

import inspect
from typing import Any

from ..._errors.frames import warn_user
from .datapipes.datapipe import IterDataPipe
from .graph import DataPipeGraph, traverse_dps
from .sampler import draw_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """Every pipe of a graph once."""
    found: dict[int, Any] = {}

    def visit(part: DataPipeGraph) -> None:
        for key, (pipe, below) in part.items():
            if key not in found:
                found[key] = pipe
                visit(below)

    visit(graph)
    return list(found.values())


def _has(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Tells every sharding pipe which part is this process's own; RuntimeError if one reads from another."""
    graph = traverse_dps(datapipe)
    _check_sharded_once(graph, None)
    group = () if sharding_group is None else (sharding_group,)
    for pipe in get_all_graph_pipes(graph):
        if _has(pipe, "apply_sharding"):
            pipe.apply_sharding(num_of_instances, instance_id, *group)
    return datapipe


def _check_sharded_once(graph: DataPipeGraph, above: Any) -> None:
    for pipe, below in graph.values():
        sharded = above
        if _has(pipe, "apply_sharding"):
            if above is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss: "
                    f"{above!r} reads from {pipe!r}"
                )
            sharded = pipe
        _check_sharded_once(below, sharded)


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turns all shuffling pipes on or off; a chain without one that shall be shuffled gets one at its end."""
    if shuffle is None:
        return datapipe
    shufflers = [p for p in get_all_graph_pipes(traverse_dps(datapipe)) if _has(p, "set_shuffle", "set_seed")]
    if shuffle and not shufflers and isinstance(datapipe, IterDataPipe):
        warn_user("shuffle=True, but no pipe of the chain shuffles: one was added at its end")
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Gives every random pipe a seed from a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has(pipe, "set_seed"):
            pipe.set_seed(draw_seed(rng))
    return datapipe

"""The chain of pipes behind a pipe, as a graph."""

from __future__ import annotations

from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe

DataPipeGraph = dict[int, tuple[Any, dict[int, Any]]]


def _sources(value: Any, found: list[Any]) -> None:
    """Collects the pipes in a pipe's attributes, also inside containers."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        found.append(value)
    elif isinstance(value, dict):
        for part in value.values():
            _sources(part, found)
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            _sources(part, found)


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """{id: (pipe, the same for the pipes that it reads from)}"""
    return _graph(datapipe, set())


def _graph(datapipe: Any, above: set[int]) -> DataPipeGraph:
    if id(datapipe) in above:
        return {}
    found: list[Any] = []
    _sources(datapipe.__dict__, found)
    below: DataPipeGraph = {}
    for source in found:
        below.update(_graph(source, above | {id(datapipe)}))
    return {id(datapipe): (datapipe, below)}

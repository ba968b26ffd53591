"""`PassBase`: a change of a graph module that says whether it changed anything."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """A graph module after a pass, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase:
    """A pass over a graph module: subclasses define `call`, and `requires` and `ensures` if they check something."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: GraphModule) -> Any:
        """The pass itself."""
        raise NotImplementedError(f"{type(self).__name__} does not define `call`")

    def requires(self, graph_module: GraphModule) -> None:
        """What must hold before."""

    def ensures(self, graph_module: GraphModule) -> None:
        """What must hold after."""

"""Parts of graphs: finding them, and making modules of them."""

from ...._core.submodules import submodule
from .common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)

"""Pictures of graphs, by the package pydot."""

from __future__ import annotations

from typing import Any

from ..graph_module import GraphModule

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue", "get_attr": "LightGrey", "call_function": "LightGoldenrod1", "call_module": "PaleGreen1",
    "call_method": "LightSalmon1", "output": "PowderBlue",
}  # fmt: skip


class FxGraphDrawer:
    """Makes a `pydot.Dot` of a graph module: a box for each node, an arrow for each use."""

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        try:
            import pydot  # an optional dependency of those who draw
        except ImportError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install it with pip install pydot."
            ) from None
        self._name, self._hidden = name, ignore_getattr
        self._graph = pydot.Dot(name, rankdir="TB")
        shape = dot_graph_shape or "record"
        shown = [node for node in graph_module.graph.nodes if not (ignore_getattr and node.op == "get_attr")]
        for node in shown:
            label = f"name=%{node.name}|op_code={node.op}"
            if node.op not in ("placeholder", "output"):
                target = (
                    node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
                )
                label += f"|target={target}"
            label = "{" + label.replace("<", chr(92) + "<").replace(">", chr(92) + ">") + "}"
            self._graph.add_node(
                pydot.Node(node.name, label=label, shape=shape, style="filled", fillcolor=_COLORS.get(node.op, "White"))
            )
        for node in shown:
            for user in node.users:
                self._graph.add_edge(pydot.Edge(node.name, user.name))

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The picture; of the whole graph."""
        return self.get_main_dot_graph()

    def get_main_dot_graph(self) -> Any:
        """The picture of the whole graph."""
        return self._graph

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All pictures by name: the one."""
        return {self._name: self._graph}

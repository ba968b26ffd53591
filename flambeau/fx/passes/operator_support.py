"""Which nodes of a graph a place can run: what partitioners and splitters ask."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

IsNodeSupported = Callable[[Mapping[str, Any], Node], bool]
SupportDict = Mapping[str, tuple[Sequence[Sequence[Any]], dict[str, Sequence[Any]]] | None]


class OperatorSupportBase(abc.ABC):
    """Says of a node whether it is supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Whether a node is supported; `submodules` are the modules of the graph by name."""
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """Supports the operators that a dictionary names.

    A name stands for None, if every call of it is supported, or for the dtypes of its positional and of its named
    arguments. `ShapeProp` has to note the dtypes first.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.tanh(x) + 1).graph
    >>> support = OperatorSupport({"torch.tanh": None})
    >>> [node.name for node in graph.nodes if node.op == "call_function" and support.is_node_supported({}, node)]
    ['tanh']
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Whether a node's operator is in the dictionary, with such arguments. Inputs and attributes always are."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        by_place, by_name = wanted
        pairs = [
            *zip(node.args, by_place),
            *((node.kwargs[k], kinds) for k, kinds in by_name.items() if k in node.kwargs),
        ]
        return all(_get_arg_dtype(arg) in kinds for arg, kinds in pairs if isinstance(arg, Node))


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """What is supported, as a function says it."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of them support."""
    return create_op_support(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What any of them supports."""
    return create_op_support(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Common refusals, to be used in a `chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Refuses nodes that take a tensor of this dtype."""
        return create_op_support(
            lambda submodules, node: all(_get_arg_dtype(arg) != dtype for arg in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Refuses nodes of these names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    """The dtype of a node that is a tensor, else the type of what it gives."""
    found = arg.meta.get("tensor_meta")
    return found.dtype if isinstance(found, TensorMetadata) else arg.meta["type"]

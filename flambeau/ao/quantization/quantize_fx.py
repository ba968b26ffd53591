"""Quantization over graphs: `prepare_fx` puts observers between the nodes of a traced model, `convert_fx` quantized layers in the place of
those that were observed. Layers on quantized tensors take and give them; all else computes with floats in between."""

from __future__ import annotations

import copy
import operator
import re
from typing import Any

from ..._library.schema_texts import schemas_of
from ..._ops.registry import functions
from ...fx import Graph, GraphModule, Node, Tracer
from ...fx.node import map_arg
from ...nn import functional as F
from ...nn.modules import activation, dropout, linear, pooling
from ...nn.modules.module import Module
from .fuser_methods import _METHODS
from .observer import PlaceholderObserver
from .qconfig_mapping import QConfigMapping
from .quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    OBSERVED,
)
from .quantize import _forget, _is_observer, swap_module
from .stubs import DeQuantStub, QuantStub

__all__ = ["convert_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]

_LAYERS = tuple(kind for kind in OBSERVED if kind not in (QuantStub, DeQuantStub))
# What takes quantized tensors as they are, and gives them with the same scale.
_SAME_SCALE: tuple[type, ...] = (
    linear.Identity, dropout.Dropout, activation.ReLU, activation.ReLU6, activation.Hardtanh, pooling.MaxPool1d, pooling.MaxPool2d, pooling.MaxPool3d, pooling.AvgPool1d,
    pooling.AvgPool2d, pooling.AvgPool3d, pooling.AdaptiveAvgPool1d, pooling.AdaptiveAvgPool2d, pooling.AdaptiveAvgPool3d,
)  # fmt: skip
_SAME_SCALE_FUNCTIONS = {
    F.max_pool1d, F.max_pool2d, F.max_pool3d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.dropout, F.interpolate, F.relu, F.relu6, F.hardtanh, functions["relu"],
}  # fmt: skip
_SAME_SCALE_NAMES = (
    "cat",
    "clamp",
    "contiguous",
    "flatten",
    "mean",
    "relu",
    "relu_",
    "repeat",
    "reshape",
)  # besides views
# What is observed, and computed with floats between tensors of its own scales.
_FLOAT: tuple[type, ...] = (activation.Sigmoid, activation.Tanh, activation.Hardsigmoid)
_FLOAT_FUNCTIONS = {
    operator.add, operator.iadd, operator.mul, operator.imul, operator.matmul, F.relu, F.hardsigmoid, F.hardswish, F.elu,
    F.leaky_relu, *[functions[name] for name in ("add", "mul", "matmul", "relu", "sigmoid", "tanh")],
}  # fmt: skip
_JOINED = (operator.add, operator.mul, functions["add"], functions["mul"], "add", "mul")  # with a relu behind them
_FLOAT_METHODS = ("add", "mul", "matmul", "relu", "relu_", "sigmoid", "tanh")


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise NotImplementedError(f"quantization over graphs: {name} is not there; leave it out")


def _traced(model: Module) -> GraphModule:
    model = copy.deepcopy(model)
    traced = GraphModule(model, Tracer().trace(model), type(model).__name__)
    return traced.train(model.training)


# -- layers that become one -------------------------------------------------------------------------------------------------


def _layer(gm: GraphModule, node: Any) -> Any:
    """The layer that a node calls, or that stands for a function."""
    if node.op == "call_module":
        return gm.get_submodule(node.target)
    is_relu = (node.op == "call_function" and node.target is F.relu) or (
        node.op == "call_method" and node.target == "relu"
    )
    return activation.ReLU() if is_relu else None


def _fuse(gm: GraphModule, is_qat: bool) -> GraphModule:
    for node in list(gm.graph.nodes):
        if node.op != "call_module" or node._erased:
            continue
        chain, layers = [node], [_layer(gm, node)]
        while len(chain[-1].users) == 1 and len(chain) < 3:
            after = next(iter(chain[-1].users))
            found = _layer(gm, after)
            if found is None or after.args[:1] != (chain[-1],):
                break
            chain.append(after)
            layers.append(found)
        while len(chain) > 1 and tuple(map(type, layers)) not in _METHODS:
            chain.pop()
            layers.pop()
        if len(chain) > 1:
            made = _METHODS[tuple(map(type, layers))](is_qat, *layers)
            _put(gm, str(node.target), made.train(gm.training))
            chain[-1].replace_all_uses_with(node)
            for one in reversed(chain[1:]):
                gm.graph.erase_node(one)
                if one.op == "call_module" and not any(n.target == one.target for n in gm.graph.nodes):
                    gm.delete_submodule(str(one.target))
    gm.recompile()
    return gm


def _put(gm: Module, path: str, module: Module) -> None:
    holder, _, name = path.rpartition(".")
    setattr(gm.get_submodule(holder), name, module)


def fuse_fx(model: Module, fuse_custom_config: Any = None, backend_config: Any = None) -> GraphModule:
    """A traced model in evaluation mode, in which layers that follow each other are one where that can be.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    >>> [type(m).__name__ for m in torch.ao.quantization.quantize_fx.fuse_fx(model).children()]
    ['ConvReLU2d']
    """
    _refuse(fuse_custom_config=fuse_custom_config, backend_config=backend_config)
    return _fuse(_traced(model), False)


def _fuse_fx(
    model: GraphModule, is_qat: bool, fuse_custom_config: Any = None, backend_config: Any = None
) -> GraphModule:
    """`fuse_fx` of what has been traced; programs import it."""
    _refuse(fuse_custom_config=fuse_custom_config, backend_config=backend_config)
    return _fuse(model, is_qat)


# -- observers ---------------------------------------------------------------------------------------------------------------


def _qconfig(mapping: QConfigMapping, gm: GraphModule, node: Node) -> Any:
    """What is said of a node: by its name, by a pattern, by what it calls, or of all."""
    kind: Any = node.target
    if node.op == "call_module":
        path = str(node.target)
        layer = gm.get_submodule(path)
        kind = (
            type(layer[0])
            if type(layer) not in mapping.object_type_qconfigs and isinstance(layer, tuple(_fused()))
            else type(layer)
        )
        while path:
            if path in mapping.module_name_qconfigs:
                return mapping.module_name_qconfigs[path]
            path = path.rpartition(".")[0]
        for pattern, found in mapping.module_name_regex_qconfigs.items():
            if re.match(pattern, str(node.target)):
                return found
    return mapping.object_type_qconfigs.get(kind, mapping.global_qconfig)


def _fused() -> list[type]:
    return [kind for kind in DEFAULT_STATIC_QUANT_MODULE_MAPPINGS if hasattr(kind, "__getitem__")]


def _role(gm: GraphModule, node: Node, is_qat: bool) -> str:
    """How a node deals with quantized tensors: a layer of its own, with the same scale, with floats in between, or not at all."""
    if isinstance(_layer(gm, node), activation.ReLU) and any(
        [_is_followed_by_relu(gm, n) for n in node.all_input_nodes]
    ):
        return "float"  # one step with the sum or product before it
    if node.op == "call_module":
        layer = gm.get_submodule(str(node.target))
        layers = (*_LAYERS, *DEFAULT_QAT_MODULE_MAPPINGS) if is_qat else _LAYERS
        return (
            "layer"
            if type(layer) in layers
            else "same"
            if isinstance(layer, _SAME_SCALE)
            else "float"
            if type(layer) in _FLOAT
            else ""
        )
    if node.op not in ("call_function", "call_method"):
        return ""
    named = node.op == "call_method"
    name = str(node.target) if named else getattr(node.target, "__name__", "")
    if node.target in _SAME_SCALE_FUNCTIONS or (
        (named or functions.get(name) is node.target) and (name in _SAME_SCALE_NAMES or _is_one_view(name))
    ):
        return "same"
    others: Any = _FLOAT_METHODS if named else _FLOAT_FUNCTIONS
    tensors = len(node.all_input_nodes) == len(node.args)  # numbers are no tensors with a scale
    return "float" if node.target in others and (tensors or len(node.args) == 1) else ""


def _is_one_view(name: str) -> bool:
    """Whether an operator shows the elements of a tensor as another one, as they are."""
    return name != "to" and any(s.returns and s.returns[0].declared == "Tensor(a)" for s in schemas_of(name).values())


def _is_dynamic(qconfig: Any) -> bool:
    made = qconfig.activation()
    return isinstance(made, PlaceholderObserver) and bool(made.is_dynamic)


def prepare_fx(
    model: Module, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None, _equalization_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:  # fmt: skip
    """A traced model whose layers are observed; run it on typical inputs, then `convert_fx` it.

    >>> import flambeau as torch
    >>> from flambeau.ao.quantization import get_default_qconfig_mapping, quantize_fx
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    >>> observed = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("qnnpack"), (torch.ones(1, 2),))
    >>> observed(torch.rand(8, 2)).shape
    torch.Size([8, 3])
    >>> quantize_fx.convert_fx(observed).get_submodule("0")
    QuantizedLinearReLU(in_features=2, out_features=3, ...)
    """
    _refuse(
        prepare_custom_config=prepare_custom_config,
        _equalization_config=_equalization_config,
        backend_config=backend_config,
    )
    if model.training:
        raise AssertionError("prepare_fx only works for models in eval mode; call model.eval(), or prepare_qat_fx")
    return _prepared(_fuse(_traced(model), False), qconfig_mapping, False)


def prepare_qat_fx(
    model: Module,
    qconfig_mapping: Any,
    example_inputs: Any,
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A traced model that trains with values rounded as they will be when quantized; `convert_fx` it then."""
    _refuse(prepare_custom_config=prepare_custom_config, backend_config=backend_config)
    if not model.training:
        raise AssertionError("prepare_qat_fx only works for models in train mode")
    return _prepared(_fuse(_traced(model), True), qconfig_mapping, True)


def _prepared(gm: GraphModule, mapping: Any, is_qat: bool) -> GraphModule:
    mapping = QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping
    graph, observers = gm.graph, dict[Any, Any]()  # of values
    called: dict[Any, Any] = {}  # observers behind layers

    def observe(value: Any, observer: Any) -> None:
        """Has what a node gives observed before anybody else sees it."""
        if value in observers or not isinstance(value, Node):
            return
        name = f"activation_post_process_{len(observers)}"
        gm.add_module(name, observer)
        with graph.inserting_after(value):
            observers[value] = node = graph.call_module(name, (value,))
        for user in list(value.users):
            if user is not node:
                user.replace_input_with(value, node)

    for node in list(graph.nodes):
        role, qconfig = _role(gm, node, is_qat), _qconfig(mapping, gm, node)
        if not role or qconfig is None:
            continue
        if role == "layer":
            layer = gm.get_submodule(str(node.target))
            layer.qconfig = qconfig
            if _is_dynamic(qconfig):
                node.meta["quantized"] = "dynamic"
                continue
            if is_qat:
                _put(gm, str(node.target), swap_module(layer, DEFAULT_QAT_MODULE_MAPPINGS))
        elif _is_dynamic(qconfig):
            continue
        given = [a for a in node.all_input_nodes if not _is_observed(gm, a) and not _is_followed_by_relu(gm, a)]
        if role == "same" and not any(_is_observed(gm, a) for a in node.all_input_nodes):
            continue  # floats stay floats
        for value in given:
            observe(value, qconfig.activation())
        node.meta["quantized"] = role
        if role == "same":
            first = next(a for a in node.all_input_nodes if _is_observed(gm, a))
            if _is_dropout(gm, node):  # it rounds as what is before it, but is observed by itself
                observe(node, qconfig.activation())
                continue
            shared = gm.get_submodule(str(first.target))
            observe(node, shared)
            joined = {id(gm.get_submodule(str(n.target))) for n in node.all_input_nodes if _is_observed(gm, n)}
            for other in observers.values():  # what is joined has one scale: one observer under all names
                if id(gm.get_submodule(str(other.target))) in joined:
                    gm.add_module(str(other.target), shared)
        elif not _is_followed_by_relu(gm, node):
            observe(node, qconfig.activation())
            if role == "layer" and node in observers:  # one that is called several times has one scale
                observers[node].target = called.setdefault(node.target, observers[node].target)
    gm.delete_all_unused_submodules()
    gm.recompile()
    return gm


def _is_dropout(gm: GraphModule, node: Node) -> bool:
    return node.target is F.dropout or (node.op == "call_module" and isinstance(_layer(gm, node), dropout.Dropout))


def _is_followed_by_relu(gm: GraphModule, node: Node) -> bool:
    """Whether a sum or product goes to a relu alone: both are one step, without a scale in between."""
    after = next(iter(node.users)) if len(node.users) == 1 else None
    return (
        node.op != "call_module"
        and node.target in _JOINED
        and after is not None
        and isinstance(_layer(gm, after), activation.ReLU)
    )


def _is_observed(gm: GraphModule, node: Node) -> bool:
    return node.op == "call_module" and _is_observer(gm.get_submodule(str(node.target)))


# -- quantized layers ----------------------------------------------------------------------------------------------------------


def convert_fx(
    graph_module: GraphModule, convert_custom_config: Any = None, _remove_qconfig: bool = True, qconfig_mapping: Any = None,
    backend_config: Any = None, keep_original_weights: bool = False,
) -> GraphModule:  # fmt: skip
    """A prepared model with quantized layers in the place of the observed ones; see `prepare_fx`."""
    _refuse(convert_custom_config=convert_custom_config, qconfig_mapping=qconfig_mapping, backend_config=backend_config)
    return _Converted(graph_module).made


class _Converted:
    """The graph of a prepared model with quantized tensors in it, as a module in `made`."""

    def __init__(self, gm: GraphModule):
        self.gm, self.root, self.graph = gm, copy.deepcopy(gm), Graph()
        self.quantized: dict[Node, Any] = {}
        self.floats: dict[Node, Any] = {}
        for node in gm.graph.nodes:
            self._node(node)
        self.made = GraphModule(self.root, self.graph, type(gm).__name__)
        self.made.delete_all_unused_submodules()
        _forget(self.made)

    def _float(self, node: Node) -> Any:
        if node not in self.floats:
            self.floats[node] = self.graph.call_method("dequantize", (self.quantized[node],))
        return self.floats[node]

    def _node(self, node: Node) -> None:
        role = node.meta.get("quantized", "")
        if _is_observed(self.gm, node):
            value = node.all_input_nodes[0]
            if value not in self.quantized:
                self.quantized[value] = self._quantize(value, node)
            self.quantized[node] = self.quantized[value]
        elif role == "layer":
            self._swap(node, DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)
            self.quantized[node] = self.graph.node_copy(node, self.quantized.__getitem__)
        elif role == "same":
            self.quantized[node] = self.graph.node_copy(node, lambda n: self.quantized.get(n, self.floats.get(n)))
        else:
            if role == "dynamic":
                self._swap(node, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)
            if node.op == "output":
                self.graph.output(map_arg(node.args[0], self._float))
            else:
                self.floats[node] = self.graph.node_copy(node, self._float)

    def _swap(self, node: Node, mapping: Any) -> None:
        layer = self.root.get_submodule(str(node.target))
        behind = next((n for n in node.users if _is_observed(self.gm, n)), None)
        if behind is not None:
            layer.activation_post_process = self.gm.get_submodule(str(behind.target))
        _put(self.root, str(node.target), swap_module(layer, mapping))

    def _quantize(self, value: Node, node: Node) -> Node:
        observer: Any = self.gm.get_submodule(str(node.target))
        user = next((n for n in node.users if n.op == "call_module"), None)
        name = (
            f"{user.target}_input"
            if value.op != "call_module" and user is not None
            else str(value.target)
            if value.op == "call_module"
            else ""
        )
        name, scale, point = name.replace(".", "_"), *observer.calculate_qparams()
        number = 0
        while hasattr(self.root, f"{name}_scale_{number}"):
            number += 1
        given = []
        for part, tensor in (("scale", scale), ("zero_point", point)):
            self.root.register_buffer(f"{name}_{part}_{number}", tensor.reshape(()))
            given.append(self.graph.get_attr(f"{name}_{part}_{number}"))
        return self.graph.call_function(functions["quantize_per_tensor"], (self._float(value), *given, observer.dtype))

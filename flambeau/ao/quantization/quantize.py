"""From a float model to a quantized one: `prepare`, `convert`, `quantize_dynamic` and their relatives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..._core.dtypes import float16, qint8, quint8
from ...nn.modules import rnn, sparse
from ...nn.modules.linear import Linear
from ...nn.modules.module import Module
from ..nn import intrinsic
from ..nn.quantized.functional_modules import FloatFunctional
from .fake_quantize import FakeQuantizeBase
from .observer import NoopObserver, ObserverBase, PlaceholderObserver
from .qconfig import QConfig, default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig
from .quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    OBSERVED,
)
from .stubs import DeQuantStub, QuantWrapper

__all__ = [
    "add_quant_dequant", "convert", "default_eval_fn", "prepare", "prepare_qat", "propagate_qconfig_", "quantize",
    "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip

# -- qconfigs ------------------------------------------------------------------------------------------------------


def propagate_qconfig_(module: Module, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Gives each part the qconfig of the module it is in, or the one in `qconfig_dict` under its name or class."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Module, given: dict[Any, Any], above: Any, path: str) -> None:
    own = given.get(type(module), above)
    own = given.get(path, getattr(module, "qconfig", own))
    module.qconfig = own
    for name, child in module.named_children():
        _propagate(child, given, own, f"{path}.{name}" if path else name)


# -- observers -----------------------------------------------------------------------------------------------------


def _is_observer(module: Any) -> bool:
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def _observe(module: Module, args: Any, out: Any) -> Any:
    return module.activation_post_process(out)


def _add_observers(module: Module, kinds: tuple[Any, ...]) -> None:
    for child in module.children():
        if _is_observer(child):
            continue
        wanted = getattr(child, "qconfig", None)
        if isinstance(child, FloatFunctional):
            if wanted is not None:
                child.activation_post_process = wanted.activation()
        elif isinstance(child, kinds) and not isinstance(child, DeQuantStub):
            if wanted is not None:
                _watch(child, wanted)
        else:
            _add_observers(child, kinds)
    if isinstance(module, kinds) and not list(module.children()) and getattr(module, "qconfig", None) is not None:
        if not isinstance(module, (DeQuantStub, FloatFunctional)):
            _watch(module, module.qconfig)


def _watch(module: Module, qconfig: QConfig) -> None:
    if hasattr(module, "activation_post_process"):
        return
    observer = qconfig.activation()
    if isinstance(observer, NoopObserver) or (isinstance(observer, PlaceholderObserver) and observer.is_dynamic):
        return
    module.add_module("activation_post_process", observer)
    handle = module.register_forward_hook(_observe, prepend=True)
    module.__dict__["_observer_handle"] = handle


def prepare(
    model: Module,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Module:
    """A copy of a model whose layers with a qconfig are observed; run it on typical inputs, then `convert` it."""
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    _add_observers(model, OBSERVED if allow_list is None else tuple(allow_list))
    return model


def prepare_qat(model: Module, mapping: Any = None, inplace: bool = False) -> Module:
    """A copy of a model that trains with values rounded as they will be when quantized."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    swaps = DEFAULT_QAT_MODULE_MAPPINGS if mapping is None else mapping
    _swap_all(model, swaps)
    return prepare(model, inplace=True)


_DYNAMIC_QCONFIGS = {
    qint8: default_dynamic_qconfig, float16: float16_dynamic_qconfig, quint8: float_qparams_weight_only_qconfig,
}  # fmt: skip
_DYNAMIC_LAYERS = {Linear, rnn.LSTM, rnn.GRU, rnn.LSTMCell, rnn.RNNCell, rnn.GRUCell}


# -- conversion ----------------------------------------------------------------------------------------------------


def swap_module(
    mod: Module, mapping: Any, custom_module_class_mapping: Any = None, use_precomputed_fake_quant: bool = False
) -> Module:
    """The layer that stands for `mod` by the mapping, with its hooks; `mod` itself if there is none."""
    target = mapping.get(type(mod))
    if target is None or getattr(mod, "qconfig", None) is None:
        return mod
    if isinstance(mod, intrinsic._FusedModule) and not hasattr(target, "_FLOAT"):
        inner = mod[0]
        inner.qconfig = mod.qconfig
        if hasattr(mod, "activation_post_process"):
            inner.activation_post_process = mod.activation_post_process
        made = target.from_float(inner)
    else:
        made = target.from_float(mod)
    own = mod.__dict__.get("_observer_handle")
    for hooks, register in (
        (mod._forward_pre_hooks, made.register_forward_pre_hook),
        (mod._forward_hooks, made.register_forward_hook),
    ):
        for number, hook in hooks.items():
            if own is None or number != own.id:
                register(hook)
    return made.train(mod.training)


def _swap_all(module: Module, mapping: Any) -> None:
    for name, child in list(module.named_children()):
        if _is_observer(child):
            continue
        made = swap_module(child, mapping)
        if made is child:
            _swap_all(child, mapping)
        else:
            setattr(module, name, made)


def _forget(module: Module) -> None:
    """Takes away qconfigs and what is left of observers."""
    for part in module.modules():
        part.__dict__.pop("qconfig", None)
        handle = part.__dict__.pop("_observer_handle", None)
        if handle is not None:
            handle.remove()
        if _is_observer(part._modules.get("activation_post_process")):
            del part._modules["activation_post_process"]


def convert(
    module: Module,
    mapping: Any = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """A copy of a prepared model with quantized layers in the place of the observed ones."""
    if not inplace:
        module = copy.deepcopy(module)
    swaps = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS if mapping is None else mapping
    made = swap_module(module, swaps)
    _swap_all(made, swaps)
    if remove_qconfig:
        _forget(made)
    return made


def quantize_dynamic(
    model: Module, qconfig_spec: Any = None, dtype: Any = qint8, mapping: Any = None, inplace: bool = False
) -> Module:
    """A copy of a model with integer (or float16) weights, whose inputs are quantized while it runs.

    `qconfig_spec` says which layers: a set of classes or names, or a dict of them to qconfigs; else linear and
    recurrent ones, or with dtype quint8 embeddings.

    >>> import flambeau as torch
    >>> torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(2, 3)))
    Sequential(
      (0): DynamicQuantizedLinear(in_features=2, out_features=3, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    )
    """
    default = _DYNAMIC_QCONFIGS.get(dtype)
    if default is None:
        raise ValueError(
            f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please; "
            "weights can be qint8 or float16, those of embeddings quint8"
        )
    if qconfig_spec is None:
        qconfig_spec = {sparse.Embedding, sparse.EmbeddingBag} if dtype is quint8 else _DYNAMIC_LAYERS
    if not isinstance(qconfig_spec, dict):
        qconfig_spec = dict.fromkeys(qconfig_spec, default)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS if mapping is None else mapping, inplace=True)


def quantize(
    model: Module, run_fn: Callable[..., Any], run_args: Any, mapping: Any = None, inplace: bool = False
) -> Module:
    """Prepares a copy of a model, observes `run_fn(model, *run_args)`, and converts it."""
    model = prepare(model if inplace else copy.deepcopy(model), inplace=True)
    model.eval()
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Module, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False) -> Module:
    """Trains a copy of a model by `run_fn(model, *run_args)` with rounded values, and converts it."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    model = prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model.eval(), inplace=True)


def add_quant_dequant(module: Module) -> Module:
    """Puts layers with a qconfig between stubs that quantize and dequantize."""
    if not list(module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        setattr(module, name, add_quant_dequant(child))
    return module


def default_eval_fn(model: Module, calib_data: Any) -> None:
    """Runs a model on the first elements of (input, target) pairs."""
    for data, _ in calib_data:
        model(data)

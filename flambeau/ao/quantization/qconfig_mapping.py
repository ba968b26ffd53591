"""`QConfigMapping`: which parts of a model are quantized how, by class, name or pattern."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._ops.registry import functions
from ...nn import functional as F
from ...nn.modules import activation, normalization
from ...nn.modules import conv as _conv
from . import fake_quantize as fakes
from . import observer as observers
from .qconfig import QConfig, QConfigAny, default_reuse_input_qconfig, get_default_qat_qconfig, get_default_qconfig

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

_GROUPS = (
    "global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
)  # fmt: skip
_KEYS = {
    "": "set_global", "object_type": "set_object_type", "module_name_regex": "set_module_name_regex",
    "module_name": "set_module_name", "module_name_object_type_order": "set_module_name_object_type_order",
}  # fmt: skip


class QConfigMapping:
    """Qconfigs for parts of a model: for all, for classes, for names, and for names that fit a pattern.

    >>> import flambeau as torch
    >>> from flambeau.ao.quantization import QConfigMapping, default_qconfig
    >>> mapping = QConfigMapping().set_global(default_qconfig).set_object_type(torch.nn.Linear, None)
    >>> mapping.object_type_qconfigs[torch.nn.Linear] is None
    True
    """

    def __init__(self) -> None:
        self.global_qconfig: QConfigAny = None
        self.object_type_qconfigs: OrderedDict[Any, QConfigAny] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[tuple[str, Any, int], QConfigAny] = OrderedDict()

    def set_global(self, global_qconfig: QConfigAny) -> QConfigMapping:
        """For all that nothing else is said of."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Callable[..., Any] | str, qconfig: QConfigAny) -> QConfigMapping:
        """For a class of layers, a function, or a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfigAny) -> QConfigMapping:
        """For layers whose names fit a pattern."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfigAny) -> QConfigMapping:
        """For one layer by its name."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable[..., Any], index: int, qconfig: QConfigAny
    ) -> QConfigMapping:
        """For one call of a function inside of a layer, by its number."""
        self.module_name_object_type_order_qconfigs[(module_name, object_type, index)] = qconfig
        return self

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for name in _GROUPS:
            held = getattr(self, name)
            text += f"\n {name}"
            if not isinstance(held, OrderedDict):
                text += f"\n  {held}"
            elif held:
                text += "".join(f"\n  {key}: {value}" for key, value in held.items())
            else:
                text += "\n  OrderedDict()"
        return text + "\n)"

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, as older programs write it."""
        pairs = {
            key: [(k, v) for k, v in getattr(self, f"{key}_qconfigs").items()]
            for key in ("object_type", "module_name_regex", "module_name")
        }
        ordered = [(*key, value) for key, value in self.module_name_object_type_order_qconfigs.items()]
        return {"": self.global_qconfig, **pairs, "module_name_object_type_order": ordered}

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """From such a dict.

        >>> from flambeau.ao.quantization import QConfigMapping
        >>> dict(QConfigMapping.from_dict({"module_name": [("head", None)]}).module_name_qconfigs)
        {'head': None}
        """
        made = cls()
        for key, setter in _KEYS.items():
            if key not in qconfig_dict:
                continue
            if key == "":
                made.set_global(qconfig_dict[key])
            else:
                for item in qconfig_dict[key]:
                    getattr(made, setter)(*item)
        return made


def _common(backend: str, whole: QConfig, training: bool) -> QConfigMapping:
    if training:
        unit, both = (
            fakes.default_fixed_qparams_range_0to1_fake_quant,
            fakes.default_fixed_qparams_range_neg1to1_fake_quant,
        )
        weight: Any = fakes.default_weight_fake_quant
    else:
        unit = observers.default_fixed_qparams_range_0to1_observer
        both = observers.default_fixed_qparams_range_neg1to1_observer
        weight = observers.default_weight_observer
    to_unit, to_both = QConfig(unit, weight), QConfig(both, weight)
    rows = QConfig(whole.activation, weight)  # these have one scale for their weight
    mapping = QConfigMapping().set_global(whole).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in (_conv.ConvTranspose1d, _conv.ConvTranspose2d, _conv.ConvTranspose3d):
        mapping.set_object_type(kind, rows)
    for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        mapping.set_object_type(getattr(F, name), rows)
    mapping.set_object_type(F.layer_norm, rows).set_object_type(normalization.LayerNorm, rows)
    mapping.set_object_type(activation.PReLU, rows)
    for kind in (activation.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", activation.Sigmoid):
        mapping.set_object_type(kind, to_unit)
    for key in (functions["sigmoid"], "sigmoid", "sigmoid_"):
        mapping.set_object_type(key, to_unit)
    mapping.set_object_type(activation.Softmax, to_unit)
    mapping.set_object_type(activation.Tanh, to_both)
    for key in (functions["tanh"], "tanh", "tanh_"):
        mapping.set_object_type(key, to_both)
    return mapping


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The usual qconfigs for quantization after training."""
    return _common(backend, get_default_qconfig(backend, version), False)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The usual qconfigs for quantization-aware training."""
    return _common(backend, get_default_qat_qconfig(backend, version), True)

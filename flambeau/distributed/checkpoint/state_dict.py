"""States of modules and optimizers that are the same whatever the module is wrapped in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..._tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from .._groups import get_rank
from .._objects import broadcast_object_list
from ..fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from ..tensor._dtensor import DTensor, distribute_tensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


# For annotations.
FQNS_T = set[str]
PrimitiveType = Tensor | int | float | str
ValueType = PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType] | dict[str, Any]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]


@dataclass
class StateDictOptions:
    """How states are made and taken."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = field(default="_fqn_modifiers")


def _inner(model: Module) -> Module:
    """The module inside of wrappers, whose prefixes do not count."""
    while hasattr(model, "_orig_mod") or isinstance(model, (DistributedDataParallel, FullyShardedDataParallel)):
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


def _names(model: Module) -> dict[int, str]:
    return {id(p): name for name, p in _inner(model).named_parameters()}


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a module, without the prefixes of wrappers."""
    options = options or StateDictOptions()
    inner = _inner(model)
    frozen = (
        {name for name, p in inner.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else set()
    )
    found = {name: value for name, value in inner.state_dict().items() if name not in frozen}
    if options.full_state_dict:
        found = {name: _whole(value) for name, value in found.items()}
    return {name: value.cpu() for name, value in found.items()} if options.cpu_offload else found


def _whole(value: Any) -> Any:
    return value.detach().full_tensor() if isinstance(value, DTensor) else value


def _like(own: Any, value: Any) -> Any:
    """A whole tensor divided as another is."""
    if isinstance(own, DTensor) and not isinstance(value, DTensor) and value.shape == own.shape:
        return distribute_tensor(value.detach(), own.device_mesh, own.placements, src_data_rank=None)
    return value


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Loads the state of a module."""
    options, inner = options or StateDictOptions(), _inner(model)
    own = inner.state_dict()
    if options.broadcast_from_rank0:
        shared = [model_state_dict if get_rank() == 0 else None]
        broadcast_object_list(shared, 0)
        model_state_dict = shared[0] or {}
    given = {name: _like(own.get(name), value) for name, value in model_state_dict.items()}
    return inner.load_state_dict(given, strict=options.strict)


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> dict[str, Any]:
    """The state of an optimizer, with parameters called by their names."""
    names = _names(model)
    made: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        for group in optimizer.param_groups:
            options_of = {k: v for k, v in group.items() if k != "params"}
            made["param_groups"].append({**options_of, "params": [names[id(p)] for p in group["params"]]})
        for p, state in optimizer.state.items():
            whole = options is not None and options.full_state_dict
            made["state"][names[id(p)]] = {k: _whole(v) if whole else v for k, v in state.items()}
    return made


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: Any = None
) -> None:
    """Loads the state of an optimizer whose parameters are called by their names."""
    names = _names(model)
    groups, given = list(optim_state_dict["param_groups"]), optim_state_dict["state"]
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        own = optimizer.state_dict()
        order = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        parameters = dict(_inner(model).named_parameters())
        state = {
            i: {k: _like(parameters[name], v) if isinstance(v, Tensor) else v for k, v in given[name].items()}
            for i, name in enumerate(order)
            if name in given
        }
        taken = [groups.pop(0) for _ in own["param_groups"]]
        merged = [{**new, "params": old["params"]} for new, old in zip(taken, own["param_groups"])]
        optimizer.load_state_dict({"state": state, "param_groups": merged})


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a module and its optimizers."""
    return get_model_state_dict(model, options=options), get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: Any = None,
) -> Any:
    """Loads the states of a module and its optimizers."""
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result

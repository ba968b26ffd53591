"""States of modules and optimizers that are the same whatever the module is wrapped in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from .._groups import get_rank, is_initialized
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


def _init_optim_state(optim: Any) -> None:
    """Gives an optimizer without state the state that its first step makes; parameters stay as they are."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    if optim.state:
        return
    if any(p.grad is not None for p in parameters):
        raise RuntimeError(
            "state_dict can only be used if the optimizer states are initialized (usually after one step() with gradients) or gradients are None"
        )
    kept = [(group, group["lr"]) for group in optim.param_groups if "lr" in group]
    for p in parameters:
        if p.requires_grad:
            p.grad = ops.zeros_like(p)
    for group, rate in kept:
        group["lr"] = ops.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in kept:
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a module, without the prefixes of wrappers."""
    options = options or StateDictOptions()
    inner = _inner(model)
    frozen = (
        {name for name, p in inner.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else set()
    )
    found = {name: _wanted(value, options) for name, value in inner.state_dict().items() if name not in frozen}
    return {} if _left_to_rank0(options) else found


def _wanted(value: Any, options: StateDictOptions) -> Any:
    """A part of a state as the options say: whole, on the CPU."""
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.detach().full_tensor()
    return value.cpu() if options.cpu_offload and isinstance(value, Tensor) else value


def _left_to_rank0(options: StateDictOptions) -> bool:
    """Whether this process keeps nothing: of what is whole and on the CPU, one copy is enough for all."""
    return options.full_state_dict and options.cpu_offload and is_initialized() and get_rank() != 0


def _like(own: Any, value: Any) -> Any:
    """A whole tensor divided as another is."""
    if isinstance(own, DTensor) and not isinstance(value, DTensor) and value.shape == own.shape:
        return distribute_tensor(value.detach(), own.device_mesh, own.placements, src_data_rank=None)
    return value


def _from_rank0(state: dict[str, Any], options: StateDictOptions | None) -> dict[str, Any]:
    """The state that rank 0 gave, if the options say so; others may give an empty one."""
    if options is None or not options.broadcast_from_rank0:
        return state
    shared = [state if get_rank() == 0 else None]
    broadcast_object_list(shared, 0)
    return shared[0] or {}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Loads the state of a module."""
    options, inner = options or StateDictOptions(), _inner(model)
    own = inner.state_dict()
    model_state_dict = _from_rank0(model_state_dict, options)
    given = {name: _like(own.get(name), value) for name, value in model_state_dict.items()}
    without_memory = any(isinstance(value, Tensor) and value.is_meta for value in own.values())
    return inner.load_state_dict(given, strict=options.strict, assign=without_memory)


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> dict[str, Any]:
    """The state of an optimizer, with parameters called by their names."""
    names, options = _names(model), options or StateDictOptions()
    made: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        for group in optimizer.param_groups:
            options_of = {k: v for k, v in group.items() if k != "params"}
            made["param_groups"].append({**options_of, "params": [names[id(p)] for p in group["params"]]})
        for p, state in optimizer.state.items():
            made["state"][names[id(p)]] = {k: _wanted(v, options) for k, v in state.items()}
    return {} if _left_to_rank0(options) else made


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: Any = None
) -> None:
    """Loads the state of an optimizer whose parameters are called by their names."""
    names, optim_state_dict = _names(model), _from_rank0(optim_state_dict, options)
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

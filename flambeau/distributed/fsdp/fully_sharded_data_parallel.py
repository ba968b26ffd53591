"""`FullyShardedDataParallel`: the older form of `fully_shard`, as a module around a module."""

# ruff: noqa: F403 (the options, in another place)

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..._autograd.modes import no_grad
from ...nn.modules.module import Module
from .._groups import current
from .._states import broadcast_all
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor
from ._fully_shard import MixedPrecisionPolicy, fully_shard
from .api import *
from .api import FullStateDictConfig, ShardedStateDictConfig, ShardingStrategy, StateDictSettings, StateDictType

__all__ = ["FullyShardedDataParallel"]  # noqa: RUF100


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided among processes (`fully_shard`); `auto_wrap_policy` chooses inner modules.

    >>> import flambeau as torch
    >>> from flambeau.distributed.fsdp import FullyShardedDataParallel
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = FullyShardedDataParallel(torch.nn.Linear(2, 3))
    >>> model(torch.ones(1, 2)).shape, list(model.state_dict())
    (torch.Size([1, 3]), ['weight', 'bias'])
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: Any = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: Any = None,
        mixed_precision: Any = None,
        ignored_modules: Any = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ):
        super().__init__()
        if param_init_fn is not None and not callable(param_init_fn):
            raise ValueError(f"Expected {param_init_fn} to be callable but got {type(param_init_fn)}")
        self.sharding_strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        hybrid = self.sharding_strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
        if isinstance(process_group, tuple) or (hybrid and (device_mesh is None or device_mesh.ndim != 2)):
            raise NotImplementedError(
                "FullyShardedDataParallel: parts that are copied between groups need device_mesh=, of two dimensions, as "
                "init_device_mesh('cpu', (copies, parts)) makes it"
            )
        group = current(process_group)
        if self.sharding_strategy is ShardingStrategy.NO_SHARD:
            raise NotImplementedError("ShardingStrategy.NO_SHARD: use torch.nn.parallel.DistributedDataParallel")
        mesh = device_mesh or DeviceMesh.from_group(group, "cpu")
        units = [*_chosen(module, auto_wrap_policy), module]
        _materialize(units, param_init_fn)
        if sync_module_states:
            broadcast_all([*module.parameters(), *module.buffers()], group)
        policy = None
        if mixed_precision is not None:
            policy = MixedPrecisionPolicy(mixed_precision.param_dtype, mixed_precision.reduce_dtype)
        ignored = {p for m in ignored_modules or () for p in m.parameters()}
        ignored |= {s for s in ignored_states or () if not isinstance(s, Module)}
        options = {
            "mesh": mesh, "mp_policy": policy, "ignored_params": ignored,
            "reshard_after_forward": None if self.sharding_strategy in _WHOLLY else False,
        }  # fmt: skip
        for unit in units:
            fully_shard(unit, **options)
        self.module, self._mesh_of_units = module, mesh

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self.module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients inside stay whole in this process and add up."""
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scales gradients so that their norm over all processes is at most `max_norm`; returns what it was."""
        from ...nn.utils import clip_grad_norm_  # which does not know this class

        total = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """A block in which the parameters are whole."""
        tops = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        with contextlib.ExitStack() as stack:
            for top in tops:
                stack.enter_context(top.module._whole(writeback))
            yield

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The modules of this class inside."""
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    # -- states --

    _settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig())

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """What `state_dict` holds from now on: whole tensors, or DTensors. The settings before."""
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("LOCAL_STATE_DICT is not implemented; use SHARDED_STATE_DICT")
        before = FullyShardedDataParallel._settings
        for m in FullyShardedDataParallel.fsdp_modules(module):
            before = m._settings
            usual = (
                FullStateDictConfig() if state_dict_type is StateDictType.FULL_STATE_DICT else ShardedStateDictConfig()
            )
            m._settings = StateDictSettings(state_dict_type, state_dict_config or usual)
        return before

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType, *configs: Any, **named: Any) -> Iterator[None]:
        """A block in which `state_dict` holds whole tensors, or DTensors."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, *configs, **named)
        try:
            yield
        finally:
            for m in FullyShardedDataParallel.fsdp_modules(module):
                m._settings = before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What `state_dict` holds."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else FullyShardedDataParallel._settings

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the module inside, under its own names: whole tensors unless `set_state_dict_type` says otherwise."""
        found = self.module.state_dict(*args, **kwargs)
        if self._settings.state_dict_type is not StateDictType.FULL_STATE_DICT:
            return found
        with no_grad():
            for name, value in list(found.items()):
                if isinstance(value, DTensor):
                    found[name] = value.full_tensor()
        config = self._settings.state_dict_config
        if getattr(config, "rank0_only", False) and self._mesh_of_units.get_rank() != 0:
            found.clear()
        return found

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Takes whole tensors or DTensors."""
        own = self.module.state_dict()
        given = {name: _like(own.get(name), value) for name, value in state_dict.items()}
        return self.module.load_state_dict(given, strict, assign)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The parameters of the module inside, under its own names."""
        return self.module.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
        """The buffers of the module inside, under its own names."""
        return self.module.named_buffers(*args, **kwargs)

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """The state of an optimizer by names of parameters, with whole tensors unless the type says otherwise."""
        from ..checkpoint.state_dict import get_optimizer_state_dict

        found = get_optimizer_state_dict(model, optim)
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        if settings.state_dict_type is StateDictType.FULL_STATE_DICT:
            for state in found["state"].values():
                for key, value in state.items():
                    state[key] = value.full_tensor() if isinstance(value, DTensor) else value
        return found

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
        load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What `optim.load_state_dict` takes: parameters by number, parts of tensors."""
        parameters = dict(model.named_parameters())
        numbers = {id(p): i for i, p in enumerate(p for g in optim.param_groups for p in g["params"])}
        state = {
            numbers[id(parameters[name])]: {key: _like(parameters[name], value) for key, value in values.items()}
            for name, values in optim_state_dict["state"].items()
        }
        groups = [
            {**given, "params": own["params"]}
            for given, own in zip(optim_state_dict["param_groups"], optim.state_dict()["param_groups"])
        ]
        made = {"state": state, "param_groups": groups}
        if load_directly:
            optim.load_state_dict(made)
        return made


_WHOLLY = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)


def _like(own: Any, value: Any) -> Any:
    """A whole tensor divided as `own` is, if it has the shape of it."""
    if isinstance(own, DTensor) and not isinstance(value, DTensor) and value.shape == own.shape:
        from ..tensor import distribute_tensor

        return distribute_tensor(value.detach(), own.device_mesh, own.placements, src_data_rank=None)
    return value


def _materialize(units: list[Module], init: Any) -> None:
    """Gives modules without memory (on the meta device) some, unit by unit: by `init(module)`, or by `reset_parameters`."""
    seen: set[Module] = set()
    for unit in units:
        own = [unit]
        for module in own:  # from the outside inwards, the list grows meanwhile
            seen.add(module)
            own += [child for child in module.children() if child not in seen and child not in own]
        tensors = lambda m: [*m.parameters(recurse=False), *m.buffers(recurse=False)]
        if not any(t.is_meta for module in own for t in tensors(module)):
            continue
        for module in own:
            if init is not None:
                init(module)
            elif tensors(module):
                module.to_empty(device="cpu", recurse=False)
                with no_grad():
                    module.reset_parameters()
            if any(t.is_meta for t in tensors(module)):
                raise ValueError(f"param_init_fn has left tensors of {type(module).__name__} without memory (on meta)")


def _chosen(module: Module, policy: Any) -> list[Module]:
    """The inner modules that a policy wants divided by themselves, innermost first."""
    if policy is None:
        return []
    if hasattr(policy, "_run_policy"):
        targets = policy._run_policy(module, set(), {})
        return [m for m in reversed(list(module.modules())) if m in targets and m is not module]
    found: list[Module] = []

    def visit(inner: Module) -> int:
        """How many elements of a module belong to units in it, or to the unit that it is."""
        size = sum(p.numel() for p in inner.parameters() if not isinstance(p, DTensor))
        if not policy(module=inner, recurse=True, nonwrapped_numel=size):
            return 0
        within = sum(visit(child) for child in inner.children())
        if inner is module or not policy(module=inner, recurse=False, nonwrapped_numel=size - within):
            return within
        found.append(inner)
        return size

    visit(module)
    return found

"""Options of `FullyShardedDataParallel`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """What is divided among processes."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are fetched in backward."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What a `state_dict` holds."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What parameters are called in the state of an optimizer."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass(frozen=True)
class MixedPrecision:
    """The dtypes to compute and to exchange in."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Whether parameters rest in the memory of the CPU."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a `state_dict` is made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """How a whole `state_dict` is made."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """How the `state_dict` of this process is made."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How a divided `state_dict` is made."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How the state of an optimizer is made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How the whole state of an optimizer is made."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """How this process's state of an optimizer is made."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How the divided state of an optimizer is made."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """All choices for a `state_dict`."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)

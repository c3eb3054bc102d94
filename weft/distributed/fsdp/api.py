"""Settings of sharded training, as programs and packages name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import weft

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FullOptimStateDictConfig",
    "FullStateDictConfig", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "MixedPrecisionPolicy", "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """What is cut over the processes."""

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
    """In which form a state dict is given."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What an optimizer's state names its parameters by."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters, reductions and buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Any]] = field(
        default_factory=lambda: (weft.nn.batchnorm._BatchNorm,)
    )


@dataclass
class CPUOffload:
    """Whether parameters wait in the memory of the CPU."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Where a state dict lies."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Of the whole model, on every rank or on the first."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of what a process holds."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of parts that know where they belong."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """The same of optimizers."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Of the whole optimizer."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of what a process holds."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of parts that know where they belong."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A form, and its two configurations."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes for `fully_shard`."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing waits elsewhere."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the memory of the CPU."""

    pin_memory: bool = True

"""Settings of sharded training, as programs and packages name them.

`fully_shard` takes the policies; the others are `FullyShardedDataParallel`'s, which is not here:
programs may make and read them.
"""

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
    """What is cut over the processes: parameters, gradients and optimizer state, or not all.

    >>> ShardingStrategy.FULL_SHARD.name
    'FULL_SHARD'
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are fetched in backward.

    >>> [one.name for one in BackwardPrefetch]
    ['BACKWARD_PRE', 'BACKWARD_POST']
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """In which form a state dict is given: whole, or what each process has.

    >>> StateDictType["FULL_STATE_DICT"] is StateDictType.FULL_STATE_DICT
    True
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What an optimizer's state names its parameters by.

    >>> [one.name for one in OptimStateKeyType]
    ['PARAM_NAME', 'PARAM_ID']
    """

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters, reductions and buffers.

    Attributes:
        param_dtype, reduce_dtype, buffer_dtype: None: as they are.
        keep_low_precision_grads: gradients stay in the dtype of the reduction.
        cast_forward_inputs, cast_root_forward_inputs: inputs of all modules, or of the outermost,
            are converted to `param_dtype`.

    >>> MixedPrecision(param_dtype=weft.bfloat16).reduce_dtype is None
    True
    """

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
    """Whether parameters wait in the memory of the CPU.

    >>> CPUOffload()
    CPUOffload(offload_params=False)
    """

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Where a state dict lies.

    Attributes:
        offload_to_cpu: in the CPU's memory.

    >>> StateDictConfig(offload_to_cpu=True)
    StateDictConfig(offload_to_cpu=True)
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Of the whole model, on every rank or on the first.

    >>> FullStateDictConfig(rank0_only=True)
    FullStateDictConfig(offload_to_cpu=False, rank0_only=True)
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of what a process holds.

    >>> LocalStateDictConfig()
    LocalStateDictConfig(offload_to_cpu=False)
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of parts that know where they belong.

    >>> ShardedStateDictConfig().offload_to_cpu
    False
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Where the state dict of an optimizer lies.

    Attributes:
        offload_to_cpu: in the CPU's memory.

    >>> OptimStateDictConfig()
    OptimStateDictConfig(offload_to_cpu=True)
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Of the whole optimizer, on every rank or on the first.

    >>> FullOptimStateDictConfig()
    FullOptimStateDictConfig(offload_to_cpu=True, rank0_only=False)
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of what a process holds.

    >>> LocalOptimStateDictConfig()
    LocalOptimStateDictConfig(offload_to_cpu=False)
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of parts that know where they belong.

    >>> ShardedOptimStateDictConfig().offload_to_cpu
    True
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A form of state dicts, and its two configurations.

    >>> form = StateDictType.FULL_STATE_DICT
    >>> made = StateDictSettings(form, FullStateDictConfig(), FullOptimStateDictConfig())
    >>> made.optim_state_dict_config.offload_to_cpu
    True
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes for `fully_shard`, whose `mp_policy` it is.

    Attributes:
        param_dtype: of the gathered parameters; None: the parameters' own.
        reduce_dtype: in which gradients are summed; None: theirs.
        output_dtype: of floating-point tensors that the module gives; None: as they come.
        cast_forward_inputs: floating-point inputs are converted to `param_dtype`.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> policy = MixedPrecisionPolicy(param_dtype=weft.bfloat16)
    >>> net = dist.fsdp.fully_shard(weft.nn.Linear(2, 1), mp_policy=policy)
    >>> net(weft.ones(3, 2)).dtype, net.weight.dtype
    (torch.bfloat16, torch.float32)
    >>> dist.destroy_process_group()
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing waits elsewhere; an `offload_policy` of `fully_shard`.

    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the memory of the CPU, where they are anyway.

    >>> CPUOffloadPolicy(pin_memory=False)
    CPUOffloadPolicy(pin_memory=False)
    """

    pin_memory: bool = True

"""Tensors that lie on several processes: their placements and meshes; none can be made here.

A program that shards by these names is told so. `nn.parallel.DistributedDataParallel` trains on
several processes, and `distributed.optim.ZeroRedundancyOptimizer` shares the optimizer's state
among them; parameters that no process holds alone are not here.
"""

from __future__ import annotations

from typing import Any

from weft.base.absent import raises, raising_class
from weft.distributed.device_mesh import DeviceMesh as DeviceMesh
from weft.distributed.device_mesh import init_device_mesh as init_device_mesh
from weft.distributed.tensor.placement_types import Partial as Partial
from weft.distributed.tensor.placement_types import Placement as Placement
from weft.distributed.tensor.placement_types import Replicate as Replicate
from weft.distributed.tensor.placement_types import Shard as Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "init_device_mesh",
]  # fmt: skip

_TEXT = (
    "[{}] expected a tensor of one process, got one for a mesh: weft's tensors lie in one process. "
    "Hint: nn.parallel.DistributedDataParallel trains on several"
)
#: The class of such tensors: there are none, and making one raises NotImplementedError.
DTensor: Any = raising_class(
    "DTensor", __name__, NotImplementedError, _TEXT.format("DTensor"),
    "A tensor that lies on the processes of a mesh. Making one raises NotImplementedError.",
)  # fmt: skip
DTensor.from_local = staticmethod(raises(NotImplementedError, _TEXT.format("DTensor.from_local")))
distribute_tensor = raises(NotImplementedError, _TEXT.format("distribute_tensor"))
distribute_module = raises(NotImplementedError, _TEXT.format("distribute_module"))

"""Tensors that lie on several processes: their placements and meshes (Note [Tensors on a mesh])."""

from __future__ import annotations

from weft.distributed.device_mesh import DeviceMesh as DeviceMesh
from weft.distributed.device_mesh import init_device_mesh as init_device_mesh
from weft.distributed.tensor.dtensor import DTensor as DTensor
from weft.distributed.tensor.dtensor import distribute_module as distribute_module
from weft.distributed.tensor.dtensor import distribute_tensor as distribute_tensor
from weft.distributed.tensor.placement_types import Partial as Partial
from weft.distributed.tensor.placement_types import Placement as Placement
from weft.distributed.tensor.placement_types import Replicate as Replicate
from weft.distributed.tensor.placement_types import Shard as Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "init_device_mesh",
]  # fmt: skip

"""Which part of a tensor a process has."""

from __future__ import annotations

from collections.abc import Sequence

from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.tensor.placement_types import Placement, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of this process's part of a tensor, and where it begins.

    Nothing, for a process that is not in the mesh.
    """
    at = mesh.get_coordinate()
    if at is None:
        return (0,), (0,)
    shape, offset = list(global_shape), [0] * len(global_shape)
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            k = placement.dim
            size, start = placement.local_shard_size_and_offset(shape[k], mesh.size(dim), at[dim])
            shape[k], offset[k] = size, offset[k] + start
    return tuple(shape), tuple(offset)

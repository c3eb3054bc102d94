"""Processes laid out in a mesh: a group along each of its dimensions.

>>> dist = weft.distributed
>>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
>>> mesh = dist.device_mesh.init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicas", "shards"))
>>> mesh, mesh["shards"].size(), mesh.get_local_rank("replicas")
(DeviceMesh((replicas=1, shards=1), 'cpu', stride=(1, 1)), 1, 0)
>>> dist.destroy_process_group()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._C import Tensor
from weft.distributed.distributed_c10d import (
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks in an array of one or more dimensions.

    Args:
        device_type: "cpu".
        mesh: the ranks, as a tensor of ints or nested lists; all of the world's, or some.
        mesh_dim_names: a name for each dimension.

    Every process makes the same meshes, in the same order: each makes groups.

    Raises: RuntimeError for more ranks than the world has.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.DeviceMesh("cpu", [0]).size()
    1
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        self.device_type = device_type
        self.mesh: Tensor = weft.as_tensor(mesh, dtype=weft.int64, device="cpu")
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if not is_initialized():
            init_process_group()
        if self.mesh.numel() > get_world_size():
            raise RuntimeError(
                f"[DeviceMesh] expected at most the world's {get_world_size()} ranks, got "
                f"{self.mesh.numel()} (Mesh should not be bigger than default world size "
                f"{get_world_size()}, but found {self.mesh.numel()} ranks!)"
            )
        self._groups = [self._along(dim) for dim in range(self.mesh.ndim)]

    def _along(self, dim: int) -> Any:
        """The group of this process along a dimension; None if it is not in the mesh."""
        rows = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
        if rows == [list(range(get_world_size()))]:
            return group.WORLD
        own = None
        for ranks in rows:  # every process makes every group
            made = new_group(ranks)
            own = made if get_rank() in ranks else own
        return own

    @classmethod
    def _of(
        cls, whole: DeviceMesh, mesh: Tensor, names: tuple[str, ...] | None, groups: list[Any]
    ) -> DeviceMesh:
        part = cls.__new__(cls)
        part.device_type, part.mesh, part.mesh_dim_names = whole.device_type, mesh, names
        part._groups = groups
        return part

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, along one dimension or in all."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """The rank of this process in the world."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Where in the mesh this process is; None if it is not."""
        places = (self.mesh == get_rank()).nonzero().tolist()
        return list(places[0]) if places else None

    def _dim(self, mesh_dim: int | str | None, who: str) -> int:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"[{who}] expected mesh_dim for a mesh of {self.ndim} dimensions, got none "
                f"(Found the DeviceMesh have {self.ndim} dimensions)"
            )
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"[{who}] expected one of {self.mesh_dim_names}, got {mesh_dim!r} (Invalid "
                    f"mesh_dim_name {mesh_dim})"
                )
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return mesh_dim or 0

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of this process along a dimension."""
        return self._groups[self._dim(mesh_dim, "get_group")]

    def get_all_groups(self) -> list[Any]:
        """The groups of this process, by dimension."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The rank of this process along a dimension."""
        return get_rank(self.get_group(self._dim(mesh_dim, "get_local_rank")))

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        """The mesh of the ranks that differ from this process along these dimensions alone."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name, "DeviceMesh") for name in wanted]
        at = self.get_coordinate() or [0] * self.ndim
        index = tuple(slice(None) if d in dims else at[d] for d in range(self.ndim))
        order = sorted(dims)
        part = self.mesh[index].permute([order.index(d) for d in dims])
        return self._of(self, part, wanted, [self._groups[d] for d in dims])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return False
        mine = (self.device_type, self.mesh_dim_names, self.mesh.tolist())
        return mine == (other.device_type, other.mesh_dim_names, other.mesh.tolist())

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, tuple(self.mesh.flatten().tolist())))

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        sizes = f"({', '.join(f'{n}={s}' for n, s in zip(names, self.shape))})" if names else ""
        where = f"{self.device_type!r}, stride={tuple(self.mesh.stride())}"
        return f"DeviceMesh({sizes or tuple(self.shape)}, {where})"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """A mesh of the first ranks, in order; makes the world first if there is none.

    Args:
        device_type: "cpu".
        mesh_shape: its sizes.
        mesh_dim_names: a name for each dimension.

    Raises: RuntimeError for names of another number, or twice the same; more ranks than there are.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",)).ndim
    1
    >>> dist.destroy_process_group()
    """
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(
            f"[init_device_mesh] expected names that differ, got {tuple(mesh_dim_names)} (Each "
            "mesh_dim_name must be unique.)"
        )
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            f"[init_device_mesh] expected {len(mesh_shape)} names, got {len(mesh_dim_names)} "
            "(mesh_shape and mesh_dim_names should have same length!)"
        )
    ranks = weft.arange(math.prod(mesh_shape), device="cpu").reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)

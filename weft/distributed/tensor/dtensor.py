"""`DTensor`: a tensor of which each process of a mesh has a part.

Note [Tensors on a mesh]
A DTensor is an object of a class of Tensor whose memory, dtype and place in the graph are those of
this process' part: to the core and its optimizers it is a dense tensor of the part's shape, so an
optimizer steps the parts alone. What Python asks, shape included, `__torch_function__` answers from
a table of rules (weft/distributed/tensor/table.py) for the whole tensor. There are rules for what
training with parts needs: pointwise functions, norms and sums, factories "like" it, copies. Others
raise NotImplementedError and name `full_tensor()` and `to_local()`. Meshes have one dimension here,
and a tensor lies on it whole or cut along a dimension, into parts of ceil(size / processes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft
from weft import Tensor
from weft.base.modes import no_grad
from weft.base.subclasses import alias, raw
from weft.distributed.device_mesh import DeviceMesh, init_device_mesh
from weft.distributed.exchanges import all_gather_into_tensor, broadcast
from weft.distributed.tensor.placement_types import Placement, Replicate, Shard
from weft.distributed.world import get_world_size
from weft.nn.module import Module
from weft.nn.parameter import Parameter

__all__ = [
    "DTensor", "DTensorParameter", "DTensorSpec", "distribute_module", "distribute_tensor",
    "padded_rows", "placed",
]  # fmt: skip


@dataclass(frozen=True)
class DTensorSpec:
    """Where a tensor lies: its mesh, how it is cut, and the shape of the whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: weft.Size

    def span(self) -> tuple[int, int]:
        """How much of the dimension that is cut this process has, and from where."""
        (placement,) = self.placements
        assert isinstance(placement, Shard)
        return Shard.local_shard_size_and_offset(
            self.shape[placement.dim], self.mesh.size(), self.mesh.get_local_rank()
        )

    def rows(self) -> int:
        """How much of that dimension a process has at most."""
        (placement,) = self.placements
        assert isinstance(placement, Shard)
        return -(-self.shape[placement.dim] // self.mesh.size())

    def local_shape(self) -> tuple[int, ...]:
        """The shape of the part of this process."""
        (placement,) = self.placements
        sizes = list(self.shape)
        if isinstance(placement, Shard):
            sizes[placement.dim] = self.span()[0]
        return tuple(sizes)

    def part_of(self, whole: Tensor) -> Tensor:
        """A view of the part of this process."""
        (placement,) = self.placements
        if not isinstance(placement, Shard):
            return whole
        size, start = self.span()
        return whole.narrow(placement.dim, start, size)


def spec_of(who: str, mesh: DeviceMesh, placements: Any, shape: Sequence[int]) -> DTensorSpec:
    """The spec that these arguments of a public function name.

    Raises: ValueError for another number of placements than dimensions of the mesh, or a dimension
    that the tensor has not; NotImplementedError for meshes of more dimensions, and sums to be made.
    """
    given = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    if len(given) != mesh.ndim:
        raise ValueError(
            f"[{who}] expected a placement for each of the mesh's {mesh.ndim} dimensions, got "
            f"{len(given)} (`placements` must have the same length as `device_mesh.ndim`!)"
        )
    if mesh.ndim != 1:
        raise NotImplementedError(f"[{who}] expected a mesh of one dimension, got {mesh.ndim}")
    (one,) = given
    if type(one) is Shard:
        dim = one.dim + len(shape) if one.dim < 0 else one.dim
        if not 0 <= dim < len(shape):
            raise ValueError(f"[{who}] expected a dimension of {list(shape)} to cut, got {one.dim}")
        one = Shard(dim)
    elif not isinstance(one, Replicate):
        raise NotImplementedError(f"[{who}] expected Shard(dim) or Replicate(), got {one!r}")
    return DTensorSpec(mesh, (one,), weft.Size(shape))


class DTensor(Tensor):
    """A tensor on a mesh of processes, of which each has a part.

    `distribute_tensor`, `DTensor.from_local` and `fsdp.fully_shard` make them. `shape` is that of
    the whole; `to_local()` is the part of this process, `full_tensor()` the whole.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> from weft.distributed.tensor import Shard, distribute_tensor
    >>> x = distribute_tensor(weft.arange(3.0), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> (x * 2).full_tensor(), x.placements
    (tensor([0., 2., 4.]), (Shard(dim=0),))
    >>> dist.destroy_process_group()
    """

    _spec: DTensorSpec
    _lends_memory = False

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> DTensor:
        """The tensor of which every process gives its part.

        Args:
            local_tensor: the part of this process; the whole where it is replicated.
            device_mesh: the processes, in one dimension.
            placements: one `Shard(dim)` or `Replicate()`, the default.
            run_check: give all the first process' tensor where it is replicated.
            shape: of the whole; by default that of equal parts.
            stride: has to be that of a contiguous tensor.

        Raises: ValueError for a part whose shape does not fit.
        """
        whole = list(local_tensor.shape if shape is None else shape)
        spec = spec_of("DTensor.from_local", device_mesh, placements, whole)
        (placement,) = spec.placements
        if shape is None and isinstance(placement, Shard):
            whole[placement.dim] *= device_mesh.size()
            spec = DTensorSpec(spec.mesh, spec.placements, weft.Size(whole))
        if stride is not None and tuple(stride) != weft.empty(spec.shape, device="meta").stride():
            raise NotImplementedError(
                f"[DTensor.from_local] expected the strides of a contiguous tensor, got {stride}"
            )
        if tuple(local_tensor.shape) != spec.local_shape():
            raise ValueError(
                f"[DTensor.from_local] expected a part of shape {list(spec.local_shape())} of "
                f"{list(spec.shape)}, got {list(local_tensor.shape)}"
            )
        if run_check and isinstance(placement, Replicate):
            broadcast(local_tensor, group=device_mesh.get_group(), group_src=0)
        out: DTensor = placed(local_tensor, spec)
        return out

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from weft.distributed.tensor.table import answer

        return answer(func, args, kwargs or {})

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How the tensor lies on each dimension of the mesh."""
        return self._spec.placements

    @property
    def _local_tensor(self) -> Tensor:
        return alias(self)

    def _as_parameter(self, requires_grad: bool) -> Any:
        with no_grad():
            out = placed(alias(self).detach(), self._spec, DTensorParameter)
        return raw(lambda: out.requires_grad_(requires_grad))

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part of this process, which shares its memory.

        Raises: NotImplementedError for `grad_placements` that are not the tensor's own.
        """
        if grad_placements is not None and tuple(grad_placements) != self._spec.placements:
            raise NotImplementedError(
                f"[to_local] expected grad_placements={self._spec.placements}, got "
                f"{grad_placements}"
            )
        return alias(self)

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """The whole tensor, in every process; all call it. Gradients do not go through it.

        Raises: NotImplementedError for `grad_placements`.
        """
        if grad_placements is not None:
            raise NotImplementedError(
                f"[full_tensor] expected no grad_placements, got {grad_placements}. Hint: "
                "distributed.nn.functional.all_gather carries gradients"
            )
        return gathered(alias(self), self._spec)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
        async_op: bool = False,
    ) -> DTensor:  # fmt: skip
        """The same values, otherwise placed, outside of the graph; all processes call it.

        Raises: ValueError for placements that do not fit; NotImplementedError for another mesh.
        """
        mesh = self._spec.mesh if device_mesh is None else device_mesh
        if mesh != self._spec.mesh:
            raise NotImplementedError("[redistribute] expected the tensor's own mesh, got another")
        spec = spec_of("redistribute", mesh, placements, self._spec.shape)
        if spec.placements == self._spec.placements:
            return self
        out: DTensor = placed(spec.part_of(self.full_tensor()).clone(), spec)
        raw(lambda: out.requires_grad_(self.requires_grad))
        return out

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={alias(self)!r}, device_mesh={self._spec.mesh!r}, "
            f"placements={self._spec.placements!r})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            with no_grad():
                made = placed(alias(self).clone(), self._spec, type(self))
            raw(lambda: made.requires_grad_(self.requires_grad))
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotImplementedError(
            "[save] expected a tensor of one process, got one that lies on several. Hint: "
            "full_tensor() is the whole; distributed.checkpoint has every process save its part"
        )


class DTensorParameter(DTensor, Parameter):
    """A parameter that lies on a mesh: what `nn.Parameter` makes of a DTensor."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> Any:
        return data._as_parameter(requires_grad)

    __torch_function__ = DTensor.__dict__["__torch_function__"]
    __deepcopy__ = DTensor.__deepcopy__
    __reduce_ex__ = DTensor.__reduce_ex__

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Parameter containing:\n{DTensor.__repr__(self)}"


def placed(part: Tensor, spec: DTensorSpec, cls: type[Any] = DTensor) -> Any:
    """A view of a part as the tensor on the mesh."""
    out = raw(lambda: part.as_subclass(Tensor)._moved_to(cls))
    out._spec = spec
    return out


def gathered(part: Tensor, spec: DTensorSpec) -> Tensor:
    """The whole tensor of everyone's parts."""
    (placement,) = spec.placements
    if not isinstance(placement, Shard):
        return part.detach().clone()
    dim, count = placement.dim, spec.mesh.size()
    with no_grad():
        mine = padded_rows(part.detach().movedim(dim, 0), spec.rows())
        whole = mine.new_empty((count * mine.shape[0], *mine.shape[1:]))
        all_gather_into_tensor(whole, mine, spec.mesh.get_group())
        return whole[: spec.shape[dim]].movedim(0, dim).contiguous()


def padded_rows(part: Tensor, rows: int) -> Tensor:
    """The part, contiguous, with zeros behind it up to so many rows."""
    if part.shape[0] == rows:
        return part.contiguous()
    out = part.new_zeros((rows, *part.shape[1:]))
    out[: part.shape[0]].copy_(part)
    return out


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """The tensor of the first process, laid out on a mesh; all call it.

    Args:
        tensor: of any shape and dtype, the same in all processes.
        device_mesh: the processes, in one dimension; by default all.
        placements: one `Shard(dim)` or `Replicate()`, the default.
        src_data_rank: whose values count; None: each takes its part of its own.

    Raises: ValueError for placements that do not fit; NotImplementedError for more dimensions.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> x = distribute_tensor(weft.arange(3.0), placements=[Shard(0)])
    >>> x.shape, x.to_local()
    (torch.Size([3]), tensor([0., 1., 2.]))
    >>> dist.destroy_process_group()
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    mesh = device_mesh or init_device_mesh("cpu", (get_world_size(),))
    spec = spec_of("distribute_tensor", mesh, placements, tensor.shape)
    with no_grad():
        whole = tensor.detach()
        if src_data_rank is not None and mesh.size() > 1:
            whole = whole.clone(memory_format=weft.contiguous_format)
            broadcast(whole, group=mesh.get_group(), group_src=src_data_rank)
        out: DTensor = placed(spec.part_of(whole).clone(), spec)
    raw(lambda: out.requires_grad_(tensor.requires_grad))
    return out


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Not here: products of parts of tensors, which modules over a mesh are made of, are not.

    Raises: NotImplementedError; `distributed.fsdp.fully_shard` cuts a module's parameters.

    >>> weft.distributed.tensor.distribute_module(weft.nn.Linear(2, 1))
    Traceback (most recent call last):
        ...
    NotImplementedError: [distribute_module] expected a module of one process, got one for a mesh...
    """
    raise NotImplementedError(
        "[distribute_module] expected a module of one process, got one for a mesh: products of "
        "parts are not here. Hint: distributed.fsdp.fully_shard cuts its parameters and gathers "
        "them for use"
    )

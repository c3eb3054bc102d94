"""`fully_shard`: modules whose parameters, gradients and optimizer state are cut over processes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributed.device_mesh import DeviceMesh, init_device_mesh
from weft.distributed.fsdp.api import MixedPrecisionPolicy, OffloadPolicy
from weft.distributed.fsdp.gathering import ParameterGroup, Place
from weft.distributed.tensor.dtensor import DTensor, DTensorParameter, distribute_tensor
from weft.distributed.tensor.placement_types import Shard
from weft.distributed.world import get_world_size
from weft.nn.module import Module
from weft.nn.parallel.distributed import tensors_of
from weft.utils._pytree import tree_map_only

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class UnshardHandle:
    """What `FSDPModule.unshard(async_op=True)` returns.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> net = dist.fsdp.fully_shard(weft.nn.Linear(2, 1))
    >>> handle = net.unshard(async_op=True)
    >>> handle.wait()
    >>> type(net.weight).__name__
    'Tensor'
    >>> net.reshard()
    >>> dist.destroy_process_group()
    """

    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Until the parameters are there; the module shows them from then on."""
        if self._group is not None:
            self._group.unshard()
        self._group = None


class FSDPModule:
    """What `fully_shard` adds to a module's class.

    Raises: AssertionError for a deep copy.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> net = dist.fsdp.fully_shard(weft.nn.Linear(2, 1))
    >>> isinstance(net, FSDPModule), isinstance(net, weft.nn.Linear)
    (True, True)
    >>> net.set_requires_gradient_sync(False)
    >>> dist.destroy_process_group()
    """

    _fsdp_group: ParameterGroup | None
    _fsdp_policy: MixedPrecisionPolicy
    _fsdp_next: list[FSDPModule]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance of the class that was sharded, not sharded itself."""
        return cls.__mro__[2](*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's call, with its parameters gathered."""
        return _called(self, super().__call__, args, kwargs)  # type: ignore[misc]

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError(
            "FSDP does not support deepcopy. Please use state dict for serialization."
        )

    def _groups(self, recurse: bool) -> Iterator[ParameterGroup]:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        for module in modules:
            if isinstance(module, FSDPModule) and module._fsdp_group is not None:
                yield module._fsdp_group

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers the module's own parameters and shows them.

        They are freed by `reshard()`, after the next call of the module where forward frees what
        it gathers, and after backward.

        Args: async_op: return at once; `wait()` of what is returned shows them.
        """
        handle = UnshardHandle(self._fsdp_group)
        if self._fsdp_group is not None:
            self._fsdp_group.start()
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Frees the gathered parameters."""
        if self._fsdp_group is not None:
            self._fsdp_group.reshard()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward exchanges gradients; else whole ones add up until it does."""
        for group in self._groups(recurse):
            group.reduces = requires_gradient_sync

    def set_reshard_after_forward(
        self, reshard_after_forward: bool, *, recurse: bool = True
    ) -> None:
        """Whether forward frees what it has gathered, so that backward gathers again."""
        for group in self._groups(recurse):
            group.frees_after_forward, group.is_default = reshard_after_forward, False

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward frees the parameters; else the next forward finds them."""
        for group in self._groups(recurse):
            group.frees_after_backward = reshard_after_backward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divides sums of gradients by this and not by the number of processes."""
        for group in self._groups(recurse=False):
            group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Begins to gather the parameters of these modules when this one is called."""
        self._fsdp_next = list(modules)


def _called(module: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A method of a sharded module, with its parameters gathered."""
    group, policy = module._fsdp_group, module._fsdp_policy
    if policy.cast_forward_inputs and policy.param_dtype is not None:
        args, kwargs = _cast((args, kwargs), policy.param_dtype)
    if group is None:
        out = call(*args, **kwargs)
    else:
        group.start()
        for other in module._fsdp_next:
            if other._fsdp_group is not None:
                other._fsdp_group.start()
        with group.in_use():
            out = call(*args, **kwargs)
        for tensor in tensors_of(out):
            tensor.register_hook(group.reached)
    return out if policy.output_dtype is None else _cast(out, policy.output_dtype)


def _cast(values: Any, dtype: Any) -> Any:
    """Floating-point tensors of nested values in another dtype."""
    return tree_map_only(Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, values)


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:
    """Cuts the parameters of a module over processes, in place.

    Parameters that a submodule's own `fully_shard` has cut before are left to it, so layers come
    first and the model last; what a call gathers at once is what its module has for itself. From
    now on they are DTensors, cut along their first dimension; optimizers are made after this, and
    step the parts. Note [Gathered parameters] tells what a call and its backward do.

    Args:
        module: a Module, or several that are one group.
        mesh: the processes, in one dimension; by default all.
        reshard_after_forward: free the parameters after forward and gather them again in backward;
            by default for all modules but the outermost, of which backward begins at once.
        shard_placement_fn: None or a function that gives None or `Shard(0)`.
        mp_policy: dtypes of gathered parameters, reductions and results.
        offload_policy: parameters are in the CPU's memory whatever it says.
        ignored_params: left as they are.

    Returns: the module, whose class is now one of its own and of FSDPModule.

    Raises:
        ValueError: a parameter without dimensions; lists of modules, which have no forward; one
            that is sharded already.
        NotImplementedError: meshes of more dimensions, other placements, a number for
            `reshard_after_forward`.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> net = dist.fsdp.fully_shard(weft.nn.Linear(2, 1))
    >>> net(weft.ones(3, 2)).sum().backward()
    >>> net.weight.grad.full_tensor()
    tensor([[3., 3.]])
    >>> dist.destroy_process_group()
    """
    modules = [module] if isinstance(module, Module) else list(module)
    for m in modules:
        if isinstance(m, (weft.nn.ModuleList, weft.nn.ModuleDict)):
            raise ValueError(
                f"[fully_shard] expected modules that are called, got a {type(m).__name__} "
                f"(fully_shard does not support containers that do not implement forward: {m})"
            )
        if isinstance(m, FSDPModule):
            raise ValueError(
                f"[fully_shard] expected a module that is not sharded yet, got {type(m).__name__}"
            )
    if not isinstance(reshard_after_forward, (bool, type(None))):
        raise NotImplementedError(
            "[fully_shard] expected reshard_after_forward to be a bool, got a number of processes"
        )
    where = mesh or init_device_mesh("cpu", (get_world_size(),))
    places = _places(modules, ignored_params or set())
    _cut(places, where, shard_placement_fn)
    policy = mp_policy or MixedPrecisionPolicy()
    inner = [m for each in modules for m in each.modules() if isinstance(m, FSDPModule)]
    for m in inner:  # they were the outermost
        if m._fsdp_group is not None and m._fsdp_group.is_default:
            m._fsdp_group.frees_after_forward = True
    group = ParameterGroup(places, where, policy, reshard_after_forward) if places else None
    for m in modules:
        _become(m, group, policy)
    return module


def _places(modules: Sequence[Module], ignored: set[Any]) -> list[list[Place]]:
    """Where the modules have parameters that nothing has cut; of tied ones every place."""
    kept = {id(p) for p in ignored}
    found: dict[int, list[Place]] = {}
    for module in modules:
        for owner in module.modules():
            for name, p in owner._parameters.items():
                if p is not None and not isinstance(p, DTensor) and id(p) not in kept:
                    found.setdefault(id(p), []).append(Place(owner._parameters, name))
    return list(found.values())


def _cut(
    places: list[list[Place]], mesh: DeviceMesh, placement_of: Callable[[Any], Any] | None
) -> None:
    """Puts this process' part in place of each parameter."""
    params = [of_one[0].table[of_one[0].name] for of_one in places]
    for of_one, p in zip(places, params, strict=True):
        if p.ndim == 0:
            raise ValueError(
                f"[fully_shard] expected parameters with dimensions, got {of_one[0].name} without "
                "(fully_shard doesn't support scalar parameters. Change "
                f"{of_one[0].name} to a 1D tensor with numel equal to 1.)"
            )
        wanted = placement_of(p) if placement_of is not None else None
        if wanted not in (None, Shard(0), Shard(-p.ndim)):
            raise NotImplementedError(f"[fully_shard] expected Shard(0), got {wanted!r}")
    for of_one, p in zip(places, params, strict=True):
        part = distribute_tensor(p, mesh, [Shard(0)], src_data_rank=None)
        cut = DTensorParameter(part, p.requires_grad)
        for table, name in of_one:
            table[name] = cut


@functools.cache
def _class_of_sharded(cls: Any) -> type[Any]:
    """The class of this class' sharded modules."""
    return type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})


def _become(module: Any, group: ParameterGroup | None, policy: MixedPrecisionPolicy) -> None:
    """Gives a module the class of sharded ones."""
    module.__class__ = _class_of_sharded(module.__class__)
    object.__setattr__(module, "_fsdp_group", group)
    object.__setattr__(module, "_fsdp_policy", policy)
    object.__setattr__(module, "_fsdp_next", [])


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Has another method than `forward` gather the parameters of a sharded module, too.

    Modules that are not sharded are left as they are.

    Args:
        module: what `fully_shard` gave.
        method_name: the method's name.

    Raises: ValueError for no such method.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> class Net(weft.nn.Linear):
    ...     def twice(self, x):
    ...         return self(x) * 2 + self.bias.sum()
    >>> net = dist.fsdp.fully_shard(Net(2, 1))
    >>> register_fsdp_forward_method(net, "twice")
    >>> net.twice(weft.ones(3, 2)).shape
    torch.Size([3, 1])
    >>> dist.destroy_process_group()
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(
            f"[register_fsdp_forward_method] expected a method of {type(module).__name__}, got "
            f"{method_name!r} ({type(module)} does not have a method {method_name})"
        )

    def gathering(*args: Any, **kwargs: Any) -> Any:
        return _called(module, method, args, kwargs)

    object.__setattr__(module, method_name, gathering)

"""Walking a tree of modules: children, parameters and buffers, by name or not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from weft import Tensor
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft.nn.module import Module


class ModuleTree:
    """The read-only view of a module's tree; `Module` inherits it.

    >>> import weft
    >>> net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.ReLU())
    >>> [name for name, _ in net.named_parameters()]
    ['0.weight', '0.bias']
    >>> net.get_submodule("1")
    ReLU()
    """

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  #: of Modules; the class is not known here

    def children(self) -> Iterator[Module]:
        """Iterate over the direct children, each once.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [type(child).__name__ for child in net.children()]
        ['Linear', 'BatchNorm1d']
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over `(name, module)` of the direct children, each module once.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [name for name, _ in net.named_children()]
        ['0', '1']
        """
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all below it, parents before children.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [type(m).__name__ for m in net.modules()]
        ['Sequential', 'Linear', 'BatchNorm1d']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over `(dotted name, module)` of this module and all below it.

        Args:
            memo: modules that are not to be visited again; extended in place.
            prefix: put before every name.
            remove_duplicate: whether a module that is used twice appears once.

        Raises:
            RecursionError: a module contains itself and `remove_duplicate` is false.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [name for name, _ in net.named_modules()]
        ['', '0', '1']
        """
        memo = set() if memo is None else memo
        limit = sys.getrecursionlimit()
        pending: list[tuple[str, Any, int]] = [(prefix, self, 0)]
        while pending:
            path, module, depth = pending.pop()
            if module in memo:
                continue
            if remove_duplicate:
                memo.add(module)
            elif depth > limit:
                raise RecursionError(f"[named_modules] expected a tree, got a cycle at {path!r}")
            yield path, module
            dotted = path + "." if path else path
            pending += [
                (dotted + name, child, depth + 1)
                for name, child in reversed(module._modules.items())
                if child is not None
            ]

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once; without `recurse` only this module's own.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> sum(p.numel() for p in net.parameters())
        8
        """
        if type(self).named_parameters is not ModuleTree.named_parameters:
            # Who changes what has which name also changes what there is.
            return (parameter for _, parameter in self.named_parameters(recurse=recurse))
        return iter(self._own_or_all_parameters(recurse))

    def _own_or_all_parameters(self, recurse: bool) -> Iterable[Parameter]:
        """The same without names, which take most of the time: training loops call this."""
        found: dict[int, Parameter] = {}
        seen: set[Any] = set()
        pending: list[Any] = [self]
        while pending:
            module = pending.pop()
            if module in seen:
                continue
            seen.add(module)
            for parameter in module._parameters.values():
                if parameter is not None:
                    found.setdefault(id(parameter), parameter)
            if recurse and module._modules:
                pending += [m for m in reversed(module._modules.values()) if m is not None]
        return found.values()

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over `(dotted name, parameter)`.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [name for name, _ in net.named_parameters()]
        ['0.weight', '0.bias', '1.weight', '1.bias']
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once; without `recurse` only this module's own.

        Tensors of the shapes that they have.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [b.shape for b in net.buffers()]
        [torch.Size([2]), torch.Size([2]), torch.Size([])]
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over `(dotted name, buffer)`.

        Tensors of the shapes that they have.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> [name for name, _ in net.named_buffers()]
        ['1.running_mean', '1.running_var', '1.num_batches_tracked']
        """
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Iterable[tuple[str, Any]] = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            dotted = path + "." if path else path
            for name, member in get_members_fn(module):
                if member is None:
                    continue
                if remove_duplicate:
                    if id(member) in seen:
                        continue
                    seen.add(id(member))
                yield dotted + name, member

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path; the empty path is the module itself.

        Raises:
            AttributeError: there is nothing at the path, or something that is not a module.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> net.get_submodule("1") is net[1]
        True
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted path, whose parent has to exist.

        Args:
            target: the path, not empty.
            module: the new module.
            strict: whether the path has to name a module already.

        Raises:
            ValueError: the path is empty, or `module` is not a module.
            AttributeError: a part of the path does not name a module.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> net.set_submodule("1", weft.nn.ReLU())
        >>> net[1]
        ReLU()
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path.

        Raises:
            AttributeError: there is nothing at the path, or something that is not a parameter.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> net.get_parameter("1.weight")
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
        """
        module, name, value = self._get_member(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path.

        Of the shape that it has. AttributeError for a path without one.

        Raises:
            AttributeError: there is nothing at the path, or something that is not a buffer.

        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 2), weft.nn.BatchNorm1d(2))
        >>> net.get_buffer("1.running_mean")
        tensor([0., 0.])
        """
        module, name, value = self._get_member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    def _get_member(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

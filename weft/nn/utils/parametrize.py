"""Parameters that are functions of others: a tensor of a module computed anew at each reading.

>>> import weft
>>> from weft.nn.utils import parametrize
>>> class Symmetric(weft.nn.Module):
...     def forward(self, x):
...         return x.triu() + x.triu(1).transpose(-1, -2)
>>> net = weft.nn.Linear(2, 2)
>>> _ = parametrize.register_parametrization(net, "weight", Symmetric())
>>> weft.equal(net.weight, net.weight.T)
True
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import weft
from weft import Tensor
from weft.nn.containers import ModuleDict, ModuleList
from weft.nn.module import Module
from weft.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# Of the context, as examples of a batch have one each: what one has computed is not the others'.
_cache: ContextVar[dict[tuple[int, str], Tensor] | None] = ContextVar("_cache", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Within it a parametrized tensor is computed once, at its first reading.

    >>> layer = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(2, 2))
    >>> with weft.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    if _cache.get() is not None:
        yield
        return
    outside = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(outside)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the parameters or buffers that they start from.

    Those are `original`, or `original0`, `original1` and so on where the last `right_inverse`
    returns a sequence. To be made by `register_parametrization`.

    Args:
        modules: the parametrizations, in the order of their application.
        original: the tensor as it was.
        unsafe: do not check that shape and dtype stay.

    Raises:
        ValueError: a parametrization that changes the dtype or the shape.

    >>> class Doubled(weft.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> w = weft.nn.Parameter(weft.ones(2))
    >>> weft.nn.utils.parametrize.ParametrizationList([Doubled()], w)()
    tensor([2., 2.], grad_fn=<MulBackward0>)
    """

    original: Tensor
    unsafe: bool

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with weft.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    continue
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:  # nothing can be assigned: start from what is there
                    pass
        if not isinstance(new, Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            self._take_original(original, new)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part.detach(), original.requires_grad)
                self._register(f"original{i}", part)
        if not unsafe:
            self._expect_same(original)

    def _take_original(self, original: Tensor, new: Tensor) -> None:
        if new.dtype != original.dtype and not self.unsafe:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
            )
        if new is not original:
            with weft.no_grad():
                original.data = new.detach() if new.dtype == original.dtype else new
        self._register("original", original)

    def _register(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def _expect_same(self, original: Tensor) -> None:
        now = self()
        if not isinstance(now, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(now).__name__}.")
        if now.dtype != original.dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless "
                "`unsafe` flag is enabled.\n"
                f"unparametrized dtype: {original.dtype}\nparametrized dtype: {now.dtype}"
            )
        if now.shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless "
                "`unsafe` flag is enabled.\n"
                f"unparametrized shape: {original.shape}\nparametrized shape: {now.shape}"
            )

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals such that the parametrized tensor is `value`.

        Raises:
            RuntimeError: a parametrization without a `right_inverse`.
        """
        new: Any = value
        with weft.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            for old, part in zip(self._originals(), [new] if self.is_tensor else new):
                if part.shape == old.shape and part.dtype == old.dtype:
                    old.copy_(part)
                else:
                    old.data = part

    def forward(self) -> Tensor:
        modules = list(self)
        x = modules[0](
            *(
                [self.original]
                if self.is_tensor
                else [getattr(self, f"original{i}") for i in range(self.ntensors)]
            )
        )
        for module in modules[1:]:
            x = module(x)
        return x


def _parametrized_class(module: Module) -> None:
    """Give the module a class of its own, on which properties can be set."""
    cls = type(module)

    def get_state(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    def deep_copy(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) in memo:
            return memo[id(self)]
        twin = self.__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
        return twin

    names: dict[str, Any] = {"__getstate__": get_state}
    if not hasattr(cls, "__deepcopy__"):
        names["__deepcopy__"] = deep_copy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), names)
    module.parametrizations = ModuleDict()


def _inject_property(module: Module, name: str) -> None:
    def read(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        cache = _cache.get()
        if cache is None:
            return parametrization()
        key = (id(self), name)
        if key not in cache:
            cache[key] = parametrization()
        return cache[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def _expect_inverse(parametrization: Any, name: str, value: Tensor) -> None:
    """Raises where a `right_inverse` gives what the parametrizations before it do not take."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        found = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(found, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(found).__name__}"
        )
    for what, now, before in (
        ("dtype", found.dtype, value.dtype), ("shape", found.shape, value.shape),
    ):  # fmt: skip
        if now != before:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {before}\nreturned {what}: {now}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module the output of `parametrization`.

    Another one on the same tensor is applied to the output of those before. Writing the tensor
    writes what its `right_inverse` returns.

    Args:
        module: its class becomes one of its own.
        tensor_name: the name of the parameter or buffer.
        parametrization: a module whose `forward` takes the original tensor, or what its
            `right_inverse` makes of it.
        unsafe: do not check that shape and dtype stay.

    Returns: `module`.

    Raises:
        ValueError: no such tensor, or another shape or dtype.

    >>> class Symmetric(weft.nn.Module):
    ...     def forward(self, x):
    ...         return x + x.T
    >>> layer = weft.nn.Linear(2, 2)
    >>> _ = weft.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> weft.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations: Any = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            if not isinstance(after, Tensor) or (after.dtype, after.shape) != (
                before.dtype,
                before.shape,
            ):
                raise ValueError(
                    "A parametrization may not change the dtype or the shape of the tensor if the "
                    "`unsafe` flag is not enabled.\n"
                    f"module.{tensor_name}: {before.dtype}, {before.shape}\n"
                    f"parametrization(module.{tensor_name}): "
                    f"{getattr(after, 'dtype', type(after))}, {getattr(after, 'shape', '')}"
                )
            _expect_inverse(parametrization, tensor_name, after)
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList(
            [parametrization], getattr(module, tensor_name), unsafe=unsafe
        )
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _parametrized_class(module)
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of this tensor.

    >>> weft.nn.utils.parametrize.is_parametrized(weft.nn.Linear(2, 2))
    False
    """
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor a parameter or buffer again.

    Args:
        module, tensor_name: see `register_parametrization`.
        leave_parametrized: it keeps the parametrized value; otherwise it gets the original one.

    Returns: `module`.

    Raises:
        ValueError: it is not parametrized, or there are several originals to go back to.

    >>> layer = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(2, 2))
    >>> _ = weft.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> type(layer.weight).__name__
    'Parameter'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with weft.no_grad():
                value = getattr(module, tensor_name).detach().clone()
                original.data = value
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without that of its parametrizations.

    >>> layer = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(2, 2))
    >>> weft.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize `to_module` as `from_module` is, with the same originals.

    Args:
        from_module: has the parametrizations.
        to_module: gets copies of them.
        tensor_name: only those of this tensor.

    Returns: `to_module`.

    >>> layer = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(2, 2))
    >>> other = weft.nn.Linear(2, 2)
    >>> _ = weft.nn.utils.parametrize.transfer_parametrizations_and_params(layer, other)
    >>> weft.equal(layer.weight, other.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for module in source:
            register_parametrization(to_module, name, copy.deepcopy(module), unsafe=source.unsafe)
        target: Any = to_module.parametrizations[name]
        with weft.no_grad():
            for old, new in zip(target._originals(), source._originals()):
                old.data = new.detach().clone()
    return to_module

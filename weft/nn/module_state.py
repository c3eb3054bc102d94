"""A module's values as a dictionary, and back."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.base.warn import warn
from weft.nn.module_hooks import HookTable
from weft.nn.parameter import Parameter
from weft.nn.removable_handle import RemovableHandle

if TYPE_CHECKING:
    pass

_EXTRA_STATE = "_extra_state"
_COMPILED = "._orig_mod."  # of what weft.compile made of a module


class _IncompatibleKeys(namedtuple("_Keys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: the names that did not meet."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class ModuleState:
    """The part of a module that saves and loads its values; `Module` inherits it.

    >>> import weft
    >>> a, b = weft.nn.Linear(2, 1), weft.nn.Linear(2, 1)
    >>> list(a.state_dict())
    ['weight', 'bias']
    >>> b.load_state_dict(a.state_dict())
    <All keys matched successfully>
    """

    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  #: of Modules; the class is not known here
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: Any = HookTable(raises_flag=False)
    _state_dict_hooks: Any = HookTable(raises_flag=False)
    _load_state_dict_pre_hooks: Any = HookTable(raises_flag=False)
    _load_state_dict_post_hooks: Any = HookTable(raises_flag=False)

    # --- saving ---------------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Return all parameters and persistent buffers by dotted name, in an `OrderedDict`.

        The values share their storage with the module.

        Args:
            destination: a dictionary to fill instead of a new one.
            prefix: put before every name.
            keep_vars: keep the parameters themselves, not detached tensors.

        >>> sorted(weft.nn.Linear(1, 2).state_dict())
        ['bias', 'weight']
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead.",
                FutureWarning,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._hooks_in("_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        return self._run_state_dict_hooks(destination, prefix, local_metadata)

    def _run_state_dict_hooks(self, destination: Any, prefix: str, metadata: dict[str, Any]) -> Any:
        for hook, may_replace in self._hooks_in("_state_dict_hooks"):
            replaced = hook(self, destination, prefix, metadata)
            if replaced is None:
                continue
            if not may_replace:
                raise RuntimeError("state_dict post-hook must return None")
            destination = replaced
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own values into `destination`; to be overridden."""
        own: Iterable[tuple[str, Any]] = itertools.chain(
            self._parameters.items(), self._persistent_buffers()
        )
        for name, value in own:
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def _persistent_buffers(self) -> list[tuple[str, Tensor | None]]:
        hidden = self._non_persistent_buffers_set
        return [item for item in self._buffers.items() if item[0] not in hidden]

    def get_extra_state(self) -> Any:
        """Return what else `state_dict` has to contain; to be overridden with `set_extra_state`.

        >>> class Counted(weft.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.calls = 0
        ...     def get_extra_state(self):
        ...         return self.calls
        ...     def set_extra_state(self, state):
        ...         self.calls = state
        >>> Counted().state_dict()
        OrderedDict([('_extra_state', 0)])
        """
        raise RuntimeError(
            f"[get_extra_state] expected {type(self).__name__} to define it, got a call to "
            "Module's own. Hint: define get_extra_state and set_extra_state together."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned; to be overridden.

        >>> class Counted(weft.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.calls = 0
        ...     def get_extra_state(self):
        ...         return self.calls
        ...     def set_extra_state(self, state):
        ...         self.calls = state
        >>> net = Counted()
        >>> _ = net.load_state_dict({"_extra_state": 3})
        >>> net.calls
        3
        """
        raise RuntimeError(
            f"[set_extra_state] expected {type(self).__name__} to define it, got a call to "
            "Module's own. Hint: define get_extra_state and set_extra_state together."
        )

    # --- loading --------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values from a dictionary of dotted names into parameters and buffers.

        It does not matter which modules are compiled here, nor which were where it comes from.

        RuntimeError for tensors of another shape.

        Args:
            state_dict: what `state_dict` of such a module returned.
            strict: whether the names have to be the same on both sides.
            assign: put the tensors themselves into the module, with their dtype, instead of
                copying their values.

        Returns:
            The missing and the unexpected names.

        Raises:
            TypeError: `state_dict` is not a mapping.
            RuntimeError: names (if `strict`) or shapes do not agree; every one is listed.

        >>> a, b = weft.nn.Linear(1, 2), weft.nn.Linear(1, 2)
        >>> a.load_state_dict(b.state_dict())
        <All keys matched successfully>
        >>> weft.equal(a.weight, b.weight)
        True
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if any(_COMPILED in f".{key}." for key in [*self._tree(), *state]):
            state = OrderedDict((_name_here(self, key), value) for key, value in state.items())
            versions = (metadata or {}).items()
            metadata = {_name_here(self, key).rstrip("."): value for key, value in versions}
        if metadata is not None:
            state._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        _load(self, state, "", metadata or {}, assign, missing, unexpected, errors)
        if strict:
            if missing:
                names = ", ".join(f'"{key}"' for key in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {names}. ")
            if unexpected:
                names = ", ".join(f'"{key}"' for key in unexpected)
                errors.insert(1 if missing else 0, f"Unexpected key(s) in state_dict: {names}. ")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own values, and report by appending to the lists; to be overridden."""
        reports = missing_keys, unexpected_keys, error_msgs
        for hook, with_module in self._hooks_in("_load_state_dict_pre_hooks"):
            leading = (self,) if with_module else ()
            hook(*leading, state_dict, prefix, local_metadata, strict, *reports)
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        own: dict[str, Any] = {**self._parameters, **dict(self._persistent_buffers())}
        own = {name: value for name, value in own.items() if value is not None}
        for name, value in own.items():
            if prefix + name in state_dict:
                error = self._load_value(name, value, prefix, state_dict[prefix + name], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(prefix + name)
        extra_key = prefix + _EXTRA_STATE
        takes_extra = type(self).set_extra_state is not ModuleState.set_extra_state
        if takes_extra and extra_key in state_dict:
            self.set_extra_state(state_dict[extra_key])
        elif takes_extra and strict:
            missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            unexpected_keys += self._unexpected(state_dict, prefix, own)

    def _unexpected(self, state_dict: Any, prefix: str, own: dict[str, Any]) -> list[str]:
        unexpected = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + _EXTRA_STATE:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (self._modules if dot else own):
                unexpected.append(key)
        return unexpected

    def _load_value(
        self, name: str, value: Tensor, prefix: str, given: Any, assign: bool
    ) -> str | None:
        """Load one parameter or buffer; return what is wrong."""
        key = prefix + name
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected weft.Tensor or '
                f"Tensor-like object from checkpoint but received {type(given)}"
            )
        # PyTorch before 0.4 had no tensors of zero dimensions and saved one element instead.
        if value.dim() == 0 and given.dim() == 1 and given.numel() == 1:
            given = given[0]
        if given.shape != value.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {value.shape}."
            )
        try:
            with weft.no_grad():
                if assign:
                    setattr(self, name, _like(value, given))
                else:
                    if value.is_meta and not given.is_meta:
                        _warn_nothing_copied(key)
                    value.copy_(given)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{value.size()} and whose dimensions in the checkpoint are {given.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def _tree(self) -> list[str]:
        named: Any = self.named_modules()  # type: ignore[attr-defined]
        return [name for name, _ in named]

    # --- hooks ----------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects the values.

        >>> net = weft.nn.Linear(1, 1)
        >>> handle = net.register_state_dict_pre_hook(
        ...     lambda module, prefix, keep_vars: print("saving")
        ... )
        >>> _ = net.state_dict()
        saving
        """
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after; it may edit in place.

        >>> net = weft.nn.Linear(1, 1, bias=False)
        >>> handle = net.register_state_dict_post_hook(
        ...     lambda module, state_dict, prefix, local_metadata: state_dict.clear()
        ... )
        >>> list(net.state_dict())
        []
        """
        return _register(self._state_dict_hooks, (hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like `register_state_dict_post_hook`; the hook may also return another dictionary."""
        return _register(self._state_dict_hooks, (hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before the module loads its own values.

        >>> net = weft.nn.Linear(1, 1)
        >>> handle = net.register_load_state_dict_pre_hook(
        ...     lambda module, state_dict, *rest: print(sorted(state_dict))
        ... )
        >>> _ = net.load_state_dict(net.state_dict())
        ['bias', 'weight']
        """
        return _register(self._load_state_dict_pre_hooks, (hook, True))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """Like `register_load_state_dict_pre_hook`; without the module unless `with_module`."""
        return _register(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may edit the keys in place.

        >>> net = weft.nn.Linear(1, 1)
        >>> handle = net.register_load_state_dict_post_hook(lambda module, keys: print(keys))
        >>> _ = net.load_state_dict(net.state_dict())
        <All keys matched successfully>
        """
        return _register(self._load_state_dict_post_hooks, hook)

    def _hooks_in(self, name: str) -> list[Any]:
        table = self.__dict__.get(name)
        return list(table.values()) if table else []


def _warn_nothing_copied(key: str) -> None:
    warn(
        f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in "
        "the current model, which is a no-op. (Did you mean to pass `assign=True` to assign items "
        "in the state dictionary to their corresponding key in the module instead of copying them "
        "in place?)"
    )


def _load(
    module: Any,
    state: Any,
    prefix: str,
    metadata: dict[str, dict[str, Any]],
    assign: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    local_metadata = metadata.get(prefix[:-1], {})
    if assign:
        local_metadata = {**local_metadata, "assign_to_params_buffers": True}
    module._load_from_state_dict(state, prefix, local_metadata, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            part = OrderedDict((k, v) for k, v in state.items() if k.startswith(inner))
            _load(child, part, inner, metadata, assign, missing, unexpected, errors)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._hooks_in("_load_state_dict_post_hooks"):
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _name_here(module: Any, key: str) -> str:
    """A name of `state_dict` with `_orig_mod` where the modules that have it are compiled ones."""
    name: list[str] = []
    at: Any = module
    for part in key.split("."):
        modules = getattr(at, "_modules", {})
        if part == "_orig_mod" and part not in modules:
            continue
        if part != "_orig_mod" and "_orig_mod" in modules:
            name.append("_orig_mod")
            at = modules["_orig_mod"]
        name.append(part)
        at = getattr(at, "_modules", {}).get(part)
    return ".".join(name)


def _like(value: Tensor, given: Tensor) -> Tensor:
    """Return `given` as what `value` is: a parameter in place of a parameter."""
    if not isinstance(value, Parameter):
        return given
    if not isinstance(given, Parameter):
        return Parameter(given, requires_grad=value.requires_grad)
    return given.requires_grad_(value.requires_grad)


def _register(table: OrderedDict[int, Any], entry: Any) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = entry
    return handle

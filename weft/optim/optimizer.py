"""`Optimizer`: groups of parameters with their settings, and a state for each parameter.

Note [A step gathers anew]
A step collects parameters, gradients and state tensors in one short loop and hands them to one
call of the extension. The lists are not kept for the next step: to see whether a list is still
right (a gradient gone, a parameter replaced in its group, a state tensor exchanged by hand) takes
about as long as to make it.
"""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import weft
from weft import _C, Tensor
from weft.base.warn import warn
from weft.nn.module import clear_grad
from weft.nn.removable_handle import RemovableHandle
from weft.optim import helpers

globals().update(helpers.NAMES)  # what optimizers import from here

Group = dict[str, Any]
Hook = Callable[..., Any]


class _Required:
    """The default of a setting that has none."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_RequiredParameter = _Required


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """None of the devices on which PyTorch's steps can be recorded as graphs."""
    return []


_optimizers: WeakSet[Optimizer] = WeakSet()  # all that there are, for hooks of every one
_global_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_post_hooks: OrderedDict[int, Hook] = OrderedDict()


class Optimizer:
    """The base class of optimizers.

    A subclass passes its settings to `super().__init__` and defines `step`.

    Args:
        params: tensors, pairs of a name and a tensor, or dictionaries with `"params"` and the
            settings of that group.
        defaults: the settings of groups that do not say otherwise.

    Attributes:
        param_groups: a list of dictionaries: the parameters under `"params"`, and the settings.
        state: a dictionary for each parameter.
        defaults: the settings.

    Raises:
        TypeError: `params` is a tensor or a set, or holds something that is not a tensor.
        ValueError: no parameters, one in two groups, one that is not a leaf, a setting missing.

    >>> import weft
    >>> class Descent(weft.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     def step(self, closure=None):
    ...         with weft.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p.sub_(p.grad * group["lr"])
    >>> p = weft.nn.Parameter(weft.ones(1))
    >>> p.grad = weft.ones(1)
    >>> Descent([p], lr=0.5).step()
    >>> p.tolist()
    [0.5]
    """

    state: defaultdict[Tensor, dict[str, Any]]
    param_groups: list[Group]
    defaults: dict[str, Any]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {params.type()}"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._make_hook_tables()
        self._enrol()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients; to be overridden.

        Args:
            closure: computes the loss again, and the gradients; its result is returned.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> (2 * w).sum().backward()
        >>> optimizer.step()
        >>> w.data
        tensor([0.])
        """
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or fill them with zeros if `set_to_none` is false.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> (2 * w).sum().backward()
        >>> optimizer.zero_grad()
        >>> w.grad is None
        True
        """
        for group in self.param_groups:
            if set_to_none:
                _C._forget_gradients_(group["params"])
                continue
            for param in group["params"]:
                clear_grad(param, set_to_none)

    # --- groups ---------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dictionary with `"params"`, and settings that differ from the defaults.

        Raises:
            TypeError, ValueError: see the class.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> optimizer.add_param_group({"params": [weft.nn.Parameter(weft.ones(2))], "lr": 0.1})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.5, 0.1]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _split_names(_as_list(param_group["params"]))
        group: Group = {"params": params}
        if names is not None:
            group["param_names"] = names
        group.update((key, value) for key, value in param_group.items() if key != "params")
        for param in params:
            self._expect_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            group.setdefault(name, default)
        self._expect_disjoint(group)
        param_group.clear()
        param_group.update(group)
        self.param_groups.append(param_group)

    def _expect_param(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {_typename(param)}"
            )
        if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _expect_disjoint(self, group: Group) -> None:
        ids = {id(param) for param in group["params"]}
        if len(ids) != len(group["params"]):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, "
                "this will cause an error",
            )
        for other in self.param_groups:
            if any(id(param) in ids for param in other["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
            if ("param_names" in other) != ("param_names" in group):
                added = "with" if "param_names" in group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {added} names to the optimizer"
                )

    # --- state dictionaries ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return groups and state with numbers in place of the parameters.

        `"state"` is a dictionary for each number, `"param_groups"` the groups with their settings.
        The tensors are those of the optimizer, not copies.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        packed_all: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            replaced = hook(self, packed_all)
            packed_all = packed_all if replaced is None else replaced
        return packed_all

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take groups and state over from what `state_dict` returned.

        State tensors get the dtype of their parameters; those that have it already are shared.

        Raises:
            ValueError: the number or the sizes of the groups differ.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> state = optimizer.state_dict()
        >>> state["param_groups"][0]["lr"] = 0.1
        >>> optimizer.load_state_dict(state)
        >>> optimizer.param_groups[0]["lr"]
        0.1
        """
        state_dict = state_dict.copy()
        for hook in list(self._load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = self.param_groups
        saved_groups = copy.deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_number = {
            number: param
            for group, saved in zip(groups, saved_groups)
            for number, param in zip(saved["params"], group["params"])
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                param = by_number[key]
                state[param] = _converted(value, param)
            else:
                state[key] = value
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_step_pre_hooks" not in self.__dict__:
            self._make_hook_tables()
        self._enrol()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                if default is not required:
                    group.setdefault(name, default)

    # --- hooks ----------------------------------------------------------------------------------

    def _make_hook_tables(self) -> None:
        self._step_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._step_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._load_state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._load_state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each `step`.

        `args` starts with the optimizer. The hook may return new `(args, kwargs)`.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_step_pre_hook(lambda opt, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        self._step_through_hooks()
        return _insert(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each `step`.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_step_post_hook(lambda opt, args, kwargs: print("after"))
        >>> optimizer.step()
        after
        """
        self._step_through_hooks()
        return _insert(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_state_dict_pre_hook(lambda opt: print("saving"))
        >>> _ = optimizer.state_dict()
        saving
        """
        return _insert(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_state_dict_post_hook(lambda opt, state: {"kept": state})
        >>> list(optimizer.state_dict())
        ['kept']
        """
        return _insert(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another one.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_load_state_dict_pre_hook(
        ...     lambda opt, state: print("loading")
        ... )
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loading
        """
        return _insert(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda opt: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return _insert(self._load_state_dict_post_hooks, hook, prepend)

    def _step_through_hooks(self) -> None:
        # In the instance it hides the method of the class, which knows nothing of hooks: an
        # optimizer without hooks does not pay for them. The first step without any undoes it.
        self.__dict__["step"] = self._step_with_hooks

    def _enrol(self) -> None:
        _optimizers.add(self)
        if _global_pre_hooks or _global_post_hooks:
            self._step_through_hooks()

    def _step_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            _global_pre_hooks or _global_post_hooks or self._step_pre_hooks or self._step_post_hooks
        ):  # all are removed
            if self.__dict__.get("step") == self._step_with_hooks:
                del self.__dict__["step"]
            self._opt_called = True
            return type(self).step(self, *args, **kwargs)
        args = (self, *args)
        for hook in [*_global_pre_hooks.values(), *self._step_pre_hooks.values()]:
            replaced = hook(self, args, kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"{type(self).step} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {replaced}."
                )
            args, kwargs = replaced
        result = type(self).step(*args, **kwargs)
        for hook in [*self._step_post_hooks.values(), *_global_post_hooks.values()]:
            hook(self, args, kwargs)
        self._opt_called = True
        if not (
            _global_pre_hooks or _global_post_hooks or self._step_pre_hooks or self._step_post_hooks
        ) and self.__dict__.get("step") == self._step_with_hooks:  # fmt: skip
            del self.__dict__["step"]
        return result

    def _note_first_step(self) -> None:
        """Have `_opt_called` set by the first step from now on, at no cost for the later ones."""
        self._opt_called = False
        below = self.__dict__.get("step")

        @functools.wraps(type(self).step)
        def first_step(*args: Any, **kwargs: Any) -> Any:
            if below is None:
                self.__dict__.pop("step", None)
            else:
                self.__dict__["step"] = below
            self._opt_called = True
            return self.step(*args, **kwargs)

        self.__dict__["step"] = first_step

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each `step` of every optimizer; for tools."""
    return _insert_global(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each `step` of every optimizer; for tools.

    >>> import weft
    >>> seen = []
    >>> handle = register_optimizer_step_post_hook(lambda o, a, k: seen.append(type(o).__name__))
    >>> p = weft.ones(1, requires_grad=True)
    >>> weft.optim.SGD([p], lr=0.1).step()
    >>> handle.remove()
    >>> seen
    ['SGD']
    """
    return _insert_global(_global_post_hooks, hook)


def _insert_global(table: OrderedDict[int, Hook], hook: Hook) -> RemovableHandle:
    for optimizer in list(_optimizers):
        optimizer._step_through_hooks()
    return _insert(table, hook)


def call_closure(closure: Callable[[], Any]) -> Any:
    """Return what the closure of a step computes, with gradients."""
    with weft.enable_grad():
        return closure()


def expect_range(what: str, value: Any, low: float, high: float = float("inf")) -> None:
    """Raise a ValueError unless `low <= value`, and `value < high` where that is finite."""
    if not (low <= value and (value < high or high == float("inf"))):
        raise ValueError(f"Invalid {what}: {value}")


def expect_modes(lr: Any, foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Check what PyTorch checks about the ways to run a step, and about a learning rate tensor."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _as_list(params: Any) -> list[Any]:
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead."
        )
    return list(params)


def _split_names(params: list[Any]) -> tuple[list[Any], list[str] | None]:
    named = [isinstance(param, tuple) for param in params]
    if not any(named):
        return params, None
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [param[1] for param in params], [param[0] for param in params]


def _converted(value: Any, param: Tensor, key: Any = None) -> Any:
    """Return a state with its tensors in the dtype of the parameter, `step` excepted."""
    if isinstance(value, Tensor):
        return value.to(param.dtype) if key != "step" and param.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _converted(v, param, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_converted(v, param) for v in value)
    return value


def _insert(table: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

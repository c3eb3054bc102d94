"""Hooks round a module's forward and backward, for one module or for all.

Note [Calls without hooks are free]
Nearly no module has hooks, so `Module.__call__` tests one flag, `_hooked`, and calls `forward`.
The tables of hooks do not exist until someone looks at them: they are made by `HookTable` on
first access, which raises the flag of that module. A hook for all modules raises the flag of the
class. With the flag up, `_call_with_hooks` does everything in PyTorch's order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from weft import Tensor
from weft.base.warn import warn
from weft.nn.module_backward import BackwardHooks
from weft.nn.removable_handle import RemovableHandle
from weft.nn.shared_structure import changes

Hook = Callable[..., Any]
Self = TypeVar("Self", bound="ModuleHooks")


class HookTable:
    """A table of hooks that a module gets when someone first looks at it."""

    def __init__(self, raises_flag: bool = True) -> None:
        self.raises_flag = raises_flag

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self
        table: OrderedDict[int, Any] = OrderedDict()
        module.__dict__[self.name] = table
        if self.raises_flag:
            module.__dict__["_hooked"] = True
        return table


class ModuleHooks:
    """The part of a module that has to do with hooks; `Module` inherits it.

    >>> import weft
    >>> layer = weft.nn.Identity()
    >>> handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    >>> layer(weft.ones(2))
    tensor([2., 2.])
    >>> handle.remove()
    >>> layer(weft.ones(2))
    tensor([1., 1.])
    """

    _hooked = False
    _is_full_backward_hook: bool | None = None
    _forward_pre_hooks: Any = HookTable()
    _forward_pre_hooks_with_kwargs: Any = HookTable(raises_flag=False)
    _forward_hooks: Any = HookTable()
    _forward_hooks_with_kwargs: Any = HookTable(raises_flag=False)
    _forward_hooks_always_called: Any = HookTable(raises_flag=False)
    _backward_pre_hooks: Any = HookTable()
    _backward_hooks: Any = HookTable()

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `forward` with every hook of this module and of all modules."""
        tables = self.__dict__
        if not (
            tables.get("_forward_hooks")
            or tables.get("_forward_pre_hooks")
            or tables.get("_backward_hooks")
            or tables.get("_backward_pre_hooks")
            or ModuleHooks._hooked
        ):
            return self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        call = _Call(self, args, kwargs)
        try:
            return call.run()
        except Exception:
            call.run_always_called()
            raise

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each `forward`.

        The hook may return new arguments (a tuple, or one value). With `with_kwargs` it is
        called as `hook(module, args, kwargs)` and may return `(args, kwargs)`.

        Args:
            hook: the function.
            prepend: whether it goes before the hooks that are there already.
            with_kwargs: whether it sees and changes keyword arguments.

        >>> net = weft.nn.ReLU()
        >>> handle = net.register_forward_pre_hook(lambda module, args: (2 * args[0],))
        >>> net(weft.ones(2))
        tensor([2., 2.])
        """
        changes(self)
        tables = self._forward_pre_hooks, self._forward_pre_hooks_with_kwargs
        handle = RemovableHandle(*tables, module=self)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return _insert(self._forward_pre_hooks, handle, hook, prepend)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each `forward`.

        What the hook returns, unless `None`, replaces the output. With `with_kwargs` it is
        called as `hook(module, args, kwargs, output)`.

        Args:
            hook: the function.
            prepend: whether it goes before the hooks that are there already.
            with_kwargs: whether it sees the keyword arguments.
            always_call: whether it also runs when `forward` raises; the output is then `None`.

        >>> net = weft.nn.ReLU()
        >>> handle = net.register_forward_hook(lambda module, args, output: 2 * output)
        >>> net(weft.ones(2))
        tensor([2., 2.])
        """
        changes(self)
        extra = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        handle = RemovableHandle(self._forward_hooks, *extra, module=self)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return _insert(self._forward_hooks, handle, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's gradients are computed.

        `grad_output` is a tuple with one entry per output. The hook may return a new one.

        >>> net = weft.nn.ReLU()
        >>> handle = net.register_full_backward_pre_hook(
        ...     lambda module, grad_output: print(grad_output)
        ... )
        >>> _ = net(weft.ones(2, requires_grad=True)).sum().backward()
        (tensor([1., 1.]),)
        """
        changes(self)
        handle = RemovableHandle(self._backward_pre_hooks, module=self)
        return _insert(self._backward_pre_hooks, handle, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are known.

        Both are tuples, with `None` for what is not a tensor. The hook may return a new
        `grad_input`. Inputs and outputs of a module with such a hook are not to be changed
        in place.

        Raises:
            RuntimeError: the module has hooks of the older kind.

        >>> net = weft.nn.ReLU()
        >>> handle = net.register_full_backward_hook(
        ...     lambda module, grad_input, grad_output: print(grad_input)
        ... )
        >>> _ = net(weft.ones(2, requires_grad=True)).sum().backward()
        (tensor([1., 1.]),)
        """
        return self._register_backward_hook(hook, full=True, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` of the last operation of the module.

        PyTorch's older kind of hook: for a module of more than one operation `grad_input` is
        not the gradient of the module's inputs. `register_full_backward_hook` is right always.

        Raises:
            RuntimeError: the module has full backward hooks.

        >>> net = weft.nn.ReLU()
        >>> handle = net.register_backward_hook(
        ...     lambda module, grad_input, grad_output: print("back")
        ... )
        >>> _ = net(weft.ones(2, requires_grad=True)).sum().backward()
        back
        """
        return self._register_backward_hook(hook, full=False, prepend=False)

    def _register_backward_hook(self, hook: Hook, full: bool, prepend: bool) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        changes(self)
        self._is_full_backward_hook = full
        handle = RemovableHandle(self._backward_hooks, module=self)
        return _insert(self._backward_hooks, handle, hook, prepend)


def _insert(
    table: OrderedDict[int, Hook], handle: RemovableHandle, hook: Hook, prepend: bool
) -> RemovableHandle:
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# --- hooks of all modules -----------------------------------------------------------------------

_global_forward_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Hook] = OrderedDict()


def _update_global_flag() -> None:
    ModuleHooks._hooked = bool(
        _global_forward_pre_hooks
        or _global_forward_hooks
        or _global_backward_pre_hooks
        or _global_backward_hooks
    )


class _GlobalHandle(RemovableHandle):
    """The handle of a hook of all modules: without the last hook, calls are free again."""

    def remove(self) -> None:
        super().remove()
        _update_global_flag()


def _insert_global(table: OrderedDict[int, Hook], hook: Hook, *extra: Any) -> RemovableHandle:
    changes(None)
    handle = _GlobalHandle(table, *extra)
    table[handle.id] = hook
    _update_global_flag()
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module; for tools, not models.

    >>> handle = weft.nn.modules.module.register_module_forward_pre_hook(
    ...     lambda module, args: print(args[0].shape)
    ... )
    >>> _ = weft.nn.ReLU()(weft.ones(2))
    torch.Size([2])
    >>> handle.remove()
    """
    return _insert_global(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module.

    The arguments mean what they mean for `Module.register_forward_hook`.

    >>> import weft
    >>> seen = []
    >>> handle = weft.nn.register_module_forward_hook(lambda m, a, o: seen.append(type(m).__name__))
    >>> _ = weft.nn.Sequential(weft.nn.ReLU(), weft.nn.Tanh())(weft.zeros(1))
    >>> handle.remove()
    >>> seen
    ['ReLU', 'Tanh', 'Sequential']
    """
    extra = _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
    handle = _insert_global(_global_forward_hooks, hook, *extra)
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


class _Observer(_GlobalHandle):
    """Of a hook that only looks, which is no change of what examples share."""

    def remove(self) -> None:
        self.forget()
        _update_global_flag()


def observe_results(hook: Hook) -> RemovableHandle:
    """Like `register_module_forward_hook`, of a hook that only looks and returns None: it may come
    and go while examples run."""
    handle = _Observer(_global_forward_hooks)
    _global_forward_hooks[handle.id] = hook
    _update_global_flag()
    return handle


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module.

    >>> handle = weft.nn.modules.module.register_module_full_backward_pre_hook(
    ...     lambda module, grad_output: print(grad_output)
    ... )
    >>> weft.nn.ReLU()(weft.ones(2, requires_grad=True)).sum().backward()
    (tensor([1., 1.]),)
    >>> handle.remove()
    """
    return _insert_global(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of every module.

    >>> handle = weft.nn.modules.module.register_module_full_backward_hook(
    ...     lambda module, grad_input, grad_output: print(grad_input)
    ... )
    >>> weft.nn.ReLU()(weft.ones(2, requires_grad=True)).sum().backward()
    (tensor([1., 1.]),)
    >>> handle.remove()
    """
    return _insert_global(_global_backward_hooks, hook)


def _insert_registration(table: OrderedDict[int, Hook], hook: Hook) -> RemovableHandle:
    changes(None)
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when a parameter is registered; it may replace it.

    >>> handle = weft.nn.modules.module.register_module_parameter_registration_hook(
    ...     lambda module, name, parameter: print(name)
    ... )
    >>> _ = weft.nn.Linear(1, 1)
    weight
    bias
    >>> handle.remove()
    """
    return _insert_registration(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is registered; it may replace it.

    >>> handle = weft.nn.modules.module.register_module_buffer_registration_hook(
    ...     lambda module, name, buffer: print(name)
    ... )
    >>> weft.nn.Module().register_buffer("mean", weft.zeros(2))
    mean
    >>> handle.remove()
    """
    return _insert_registration(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when a submodule is registered; it may replace it.

    >>> handle = weft.nn.modules.module.register_module_module_registration_hook(
    ...     lambda module, name, submodule: print(name)
    ... )
    >>> _ = weft.nn.Sequential(weft.nn.ReLU())
    0
    >>> handle.remove()
    """
    return _insert_registration(_global_module_registration_hooks, hook)


# --- a call with hooks --------------------------------------------------------------------------


class _Call:
    """One call of a hooked module: what its hooks see and may replace."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self) -> Any:
        tables = self.module.__dict__
        full, legacy = _backward_hooks_of(self.module)
        backward_pre = [
            *_global_backward_pre_hooks.values(),
            *_hooks(tables, "_backward_pre_hooks"),
        ]
        self.run_pre_hooks()
        backward = BackwardHooks(self.module, full, backward_pre) if full or backward_pre else None
        if backward:
            self.args = backward.watch_inputs(self.args)
        self.result = self.module.forward(*self.args, **self.kwargs)
        self.run_hooks(_global_forward_hooks, _global_forward_hooks_with_kwargs)
        if "_forward_hooks" in tables:
            module = self.module
            self.run_hooks(module._forward_hooks, module._forward_hooks_with_kwargs)
        if backward:
            self.result = self.watch_outputs(backward)
        if legacy:
            _hook_last_node(self.module, legacy, self.result)
        return self.result

    def run_pre_hooks(self) -> None:
        module = self.module
        for hook in list(_global_forward_pre_hooks.values()):
            self.replace_args(hook(module, self.args))
        if "_forward_pre_hooks" not in module.__dict__:
            return
        with_kwargs = module._forward_pre_hooks_with_kwargs
        for key, hook in list(module._forward_pre_hooks.items()):
            if key not in with_kwargs:
                self.replace_args(hook(module, self.args))
                continue
            replaced = hook(module, self.args, self.kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {replaced}."
                )
            self.args, self.kwargs = replaced

    def replace_args(self, replaced: Any) -> None:
        if replaced is not None:
            self.args = replaced if isinstance(replaced, tuple) else (replaced,)

    def run_hooks(self, hooks: dict[int, Hook], with_kwargs: dict[int, bool]) -> None:
        for key, hook in list(hooks.items()):
            self.called.add(key)
            self.run_hook(hook, key in with_kwargs)

    def run_hook(self, hook: Hook, with_kwargs: bool) -> None:
        seen = (self.args, self.kwargs) if with_kwargs else (self.args,)
        replaced = hook(self.module, *seen, self.result)
        if replaced is not None:
            self.result = replaced

    def watch_outputs(self, backward: BackwardHooks) -> Any:
        if not isinstance(self.result, (Tensor, tuple)):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(self.result)}",
            )
            return self.result
        return backward.watch_outputs(self.result)

    def run_always_called(self) -> None:
        """Run the hooks that want to be called even so, after something has raised."""
        module = self.module
        wanted = _global_forward_hooks_always_called
        for key, hook in list(_global_forward_hooks.items()):
            if key in wanted and key not in self.called:
                self.run_silenced(hook, key in _global_forward_hooks_with_kwargs, "global module")
        if "_forward_hooks" not in module.__dict__:
            return
        wanted = module._forward_hooks_always_called
        for key, hook in list(module._forward_hooks.items()):
            if key in wanted and key not in self.called:
                self.run_silenced(hook, key in module._forward_hooks_with_kwargs, "module")

    def run_silenced(self, hook: Hook, with_kwargs: bool, whose: str) -> None:
        try:
            self.run_hook(hook, with_kwargs)
        except Exception as error:
            warn(
                f"{whose} forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}",
            )


def _hooks(tables: dict[str, Any], name: str) -> list[Hook]:
    table = tables.get(name)
    return list(table.values()) if table else []


def _backward_hooks_of(module: Any) -> tuple[list[Hook], list[Hook]]:
    """Return the full hooks (those of all modules first) and the hooks of the older kind."""
    full = list(_global_backward_hooks.values())
    own = _hooks(module.__dict__, "_backward_hooks")
    if module._is_full_backward_hook is False:
        return full, own
    return full + own, []


def _hook_last_node(module: Any, hooks: list[Hook], result: Any) -> None:
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(value for value in result.values() if isinstance(value, Tensor))
        else:
            result = result[0]
    node = result.grad_fn
    if node is None:
        return
    warn(
        "Using a non-full backward hook when the forward contains multiple autograd Nodes is "
        "deprecated: grad_input is that of the last operation only. Use "
        "register_full_backward_hook to get the gradients of the module's inputs.",
        FutureWarning,
    )
    for hook in hooks:
        node.register_hook(lambda grad_in, grad_out, hook=hook: hook(module, grad_in, grad_out))


#: The tables of hooks on a Module's call, by name.
HOOK_TABLES = tuple(name for name, table in vars(ModuleHooks).items() if type(table) is HookTable)

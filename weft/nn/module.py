"""`Module`: parameters, buffers and modules under one name each, and a `forward`.

Reading guide. `Module` is put together from four parts, one file each: the walk over the tree
(module_tree.py), hooks (module_hooks.py), state dictionaries (module_state.py) and conversions of
every tensor (module_tensors.py). Here are the attributes, the call, and what else goes for the
whole tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from weft import _C, Tensor
from weft.nn import module_hooks
from weft.nn.module_hooks import ModuleHooks
from weft.nn.module_state import ModuleState
from weft.nn.module_tensors import ModuleTensors
from weft.nn.module_tree import ModuleTree
from weft.nn.parameter import Buffer, Parameter
from weft.nn.shared_structure import changes, made

Self = TypeVar("Self", bound="Module")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Forward(Protocol[P, R_co]):
    """What a call of a Module is to type checkers: a call of its `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Module(ModuleTree, ModuleHooks, ModuleState, ModuleTensors):
    """The base class of everything that has parameters or a `forward`.

    A subclass calls `super().__init__()` first, assigns parameters and submodules as attributes,
    and defines `forward`. Calling the module calls `forward`, and the hooks if there are any.

    Attributes:
        training: whether the module is in training mode; see `train`.

    >>> import weft
    >>> class Scale(weft.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = weft.nn.Parameter(weft.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Scale()(weft.ones(2)).tolist()
    [2.0, 2.0]
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    #: What `compile` made of the calls of a module.
    _compiled_call_impl: Any = None

    #: Whether `Module.__init__` goes on to the next class of a subclass with several bases.
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(_init_error(type(self).__name__, args, kwargs))
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )
        made(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _speed_up(cls)

    # --- calling --------------------------------------------------------------------------------

    def __call__(self: Forward[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        module: Any = self
        if "_compiled_call_impl" in module.__dict__:
            return _C._call_module(module, args, kwargs)
        if module._hooked:  # Note [Calls without hooks are free]
            return module._call_with_hooks(args, kwargs)
        return module.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass that is called defines it.

        >>> class Double(weft.nn.Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Double()(weft.ones(2))
        tensor([2., 2.])
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module in place; the arguments are those of `weft.compile`.

        `state_dict`, attributes and the class stay as they are. A copy is not compiled, nor is what
        a pickle holds.

        >>> import weft
        >>> net = weft.nn.Linear(2, 1)
        >>> net.compile(fullgraph=True)
        >>> net(weft.ones(3, 2)).shape
        torch.Size([3, 1])
        """
        from weft.compiler.api import compiled_call

        changes(self)
        self.__dict__.pop("_compiled_call_impl", None)
        if (call := compiled_call(self, *args, **kwargs)) is not None:
            self.__dict__["_compiled_call_impl"] = call

    # --- attributes -----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        tables = self.__dict__
        if "_modules" in tables:
            if name in (table := tables["_parameters"]):
                return table[name]
            if name in (table := tables["_modules"]):
                return table[name]
            if name in (table := tables["_buffers"]):
                return table[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if isinstance(value, Parameter):
            _expect_init(tables, "parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif name in tables.get("_parameters", ()):
            _expect_none(value, "parameter", name, "torch.nn.Parameter")
            changes(self)
            tables["_parameters"][name] = None
        elif isinstance(value, Module):
            _expect_init(tables, "module")
            self._forget(name, keep="_modules")
            self._keep_module(name, value)  # asks no hasattr: a __getattr__ may go by the children
        elif name in tables.get("_modules", ()):
            _expect_none(value, "child module", name, "torch.nn.Module")
            changes(self)
            tables["_modules"][name] = None
        elif isinstance(value, Buffer):
            _expect_init(tables, "buffer")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in tables.get("_buffers", ()):
            if not isinstance(value, Tensor):
                _expect_none(value, "buffer", name, "torch.nn.Buffer, torch.Tensor")
            for hook in list(module_hooks._global_buffer_registration_hooks.values()):
                value = _kept(value, hook(self, name, value))
            changes(self)
            tables["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        tables = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in tables.get(kind, ()):
                changes(self)
                del tables[kind][name]
                tables["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._modules, self._buffers)
        # The children of a list are named by numbers, which are not attributes.
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        made(self)
        self.__dict__.update(state)

    def _forget(self, name: str, keep: str) -> None:
        """Make room for a new meaning of `name`; in the table `keep` it keeps its place."""
        changes(self)
        tables = self.__dict__
        tables.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                tables[kind].pop(name, None)
        tables["_non_persistent_buffers_set"].discard(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; `None` reserves the name.

        A tensor of any shape.

        Raises:
            TypeError: `param` is not a `Parameter`.
            KeyError: the name is empty, has a dot, or is taken by something else.

        >>> net = weft.nn.Module()
        >>> net.register_parameter("w", weft.nn.Parameter(weft.ones(2)))
        >>> [name for name, _ in net.named_parameters()]
        ['w']
        """
        _expect_init(self.__dict__, "parameter")
        self._expect_free(name, "parameter", self._parameters)
        if not (param is None or isinstance(param, Parameter)):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        for hook in list(module_hooks._global_parameter_registration_hooks.values()):
            param = _kept(param, hook(self, name, param))
        changes(self)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module and is not trained.

        A tensor of any shape.

        Args:
            name: the attribute it gets.
            tensor: the tensor; `None` reserves the name.
            persistent: whether `state_dict` contains it.

        Raises:
            TypeError: `tensor` is not a tensor.
            KeyError: the name is empty, has a dot, or is taken by something else.

        >>> net = weft.nn.Module()
        >>> net.register_buffer("mean", weft.zeros(2))
        >>> net.state_dict()
        OrderedDict([('mean', tensor([0., 0.]))])
        """
        _expect_init(self.__dict__, "buffer")
        self._expect_free(name, "buffer", self._buffers)
        if not (tensor is None or isinstance(tensor, Tensor)):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        for hook in list(module_hooks._global_buffer_registration_hooks.values()):
            tensor = _kept(tensor, hook(self, name, tensor))
        changes(self)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under `name`; `None` reserves the name.

        Raises:
            TypeError: `module` is not a module.
            KeyError: the name is empty, has a dot, or is taken by something else.

        >>> net = weft.nn.Module()
        >>> net.add_module("act", weft.nn.ReLU())
        >>> net
        Module(
          (act): ReLU()
        )
        """
        if not (module is None or isinstance(module, Module)):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._expect_free(name, "module", self._modules)
        self._keep_module(name, module)

    def _keep_module(self, name: str, module: Module | None) -> None:
        for hook in list(module_hooks._global_module_registration_hooks.values()):
            module = _kept(module, hook(self, name, module))
        changes(self)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`.

        >>> net = weft.nn.Module()
        >>> net.register_module("act", weft.nn.ReLU())
        >>> net.act
        ReLU()
        """
        self.add_module(name, module)

    def _expect_free(self, name: str, kind: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    # --- the whole tree ------------------------------------------------------------------------

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` with every module below this one, then with this one; returns the module.

        >>> import weft
        >>> net = weft.nn.Sequential(weft.nn.Linear(1, 1))
        >>> _ = net.apply(lambda m: print(type(m).__name__))
        Linear
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode for this module and all below it, for instance for dropout.

        Raises:
            ValueError: `mode` is not a bool.

        >>> net = weft.nn.Dropout().eval()
        >>> net.train().training
        True
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode: `train(False)`.

        >>> weft.nn.Dropout().eval()(weft.ones(2))
        tensor([1., 1.])
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters.

        >>> weft.nn.Linear(1, 1).requires_grad_(False).weight.requires_grad
        False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or fill them with zeros if `set_to_none` is false.

        >>> net = weft.nn.Linear(1, 1)
        >>> net(weft.ones(1)).sum().backward()
        >>> net.zero_grad()
        >>> net.weight.grad is None
        True
        """
        for param in self.parameters():
            clear_grad(param, set_to_none)

    # --- printing -------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what stands between the brackets when the module is printed.

        >>> weft.nn.Linear(1, 2).extra_repr()
        'in_features=1, out_features=2, bias=True'
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        only_extra = len(lines)
        for name, module in self._modules.items():
            lines.append(f"({name}): " + indent(repr(module)))
        if not lines:
            return f"{self._get_name()}()"
        if len(lines) == only_extra == 1:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _speed_up(cls: type[Module]) -> None:
    """Let the extension do what `__getattr__` and `__call__` do, unless `cls` has its own."""
    if hasattr(_C, "_speed_up_module"):
        _C._speed_up_module(cls)


_speed_up(Module)


def clear_grad(param: Tensor, set_to_none: bool) -> None:
    """Take the gradient of a parameter away, or zero it and cut it off its graph."""
    if set_to_none:
        param.grad = None
        return
    grad = param.grad
    if grad is None:
        return
    if grad.grad_fn is not None:
        grad = param.grad = grad.detach()
    else:
        grad.requires_grad_(False)
    grad.zero_()


def _kept(value: Any, replaced: Any) -> Any:
    return value if replaced is None else replaced


def _expect_init(tables: dict[str, Any], what: str) -> None:
    if "_modules" not in tables:
        raise AttributeError(f"cannot assign {what} before Module.__init__() call")


def _expect_none(value: Any, kind: str, name: str, expected: str) -> None:
    if value is not None:
        raise TypeError(
            f"cannot assign '{_typename(value)}' as {kind} '{name}' ({expected} or None expected)"
        )


def _init_error(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if kwargs:
        return f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
    return f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"


def _typename(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def indent(text: str) -> str:
    return _addindent(text, 2)


def _addindent(s_: str, numSpaces: int) -> str:  # noqa: N803
    """A text whose lines after the first begin with that many spaces; empty ones stay so."""
    first, *rest = s_.split("\n")
    space = " " * numSpaces
    return "\n".join([first, *(space + line if line.strip() else "" for line in rest)])

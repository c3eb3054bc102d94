"""States of models and optimizers, however their parameters lie: by name, whole or in parts.

>>> from weft.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
>>> net = weft.nn.Linear(2, 1)
>>> opt = weft.optim.SGD(net.parameters(), 0.1, momentum=0.9)
>>> model, optim = get_state_dict(net, opt)
>>> list(model), optim["param_groups"][0]["params"]
(['weight', 'bias'], ['weight', 'bias'])
>>> set_state_dict(net, opt, model_state_dict=model, optim_state_dict=optim).missing_keys
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from weft import Tensor, zeros_like
from weft.compiler.module import OptimizedModule
from weft.distributed.objects import broadcast_object_list
from weft.distributed.tensor.dtensor import DTensor, distribute_tensor
from weft.distributed.world import get_rank, is_initialized
from weft.nn.module import Module
from weft.nn.parallel.distributed import DistributedDataParallel
from weft.utils._pytree import tree_map_only

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """How a state is given and taken.

    Args:
        full_state_dict: of whole tensors and not of parts.
        cpu_offload: with `full_state_dict`, give it to the first process only; the others get {}.
        ignore_frozen_params: leave out parameters that require no gradient.
        keep_submodule_prefixes: has to be True.
        strict: raise for names that are missing or not known.
        broadcast_from_rank0: with `full_state_dict`, only the first process has the state to take.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False

    def __post_init__(self) -> None:
        if not self.keep_submodule_prefixes:
            raise NotImplementedError(
                "[StateDictOptions] expected keep_submodule_prefixes=True, got False"
            )
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")


def _bare_names(model: Module) -> Callable[[str], str]:
    """What makes of a name of the model's the one without what wrappers add."""
    added = {OptimizedModule: "_orig_mod", DistributedDataParallel: "module"}
    wrappers = [
        (path.split(".") if path else [], word)
        for path, module in model.named_modules(remove_duplicate=False)
        for kind, word in added.items()
        if isinstance(module, kind)
    ]

    def bare(name: str) -> str:
        words = name.split(".")
        dropped = {
            len(path) for path, word in wrappers
            if words[: len(path)] == path and words[len(path) : len(path) + 1] == [word]
        }  # fmt: skip
        return ".".join(word for k, word in enumerate(words) if k not in dropped)

    return bare


def _given(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """The state as the options want it."""
    if not options.full_state_dict:
        return state
    whole: dict[str, Any] = tree_map_only(Tensor, _whole, state)
    several = is_initialized()
    return {} if options.cpu_offload and several and get_rank() else whole


def _whole(t: Tensor) -> Tensor:
    """All of it, in memory of its own."""
    return t.full_tensor() if isinstance(t, DTensor) else t.detach().clone()


def _taken(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """The state that a process was given, or the first one was."""
    if not options.broadcast_from_rank0:
        return state
    several = [state if get_rank() == 0 else None]
    broadcast_object_list(several, src=0)
    assert several[0] is not None
    return several[0]


def _placed_as(value: Any, like: Any) -> Any:
    """A whole tensor, cut as the one that it is for."""
    if isinstance(like, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor):
        return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)
    return value


def _init_optim_state(optim: Any) -> None:
    """Has an optimizer without a state make it, by a step of zeros; one with gradients is left."""
    params = [p for group in optim.param_groups for p in group["params"]]
    if optim.state or any(p.grad is not None for p in params):
        return
    rates = [group["lr"] for group in optim.param_groups if "lr" in group]
    for p in params:
        if p.requires_grad:
            p.grad = zeros_like(p)
    for group in optim.param_groups:
        if "lr" in group:
            group["lr"] = zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
    try:
        optim.step(closure=None)
    finally:
        for group in optim.param_groups:
            if "lr" in group:
                group["lr"] = rates.pop(0)
        optim.zero_grad(set_to_none=True)


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """`model.state_dict()` with the names of the module that wrappers wrap.

    Raises: NotImplementedError for `submodules`.
    """
    _all_of_it("get_model_state_dict", submodules)
    how = options or StateDictOptions()
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    bare = _bare_names(model)
    state = {
        bare(name): value
        for name, value in model.state_dict().items()
        if not (how.ignore_frozen_params and name in frozen)
    }
    return _given(state, how)


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The optimizers' states with the parameters' names in place of numbers.

    An optimizer that has not stepped yet gets the state that it has after a step of zeros, so that
    there is something for `checkpoint.load` to read into.

    Raises: NotImplementedError for `submodules`.
    """
    _all_of_it("get_optimizer_state_dict", submodules)
    bare = _bare_names(model)
    names = {id(p): bare(name) for name, p in model.named_parameters()}
    state: dict[str, Any] = {}
    groups = []
    for optimizer in _several(optimizers):
        _init_optim_state(optimizer)
        of_number = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        saved = optimizer.state_dict()
        state.update({of_number[number]: value for number, value in saved["state"].items()})
        for group in saved["param_groups"]:
            named = {k: v for k, v in group.items() if k != "param_names"}
            groups.append({**named, "params": [of_number[n] for n in group["params"]]})
    return _given({"state": state, "param_groups": groups}, options or StateDictOptions())


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """`get_model_state_dict` and `get_optimizer_state_dict`."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Takes over what `get_model_state_dict` gave, whole or in parts.

    Returns: the names that were missing and those that are not known.
    Raises: RuntimeError for such with `strict`, or a tensor of another shape.
    """
    how = options or StateDictOptions()
    given = _taken(model_state_dict, how)
    bare, there = _bare_names(model), model.state_dict()
    full_name = {bare(name): name for name in there}
    state = {
        full_name.get(name, name): _placed_as(value, there.get(full_name.get(name, name)))
        for name, value in given.items()
    }
    return model.load_state_dict(state, strict=how.strict)


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Takes over what `get_optimizer_state_dict` gave, whole or in parts.

    Raises: KeyError for a parameter of an optimizer that it has not; ValueError where parameters
    of one group were in several.
    """
    given = _taken(optim_state_dict, options or StateDictOptions())
    bare = _bare_names(model)
    names = {id(p): bare(name) for name, p in model.named_parameters()}
    of_name = {name: group for group in given["param_groups"] for name in group["params"]}
    for optimizer in _several(optimizers):
        state: dict[int, Any] = {}
        groups = []
        number = 0
        for group in optimizer.param_groups:
            mine = [names[id(p)] for p in group["params"]]
            numbers = list(range(number, number + len(mine)))
            number += len(mine)
            for n, name, param in zip(numbers, mine, group["params"], strict=True):
                if name in given["state"]:
                    state[n] = {
                        key: _placed_as(value, param if _has_shape(value, param) else None)
                        for key, value in given["state"][name].items()
                    }
            saved = of_name[mine[0]] if mine else group
            if any(of_name[name] is not saved for name in mine):
                raise ValueError(
                    f"[set_optimizer_state_dict] expected the parameters of {mine[0]!r}'s group to "
                    f"be of one group of the state, got {mine} of several groups"
                )
            groups.append({**saved, "params": numbers})
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def set_state_dict(
    model: Module, optimizers: Any, *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """`set_model_state_dict` and `set_optimizer_state_dict`; returns what the first returns."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _has_shape(value: Any, param: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == param.shape


def _several(optimizers: Any) -> Iterable[Any]:
    return optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,)


def _all_of_it(who: str, submodules: Any) -> None:
    if submodules:
        raise NotImplementedError(f"[{who}] expected the whole model, got submodules")

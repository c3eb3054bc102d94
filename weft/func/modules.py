"""Modules as functions of their parameters: `weft.func`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft import _C, Tensor
from weft.nn.module import Module

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have the batch norms of a module, in place, keep no running statistics, so that it can be
    mapped and differentiated as a function.

    Shapes are those of the module.

    >>> net = weft.func.replace_all_batch_norm_modules_(weft.nn.BatchNorm1d(2))
    >>> net.running_mean is None
    True
    """
    from weft.nn.batchnorm import _BatchNorm

    for layer in root.modules():
        if isinstance(layer, _BatchNorm):
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None
            layer.track_running_stats = False
    return root


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Gradients flow to the given tensors. Afterwards the module is as before; what its `forward` put
    in place of a given tensor is written to the given dictionary.

    The tensors have the shapes of those that they stand for.

    Args:
        module: what is called.
        parameter_and_buffer_dicts: tensors by name, or several such dictionaries.
        args: the arguments; one that is not a tuple is the only one.
        kwargs: more arguments.
        tie_weights: a tensor that the module has under several names is replaced under all.
        strict: every parameter and buffer has to be given, and nothing else; without it, as in
            PyTorch, names that the module lacks are passed over.

    Raises:
        ValueError: a name in two dictionaries, or unlike tensors for tied ones.
        RuntimeError: a program that `jit.load` gave; with `strict`, names that the module lacks,
            or that are missing.

    >>> import weft
    >>> net = weft.nn.Linear(2, 1, bias=False)
    >>> weft.func.functional_call(net, {"weight": weft.ones(1, 2)}, weft.ones(1, 2))
    tensor([[2.]])
    """
    if (refuse := getattr(type(module), "_no_stateless_call", None)) is not None:
        refuse(module)
    if isinstance(parameter_and_buffer_dicts, Mapping):
        dicts: list[Any] = [parameter_and_buffer_dicts]
    else:
        dicts = list(parameter_and_buffer_dicts)
    given: dict[str, Tensor] = {}
    for each in dicts:
        for name, value in each.items():
            if name in given:
                raise ValueError(f"{name} appears in multiple dictionaries; it should be in one")
            given[name] = value
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _exchanged(module, given, tie_weights, strict) as changed:
        result = module(*arguments, **(kwargs or {}))
    for each in dicts:
        for name in each:
            if isinstance(each, dict) and changed.get(name, given[name]) is not given[name]:
                each[name] = changed[name]
    return result


Slot = tuple[dict[str, Any], str]


def _slots(module: Module) -> dict[str, Slot]:
    """Where the module keeps each parameter and buffer, tied ones under each of their names."""
    slots: dict[str, Slot] = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                if value is not None:
                    slots[f"{prefix}.{name}" if prefix else name] = (table, name)
    return slots


@contextmanager
def _exchanged(
    module: Module, given: dict[str, Tensor], tie: bool, strict: bool
) -> Iterator[dict[str, Any]]:
    slots = _slots(module)
    unexpected = [name for name in given if name not in slots] if strict else []
    values = {name: value for name, value in given.items() if name in slots}
    if tie:
        names_of: dict[int, list[str]] = {}
        for name, (table, key) in slots.items():
            names_of.setdefault(id(table[key]), []).append(name)
        for names in names_of.values():
            found = [given[name] for name in names if name in given]
            if any(value is not found[0] for value in found):
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted(names)}, which are "
                    "tied. Consider using tie_weights=False"
                )
            if found:
                values.update((name, found[0]) for name in names)
    missing = [name for name in slots if name not in values] if strict else []
    if unexpected or missing:
        parts = [
            f"{what} key(s): {', '.join(map(repr, names))}"
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts)
        )
    before = {name: slots[name][0][slots[name][1]] for name in values}
    changed: dict[str, Any] = {}
    _C._stay(1)  # another example would meet these values
    try:
        for name, value in values.items():
            table, key = slots[name]
            table[key] = value
        yield changed
    finally:
        for name, value in before.items():
            table, key = slots[name]
            changed[name] = table.get(key, value)
            table[key] = value
        _C._stay(-1)


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several modules of one class, stacked for `vmap`.

    Raises: RuntimeError for none, for modules of several classes, or not all in one mode.

    n Modules with a parameter [*] give [n, *].

    >>> import weft
    >>> nets = [weft.nn.Linear(2, 1) for _ in range(3)]
    >>> weft.func.stack_module_state(nets)[0]["weight"].shape
    torch.Size([3, 1, 2])
    """
    import weft

    models = list(models)
    if not models:
        raise RuntimeError("[stack_module_state] expected at least one model, got none")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "[stack_module_state] expected models all in training or all in eval mode, got both"
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("[stack_module_state] expected models of one class, got several")
    state = []
    for tensors in (Module.named_parameters, Module.named_buffers):
        tables = [dict(tensors(model)) for model in models]
        stacked = {}
        for name, first in tables[0].items():
            batch = weft.stack([table[name].detach() for table in tables])
            stacked[name] = batch.requires_grad_(first.requires_grad)
        state.append(stacked)
    return state[0], state[1]

"""Pruning: entries of a parameter set to zero by a mask, before each `forward`.

>>> import weft
>>> from weft.nn.utils import prune
>>> net = weft.nn.Linear(2, 2)
>>> _ = prune.l1_unstructured(net, "weight", amount=1)
>>> int((net.weight == 0).sum())
1
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.nn.module import Module
from weft.nn.shared_structure import changes

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod:
    """The base of pruning methods, which are hooks before `forward`.

    A subclass sets `PRUNING_TYPE` (`"unstructured"`, `"structured"` or `"global"`) and defines
    `compute_mask(t, default_mask)`: the mask of `t`, zero where `default_mask` is.

    A mask has the shape of the parameter, 1 where an entry stays and 0 elsewhere.

    >>> class EveryOther(weft.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = weft.nn.Linear(2, 1)
    >>> _ = EveryOther.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1.]])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of `t`; to be overridden."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """The product of the parameter and its mask."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter; where it is pruned already, what is left of it.

        Args:
            module, name: whose parameter.
            args, kwargs: of the method.
            importance_scores: of the parameter's shape, judged in its place.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        found = _find(module, name)
        if found is not None:
            key, before = found
            changes(module)
            del module._forward_pre_hooks[key]
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
        param = getattr(module, name)
        scores = param if importance_scores is None else importance_scores
        if scores.shape != param.shape:
            raise AssertionError(
                "importance_scores should have the same shape as parameter "
                f"                {name} of {module}"
            )
        if found is None:
            original = module._parameters[name]
            assert original is not None  # `param` is it
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default = weft.ones_like(original, requires_grad=False)
        else:
            default = getattr(module, name + "_mask").detach().clone()
        try:
            with weft.no_grad():
                mask = method.compute_mask(scores, default)
        except Exception:
            if found is None:
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """`t` times its mask."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default = weft.ones_like(t, requires_grad=False) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter."""
        name = self._tensor_name
        original = module._parameters[name + "_orig"]
        assert original is not None
        changes(module)
        original.data = self.apply_mask(module).detach()
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter: each prunes what those before have left.

    Masks have the shape of the parameter.

    >>> layer = weft.nn.Linear(3, 1)
    >>> for _ in range(2):
    ...     _ = weft.nn.utils.prune.l1_unstructured(layer, "weight", 1)
    >>> int(layer.weight_mask.sum())
    1
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: list[BasePruningMethod] = []
        for method in args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add one more, of the same tensor.

        Raises:
            TypeError: it is no method.
            ValueError: it is of another tensor.
        """
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._pruning_methods and method is not None:
            if method._tensor_name != self._tensor_name:
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{self._tensor_name}' to PruningContainer {self}. Found "
                    f"'{method._tensor_name}'"
                )
        if method is not None:
            self._tensor_name = method._tensor_name
            self._pruning_methods.append(method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "global":
            where: Any = ...
        elif kind == "unstructured":
            where = mask == 1
        elif kind == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            left = mask.sum([d for d in range(t.dim()) if d != dim]) != 0
            where = (slice(None),) * dim + (left,)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        new = mask.clone()
        new[where] = method.compute_mask(t[where], mask[where]).to(mask.dtype)
        return new


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask.

    The mask has the shape of the parameter.

    >>> layer = weft.nn.Linear(2, 1)
    >>> _ = weft.nn.utils.prune.Identity.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _ByAmount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        _expect_amount(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        if isinstance(self.amount, numbers.Integral):
            if self.amount > size:
                raise ValueError(
                    f"amount={self.amount} should be smaller than the number of parameters to "
                    f"prune={size}"
                )
            return int(self.amount)
        return round(self.amount * size)


class _ByScore(_ByAmount):
    """Prunes the entries of the least scores."""

    PRUNING_TYPE = "unstructured"

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            least = weft.topk(self._scores(t).reshape(-1), count, largest=False)[1]
            mask.view(-1)[least] = 0
        return mask


class RandomUnstructured(_ByScore):
    """Prunes entries at random.

    The mask has the shape of the parameter.

    Args:
        amount: how many, or which share.

    >>> weft.nn.utils.prune.RandomUnstructured(2).prune(weft.ones(6)).sum()
    tensor(4.)
    """

    def _scores(self, t: Tensor) -> Tensor:
        return -weft.rand_like(t, requires_grad=False)


class L1Unstructured(_ByScore):
    """Prunes the entries of least magnitude.

    The mask has the shape of the parameter.

    Args:
        amount: how many, or which share.

    >>> weft.nn.utils.prune.L1Unstructured(1).prune(weft.tensor([3.0, 1.0, 2.0]))
    tensor([3., 0., 2.])
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.detach().abs()


class _ByChannel(_ByAmount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid dim {self.dim} for tensor of shape {t.shape}")
        dim = self.dim % t.dim()
        size = t.shape[dim]
        count = self._count(size)
        if not count:
            return default_mask
        keep = weft.topk(self._scores(t, dim), size - count, largest=True)[1]
        mask = weft.zeros_like(t, requires_grad=False)
        mask[(slice(None),) * dim + (keep,)] = 1.0
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_ByChannel):
    """Prunes whole channels at random.

    Args:
        amount: how many, or which share.
        dim: the dimension of the channels.

    >>> weft.nn.utils.prune.RandomStructured(1, dim=0).prune(weft.ones(2, 3)).sum()
    tensor(3.)
    """

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return weft.rand(t.shape[dim], device=t.device)


class LnStructured(_ByChannel):
    """Prunes the channels of the least norms.

    Args:
        amount: how many, or which share.
        n: the order of the norm.
        dim: the dimension of the channels.

    >>> weft.nn.utils.prune.LnStructured(1, 2, dim=0).prune(weft.tensor([[3.0, 3.0], [1.0, 1.0]]))
    tensor([[3., 3.],
            [0., 0.]])
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        rest = [d for d in range(t.dim()) if d != dim]
        return weft.norm(t.detach(), p=self.n, dim=rest)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask.

    The mask has the shape of the parameter.

    >>> layer = weft.nn.Linear(2, 1)
    >>> _ = weft.nn.utils.prune.CustomFromMask.apply(layer, "weight", weft.tensor([[0, 1]]))
    >>> layer.weight_mask
    tensor([[0., 1.]])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError("default_mask and self.mask must have the same shape")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones. Returns `module`.

    >>> layer = weft.nn.utils.prune.identity(weft.nn.Linear(2, 1), "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune entries at random: `amount` of them, or that share. Returns `module`.

    >>> layer = weft.nn.utils.prune.random_unstructured(weft.nn.Linear(4, 1), "weight", 0.5)
    >>> int(layer.weight_mask.sum())
    2
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the entries of least magnitude, or of least scores. Returns `module`.

    Scores have the parameter's shape.

    >>> layer = weft.nn.utils.prune.l1_unstructured(weft.nn.Linear(4, 1), "weight", 0.5)
    >>> int(layer.weight_mask.sum())
    2
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels along `dim` at random. Returns `module`.

    >>> layer = weft.nn.utils.prune.random_structured(weft.nn.Linear(4, 2), "weight", 1, dim=0)
    >>> sorted(layer.weight_mask.sum(1).tolist())
    [0.0, 4.0]
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the channels along `dim` whose n-norm is least. Returns `module`.

    Scores have the parameter's shape.

    >>> layer = weft.nn.utils.prune.ln_structured(weft.nn.Linear(4, 2), "weight", 1, n=2, dim=0)
    >>> sorted(layer.weight_mask.sum(1).tolist())
    [0.0, 4.0]
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune by a mask of the parameter's shape. Returns `module`.

    >>> layer = weft.nn.Linear(2, 1)
    >>> _ = weft.nn.utils.prune.custom_from_mask(layer, "weight", weft.tensor([[0, 1]]))
    >>> layer.weight_mask
    tensor([[0., 1.]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one vector.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: an unstructured method.
        importance_scores: tensors that are judged in place of the parameters.
        kwargs: of the method, such as `amount`.

    Raises:
        TypeError: no list of pairs, or a method that is not unstructured.

    >>> a, b = weft.nn.Linear(2, 1), weft.nn.Linear(2, 1)
    >>> weft.nn.utils.prune.global_unstructured(
    ...     [(a, "weight"), (b, "weight")], weft.nn.utils.prune.L1Unstructured, amount=3
    ... )
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    1
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    whole = weft.cat([scores.get(pair, getattr(*pair)).detach().reshape(-1) for pair in pairs])
    masks = weft.cat([_mask(*pair).reshape(-1) for pair in pairs])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(whole, masks)
    start = 0
    for module, name in pairs:
        param = getattr(module, name)
        custom_from_mask(module, name, final[start : start + param.numel()].view_as(param))
        start += param.numel()


def remove(module: Module, name: str) -> Module:
    """Make a pruned tensor the parameter, for good. Returns `module`.

    Raises:
        ValueError: it is not pruned.

    >>> layer = weft.nn.utils.prune.l1_unstructured(weft.nn.Linear(4, 1), "weight", 0.5)
    >>> [name for name, _ in weft.nn.utils.prune.remove(layer, "weight").named_parameters()]
    ['bias', 'weight']
    """
    found = _find(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, method = found
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one in it, is pruned.

    >>> weft.nn.utils.prune.is_pruned(weft.nn.Linear(2, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )


def _find(module: Module, name: str) -> tuple[Any, BasePruningMethod] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def _mask(module: Module, name: str) -> Tensor:
    mask = getattr(module, name + "_mask", None)
    return weft.ones_like(getattr(module, name), requires_grad=False) if mask is None else mask


def _expect_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )

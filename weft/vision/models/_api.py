"""Weights of models by name, and the builders of models, one table of all."""

from __future__ import annotations

import fnmatch
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from weft.nn import Module
from weft.vision.transforms._presets import ImageClassification

__all__ = [
    "Weights", "WeightsEnum", "get_model", "get_model_builder", "get_model_weights", "get_weight",
    "list_models",
]  # fmt: skip

_FOLDER = "https://download.pytorch.org/models/"
#: The classes of ImageNet-1K.
_CLASSES = 1000
_BUILDERS: dict[str, Callable[..., Module]] = {}
_WEIGHTS: dict[str, type[WeightsEnum]] = {}


@dataclass
class Weights:
    """Where weights are, how images become their inputs, and facts about them.

    >>> from weft.vision import models
    >>> type(models.ResNet18_Weights.DEFAULT.value).__name__
    'Weights'
    """

    url: str
    transforms: Any
    meta: dict[str, Any]

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Weights) and self.url == other.url and self.meta == other.meta


class WeightsEnum(Enum):
    """The weights that there are of a model.

    >>> from weft.vision import models
    >>> models.ResNet18_Weights.DEFAULT.name
    'IMAGENET1K_V1'
    """

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """A member by its name, or a member.

        Raises: KeyError for another name, TypeError for what is of another model.
        """
        if isinstance(obj, str):
            return cls[obj.replace(f"{cls.__name__}.", "")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(
                f"[weights] expected {cls.__name__}, got {type(obj).__name__}: Invalid Weight "
                f"class provided; expected {cls.__name__} but received {type(obj).__name__}."
            )
        return obj

    def get_state_dict(self, progress: bool = True, check_hash: bool = False) -> Any:
        """The weights of the file in `weft.hub.get_dir()`, fetched where it is not there.

        Raises: RuntimeError where it cannot be fetched.
        """
        from weft import hub

        try:
            return hub.load_state_dict_from_url(self.url, progress=progress, check_hash=check_hash)
        except OSError as error:
            path = os.path.join(hub.get_dir(), "checkpoints", os.path.basename(self.url))
            raise RuntimeError(
                f"[weights] expected the file {path}, which is not there, and {self.url} could not "
                f"be fetched ({error}). Hint: put it there, or weights=None for random weights"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @property
    def url(self) -> str:
        """Where the file is."""
        return str(self.value.url)

    @property
    def transforms(self) -> Any:
        """Makes what turns an image into an input."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Facts: how many parameters, how large images are at least."""
        found: dict[str, Any] = self.value.meta
        return found


def weights_enum(
    name: str,
    module: str,
    params: int,
    size: int = 1,
    resize: int = 256,
    *,
    files: Mapping[str, str],
    second: Mapping[str, Any] | None = None,
    **how: Any,
) -> Any:
    """The weights of a model: `IMAGENET1K_<key>` of each file, the last of which is the default.

    Args:
        size: of the smallest image.
        resize: what the shorter edge of an image becomes; 232 for second weights.
        second: what else their `ImageClassification` takes, where that is not of both.
        how: what `ImageClassification` takes besides.
    """
    members: dict[str, Weights] = {}
    for key, file in files.items():
        taken = {"crop_size": 224, "resize_size": resize, **how}
        if key == "V2":
            taken |= {"resize_size": 232, **(second or {})}
        members[f"IMAGENET1K_{key}"] = Weights(
            f"{_FOLDER}{file}.pth",
            partial(ImageClassification, **taken),
            {"num_params": params, "min_size": (size, size)},
        )
    members["DEFAULT"] = list(members.values())[-1]
    make: Any = WeightsEnum
    made = make(name, members, module=module)
    made.__doc__ = f"""The weights that there are of {name.removesuffix("_Weights")}.

    >>> weft.vision.models.{name}.DEFAULT.meta["num_params"]
    {params}
    """
    return made


def _named(who: str, weights: type[WeightsEnum], args: tuple[Any, ...], kwargs: Any) -> Any:
    """The weights of a call: by `weights`, or by the older `pretrained` or the first argument."""
    given = kwargs.pop("weights", None)
    older = list(args) + ([kwargs.pop("pretrained")] if "pretrained" in kwargs else [])
    if len(older) > 1:
        raise TypeError(f"[{who}] expected weights and names, got {len(args)} arguments by place")
    if older:
        warnings.warn(
            f"{who}: the parameter 'pretrained' and weights by place are deprecated, "
            f"use weights={weights.__name__}.DEFAULT or weights=None",
            stacklevel=3,
        )
        given = older[0]
        if isinstance(given, bool):
            given = next(iter(weights)) if given else None
    return weights.verify(given)


def builder(
    name: str,
    weights: type[WeightsEnum],
    make: Callable[..., Module],
    about: str,
    loaded: Callable[..., Module] | None = None,
) -> Callable[..., Any]:
    """The function that makes a model, listed under its name.

    Args:
        loaded: makes it with weights, of them and what `make` takes, where those are not simply
            loaded into what `make` makes.
    """

    def build(*args: Any, progress: bool = True, **kwargs: Any) -> Module:
        chosen = _named(name, weights, args, kwargs)
        if chosen is not None and kwargs.setdefault("num_classes", _CLASSES) != _CLASSES:
            raise ValueError(
                f"[{name}] expected {_CLASSES} classes with weights, got {kwargs['num_classes']}: "
                f"The parameter 'num_classes' expected value {_CLASSES} but got "
                f"{kwargs['num_classes']} instead. Hint: replace the last layer afterwards"
            )
        if chosen is None:
            return make(**kwargs)
        if loaded is not None:
            return loaded(chosen.get_state_dict(progress, check_hash=True), **kwargs)
        model = make(**kwargs)
        model.load_state_dict(chosen.get_state_dict(progress, check_hash=True))
        return model

    build.__name__ = build.__qualname__ = name
    build.__module__ = weights.__module__
    build.__doc__ = (
        f"{about}.\n\nArgs:\n    weights: of `{weights.__name__}`, or the name of one; None for "
        "random ones.\n    progress: whether fetching a file shows how far it is.\n    kwargs: "
        "what the model's class takes, num_classes for one.\n\nIts images are [N, 3, H, W], what "
        "it gives is [N, num_classes].\n\n"
        f">>> with weft.device('meta'):\n...     model = weft.vision.models.{name}().eval()\n"
        ">>> model(weft.empty(1, 3, 224, 224, device='meta')).shape\ntorch.Size([1, 1000])\n"
    )
    _BUILDERS[name], _WEIGHTS[name] = build, weights
    return build


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """The names of the builders, of a module, or by patterns of the shell.

    >>> from weft.vision import models
    >>> models.list_models(include="resnet*")
    ['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']
    """

    def patterns(given: Any) -> list[str]:
        return [given] if isinstance(given, str) else list(given or [])

    home = getattr(module, "__spec__", None) and module.__spec__.name.rpartition(".")[2]
    names = [
        name
        for name, build in _BUILDERS.items()
        if home in (None, "models") or build.__module__.rpartition(".")[2] == home
    ]
    wanted, left = patterns(include), patterns(exclude)
    return sorted(
        name
        for name in names
        if (not wanted or any(fnmatch.fnmatch(name, p) for p in wanted))
        and not any(fnmatch.fnmatch(name, p) for p in left)
    )


def get_model_builder(name: str) -> Callable[..., Module]:
    """The function of that name that makes a model.

    >>> from weft.vision import models
    >>> models.get_model_builder("resnet18") is models.resnet18
    True
    """
    if name.lower() not in _BUILDERS:
        raise ValueError(
            f"[get_model] expected one of {', '.join(sorted(_BUILDERS))}, got {name}: "
            f"Unknown model {name}"
        )
    return _BUILDERS[name.lower()]


def get_model(name: str, **config: Any) -> Module:
    """A model by name.

    >>> from weft.vision import models
    >>> models.get_model("resnet18", num_classes=10).fc
    Linear(in_features=512, out_features=10, bias=True)
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: Any) -> type[WeightsEnum]:
    """The weights that there are of a model, by its name or its builder.

    >>> from weft.vision import models
    >>> models.get_model_weights("resnet18").__name__
    'ResNet18_Weights'
    """
    build = get_model_builder(name if isinstance(name, str) else name.__name__)
    return _WEIGHTS[build.__name__]


def get_weight(name: str) -> WeightsEnum:
    """Weights by a name like "ResNet50_Weights.DEFAULT".

    >>> from weft.vision import models
    >>> models.get_weight("ResNet18_Weights.DEFAULT").name
    'IMAGENET1K_V1'
    """
    kind, _, member = name.partition(".")
    found = next((w for w in _WEIGHTS.values() if w.__name__ == kind), None)
    if found is None or not member:
        raise ValueError(
            f"[get_weight] expected a name like ResNet50_Weights.DEFAULT, got {name!r}: "
            f"The weight enum '{kind}' for the specific method couldn't be retrieved."
        )
    return found[member]

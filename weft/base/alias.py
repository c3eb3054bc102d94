"""`torch` and `torch.x` as names of weft's own modules: the finder behind `weft run`.

Note [torch is weft]
In a process where this finder is installed, the first on `sys.meta_path`, `import torch.nn` gives
the module `weft.nn` itself: no proxy, so what a program patches there is patched in weft. As soon
as a module of weft has run it is known under both names (`_adopt`), and its `__name__`, `__spec__`
and `__version__` are PyTorch's. What it has defined keeps `__module__ = "weft..."`, so a pickle
names weft's modules and loads with the finder or without. Who needs the name of a module of weft
asks `home_name`, or looks at `__module__`. `torchvision` is `weft.vision` by the same rule: the
package of that name cannot load its compiled part here.

The mode is decided before the first import. An environment variable says it and an entry of
PYTHONPATH, the folder `site` beside this file, brings it to child processes: its `sitecustomize`
installs the finder. That is before weft is imported, and nearly free: this file imports
nothing of weft until a program does.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

__all__ = [
    "HOUSE", "MODE", "TORCH", "TORCHVISION", "after", "home_name", "home_of", "install",
    "is_house", "is_installed", "not_to_children", "to_children", "torch_name",
]  # fmt: skip

#: The version of PyTorch whose names and meanings these are.
TORCH = "2.13.0"
#: That of torchvision.
TORCHVISION = "0.28.0"
#: The variable of the environment that says the mode: "1", or it is off.
MODE = "WEFT_AS_TORCH"
#: Where the package `weft` lies, and the entry of PYTHONPATH for child processes.
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")

#: Packages of weft and what they are called: name, version. The longest that fits counts.
_PACKAGES = {"weft.vision": ("torchvision", TORCHVISION), "weft": ("torch", TORCH)}

#: What is weft's alone, by package: modules without a namesake in PyTorch. They and what is below
#: them keep their names, and there is no `torch.` of theirs.
HOUSE = {
    "weft": """__main__ _checkpoint _library_ops array_api base batching closing composites deferred
        experiments frontend memory running safetensors see serve tools""",
    "weft._library": "aten checks dispatch mapping operators",
    "weft.autograd": "_backward _merged _missing _moved _transposed anomaly",
    "weft.cuda": "types",
    "weft.distributed": """agreement arguments balance barriers communicator exchanges folders
        joining launching leaving messages objects over_mpi places rank ray reducer reducing same
        sparse_gradients spawned stores subgroups work world""",
    "weft.distributed.checkpoint": "files later",
    "weft.distributed.fsdp": "gathering sharding",
    "weft.distributed.tensor": "dtensor table",
    "weft.compiler": "api backends errors function module report",
    "weft.distributions": """kl_pairs parameters transform_base transform_joins transform_points
        transform_vectors""",
    "weft.export": "dims examples graphs",
    "weft.fft": "helpers primitives transforms",
    "weft.func": "derivatives maps modules",
    "weft.fx": "code names recording replace tracer",
    "weft.jit": "saved scripted tables traced",
    "weft.linalg": """checks decompositions eigen factors products reflections systems
        triangular""",
    "weft.masked.maskedtensor": "places",
    "weft.multiprocessing": "shared",
    "weft.nested": """asked attention create files layers padded parts pointwise products reductions
        shapes sizes table tensor text""",
    "weft.nn": """activation adaptive_softmax batchnorm containers conv dropout embedding
        embedding_bag flatten fold fractional functional_activation functional_attention
        functional_ctc functional_distance functional_dropout functional_embedding
        functional_fractional functional_image functional_loss functional_loss_linear
        functional_loss_margin functional_native functional_norm functional_pool functional_rnn lazy
        linear loss loss_linear loss_margin module module_backward module_hooks module_state
        module_tensors module_tree normalization padding
        parameter_containers pooling removable_handle rnn rnn_cells rrelu sdpa shared_structure
        shuffle transformer upsampling""",
    "weft.nn.parallel": "data replicas",
    "weft.nn.utils": "norms orthogonal skip_init",
    "weft.onnx": """arguments builder builtins control control_text examples export exported
        forms_all forms_conv forms_index forms_loss forms_nn forms_pointwise forms_random
        forms_reduce forms_shape graph leaving load loops memory methods model module numbers
        operators opsets parts program raising reading records results source text values verbs
        walk""",
    "weft.optim": "adafactor fused helpers muon",
    "weft.optim.lr_scheduler": "base combined curves cycles functions plateau",
    "weft.profiler": "averages older profiling schedules tables trace",
    "weft.sparse": """arithmetic create files gradients layouts named products reductions table
        tensor text""",
    "weft.special": "aliases bessel distributions pointwise polynomials",
    "weft.testing": "comparison making",
    "weft.utils._pytree": "nodes specs text",
    "weft.utils.tensorboard": "graphs",
    "weft.utils.data": "channel collate failure fetch parallel worker worker_info",
    "weft.vision.transforms": """_functional_colors _functional_kinds arguments base chance
        conversion fixed geometry policies""",
    "weft.vision.transforms.v2": "_functional_tensor transform",
}
_HOUSE = frozenset(f"{home}.{name}" for home, names in HOUSE.items() for name in names.split())


def is_house(name: str) -> bool:
    """Whether a module of weft, by its name there, is weft's alone."""
    parts = name.split(".")
    return any(".".join(parts[:k]) in _HOUSE for k in range(2, len(parts) + 1))


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def torch_name(name: str) -> str:
    """`torch.nn` for `weft.nn`, `torchvision.ops` for `weft.vision.ops`; `weft.see` and what is not
    of weft as they are."""
    for home, (theirs, _) in _PACKAGES.items():
        if _is_in(name, home) and not is_house(name):
            return theirs + name[len(home) :]
    return name


def home_of(name: str) -> str | None:
    """`weft.nn` for `torch.nn`, installed or not; None for what is not PyTorch's by name."""
    for home, (theirs, _) in _PACKAGES.items():
        if _is_in(name, theirs):
            return home + name[len(theirs) :]
    return None


def home_name(name: str) -> str:
    """`weft.nn` for `torch.nn` where that is weft's; other names as they are."""
    return (home_of(name) or name) if is_installed() else name


def is_installed() -> bool:
    """Whether `torch` is weft in this process."""
    return _FINDER in sys.meta_path


class _Loader:
    """The loader of `torch.x`: gives the module `weft.x`; code and files are that module's."""

    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._home)

    def exec_module(self, module: ModuleType) -> None:
        _adopt(self._home)  # it has run, as `weft.x`; one that was made by another is known now

    def _own(self) -> Any:
        spec = _spec_of(self._home)
        return spec and spec.loader

    def get_code(self, name: str) -> CodeType | None:
        code: CodeType | None = self._own().get_code(self._home)
        return code

    def get_source(self, name: str) -> str | None:
        source: str | None = self._own().get_source(self._home)
        return source

    def get_filename(self, name: str) -> str:
        return str(self._own().get_filename(self._home))

    def is_package(self, name: str) -> bool:
        return bool(self._own().is_package(self._home))

    def get_resource_reader(self, name: str) -> Any:
        return self._own().get_resource_reader(self._home)


class _Finder:
    """Finds `torch`, `torchvision` and what is below them in weft, and makes weft's modules known
    under them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top == "weft":
            if name == "weft":
                found = PathFinder.find_spec(name, [_ROOT])
            else:
                found = _next_spec(name, path)
            if found is not None and not is_house(name):
                after(found, lambda module: _adopt(name))
            return found
        home = home_of(name)
        if home is None:
            return None
        hidden = torch_name(home) != name  # weft's alone, or known under another name
        own = None if hidden else _spec_of(home)
        if own is not None:
            return _torch_spec(name, own)
        if hidden or _is_import():
            raise _missing(name)
        return None

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """What `importlib.metadata` says of torch and torchvision: name and version, no files."""
        from importlib.metadata import Distribution

        class Torch(Distribution):
            def __init__(self, name: str, version: str) -> None:
                self._texts = {
                    "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                    "top_level.txt": f"{name}\n",
                }

            def read_text(self, filename: str) -> str | None:
                return self._texts.get(filename)

            def locate_file(self, path: Any) -> Any:
                return os.path.join(_ROOT, path)

        wanted = getattr(context, "name", None)
        for name, version in _PACKAGES.values():
            if wanted is None or wanted.lower() == name:
                yield Torch(name, version)


_FINDER = _Finder()


#: The specs that modules had in weft before they had PyTorch's.
_SPECS: dict[str, ModuleSpec] = {}


def _spec_of(home: str) -> ModuleSpec | None:
    """Where a module of weft lies, or that it is there; its packages are imported to find it."""
    if home in _SPECS:
        return _SPECS[home]
    if home in sys.modules:
        moved = sys.modules.get("weft.base.moved")
        is_earlier = moved is not None and home in moved.MOVED
        return None if is_earlier else sys.modules[home].__spec__ or ModuleSpec(home, None)
    parent, _, _ = home.rpartition(".")
    if not parent:
        return PathFinder.find_spec(home, [_ROOT])
    path = getattr(importlib.import_module(parent), "__path__", None)
    return PathFinder.find_spec(home, path) if path is not None else None


def _torch_spec(name: str, own: ModuleSpec) -> ModuleSpec:
    """The spec of the module under PyTorch's name."""
    loader: Any = _Loader(home_of(name) or name)
    spec = ModuleSpec(name, loader, origin=own.origin)
    spec.submodule_search_locations = own.submodule_search_locations
    spec.has_location = own.has_location
    spec.cached = own.cached
    return spec


def _next_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """What the finders say that come after that of torch."""
    for finder in sys.meta_path[sys.meta_path.index(_FINDER) + 1 :]:
        if (found := finder.find_spec(name, path)) is not None:
            return found
    return None


def after(spec: ModuleSpec, do: Callable[[ModuleType], None]) -> None:
    """Has the spec's loader call `do` with the module when it has run."""
    loader: Any = spec.loader
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        do(module)

    loader.exec_module = exec_module


def _adopt(home: str) -> None:
    """Makes a module of weft that has run known under PyTorch's name."""
    module, name = sys.modules[home], torch_name(home)
    if home not in _SPECS:
        own = _SPECS[home] = module.__spec__ or ModuleSpec(home, None)
        module.__spec__ = _torch_spec(name, own)
        module.__package__ = module.__spec__.parent
        module.__name__ = name
        if home != "weft.vision" and "__version__" in vars(module):
            version = importlib.import_module("weft.torch_version").TorchVersion(TORCH)
            vars(module)["__version__"] = version
    sys.modules[name] = module


def _is_import() -> bool:
    """Whether it is an import that looks for a module, not `importlib.util.find_spec`, whose
    answer for what is not there is None."""
    frame = sys._getframe(3)
    return frame.f_code.co_name == "_find_and_load_unlocked"


def _missing(name: str) -> ModuleNotFoundError:
    from weft.base.lazy import missing_module

    return missing_module(name)


def to_children(environment: MutableMapping[str, str]) -> None:
    """Sets, in an environment, what has `torch` be weft in processes that start with it."""
    environment[MODE] = "1"
    given = environment.get("PYTHONPATH")
    entries = [entry for entry in (given or "").split(os.pathsep) if given and entry != _SITE]
    environment["PYTHONPATH"] = os.pathsep.join([_SITE, *entries])


def not_to_children(environment: MutableMapping[str, str]) -> None:
    """Takes back what `to_children` sets."""
    environment.pop(MODE, None)
    given = environment.pop("PYTHONPATH", None)
    left = [entry for entry in given.split(os.pathsep) if entry != _SITE] if given else []
    if left:
        environment["PYTHONPATH"] = os.pathsep.join(left)


def install() -> None:
    """Has `torch` be weft from now on in this process, and in those that it starts.

    Raises RuntimeError where PyTorch is imported already.
    """
    if is_installed():
        return
    real = sys.modules.get("torch")
    if real is not None and real is not sys.modules.get("weft"):
        raise RuntimeError(
            "[install_as_torch] expected a process that has not imported torch, got one with "
            f"PyTorch {getattr(real, '__version__', '')}. Hint: call it before the first import "
            "of torch, or use `weft run`"
        )
    sys.meta_path.insert(0, _FINDER)
    for name in [n for n in sys.modules if n.partition(".")[0] == "weft"]:
        if not is_house(name) and _spec_of(name) is not None:
            _adopt(name)
    importlib.invalidate_caches()

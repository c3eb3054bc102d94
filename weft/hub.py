"""Models of a folder with a `hubconf.py`, and state dicts of a URL: `weft.hub`."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from builtins import list as _list
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from urllib.parse import urlparse as urlparse

from weft.serialization import load as _load

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

_folder: str | None = None
#: The hash in the name of a file; libraries ask for it by this name.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def get_dir() -> str:
    """Where downloaded files are kept: `set_dir`, $TORCH_HOME/hub or ~/.cache/torch/hub.

    >>> import os
    >>> os.path.basename(weft.hub.get_dir())
    'hub'
    """
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The folder of all that is kept; libraries ask for it by this name."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keeps downloaded files in another folder.

    >>> was = weft.hub.get_dir()
    >>> weft.hub.set_dir("models")
    >>> weft.hub.get_dir()
    'models'
    >>> weft.hub.set_dir(was)
    """
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


@contextlib.contextmanager
def _hubconf(repo: str, source: str) -> Iterator[ModuleType]:
    """The module `hubconf` of a folder, which may import what lies beside it."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise RuntimeError(
            f"[hub] expected a folder, got the repository {repo!r}. Hint: clone it and load it "
            "with source='local'; nothing is run here that comes from the network"
        )
    path = os.path.join(os.path.expanduser(repo), "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    for package in getattr(module, "dependencies", None) or ():
        if importlib.util.find_spec(package) is None:
            raise RuntimeError(f"Missing dependencies: {package}")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a folder's `hubconf.py` returns for the other arguments.

    Args:
        repo_or_dir: the folder, with `source="local"`.
        source: "local"; code of "github" has to be cloned first.
        trust_repo, force_reload, verbose, skip_validation: of repositories of the network.

    Raises: RuntimeError for a repository, for a missing function, for a missing dependency.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...     _ = file.write("def small(): return 1")
    >>> weft.hub.load(folder, "small", source="local")
    1
    """
    with _hubconf(repo_or_dir, source.lower()) as module:
        return _entry(module, model)(*args, **kwargs)


def list(  # noqa: A001
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> _list[str]:
    """The functions of a folder's `hubconf.py`, with `source="local"`.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...     _ = file.write("def small(): return 1")
    >>> weft.hub.list(folder, source="local")
    ['small']
    """
    with _hubconf(github, source.lower()) as module:
        return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(  # noqa: A001
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    *,
    source: str = "github",
) -> str | None:
    """The docstring of a function of a folder's `hubconf.py`, with `source="local"`.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...     _ = file.write("def small(): 'A model.'")
    >>> weft.hub.help(folder, "small", source="local")
    'A model.'
    """
    with _hubconf(github, source.lower()) as module:
        text: str | None = _entry(module, model).__doc__
        return text


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Writes what lies under `url` to the file `dst`, as one step.

    Args:
        hash_prefix: how the SHA-256 of the file begins. RuntimeError if it begins otherwise.
        progress: whether a bar is shown.

    >>> import os, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "source").write_text("data")
    >>> url = (folder / "source").as_uri()
    >>> weft.hub.download_url_to_file(url, os.fspath(folder / "copy"), progress=False)
    >>> (folder / "copy").read_text()
    'data'
    """
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "torch.hub"})  # noqa: S310
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with (
        urlopen(request) as source,
        tempfile.NamedTemporaryFile(  # noqa: S310
            dir=os.path.dirname(os.path.abspath(dst)), delete=False
        ) as part,
    ):
        try:
            for block in _blocks(source, progress):
                part.write(block)
                digest.update(block)
            part.close()
            found = digest.hexdigest()
            if hash_prefix and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            shutil.move(part.name, dst)
        finally:
            if os.path.exists(part.name):
                os.remove(part.name)


def _blocks(source: Any, progress: bool) -> Iterator[bytes]:
    from tqdm import tqdm

    size = source.headers.get("Content-Length")
    total = int(size) if size else None
    with tqdm(total=total, disable=not progress, unit="B", unit_scale=True) as bar:
        while block := source.read(1 << 17):
            yield block
            bar.update(len(block))


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """What `weft.load` reads of the file under `url`, which is kept in `get_dir()/checkpoints`.

    Args:
        check_hash: whether the file's name ends with the beginning of its SHA-256, `-<hash>.ext`.
        weights_only: as in `weft.load`; PyTorch's default is False here, which runs what the file
            says.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> weft.save({"w": weft.ones(2)}, folder / "model.pt")
    >>> url = (folder / "model.pt").as_uri()
    >>> weft.hub.load_state_dict_from_url(url, str(folder / "kept"), progress=False)
    {'w': tensor([1., 1.])}
    """
    from urllib.parse import urlparse

    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        named = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
        download_url_to_file(url, path, named and named.group(1), progress)
    return _load(path, map_location=map_location, weights_only=weights_only)

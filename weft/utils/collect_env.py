"""What a report of a problem should tell of the machine: `python -m weft.utils.collect_env`."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

import weft
from weft.version import __version__

__all__ = ["get_pretty_env_info", "main"]

_PACKAGES = ("numpy", "torch", "torchvision", "onnx", "onnxruntime", "tensorboard", "mypy")


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def get_pretty_env_info() -> str:
    """Versions, system, processor and threads as lines of text.

    >>> get_pretty_env_info().splitlines()[0].startswith("weft version: ")
    True
    """
    packages = {p: version for p in _PACKAGES if (version := _version_of(p)) is not None}
    bits = 64 if sys.maxsize > 2**32 else 32
    lines = [
        f"weft version: {__version__}",
        "CUDA used to build weft: None",
        "",
        f"OS: {platform.platform()} ({platform.machine()})",
        f"Libc version: {'-'.join(platform.libc_ver()) or 'N/A'}",
        "",
        f"Python version: {sys.version.splitlines()[0]} ({bits}-bit runtime)",
        f"CPU: {platform.processor() or platform.machine()}, {os.cpu_count()} logical",
        f"Threads: {weft.get_num_threads()} within a kernel",
        "",
        "Versions of relevant libraries:",
        *(f"[pip3] {name}=={version}" for name, version in packages.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints them.

    >>> main()  # doctest: +ELLIPSIS
    Collecting environment information...
    ...
    """
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()

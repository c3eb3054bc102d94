"""What a run is to be repeated with: configuration, versions, commit, command line."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.experiments.lines import encoded

__all__ = ["command", "config_of", "git_of", "is_setting", "script_folder", "versions"]

LARGEST_DIFF = 10_000_000  # bytes


def config_of(config: Any) -> dict[str, Any]:
    """A configuration as JSON: a mapping, a dataclass or a Namespace. Values that JSON has not are
    their `repr`.

    Raises:
        TypeError: something else.
    """
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    elif isinstance(config, argparse.Namespace):
        config = vars(config)
    if not isinstance(config, Mapping):
        raise TypeError(
            "[experiment] expected a dict, a dataclass or a Namespace as config, got "
            f"{type(config).__name__}"
        )
    return {str(name): _plain(value) for name, value in config.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return config_of(value)
    if isinstance(value, argparse.Namespace):
        return config_of(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    try:
        return encoded(value, "")
    except TypeError:
        return repr(value)


def versions() -> dict[str, str]:
    """Of Python, weft, NumPy and the machine."""
    import numpy

    import weft

    return {
        "python": platform.python_version(),
        "weft": weft.__version__,
        "numpy": numpy.__version__,
        "system": platform.platform(),
        "machine": platform.machine(),
        "kernels": str(weft._C._cpu_level()),
    }


def command() -> dict[str, Any]:
    """The command line, where it ran, and weft's settings in the environment."""
    return {
        "argv": list(sys.orig_argv),
        "executable": sys.executable,
        "cwd": os.getcwd(),
        "environment": {
            k: v for k, v in sorted(os.environ.items()) if is_setting(k) and k != "WEFT_RERUN"
        },
    }


def is_setting(name: str) -> bool:
    """Whether a variable of the environment may change what a program computes with weft."""
    return name == "PYTHONHASHSEED" or name.startswith("WEFT_")


def script_folder() -> Path:
    """Where the program lies: the repository that counts is the one around it."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()


def git_of(folder: Path) -> tuple[dict[str, Any] | None, str]:
    """Commit, branch and untracked files of the repository around a folder, and the diff to the
    commit; None and nothing where there is no repository, no commit or no git."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, timeout=30
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace") if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None, ""
    diff = git("diff", "HEAD", "--no-color", "--no-ext-diff") or ""
    untracked = (git("ls-files", "--others", "--exclude-standard") or "").splitlines()
    facts: dict[str, Any] = {
        "commit": commit.strip(),
        "branch": (git("rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        "dirty": bool(diff),
        "untracked": untracked[:100],
    }
    if len(diff) > LARGEST_DIFF:
        facts["diff_cut"] = True
        diff = diff[:LARGEST_DIFF]
    return facts, diff

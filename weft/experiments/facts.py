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

from weft.base.strict_json import encoded

__all__ = ["command", "config_of", "git_of", "is_setting", "script_folder", "short", "versions"]

LARGEST_DIFF = 10_000_000  # bytes


def config_of(config: Any) -> dict[str, Any]:
    """A configuration as JSON: a mapping, a dataclass or a Namespace. Values that JSON has not are
    their `repr`.

    Raises:
        TypeError: something else.
        ValueError: one that lies in itself, or with keys that have the same text.
    """
    if config is None:
        return {}
    if not isinstance(config, (Mapping, argparse.Namespace)) and not _is_dataclass(config):
        raise TypeError(
            "[experiment] expected a dict, a dataclass or a Namespace as config, got "
            f"{type(config).__name__}"
        )
    plain: dict[str, Any] = encoded(config, "config", "experiment", _plain)
    return plain


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _plain(value: Any) -> Any:
    """What stands for something that JSON has not."""
    if _is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, argparse.Namespace):
        return vars(value)
    return str(value) if isinstance(value, Path) else repr(value)


def versions() -> dict[str, str]:
    """Of Python, weft, NumPy and the machine."""
    import numpy

    import weft

    return {
        "python": platform.python_version(),
        "weft": weft.version.weft,
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


def short(git: dict[str, Any]) -> str:
    """The commit that `git_of` knows, in few letters."""
    return str(git["commit"])[:12] if git["commit"] else "none"


def git_of(folder: Path) -> tuple[dict[str, Any] | None, bytes]:
    """Commit, branch and untracked files of the repository around a folder, and the diff that
    `git apply` makes its files of, from the commit or where there is none from nothing; None and
    nothing where there is no repository or no git.

    Of a diff that is too long `diff_cut` is set, and what is left of it has whole files.
    """

    def git(*words: str) -> bytes | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, timeout=30, input=b""
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 else None

    def line(*words: str) -> str | None:
        out = git(*words)
        return None if out is None else os.fsdecode(out).strip()

    if line("rev-parse", "--is-inside-work-tree") != "true":
        return None, b""
    commit = line("rev-parse", "--verify", "--quiet", "HEAD")
    plain = [w for s in ("noprefix", "mnemonicPrefix", "relative") for w in ("-c", f"diff.{s}=no")]
    how = [
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--unified=3",
        "--submodule=short",
    ]
    base = commit or line("hash-object", "-t", "tree", "--stdin") or ""
    diff = git(*plain, "diff", *how, base, "--")
    untracked = git("ls-files", "-z", "--others", "--exclude-standard") or b""
    facts: dict[str, Any] = {
        "commit": commit,
        "branch": line("symbolic-ref", "--short", "--quiet", "HEAD") or "HEAD",
        "dirty": None if diff is None else bool(diff),
        "untracked": [os.fsdecode(name) for name in untracked.split(b"\0")[:100] if name],
    }
    diff = diff or b""
    if len(diff) > LARGEST_DIFF:
        facts["diff_cut"] = True
        diff = diff[: diff.rfind(b"\ndiff --git ", 0, LARGEST_DIFF) + 1]
    return facts, diff

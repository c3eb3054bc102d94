"""The build of the Python that runs the tests."""

import importlib.machinery
import json
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where `make` built the extension: a Python that has a build of its own has its environment in it.
BUILD = next((p for p in [Path(sys.prefix).parent] if (p / "build.ninja").exists()), ROOT / "build")
#: What the extension's file is called.
EXTENSION = f"_C{importlib.machinery.EXTENSION_SUFFIXES[0]}"


def commands(build: Path) -> dict[str, tuple[list[str], Path]]:
    """Of each file or unit (Note [Units] in CMakeLists.txt): the command, and the object."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        found[entry["file"]] = words, Path(entry["directory"]) / words[words.index("-o") + 1]
    return found

"""The build of the Python that runs the tests."""

import importlib.machinery
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where `make` built the extension: a Python that has a build of its own has its environment in it.
BUILD = next((p for p in [Path(sys.prefix).parent] if (p / "build.ninja").exists()), ROOT / "build")
#: What the extension's file is called.
EXTENSION = f"_C{importlib.machinery.EXTENSION_SUFFIXES[0]}"

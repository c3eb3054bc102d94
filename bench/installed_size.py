"""The size of a library's own files: its package without byte code and without dependencies.

The extension counts without its symbols for debuggers, as a wheel has it (install.strip).
"""

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness


def installed(path):
    """Bytes of a file once it is installed."""
    if path.suffix != ".so" or not shutil.which("strip"):
        return path.stat().st_size
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, path], check=True)
        return Path(stripped.name).stat().st_size


def megabytes(name):
    package = Path(importlib.util.find_spec(name.split(":")[0]).origin).parent
    files = (path for path in package.rglob("*") if "__pycache__" not in path.parts)
    return sum(installed(path) for path in files if path.is_file()) / 1e6


ROWS = [harness.Fact("installed size", megabytes, "MB", limit=15)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

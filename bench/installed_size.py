"""The size of a library's own files: its package without byte code and without dependencies."""

import importlib.util
from pathlib import Path

import harness


def megabytes(name):
    package = Path(importlib.util.find_spec(name.split(":")[0]).origin).parent
    files = (path for path in package.rglob("*") if "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


ROWS = [harness.Fact("installed size", megabytes, "MB", limit=10)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

"""Public packages that build on PyTorch, under `weft run`.

`tests/packages/NAME/what.py` is an ordinary PyTorch script that uses the distribution NAME as its
documentation does, prints what it reaches, and knows nothing of weft. `test_packages.py` runs each
that has its package. `make packages` makes an environment with all of them and no PyTorch: those of
the extra `compat` in pyproject.toml, in the versions that docs/compatibility.md tells.
"""

import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

HOME = Path(__file__).parent
ROOT = HOME.parent.parent


def is_installed(distribution):
    """Whether a distribution is there, by its name."""
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def torch_site():
    """Where PyTorch lies: "" if it is in this environment, None if there is none."""
    spec = find_spec("torch")
    if spec is not None and spec.origin is not None and spec.origin != find_spec("weft").origin:
        return ""
    return os.environ.get("WEFT_TORCH_SITE") or None


class Script:
    """A script of a package: what it prints under `weft run`, and with PyTorch."""

    def __init__(self, path, folder):
        self.path = path
        self._folder = folder

    def with_weft(self):
        return self._printed("weft", ["-m", "weft", "run", str(self.path)])

    def with_torch(self):
        return self._printed("torch", [str(HOME / "with_torch.py"), torch_site(), str(self.path)])

    def _printed(self, name, words):
        folder = self._folder / name
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=900,
            env={**os.environ, "PYTHONPATH": str(ROOT) if name == "weft" else "",
                 "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        assert done.stdout.strip(), f"{self.path.name} prints nothing"
        return done.stdout.splitlines()


@pytest.fixture
def script(request, tmp_path):
    """The script of a test's parameter; skipped where its package is not installed."""
    name = request.param.parent.name
    if not is_installed(name):
        pytest.skip(f"{name} is not installed. Hint: make packages")
    return Script(request.param, tmp_path)


@pytest.fixture(scope="session")
def with_torch():
    """Whether there is a PyTorch to compare with."""
    return torch_site() is not None

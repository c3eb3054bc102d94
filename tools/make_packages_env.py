"""Makes the environment of `make packages`: public packages that build on PyTorch, without PyTorch.

Usage: python tools/make_packages_env.py FOLDER

It has weft's own requirements, pytest, the extra `compat`, and this source tree as weft. PyTorch
and torchvision are there in name alone: a distribution without files, which is what pip asks for.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from weft.base import alias  # noqa: E402  (imports nothing else of weft)

#: What PyTorch would have brought, for packages that use it without asking for it.
TORCH_NEEDS = ["filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions"]


def make(folder: Path) -> None:
    """Makes the environment, or brings the one that is there up to date."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.check_output(ask, text=True).strip())
    for name, version in (("torch", alias.TORCH), ("torchvision", alias.TORCHVISION)):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        (info / "RECORD").touch()
    (site / "weft.pth").write_text(f"{ROOT}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    compat = project["optional-dependencies"]["compat"]
    wanted = [*project["dependencies"], *TORCH_NEEDS, "pytest", "tensorboard", *compat]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())

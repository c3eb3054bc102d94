"""weft's version, and those of what it was built with: no GPU library.

`weft` is weft's own; `__version__` is that too, but the version of PyTorch that is meant where weft
stands for it (`weft run`).
"""

from __future__ import annotations

weft = "0.1.0"
__version__: str = weft
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version: str | None = None

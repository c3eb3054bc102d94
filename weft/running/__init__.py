"""PyTorch's programs on weft: `weft run`, `weft check` and `install_as_torch`."""

from __future__ import annotations

import os

from weft.base import alias

__all__ = ["install_as_torch"]


def install_as_torch() -> None:
    r"""Have `torch` be weft from now on, in this process and in those that it starts.

    What `weft run` does to a whole program, in a program or a notebook that runs: `import torch`
    and `import torch.nn` give weft's own modules, whose `__name__`, `__spec__` and `__version__`
    are PyTorch's then, and `importlib.metadata.version("torch")` answers. A second call does
    nothing. See docs/run.md.

    Raises:
        RuntimeError: PyTorch is imported already.

    >>> import subprocess, sys
    >>> program = '''
    ... import weft
    ... weft.install_as_torch()
    ... import torch, torch.nn.functional as F
    ... print(torch.__version__, F.relu(torch.tensor(-1.0)))
    ... '''
    >>> subprocess.check_output([sys.executable, "-c", program], text=True)
    '2.13.0 tensor(0.)\n'
    """
    alias.install()
    alias.to_children(os.environ)

"""`SummaryWriter`: logs that TensorBoard shows.

Event files are written by the package `tensorboard` (the extra `weft[tensorboard]`), as PyTorch
does: it has the writer and the records beside the reader, so that what it reads is what it wrote,
and who wants to look at the files has it anyway. tensorboardX, the other one that is kept up, would
be a second copy of those records. It is imported, which takes half a second, with the first writer.

Raises: ModuleNotFoundError on import where it is not installed.

>>> import tempfile
>>> from weft.utils.tensorboard import SummaryWriter
>>> with SummaryWriter(tempfile.mkdtemp()) as writer:
...     for step in range(3):
...         writer.add_scalar("loss", 1 / (step + 1), step)
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("tensorboard") is None:
    raise ModuleNotFoundError(
        "[tensorboard] expected the package tensorboard, which is not installed. "
        "Hint: pip install 'weft[tensorboard]'",
        name="tensorboard",
    )

from weft.utils.tensorboard.writer import FileWriter, SummaryWriter  # noqa: E402

__all__ = ["FileWriter", "SummaryWriter"]

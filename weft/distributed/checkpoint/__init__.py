"""Checkpoints that all processes write, each a part, and any number of processes read.

>>> import tempfile
>>> from weft.distributed import checkpoint
>>> net = weft.nn.Linear(2, 1)
>>> with tempfile.TemporaryDirectory() as folder:
...     checkpoint.save({"net": net.state_dict(), "step": 3}, checkpoint_id=folder)
...     state = {"net": weft.nn.Linear(2, 1).state_dict(), "step": 0}
...     checkpoint.load(state, checkpoint_id=folder)
>>> state["step"], weft.equal(state["net"]["weight"], net.weight)
(3, True)
"""

from weft.distributed.checkpoint.api import CheckpointException
from weft.distributed.checkpoint.files import load, save
from weft.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from weft.distributed.checkpoint.later import async_save
from weft.distributed.checkpoint.stateful import Stateful

__all__ = [
    "CheckpointException", "FileSystemReader", "FileSystemWriter", "Stateful", "async_save", "load",
    "save",
]  # fmt: skip

"""Checkpoints in one file and in parts, made of each other, by one process."""

from __future__ import annotations

import os

import weft
from weft.distributed.checkpoint.files import read_whole, save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Makes a file that `weft.load` reads of what `checkpoint.save` wrote, with lists for tuples.

    Raises: FileNotFoundError for a folder without a checkpoint.

    >>> import tempfile
    >>> from weft.distributed import checkpoint
    >>> from weft.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> folder = tempfile.mkdtemp()
    >>> state = {"net": {"w": weft.ones(2)}, "of": [{"lr": 0.1}, {3: "x"}]}
    >>> checkpoint.save(state, checkpoint_id=folder)
    >>> dcp_to_torch_save(folder, folder + "/whole.pt")
    >>> weft.load(folder + "/whole.pt")
    {'net': {'w': tensor([1., 1.])}, 'of': [{'lr': 0.1}, {3: 'x'}]}
    """
    weft.save(read_whole(os.fspath(dcp_checkpoint_dir)), torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Makes a folder that `checkpoint.load` reads of a dict that `weft.save` wrote.

    >>> import tempfile
    >>> from weft.distributed import checkpoint
    >>> from weft.distributed.checkpoint.format_utils import torch_save_to_dcp
    >>> folder = tempfile.mkdtemp()
    >>> weft.save({"w": weft.ones(2)}, folder + "/whole.pt")
    >>> torch_save_to_dcp(folder + "/whole.pt", folder)
    >>> checkpoint.load(state := {"w": weft.zeros(2)}, checkpoint_id=folder)
    >>> state
    {'w': tensor([1., 1.])}
    """
    state = weft.load(torch_save_path, map_location="cpu", weights_only=False)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)

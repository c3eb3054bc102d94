"""Helpers around training: checkpointing of activations, DLPack."""

from weft.utils import checkpoint, dlpack

__all__ = ["checkpoint", "dlpack"]

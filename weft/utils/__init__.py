"""Helpers around training: checkpointing of activations, DLPack."""

from weft.utils import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]

"""PyTorch's compiler backend, by the settings that programs write: see `weft._inductor.config`."""

from weft._inductor import config as config

__all__ = ["config"]

"""Tools for reading weft itself."""

from weft.tools.where import where

__all__ = ["where"]

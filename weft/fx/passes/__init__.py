"""Passes over graphs: what runs through one and notes something of each node."""

from weft.fx.passes import shape_prop

__all__ = ["shape_prop"]

"""`cond`, by the path under which programs import it."""

from weft.closing.control import cond

__all__ = ["cond"]

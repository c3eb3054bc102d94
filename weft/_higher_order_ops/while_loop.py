"""`while_loop`, by the path under which programs import it."""

from weft.closing.control import while_loop

__all__ = ["while_loop"]

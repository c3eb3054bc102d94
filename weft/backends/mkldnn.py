"""oneDNN: weft does not use it."""


def is_available() -> bool:
    """False."""
    return False

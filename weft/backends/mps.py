"""Apple's GPUs: weft does not use it."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False

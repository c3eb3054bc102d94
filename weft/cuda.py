"""What programs ask before they use a GPU: this build has none."""


def is_available() -> bool:
    """False: the CPU is the only device."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU; `weft.manual_seed` seeds the CPU's generator."""


manual_seed_all = manual_seed

"""What every test may use: the parity oracle, and settings that make a run repeatable."""

import importlib.metadata
import os

import hypothesis
import pytest

hypothesis.settings.register_profile("weft", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("weft")

TORCH = "2.13.0"


def pytest_configure(config):
    """With WEFT_REQUIRE_TORCH=1, as in CI, a missing oracle stops the run instead of skipping."""
    if os.environ.get("WEFT_REQUIRE_TORCH", "0") in ("", "0"):
        return
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version.split("+")[0] != TORCH:
        raise pytest.UsageError(
            f"[conftest] expected torch {TORCH} for the parity tests, got {version}. "
            "Hint: run `make env PARITY=1`"
        )


@pytest.fixture(scope="session")
def torch():
    """The parity oracle on one thread; the test is skipped where torch is absent."""
    oracle = pytest.importorskip("torch")
    oracle.set_num_threads(1)
    return oracle

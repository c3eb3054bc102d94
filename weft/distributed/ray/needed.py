"""Ray, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["connected", "dump", "need"]


def need(who: str) -> Any:
    """Ray's module. RuntimeError, with what to install, where it is not there."""
    try:
        import cloudpickle  # noqa: F401  (Ray's own would have each rank import Ray)
        import ray
    except ImportError as error:
        raise RuntimeError(
            f"[{who}] expected Ray, got {error}. Hint: pip install 'weft[ray]'"
        ) from error
    return ray


@contextmanager
def connected(who: str) -> Iterator[Any]:
    """A scope in which this process is of a Ray cluster: of the one that it is, or RAY_ADDRESS
    names, else of one on this machine that ends with the scope. Gives Ray's module.

    Raises: RuntimeError without Ray, and for a Ray Client, which is of no cluster.
    """
    ray = need(who)
    if ray.util.client.ray.is_connected():
        raise RuntimeError(
            f"[{who}] expected a process on a machine of the cluster, got a Ray Client. Hint: "
            "`ray job submit -- python train.py` runs the program there"
        )
    is_mine = not ray.is_initialized()
    if is_mine:
        ray.init(include_dashboard=False)
    try:
        yield ray
    finally:
        if is_mine:
            ray.shutdown()


def dump(who: str, what: Any) -> bytes:
    """What other processes load by `pickle`: functions of the program, lambdas too.

    Raises: TypeError for what cannot be.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(what))
    except Exception as error:
        raise TypeError(
            f"[{who}] expected a function and a config that can be pickled, got {error}. Hint: "
            "open files, locks and connections are made within the function"
        ) from error

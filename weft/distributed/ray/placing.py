"""Where Ray places the workers of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from weft.distributed.ray.node import Node

__all__ = ["Machine", "bundles", "machines_of", "place"]


@dataclass
class Machine:
    """What a run has on a machine: one host name, which is how MPI tells machines apart.

    Args:
        name: what mpiexec calls it; no address.
        address: its IP address.
        workers: how many ranks.
        actors: a `Node` for each of Ray's nodes there; the first has the daemon.
    """

    name: str
    address: str
    workers: int
    actors: list[Any]


def bundles(workers: int, cpus: float, more: Mapping[str, float] | None) -> list[dict[str, float]]:
    """What Ray is to reserve for each worker."""
    return [{"CPU": cpus, **(more or {})} for _ in range(workers)]


@contextmanager
def place(ray: Any, wanted: list[dict[str, float]], strategy: str, timeout: float) -> Iterator[Any]:
    """A scope that has a placement group.

    Raises: RuntimeError where the cluster has no place for it within `timeout` seconds.
    """
    group = ray.util.placement_group(wanted, strategy=strategy)
    try:
        if not group.wait(timeout):
            free = {k: v for k, v in ray.cluster_resources().items() if k in wanted[0]}
            raise RuntimeError(
                f"[ray.run] expected a cluster with {len(wanted)} times {wanted[0]} free within "
                f"{timeout:g} s, got one that has {free} in all"
            )
        yield group
    finally:
        ray.util.remove_placement_group(group)


def machines_of(ray: Any, group: Any, run: str) -> list[Machine]:
    """The machines of a group, with their actors."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    where = ray.util.placement_group_table(group)["bundles_to_node_id"]
    nodes = {node["NodeID"]: node for node in ray.nodes()}
    remote = ray.remote(Node)
    out: dict[str, Machine] = {}
    seen = set()
    for bundle, node_id in sorted(where.items()):
        node = nodes[node_id]
        machine = out.setdefault(
            node["NodeManagerHostname"],
            Machine(f"weft-{len(out)}", node["NodeManagerAddress"], 0, []),
        )
        machine.workers += 1
        if node_id not in seen:
            seen.add(node_id)
            strategy = PlacementGroupSchedulingStrategy(group, bundle)
            options = remote.options(num_cpus=0, scheduling_strategy=strategy)
            machine.actors.append(options.remote(run))
    return list(out.values())

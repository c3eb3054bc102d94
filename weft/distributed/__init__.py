"""Processes that exchange tensors: `torch.distributed`, by MPI.

Those that mpiexec, srun or `weft launch` started are one world; another is a world of its own, in
which every exchange is with itself, so programs that are started as one process run unchanged.

>>> dist = weft.distributed
>>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
>>> x = weft.tensor([1.0, 2.0])
>>> dist.all_reduce(x); x, dist.get_world_size()
(tensor([1., 2.]), 1)
>>> dist.destroy_process_group()
"""

from weft.base import lazy as _lazy
from weft.distributed.device_mesh import DeviceMesh as DeviceMesh
from weft.distributed.device_mesh import init_device_mesh as init_device_mesh
from weft.distributed.distributed_c10d import *  # noqa: F403
from weft.distributed.distributed_c10d import __all__ as _exchanges

__all__ = ["DeviceMesh", "init_device_mesh", *_exchanges]

_lazy.install()

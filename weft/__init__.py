"""weft: a define-by-run deep-learning framework. PyTorch's names and meanings, on a small core.

The operators come from the table of the C extension (docs/ops.md lists them); what is Python is
named below.
"""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from weft import _C

_C._set_package(__path__[0])

from weft._C import *  # noqa: E402, F403
from weft._C import Size, Tensor, dtype, tensor  # noqa: E402
from weft.base.device import device as device  # noqa: E402
from weft.base.modes import *  # noqa: E402, F403
from weft.base.names import *  # noqa: E402, F403
from weft.base.settings import *  # noqa: E402, F403
from weft.composites.calculus import *  # noqa: E402, F403
from weft.composites.compare import *  # noqa: E402, F403
from weft.composites.complex import *  # noqa: E402, F403
from weft.composites.copy import *  # noqa: E402, F403
from weft.composites.create import *  # noqa: E402, F403
from weft.composites.distance import *  # noqa: E402, F403
from weft.composites.dtypes import *  # noqa: E402, F403
from weft.composites.exchange import *  # noqa: E402, F403
from weft.composites.gather import *  # noqa: E402, F403
from weft.composites.graph import *  # noqa: E402, F403
from weft.composites.histogram import *  # noqa: E402, F403
from weft.composites.join import *  # noqa: E402, F403
from weft.composites.layout import *  # noqa: E402, F403
from weft.composites.mask import *  # noqa: E402, F403
from weft.composites.matmul import *  # noqa: E402, F403
from weft.composites.moments import *  # noqa: E402, F403
from weft.composites.part import *  # noqa: E402, F403
from weft.composites.pointwise import *  # noqa: E402, F403
from weft.composites.power import *  # noqa: E402, F403
from weft.composites.queries import *  # noqa: E402, F403
from weft.composites.rearrange import *  # noqa: E402, F403
from weft.composites.recurrent import *  # noqa: E402, F403
from weft.composites.shape import *  # noqa: E402, F403
from weft.composites.sort import *  # noqa: E402, F403
from weft.composites.spectral import *  # noqa: E402, F403
from weft.composites.windows import *  # noqa: E402, F403
from weft.random import *  # noqa: E402, F403

del globals()["ops"]  # the core's table of ops; weft.ops has operators by PyTorch's names

_blas_path: str | None = None


def _find_blas() -> None:
    """Tells the core where OpenBLAS lies; it is loaded with the first large product."""
    global _blas_path
    import sys

    for folder in sys.path:
        path = _os.path.join(folder, "scipy_openblas32", "lib", "libscipy_openblas.so")
        if _os.path.exists(path):
            _blas_path = path
            _C._set_blas_path(path)
            return


_find_blas()

from weft import (  # noqa: E402
    _tensor,
    accelerator,
    autograd,
    backends,
    cuda,
    fft,
    func,
    linalg,
    nn,
    optim,
    safetensors,
    serialization,
    signal,
    special,
    testing,
    tools,
    utils,
    version,
)
from weft.composites.linalg import *  # noqa: E402, F403
from weft.composites.special import *  # noqa: E402, F403

if _TYPE_CHECKING:
    from weft import (
        amp,
        array_api,
        classes,
        compiler,
        cpu,
        distributed,
        distributions,
        export,
        functional,
        futures,
        fx,
        hub,
        jit,
        library,
        masked,
        memory,
        mps,
        mtia,
        multiprocessing,
        nested,
        onnx,
        profiler,
        quasirandom,
        see,
        sparse,
        torch_version,
        types,
        vision,
        xpu,
    )
    from weft import ops as ops  # type: ignore[assignment]  # the core's are no longer here
    from weft._checkpoint.streams import PyTorchFileReader as PyTorchFileReader
    from weft._checkpoint.streams import PyTorchFileWriter as PyTorchFileWriter
    from weft.amp.autocast_mode import autocast as autocast
    from weft.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
    from weft.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from weft.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
    from weft.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
    from weft.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from weft.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
    from weft.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
    from weft.base.absent import get_device_module as get_device_module
    from weft.base.streams import Event as Event
    from weft.base.streams import Stream as Stream
    from weft.base.symbols import SymBool as SymBool
    from weft.base.symbols import SymFloat as SymFloat
    from weft.base.symbols import SymInt as SymInt
    from weft.base.symbols import sym_float as sym_float
    from weft.base.symbols import sym_int as sym_int
    from weft.base.symbols import sym_ite as sym_ite
    from weft.base.symbols import sym_max as sym_max
    from weft.base.symbols import sym_min as sym_min
    from weft.base.symbols import sym_not as sym_not
    from weft.compiler import compile as compile
    from weft.experiments import experiment as experiment
    from weft.func import vmap as vmap
    from weft.futures import Future as Future
    from weft.jit import ScriptFunction as ScriptFunction
    from weft.jit import ScriptModule as ScriptModule
    from weft.running import install_as_torch as install_as_torch
    from weft.see import graph as graph
    from weft.see import last_graph as last_graph
    from weft.see import record as record
    from weft.see import stop_when as stop_when
    from weft.see.alive import live as live
    from weft.see.alive import why_alive as why_alive
    from weft.see.layers import summary as summary
    from weft.see.view import listen as listen
    from weft.see.view import view as view
    from weft.see.watching import watch as watch
    from weft.sparse.create import sparse_compressed_tensor as sparse_compressed_tensor
    from weft.sparse.create import sparse_coo_tensor as sparse_coo_tensor
    from weft.sparse.create import sparse_csc_tensor as sparse_csc_tensor
    from weft.sparse.create import sparse_csr_tensor as sparse_csr_tensor
    from weft.sparse.named import dsmm as dsmm
    from weft.sparse.named import hsmm as hsmm
    from weft.sparse.named import hspmm as hspmm
    from weft.sparse.named import saddmm as saddmm
    from weft.sparse.named import smm as smm
    from weft.sparse.named import spmm as spmm
    from weft.storage import BFloat16Storage as BFloat16Storage
    from weft.storage import BoolStorage as BoolStorage
    from weft.storage import ByteStorage as ByteStorage
    from weft.storage import CharStorage as CharStorage
    from weft.storage import ComplexDoubleStorage as ComplexDoubleStorage
    from weft.storage import ComplexFloatStorage as ComplexFloatStorage
    from weft.storage import DoubleStorage as DoubleStorage
    from weft.storage import FloatStorage as FloatStorage
    from weft.storage import HalfStorage as HalfStorage
    from weft.storage import IntStorage as IntStorage
    from weft.storage import LongStorage as LongStorage
    from weft.storage import ShortStorage as ShortStorage
    from weft.storage import TypedStorage as TypedStorage
    from weft.storage import UntypedStorage as UntypedStorage

from weft.deferred import autobatch as autobatch  # noqa: E402
from weft.deferred import deferred as deferred  # noqa: E402
from weft.deferred import explain as explain  # noqa: E402
from weft.nn.functional import bilinear as bilinear  # noqa: E402
from weft.nn.functional import cosine_similarity as cosine_similarity  # noqa: E402
from weft.nn.functional import feature_alpha_dropout as feature_alpha_dropout  # noqa: E402
from weft.nn.functional import pairwise_distance as pairwise_distance  # noqa: E402
from weft.nn.functional import pdist as pdist  # noqa: E402
from weft.nn.functional import rrelu as rrelu  # noqa: E402
from weft.nn.functional import rrelu_ as rrelu_  # noqa: E402
from weft.serialization import load as load  # noqa: E402
from weft.serialization import save as save  # noqa: E402

__version__ = version.__version__

from weft.base import checks as _checks  # noqa: E402
from weft.base import core_names as _core_names  # noqa: E402
from weft.base import files as _files  # noqa: E402
from weft.base import lazy as _lazy  # noqa: E402
from weft.base import moved as _moved  # noqa: E402

_checks.install("weft.signal.windows", "", ("weft.",))
for _name in ("weft.autograd", "weft.func"):
    _checks.install(_name)
_checks.install(__name__, "", ("weft.composites.", "weft.linalg.", "weft.special."))
_moved.install()
_files.install()
_core_names.install()

#: Folders of the house, which no program needs.
_HOUSE = {"base", "composites"}

__all__ = [name for name in dir() if not name.startswith("_") and name not in _HOUSE]
__all__ += [*_lazy.MODULES, *(name for name in _lazy.NAMES if not name.startswith("_"))]

_lazy.install()

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
from weft.base.device import device  # noqa: E402
from weft.base.modes import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from weft.base.names import (  # noqa: E402
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    cdouble,
    cfloat,
    channels_last,
    channels_last_3d,
    contiguous_format,
    double,
    e,
    float,  # noqa: A004
    half,
    inf,
    int,  # noqa: A004
    layout,
    long,
    memory_format,
    nan,
    pi,
    preserve_format,
    short,
    strided,
)
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
    from weft import amp, distributions, jit, multiprocessing

from weft.deferred import autobatch, deferred, explain  # noqa: E402
from weft.nn.functional import (  # noqa: E402
    bilinear,
    cosine_similarity,
    feature_alpha_dropout,
    pairwise_distance,
    pdist,
    rrelu,
    rrelu_,
)
from weft.serialization import load, save  # noqa: E402

__version__ = version.__version__

from weft.base import checks as _checks  # noqa: E402
from weft.base import lazy as _lazy  # noqa: E402
from weft.base import moved as _moved  # noqa: E402

_checks.install(__name__, "", ("weft.composites.", "weft.linalg.", "weft.special."))
_lazy.install()
_moved.install()

#: Folders of the house, which no program needs.
_HOUSE = {"base", "composites"}

__all__ = [name for name in dir() if not name.startswith("_") and name not in _HOUSE]
__all__ += [*_lazy.MODULES, *(name for names in _lazy.LAZY.values() for name in names)]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - _HOUSE)

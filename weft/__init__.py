"""weft: a define-by-run deep-learning framework. PyTorch's names and meanings, on a small core.

The operators come from the table of the C extension (docs/ops.md lists them); what is Python is
named below.
"""

import os as _os

from weft import _C

_C._set_package(__path__[0])

from weft._C import *  # noqa: E402, F403
from weft._C import Size, Tensor, dtype, tensor  # noqa: E402
from weft._device import device  # noqa: E402
from weft._functions import *  # noqa: E402, F403
from weft._modes import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from weft._names import (  # noqa: E402
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
from weft._settings import *  # noqa: E402, F403
from weft._tensor import attach as _attach  # noqa: E402
from weft._tensor_queries import *  # noqa: E402, F403
from weft._windows import *  # noqa: E402, F403
from weft.random import *  # noqa: E402, F403

_attach()


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
    accelerator,
    autograd,
    backends,
    cuda,
    distributions,
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
from weft.deferred import autobatch, deferred, explain  # noqa: E402
from weft.linalg.older import *  # noqa: E402, F403
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
from weft.special.older import *  # noqa: E402, F403

__version__ = version.__version__

from weft import _lazy  # noqa: E402

_lazy.install()

__all__ = [name for name in dir() if not name.startswith("_")]
__all__ += [*_lazy.MODULES, *(name for names in _lazy.LAZY.values() for name in names)]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

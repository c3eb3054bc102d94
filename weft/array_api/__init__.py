"""The Python array API standard 2025.12 over weft's tensors: `weft.array_api`.

A tensor's `__array_namespace__()` is this module, by which SciPy, scikit-learn and others find it.
Functions that the standard and weft define alike are weft's own; where they differ, in promotion,
names of arguments or special values, the standard's are written here. Tensors stay weft's: their
operators and methods have PyTorch's meaning.

The standard: https://data-apis.org/array-api/2025.12/. See docs/array-api.md.

>>> import weft
>>> xp = weft.ones(2).__array_namespace__()
>>> xp.astype(xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True), xp.float32)
tensor([0., 1., 3., 6.])
"""

from math import e, inf, nan, pi

from weft import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from weft.array_api import fft, linalg
from weft.array_api.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from weft.array_api.data_types import (
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from weft.array_api.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from weft.array_api.info import __array_namespace_info__
from weft.array_api.linalg import (
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from weft.array_api.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from weft.array_api.searching import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    nonzero,
    searchsorted,
    sort,
    take,
    take_along_axis,
    where,
)
from weft.array_api.sets import (
    isin,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from weft.array_api.statistics import (
    all,
    any,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)

#: The version of the standard.
__array_api_version__ = "2025.12"

#: In a subscript: a new dimension of size 1.
newaxis = None

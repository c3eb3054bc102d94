"""Nested tensors that the tests of this folder are about, in weft and in PyTorch."""

import math

#: By name: the shapes of parts, and the ragged dim.
SHAPES = {
    "rows": [(2, 3), (4, 3), (1, 3)],
    "flat": [(2,), (1,), (3,)],
    "alike": [(2, 3), (2, 3)],
    "heads": [(2, 2, 3), (3, 2, 3)],
    "columns": [(3, 2), (3, 4), (3, 1)],
    "one": [(3, 2)],
}


def numbers(lib, shape, start=0):
    """Numbers without order or repetition."""
    n = math.prod(shape)
    out = lib.arange(start, start + n, dtype=lib.float64)
    return ((out * 7 % 11) * 0.25 - 1.1 + out * 0.01).reshape(shape)


def parts(lib, name):
    """The parts of a sample."""
    return [numbers(lib, s, 5 * k) for k, s in enumerate(SHAPES[name])]


def made(lib, name):
    """A nested leaf."""
    return lib.nested.nested_tensor(parts(lib, name), layout=lib.jagged, requires_grad=True)

"""Differences between weft and PyTorch that stay, each by its cause, with the reason.

`known` names the cause of a difference, or None. A cause is as narrow as its text can tell: the
kind of the difference (autodiff_fuzz.compare), and what the program calls.
"""

import re

# Calls that are one op with one node in PyTorch and several ops in weft, or the other way round:
# the node that a result prints is the last op's, a result may be a view of what that op made, and
# some are written in place once while they are made.
COMPOSED = re.compile(
    r"\.(dist|cdist|kron|block_diag|trapezoid|cumulative_trapezoid|cov|corrcoef|quantile|mode|renorm"
    r"|cross|einsum|aminmax|rot90|trace|median|inner|tensordot|outer|fft|ifft|fft2|rfft|logit"
    r"|cosine_similarity|normalize|diagonal_scatter|slice_scatter|select_scatter|nan_to_num)\("
)


def names_differ(kind, text, program):
    """The name of a node (and nothing else): of composites, and of gradients of gradients."""
    if not re.match(r"(grad )?grad_fn ", kind):
        return None
    if "RuntimeError" in kind:
        return None
    first, second = kind.split()[-2:]
    if "NoneType" in (first, second):
        return None
    if COMPOSED.search(program):
        return "a call is one op here and several there"
    if "create_graph=True" in program:
        return "a gradient's formula is one op here and several there"
    if first == "AliasBackward0":
        return "a slice of everything is an alias in PyTorch"
    return None


def known(difference, statements):
    """The name of the listed cause of a difference (kind, text), or None."""
    kind, text = difference
    program = "\n".join(statements)
    if kind == "grad version":
        return "how often a gradient was added to in place while it was made"
    if kind == "version" and re.search(r"grad|" + COMPOSED.pattern, program):
        return "how often a result was written while it was made"
    if kind == "error RuntimeError NoneType" and re.search(r"(v\d+)\.\w+_\(\1[,)]", program):
        return "x.mul_(x): PyTorch refuses to go back through what weft kept a copy of"
    if "ZeroTensors are immutable" in text:
        return "PyTorch: a gradient of zeros that cannot be added to"
    if re.search(r"\.(conj|mH|H|adjoint)\b", program) and kind != "error":
        return "conj() is a copy, a lazy view in PyTorch"
    return names_differ(kind, text, program)

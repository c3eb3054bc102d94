"""What `bench/calls.py` measures: calls as text with `torch` standing for either library.

A family makes its operands once for each size `s` (`given`), then measures each expression as it is
and, those of `tracked`, with the gradients of the operands that it names. An expression that is
measured for its effect ends with what it wrote, so that the results can be compared.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Family:
    """Calls over the same operands. `given`: statements that make them, of a size `s`."""

    name: str
    given: str
    sizes: tuple
    calls: tuple = ()
    tracked: tuple = ()


def lines(text):
    return tuple(line.strip() for line in text.strip().splitlines())

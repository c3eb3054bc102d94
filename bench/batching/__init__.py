"""Models over structures of unlike size, each written twice with the same parameters.

`one(model, example)` is the natural way, for one example: recursion, loops, `if`, nothing about
batches. `by_hand(model, examples)` gives the same results for a list at once, written for speed:
level by level, packed, sorted, bucketed. It is the yardstick of `weft.autobatch`, and the plain
loop is the oracle of both. Every function takes the library, so that PyTorch runs the same models.
"""

import dataclasses
from collections.abc import Callable

from batching import (
    adaptive_time,
    child_sum_tree_lstm,
    decoder,
    experts,
    graphs,
    nary_tree_lstm,
    stack_machine,
    tagger,
    tensor_network,
    tree_lstm,
)


@dataclasses.dataclass(frozen=True)
class Model:
    """`make(lib, **sizes)` gives the module, `examples(lib, seed, n, **sizes)` the data.

    `one` returns a scalar loss and `by_hand` losses of shape (n,), both to be differentiated;
    with `trains=False`, one Python value and the list of them. `small` are sizes for tests.
    """

    name: str
    make: Callable
    examples: Callable
    one: Callable
    by_hand: Callable
    trains: bool = True
    small: dict = dataclasses.field(default_factory=lambda: {"dim": 8})


def _model(name, module, **options):
    return Model(name, module.make, module.examples, module.one, module.by_hand, **options)


MODELS = [
    _model("Tree-LSTM", tree_lstm),
    _model("child-sum Tree-LSTM", child_sum_tree_lstm),
    _model("N-ary Tree-LSTM", nary_tree_lstm),
    _model("recursive tensor network", tensor_network),
    _model("tagger with character LSTMs", tagger),
    _model("stack machine", stack_machine),
    _model("adaptive computation time", adaptive_time),
    Model(
        "decoder, taught",
        decoder.make, decoder.examples, decoder.taught, decoder.taught_by_hand,
    ),
    _model("decoder, greedy", decoder, trains=False),
    _model("mixture of experts", experts),
    _model("message passing on graphs", graphs),
]  # fmt: skip

"""Packed and padded sequences, against PyTorch's."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

LENGTHS = [[3], [1, 1], [4, 2, 1], [2, 5, 1, 3]]


def both(program):
    results = []
    for lib in (weft, torch):
        value = program(lib, lib.nn.utils.rnn)
        results.append([v if isinstance(v, (bool, type(None))) else v.tolist() for v in value])
    assert results[0] == results[1]


def sequences(lib, lengths, rest=(2,)):
    rng = np.random.default_rng(0)
    return [lib.tensor(rng.normal(size=(n, *rest)).tolist(), requires_grad=True) for n in lengths]


@pytest.mark.parametrize("of", [
    np.array, tuple, lambda n: np.array(n, np.int32), lambda n: np.array(n, float),
    lambda n: [k + 0.7 for k in n], lambda n: [np.int64(k) for k in n],
])  # fmt: skip
def test_lengths_of_many_kinds(of):
    def program(lib, rnn):
        padded = rnn.pad_sequence(sequences(lib, [3, 1]))
        packed = rnn.pack_padded_sequence(padded, of([3, 1]))
        return [packed.data, packed.batch_sizes]

    both(program)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_there_and_back(lengths, rest, batch_first):
    def program(lib, rnn):
        leaves = sequences(lib, lengths, rest)
        padded = rnn.pad_sequence(leaves, batch_first, padding_value=7.0)
        packed = rnn.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
        out, sizes = rnn.pad_packed_sequence(packed, batch_first, -1.0, max(lengths) + 1)
        (out * out).sum().backward()
        parts = rnn.unpack_sequence(rnn.pack_sequence(leaves, enforce_sorted=False))
        left = rnn.pad_sequence(leaves, padding_side="left")
        return [padded, *packed, out, sizes, left, *(t.grad for t in leaves), *parts]

    both(program)


@pytest.mark.parametrize("program", [
    lambda lib, rnn: rnn.pack_padded_sequence(lib.zeros(3, 2), [1, 3]),
    lambda lib, rnn: rnn.pack_padded_sequence(lib.zeros(3, 2), [3, 0]),
    lambda lib, rnn: rnn.pack_padded_sequence(lib.zeros(3, 2), [3]),
    lambda lib, rnn: rnn.pack_padded_sequence(lib.zeros(3, 2), []),
    lambda lib, rnn: rnn.pad_sequence([lib.zeros(2, 3), lib.zeros(2, 4)]),
    lambda lib, rnn: rnn.pad_sequence([]),
    lambda lib, rnn: rnn.pad_sequence([lib.zeros(2)], padding_side="up"),
    lambda lib, rnn: rnn.pack_sequence([lib.zeros(1), lib.zeros(2)]),
    lambda lib, rnn: rnn.pad_packed_sequence(
        rnn.pack_sequence([lib.zeros(3)]), total_length=2),
])  # fmt: skip
def test_bad_input(program):
    with pytest.raises(Exception) as expected:
        program(torch, torch.nn.utils.rnn)
    with pytest.raises(expected.type):
        program(weft, weft.nn.utils.rnn)


def test_lengths_beyond_the_input_are_refused():
    """PyTorch invents rows there."""
    with pytest.raises(RuntimeError, match="at most 3"):
        weft.nn.utils.rnn.pack_padded_sequence(weft.zeros(3, 2), [4, 1])


def test_conversion():
    packed = weft.nn.utils.rnn.pack_sequence([weft.ones(2), weft.ones(1)])
    assert packed.to(weft.float32) is packed
    assert packed.double().data.dtype == weft.float64
    assert packed.double().batch_sizes is packed.batch_sizes

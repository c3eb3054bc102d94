"""Batches of samples, beside PyTorch's."""

import collections

import numpy as np
import pytest

import weft
from weft.utils import data
from weft.utils.data.collate import collate, default_collate_fn_map

Point = collections.namedtuple("Point", "x y")


class Frozen(collections.abc.Mapping):
    def __init__(self, values):
        self.values_ = dict(values)

    def __getitem__(self, key):
        return self.values_[key]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


class Named(dict):
    """A mapping with an attribute of its own."""

    note = ""


def named():
    out = Named(a=1)
    out.note = "kept"
    return out


BATCHES = {
    "ints": lambda m: [1, 2],
    "bools": lambda m: [True, False],
    "floats": lambda m: [0.5, 1.5],
    "texts": lambda m: ["a", "b"],
    "bytes": lambda m: [b"a", b"b"],
    "tensors": lambda m: [m.ones(2), m.zeros(2)],
    "0-d": lambda m: [m.tensor(1), m.tensor(2)],
    "tuples": lambda m: [(1, "a"), (2, "b")],
    "lists": lambda m: [[1, 0.5], [2, 1.5]],
    "named tuples": lambda m: [Point(1, (2, 3)), Point(4, (5, 6))],
    "dicts": lambda m: [{"a": 1, "b": {"c": m.ones(1)}}, {"a": 2, "b": {"c": m.ones(1)}}],
    "own dicts": lambda m: [named(), named()],
    "other mappings": lambda m: [Frozen({"a": 1}), Frozen({"a": 2})],
    "ordered": lambda m: [collections.OrderedDict(b=1, a=2)] * 2,
    "default dicts": lambda m: [collections.defaultdict(int, a=1)] * 2,
    "deques": lambda m: [collections.deque([1, 2])] * 2,
    "ranges": lambda m: [range(2), range(2)],
    "arrays": lambda m: [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "numpy scalars": lambda m: [np.float32(0.5), np.float32(1.5)],
    "numpy ints": lambda m: [np.int64(1), np.int64(2)],
    "numpy bools": lambda m: [np.bool_(True), np.bool_(False)],
    "numpy doubles": lambda m: [np.float64(0.5)],
    "one": lambda m: [{"x": (m.ones(1), ["a"])}],
}


def plain(value):
    """A structure that compares: tensors as (dtype, values), containers with their classes."""
    if hasattr(value, "tolist") and hasattr(value, "requires_grad"):
        return str(value.dtype), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {k: plain(value[k]) for k in value}
    if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Sequence):
        return type(value).__name__, str(value)
    return type(value).__name__, [plain(v) for v in value]


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("convert", [False, True])
def test_as_torch(torch, name, convert):
    import torch.utils.data as theirs

    ours, other = BATCHES[name](weft), BATCHES[name](torch)
    if convert:
        assert plain(data.default_convert(ours)) == plain(theirs.default_convert(other))
    else:
        assert plain(data.default_collate(ours)) == plain(theirs.default_collate(other))


def test_attributes_of_mappings_are_kept():
    assert data.default_collate([named(), named()]).note == "kept"
    assert data.default_convert(named()).note == "kept"


@pytest.mark.parametrize("batch", [[object()], [None, None], [{1}], [np.array(["a"])]])
def test_what_has_no_rule(batch):
    with pytest.raises(TypeError, match="must contain tensors"):
        data.default_collate(batch)


def test_unlike_lengths_and_shapes():
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(RuntimeError):
        data.default_collate([weft.ones(1), weft.ones(2)])


def test_own_rules():
    class Image:
        pass

    rules = {Image: lambda batch, *, collate_fn_map=None: len(batch), **default_collate_fn_map}
    out = collate([(Image(), 1), (Image(), 2)], collate_fn_map=rules)
    assert out[0] == 2 and out[1].tolist() == [1, 2]

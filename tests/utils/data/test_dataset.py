"""Datasets: each beside PyTorch's, and what they refuse."""

import pytest

import weft
from weft.utils import data


class Count(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


class Doubling(data.Dataset):
    """Gives a batch at once."""

    def __init__(self, wrong=False):
        self.wrong = wrong

    def __getitem__(self, i):
        return 2 * i

    def __getitems__(self, indices):
        return [2 * i for i in indices][self.wrong :]

    def __len__(self):
        return 5


def test_the_base_classes_ask_for_methods():
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]
    with pytest.raises(NotImplementedError):
        iter(data.IterableDataset())
    assert data.Dataset[int] and data.IterableDataset[str]


def test_tensor_dataset():
    x, y = weft.arange(6).reshape(3, 2), weft.arange(3.0)
    rows = data.TensorDataset(x, y)
    assert len(rows) == 3 and rows.tensors[0] is x
    assert [t.tolist() for t in rows[1]] == [[2, 3], 1.0]
    assert [t.tolist() for t in rows[-1]] == [[4, 5], 2.0]
    with pytest.raises(AssertionError, match="Size mismatch"):
        data.TensorDataset(x, y[:2])


def test_stacks():
    pairs = data.StackDataset([1, 2], "ab")
    assert len(pairs) == 2 and pairs[1] == (2, "b")
    assert pairs.__getitems__([1, 0]) == [(2, "b"), (1, "a")]
    named = data.StackDataset(x=Doubling(), y=range(5))
    assert named[2] == {"x": 4, "y": 2}
    assert named.__getitems__([4]) == [{"x": 8, "y": 4}]
    with pytest.raises(ValueError, match="output size mismatch"):
        data.StackDataset(Doubling(wrong=True)).__getitems__([1, 2])
    for wrong in (lambda: data.StackDataset(), lambda: data.StackDataset([1], x=[1]),
                  lambda: data.StackDataset([1], [1, 2])):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()


def test_concatenation():
    both = data.Subset([0, 1, 2], [0, 1, 2]) + data.Subset([3, 4], [0, 1])
    assert type(both) is data.ConcatDataset and both.cumulative_sizes == [3, 5]
    assert [both[i] for i in range(-5, 5)] == [0, 1, 2, 3, 4] * 2
    with pytest.raises(ValueError):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    for wrong in ([], [Count(2)]):
        with pytest.raises(AssertionError):
            data.ConcatDataset(wrong)


def test_chains():
    chain = Count(2) + Count(3)
    assert type(chain) is data.ChainDataset
    assert list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    with pytest.raises(AssertionError):
        list(data.ChainDataset([[1]]))


def test_subsets():
    part = data.Subset(Doubling(), [3, 1])
    assert len(part) == 2 and part[0] == 6 and part.__getitems__([1, 0]) == [2, 6]
    assert data.Subset(weft.arange(5), [3, 1])[[1, 0]].tolist() == [1, 3]
    with pytest.raises(NotImplementedError, match="__getitems__"):
        type("Half", (data.Subset,), {"__getitem__": lambda self, i: i})([1], [0])


@pytest.mark.parametrize("lengths", [[3, 7], [10], [0, 10], [0.5, 0.5], [0.33, 0.33, 0.34],
                                     [0.25, 0.75], [1.0]])  # fmt: skip
@pytest.mark.parametrize("own", [False, True])
def test_random_split_as_torch(torch, lengths, own):
    from torch.utils import data as theirs

    parts = []
    for m, split in ((weft, data.random_split), (torch, theirs.random_split)):
        m.manual_seed(3)
        kwargs = {"generator": m.Generator().manual_seed(4)} if own else {}
        parts.append([p.indices for p in split(range(10), lengths, **kwargs)])
    assert parts[0] == parts[1]


def test_random_split_refuses():
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="not between 0 and 1"):
        data.random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.9, 0.1])

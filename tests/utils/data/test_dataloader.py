"""DataLoader without workers, and its arguments."""

import pickle
import sys

import pytest

import weft
from weft.utils import data
from weft.utils.data import DataLoader


class Count(data.IterableDataset):
    def __init__(self, n, length=None):
        self.n, self.length = n, length

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length


def lists(loader):
    return [b.tolist() if hasattr(b, "tolist") else b for b in loader]


CALLS = {
    "plain": {},
    "batches": {"batch_size": 4},
    "drop_last": {"batch_size": 4, "drop_last": True},
    "shuffle": {"batch_size": 4, "shuffle": True},
    "single": {"batch_size": None},
    "single shuffled": {"batch_size": None, "shuffle": True},
    "sampler": {"sampler": [3, 1, 2], "batch_size": 2},
    "batch_sampler": {"batch_sampler": [[1, 2], [5], []][:2]},
    "collate_fn": {"batch_size": 3, "collate_fn": sum},
}


FOR_ITERABLE = {"batch_size", "drop_last", "collate_fn"}
KINDS = [(name, False) for name in CALLS]
KINDS += [(name, True) for name, kwargs in CALLS.items() if set(kwargs) <= FOR_ITERABLE]


@pytest.mark.parametrize(("name", "iterable"), KINDS)
@pytest.mark.parametrize("own", [False, True])
def test_passes_as_torch(torch, name, iterable, own):
    import torch.utils.data as theirs

    kwargs = dict(CALLS[name])
    found = []
    for m, d in ((weft, data), (torch, theirs)):
        m.manual_seed(11)
        if own:
            kwargs["generator"] = m.Generator().manual_seed(2)
        source = type("I", (d.IterableDataset,), {"__iter__": lambda self: iter(range(10))})()
        loader = d.DataLoader(source if iterable else range(10), **kwargs)
        length = None if iterable else len(loader)
        found.append((lists(loader), lists(loader), length, m.rand(1).item()))
    assert found[0] == found[1]


def test_lengths_of_iterable_datasets():
    assert len(DataLoader(Count(10, 10), batch_size=4)) == 3
    assert len(DataLoader(Count(10, 10), batch_size=4, drop_last=True)) == 2
    assert len(DataLoader(Count(10, 10), batch_size=None)) == 10
    with pytest.raises(TypeError):
        len(DataLoader(Count(10)))
    loader = DataLoader(Count(3, 2), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert len(list(loader)) == 3


def test_two_passes_at_once():
    loader = DataLoader(range(3), batch_size=None)
    assert [(a, b) for a in loader for b in loader] == [(a, b) for a in range(3) for b in range(3)]


def test_batches_at_once():
    class Batched(data.Dataset):
        def __getitems__(self, indices):
            return [100 + i for i in indices]

        def __len__(self):
            return 4

    assert lists(DataLoader(Batched(), batch_size=2)) == [[100, 101], [102, 103]]


@pytest.mark.parametrize(
    ("error", "kwargs"),
    [
        (ValueError, {"num_workers": -1}),
        (ValueError, {"timeout": -1}),
        (ValueError, {"prefetch_factor": 2}),
        (ValueError, {"num_workers": 1, "prefetch_factor": 0}),
        (ValueError, {"persistent_workers": True}),
        (ValueError, {"sampler": [1], "shuffle": True}),
        (ValueError, {"batch_sampler": [[1]], "batch_size": 2}),
        (ValueError, {"batch_sampler": [[1]], "shuffle": True}),
        (ValueError, {"batch_sampler": [[1]], "sampler": [1]}),
        (ValueError, {"batch_sampler": [[1]], "drop_last": True}),
        (ValueError, {"batch_size": None, "drop_last": True}),
        (ValueError, {"batch_size": 0}),
        (ValueError, {"multiprocessing_context": "fork"}),
        (ValueError, {"multiprocessing_context": "none", "num_workers": 1}),
        (TypeError, {"multiprocessing_context": 3, "num_workers": 1}),
        (TypeError, {"unknown": 1}),
    ],
)
def test_arguments(torch, error, kwargs):
    with pytest.raises(error):
        DataLoader(range(3), **kwargs)
    if kwargs.get("prefetch_factor") != 0:  # which there gives no batch at all
        with pytest.raises(error):
            torch.utils.data.DataLoader(range(3), **kwargs)


@pytest.mark.parametrize("kwargs", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_orders_of_iterable_datasets(kwargs):
    with pytest.raises(ValueError, match="expected unspecified"):
        DataLoader(Count(3), **kwargs)


def test_what_is_fixed():
    loader = DataLoader(range(3), batch_size=2)
    for name in ("batch_size", "sampler", "dataset", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match="should not be set"):
            setattr(loader, name, None)
    loader.collate_fn = list
    assert list(loader) == [[0, 1], [2]]


def test_pinned_memory_warns():
    with pytest.warns(UserWarning, match="pin_memory"):
        assert lists(DataLoader(range(2), pin_memory=True)) == [[0], [1]]


def test_an_iterator_cannot_be_pickled():
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(DataLoader(range(2))))


def test_a_timeout_needs_workers():
    with pytest.raises(AssertionError):
        iter(DataLoader(range(2), timeout=1))


def test_nothing_of_multiprocessing_is_imported(tmp_path):
    import subprocess

    code = (
        "import weft, sys; from weft.utils.data import DataLoader;"
        "list(DataLoader(range(3))); assert 'multiprocessing' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=120)

"""Where a loader draws its random numbers, against PyTorch's."""

import pytest

import weft

torch = pytest.importorskip("torch")


def drawing_sampler(f):
    """A batch sampler that draws when it is asked for an iterator, not with the first batch."""

    class Buckets(f.utils.data.Sampler):
        def __iter__(self):
            order = f.randperm(4).tolist()
            return iter([[2 * k, 2 * k + 1] for k in order])

        def __len__(self):
            return 4

    return Buckets()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sampler_that_draws_in_iter_gets_pytorchs_numbers(workers):
    """The worker's seed was drawn before the sampler was asked."""

    def batches(f):
        f.manual_seed(3)
        loader = f.utils.data.DataLoader(
            list(range(8)), batch_sampler=drawing_sampler(f), num_workers=workers
        )
        out = [b.tolist() for _ in range(2) for b in loader]
        return out, f.rand(1).item()

    assert batches(weft) == batches(torch)

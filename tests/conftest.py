"""What every test may use: the parity oracle, and settings that make a run repeatable."""

import gc
import importlib.metadata
import os
import signal
import sys

import hypothesis
import pytest

hypothesis.settings.register_profile("weft", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("weft")

TORCH = "2.13.0"


def pytest_configure(config):
    """With WEFT_REQUIRE_TORCH=1, as in CI, a missing oracle stops the run instead of skipping.

    Processes that a shell script starts in the background ignore Ctrl-C, which tests send to
    themselves.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("WEFT_REQUIRE_TORCH", "0") in ("", "0"):
        return
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version.split("+")[0] != TORCH:
        raise pytest.UsageError(
            f"[conftest] expected torch {TORCH} for the parity tests, got {version}. "
            "Hint: run `make env PARITY=1`"
        )


def pytest_terminal_summary(terminalreporter):
    """One line in place of one for each place that a missing oracle makes the suite skip."""
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        terminalreporter.write_line(
            "PyTorch is not installed: what compares with it was skipped. Hint: make env PARITY=1"
        )


@pytest.fixture(autouse=True)
def oracle_checks_distributions():
    """PyTorch's database of samples and its compiler, which other tests import, turn this off."""
    distributions = sys.modules.get("torch.distributions")
    if distributions is not None:
        distributions.Distribution._validate_args = True


@pytest.fixture(scope="session")
def torch():
    """The parity oracle on one thread; the test is skipped where torch is absent."""
    oracle = pytest.importorskip("torch")
    oracle.set_num_threads(1)
    return oracle


@pytest.fixture(scope="session")
def torchvision(torch):
    """torchvision as it is, or, where its compiled part is for another PyTorch, without that."""
    import importlib.util

    from torchvision_by_name import with_operators

    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    library = with_operators()
    import torchvision

    yield torchvision  # the names are there as long as the library is
    del library


class Beside:
    """One call, written as text, in both libraries: values, gradients to second order, errors.

    In the text `t` is the library, and M(*sizes), C(*sizes) are float64 and complex128 tensors,
    P(*sizes, lo=, hi=) is uniform between bounds.
    """

    def __init__(self, peer, seed=5):
        self.peer, self.seed = peer, seed

    def make(self, lib, text, grad=False):
        """The results of the call, and its tensors."""
        import numpy as np

        rng, leaves = np.random.default_rng(self.seed), []

        def leaf(values):
            x = lib.from_numpy(np.asarray(values))
            leaves.append(x.requires_grad_() if grad else x)
            return x

        names = {
            "t": lib,
            "M": lambda *sizes: leaf(rng.normal(size=sizes)),
            "C": lambda *sizes: leaf(rng.normal(size=sizes) + 1j * rng.normal(size=sizes)),
            "P": lambda *sizes, lo=0.5, hi=2.0: leaf(rng.uniform(lo, hi, sizes)),
        }
        out = eval(text, names)  # noqa: S307
        return list(out) if isinstance(out, (tuple, list)) else [out], leaves

    def values(self, text, rtol=1e-9, atol=1e-10):
        import weft

        ours, theirs = self.make(weft, text)[0], self.make(self.peer, text)[0]
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            self.same(a, b, rtol, atol)

    def same(self, a, b, rtol, atol):
        import numpy as np

        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
        b = b.detach().resolve_conj().resolve_neg()
        b = b.numpy(force=True)  # a tensor of zeros without memory as well
        np.testing.assert_allclose(a.detach().numpy(), b, rtol, atol, equal_nan=True)

    def gradients(self, text, order=1, rtol=1e-7, atol=1e-8):
        import weft

        ours, theirs = self.derived(weft, text, order), self.derived(self.peer, text, order)
        width = max(len(ours), len(theirs))  # without any gradient: zeros here, nothing there
        ours += [None] * (width - len(ours))
        theirs += [None] * (width - len(theirs))
        for a, b in zip(ours, theirs):
            if a is None or b is None:
                other = b if a is None else a
                assert other is None or float(other.detach().abs().sum()) == 0
            else:
                self.same(a, b, rtol, atol)

    def derived(self, lib, text, order):
        """Gradients of a random sum of the results; of order 2: of a random sum of those."""
        import numpy as np

        outs, leaves = self.make(lib, text, grad=True)
        rng = np.random.default_rng(1)
        for _ in range(order):
            total = None
            for out in outs:
                shape = tuple(getattr(out, "shape", ()))
                weight = rng.normal(size=shape) + 1j * rng.normal(size=shape)
                if out is None or not out.requires_grad:
                    continue
                part = (out * lib.from_numpy(np.asarray(weight))).real.sum()
                total = part if total is None else total + part
            if total is None:
                return []
            outs = lib.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        return list(outs)

    def error(self, text):
        """The call fails in both, by an error of the same name; weft's message."""
        import weft

        caught = []
        for lib in (self.peer, weft):
            with pytest.raises(Exception) as found:
                self.make(lib, text)
            caught.append(found.value)
        names = [type(e).__name__.strip("_") for e in caught]
        assert names[0] == names[1], caught
        assert str(caught[1]).startswith("["), caught
        return str(caught[1])


@pytest.fixture(scope="session")
def beside(torch):
    """Compares a call's text with the oracle."""
    return Beside(torch)


@pytest.fixture
def balance():
    """Bytes in live storages now, against those when the test began."""
    import weft

    gc.collect()
    before = weft._C._memory_stats()["current"]

    def difference():
        gc.collect()
        return weft._C._memory_stats()["current"] - before

    return difference

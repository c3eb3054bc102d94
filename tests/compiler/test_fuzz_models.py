"""A short run of the fuzzer of compiled programs, and the faults it must find."""

import fuzz_models
import pytest
from fuzz_models import Draw

import weft


@pytest.mark.filterwarnings("ignore")
def test_random_models_do_compiled_what_they_do_eagerly():
    found, fuzzer = fuzz_models.fuzz(60, 0)
    assert not found, fuzz_models.shown(found[0])
    assert fuzzer.calls == 60 * fuzz_models.CALLS and fuzzer.errors < fuzzer.calls / 2


def test_a_number_is_a_program():
    assert Draw("1").text == Draw("1").text != Draw("2").text
    assert Draw("1").steps == Draw("1").steps


def baked(model):
    """What a graph that took a number in once would do."""
    module, k = model, model.k

    def call(*args):
        module.k, found = k, module.k
        try:
            return module(*args)
        finally:
            module.k = found

    return call


def draws(model):
    def call(*args):
        result = model(*args)
        weft.rand(1)
        return result

    return call


def copies(model):
    def call(*args):
        result = model(*args)
        return result.clone() if isinstance(result, weft.Tensor) else result

    return call


def catches(model):
    def call(*args):
        try:
            return model(*args)
        except RuntimeError:
            return None

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", [baked, draws, copies, catches])
def test_faults_are_found(fault):
    found, _ = fuzz_models.fuzz(200, 1, way=fault)
    assert len(found) == 1 and found[0].text.count("\n") < 12
    assert "expected" in fuzz_models.shown(found[0])

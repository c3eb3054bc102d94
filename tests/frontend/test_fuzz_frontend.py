"""A short run of the fuzzer, and the faults it must find."""

import evaluate
import fuzz_frontend
import pytest
from fuzz_sources import Draw


def test_random_functions_do_as_in_cpython():
    found, fuzzer = fuzz_frontend.fuzz(200, 0)
    assert not found, fuzz_frontend.shown(found[0])
    assert fuzzer.outside.total() <= 10 and fuzzer.slow <= 2


def test_a_number_is_a_function():
    assert Draw("1").text == Draw("1").text != Draw("2").text
    assert Draw("1").cases == Draw("1").cases


def late(self, instr):
    """A `finally` that does not run when the body is left by a jump."""
    if (end := self.handled(instr)) is None:
        end = self.body(instr.regions[2])
    return end


FAULTS = {
    "a finally": ("verb_try", late),
    "a place": ("note", lambda self, error, offset: None),
    "a starred tuple": ("verb_to_tuple", lambda self, instr, items: items),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(monkeypatch, fault):
    monkeypatch.setattr(evaluate.Machine, *FAULTS[fault])
    found, _ = fuzz_frontend.fuzz(1000, 2)
    assert len(found) == 1 and found[0].text.count("\n") < 15
    text = fuzz_frontend.shown(found[0])
    assert "expected" in text and "called with" in text


def test_another_way_to_run_them():
    plain = fuzz_frontend.Way(lambda function: function)
    assert fuzz_frontend.fuzz(20, 3, plain)[0] == []
    wrong = fuzz_frontend.Way(lambda function: lambda *args, **words: "other")
    assert len(fuzz_frontend.fuzz(20, 3, wrong)[0]) == 1

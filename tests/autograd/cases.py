"""Programs that run with weft and with PyTorch and observe the same: see conftest.py."""

import pytest


class Cases:
    """Those of one file; its tests are over `programs` and over `errors`."""

    def __init__(self):
        self.programs = []  # f(t) or f(t, note), of the library
        self.errors = []  # of them, with a text that the error of both contains

    def case(self, program):
        self.programs.append(program)
        return program

    def error(self, text):
        def add(program):
            self.errors.append((program, text))
            return program

        return add

    def tests(self):
        """The two tests of the file, once all programs are there."""

        @pytest.mark.parametrize("program", self.programs, ids=lambda p: p.__name__)
        def test_observes_what_pytorch_does(program, same):
            same(program)

        @pytest.mark.parametrize(
            ("program", "text"), self.errors, ids=lambda p: getattr(p, "__name__", "")
        )
        def test_raises_what_pytorch_raises(program, text, same_error):
            same_error(program, text)

        return test_observes_what_pytorch_does, test_raises_what_pytorch_raises

"""Programs that run with weft and with PyTorch and observe the same: see conftest.py."""


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

"""The report of long files and functions counts what it says."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools/lengths.py"))

CPP = """\
namespace weft {
/// A comment (with a call) {
int twice(int x) {
    if (x > 0) {
        return 2 * x;
    }
    return x;
}

struct Pair {
    void swap(Pair& other,
              int more) {
        std::swap(a, other.a);
    }
    int declared(int x);
};

Table::Table(int n)
    : n_(n) {
    for (;;) {
    }
}
}  // namespace weft
"""


def test_functions_of_cpp():
    found = list(TOOL["cpp_functions"](CPP))
    assert found == [("twice", 3, 6), ("swap", 11, 4), ("Table::Table", 18, 5)]


def test_functions_of_python_count_without_their_docstring():
    text = 'def f():\n    """One.\n\n    Two."""\n    return 1\n\nclass A:\n    def g(self): ...\n'
    assert list(TOOL["python_functions"](text)) == [("f", 1, 2), ("g", 8, 1)]


def test_the_report_is_sorted_and_names_places():
    files, functions = TOOL["longest"](5)
    for lines in (files, functions):
        counts = [int(line.split()[0]) for line in lines]
        assert len(lines) == 5 and counts == sorted(counts, reverse=True) and counts[-1] > 50
    assert all(":" in line for line in functions)

"""Arguments of exported programs that are no tensors: calls have those of the example."""

import io

import pytest

import weft
from weft import nn


class Many(nn.Module):
    def forward(self, x, k=2, y=None, *, parts=(), words=None):
        for part in parts:
            x = x + part
        return x * k if y is None else x * k + y


X, FREE = weft.ones(2), weft.export.Dim.DYNAMIC
# arguments of the export, calls that run, calls that raise with the error
CASES = {
    "a number": (
        ((X, 2), {}), [((X, 2), {}), ((X, 2.0), {})],
        [((X, 3), {}, AssertionError), ((X, "2"), {}, AssertionError), ((X, X), {}, AssertionError),
         ((X, None), {}, AssertionError), ((X,), {}, ValueError), ((X,), {"k": 2}, ValueError)],
    ),
    "a default": (
        ((X,), {}), [((X,), {})],
        [((X, 2), {}, ValueError), ((X, 2, X), {}, ValueError), ((X,), {"y": X}, ValueError)],
    ),
    "None": (((X, 2, None), {}), [((X, 2, None), {})], [((X, 2, X), {}, AssertionError)]),
    "text": (
        ((X,), {"words": {"a": "b"}}), [((X,), {"words": {"a": "b"}})],
        [((X,), {"words": {"a": "c"}}, AssertionError), ((X,), {"words": {"c": "b"}}, ValueError),
         ((X,), {"words": {}}, ValueError), ((X,), {"words": "b"}, ValueError)],
    ),
    "a list": (
        ((X,), {"parts": [X, X]}), [((X,), {"parts": [X, X]})],
        [((X,), {"parts": [X]}, ValueError), ((X,), {"parts": (X, X)}, ValueError),
         ((X,), {"parts": [X, X, X]}, ValueError), ((X,), {"parts": [X, 1]}, AssertionError)],
    ),
    "nothing": (((X,), {"parts": []}), [((X,), {"parts": []})],
                [((X,), {"parts": [X]}, ValueError)]),
}  # fmt: skip


def both(exported):
    """The program, and what is loaded of its file."""
    file = io.BytesIO()
    weft.export.save(exported, file)
    file.seek(0)
    return exported.module(), weft.export.load(file).module()


@pytest.mark.parametrize("name", CASES)
def test_calls_have_the_values_of_the_example(name):
    (args, kwargs), right, wrong = CASES[name]
    for run in both(weft.export.export(Many(), args, kwargs)):
        for a, k in right:
            assert run(*a, **k).tolist() == Many()(*a, **k).tolist()
        for a, k, error in wrong:
            with pytest.raises(error, match="Guard failed|Trying to flatten user inputs"):
                run(*a, **k)


def test_ints_that_are_free():
    exported = weft.export.export(Many(), (X, 2), dynamic_shapes=(None, FREE(min=2, max=5)))
    assert exported.graph_signature.user_inputs == ("x", "k")
    for run in both(exported):
        assert [run(X, k).tolist() for k in (2, 5)] == [[2, 2], [5, 5]]
        for wrong in (1, 6, 2.5, True, None):
            with pytest.raises(AssertionError, match="Guard failed"):
                run(X, wrong)
    with pytest.raises(AssertionError, match="Guard failed"):
        still = weft.export.export(Many(), (X, 2), dynamic_shapes=(None, weft.export.Dim.STATIC))
        still.module()(X, 3)

"""Wrong calls, one a line in wrong_calls.txt: each raises what PyTorch raises.

The list is what users get wrong: sizes, dtypes, dims, indices, names of modes, arguments left out.
"""

import copy
import pathlib
import warnings

import pytest

import weft

torch = pytest.importorskip("torch")
CALLS = (pathlib.Path(__file__).parent / "wrong_calls.txt").read_text().splitlines()


def raised(t, call):
    names = {"t": t, "nn": t.nn, "F": t.nn.functional, "copy": copy}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, names)  # noqa: S307
    except Exception as error:
        return type(error).__name__.lstrip("_")
    return "nothing"


def test_a_wrong_call_raises_pytorchs_type():
    ours = {call: raised(weft, call) for call in CALLS}
    theirs = {call: raised(torch, call) for call in CALLS}
    assert len(CALLS) > 300 and "nothing" not in theirs.values()
    slips = {c for c, e in theirs.items() if e == "AttributeError" and ours[c] == "TypeError"}
    assert {c: e for c, e in ours.items() if e != theirs[c] and c not in slips} == {}


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("key", ["m", "(m, 0)", "(0, m)", "(slice(None), m)", "(m, [1])"])
def test_a_mask_without_dimensions_adds_one(mask, key):
    """Reading by a 0-d bool tensor dropped the dimension that True adds."""
    values = []
    for t in (weft, torch):
        x = t.arange(6.0).reshape(2, 3)
        index = eval(key, {"m": t.tensor(mask), "slice": slice})  # noqa: S307
        values.append((list(x[index].shape), x[index].flatten().tolist()))
        x[index] = 9
        values[-1] += (x.tolist(),)
    assert values[0] == values[1]


def test_integers_wrap_around():
    top = 2**63 - 1
    x = weft.tensor([top, -top - 1])
    assert (x + 1).tolist() == [-top - 1, -top]
    assert (x - 1).tolist() == [top - 1, top]
    assert (x * 2).tolist() == [-2, 0]
    assert (-x).tolist() == [-top, -top - 1]
    assert weft.tensor([top, 2]).sum().item() == -top
    assert weft.tensor([top, 2]).cumsum(0)[1].item() == -top

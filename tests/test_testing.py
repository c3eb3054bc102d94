"""`weft.testing.assert_close` says what PyTorch's says."""

from __future__ import annotations

import numpy as np
import pytest

import weft

PAIRS = """
t.ones(2), t.ones(2) | t.ones(2), t.ones(3) | t.ones(3), t.tensor([1, 2, 3.0]) | 1, 2 | 1.0, 1.1
t.ones(2), t.ones(2).double() | [1, 2], [1, 3] | {'a': 1}, {'b': 1} | {'a': 1, 'b': [2, 3]}, {'a': 1, 'b': [2, 4]}
t.ones(2, 2), t.full((2, 2), 1.1) | t.ones(2).int(), t.tensor([1, 2]).int() | 'a', 1 | t.ones(2), None
t.tensor(1.0), t.tensor(2.0) | [1], [1, 2] | t.ones(2), [1, 1] | [t.ones(2)], [t.zeros(2)]
t.tensor([float('nan')]), t.tensor([float('nan')]) | None, None | 1, 1.0 | True, False
t.tensor([1.0, float('inf')]), t.tensor([1.0, float('inf')]) | t.ones(2) * (1 + 1e-6), t.ones(2)
t.ones(2, dtype=t.float64) * (1 + 1e-6), t.ones(2, dtype=t.float64) | t.ones(3).half() * 1.01, t.ones(3).half()
t.tensor([True, False]), t.tensor([True, True]) | t.ones(2) + 1j, t.ones(2) + 2j | 1j, 2j
t.empty(0, 2), t.empty(0, 2) | t.empty(0), t.empty(0, 1) | t.tensor([1, 2], dtype=t.uint8), t.tensor([2, 2], dtype=t.uint8)
{}, [] | (), () | {'x': t.ones(1)}, {'x': t.ones(1) * 2} | float('nan'), float('nan')
"""  # noqa: E501
CALLS = [p.strip() for p in PAIRS.replace("\n", "|").split("|") if p.strip()]
OPTIONS = ["rtol=0, atol=0.2", "rtol=0.5, atol=0", "rtol=0, atol=0", "equal_nan=True",
           "check_dtype=False", "msg='own'", "msg=lambda m: 'with ' + m"]  # fmt: skip


def outcome(t, call, options=""):
    try:
        eval(f"t.testing.assert_close({call}, {options})", {"t": t})  # noqa: S307
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)
    return None, ""


@pytest.mark.parametrize("call", CALLS)
def test_the_words_are_pytorchs(torch, call):
    ours, theirs = outcome(weft, call), outcome(torch, call)
    assert ours[0] == theirs[0], (ours, theirs)
    if ours[0] is AssertionError:
        assert ours[1] == theirs[1]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("call", CALLS[2:12:2] + CALLS[17:24])
def test_the_options_are_pytorchs(torch, call, options):
    ours, theirs = outcome(weft, call, options), outcome(torch, call, options)
    assert ours[0] == theirs[0], (ours, theirs)
    if ours[0] is AssertionError:
        assert ours[1] == theirs[1]


@pytest.mark.parametrize(
    "options", ["", "check_device=False", "check_layout=False", "check_layout=0, check_stride=1"]
)
@pytest.mark.parametrize(
    "call",
    [
        "t.ones(2, 3), t.ones(2, 3, device='meta')",
        "t.ones(2, device='meta'), t.ones(2, device='meta')",
        "t.ones(2, 3).double(), t.ones(2, 3, device='meta')",
        "t.ones(2, 3), t.ones(2, 3).to_sparse()",
        "t.ones(2, 3).to_sparse(), t.full((2, 3), 2.0)",
        "t.ones(2, 3).to_sparse_csr(), t.ones(2, 3)",
    ],
)
def test_devices_and_layouts_have_to_agree_unless_it_is_said(torch, call, options):
    """Both options did nothing."""
    ours, theirs = outcome(weft, call, options), outcome(torch, call, options)
    assert ours == theirs


def test_arrays_strides_and_the_older_name():
    weft.testing.assert_close(np.ones(2), np.ones(2))
    with pytest.raises(AssertionError, match="stride"):
        weft.testing.assert_close(weft.ones(2, 3).T, weft.ones(3, 2), check_stride=True)
    with pytest.raises(ValueError, match="both"):
        weft.testing.assert_close(1, 1, rtol=1)
    with pytest.raises(AssertionError, match="Booleans mismatch"):
        weft.testing.assert_close(True, 0)
    weft.testing.assert_allclose(weft.ones(2), [1.0, 1.0])
    weft.testing.assert_allclose(weft.tensor([float("nan")]), weft.tensor([float("nan")]).double())
    with pytest.raises(AssertionError, match="not close"):
        weft.testing.assert_allclose(weft.ones(2), weft.zeros(2))

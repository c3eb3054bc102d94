"""`Parameter` and `Buffer`, side by side with PyTorch's."""

from __future__ import annotations

import copy
import pickle

import pytest

from weft import nn


def test_parameter(agree):
    def snippet(t):
        data = t.ones(2)
        p = t.nn.Parameter(data)
        p.note = "mine"
        with t.no_grad():
            p.mul_(2)
        copied, pickled = copy.deepcopy(p), pickle.loads(pickle.dumps(p))
        empty = t.nn.Parameter()
        return (
            [data, p, copied, pickled, empty, p * 1, p.detach(), t.nn.Parameter(data, False)],
            [type(x).__name__ for x in (p, copied, pickled, p * 1, p.detach())],
            [repr(p), repr(empty), repr(t.nn.Parameter(t.zeros(1), False))],
            [pickled.note, hasattr(copied, "note")],
        )

    agree(snippet)


def test_parameter_refusals(agree):
    agree(lambda t: t.nn.Parameter(t.tensor([1])), messages=False)
    with pytest.raises(TypeError, match=r"\[Parameter\] expected a Tensor, got list"):
        nn.Parameter([1.0])


def test_buffer(agree):
    def snippet(t):
        m = t.nn.Module()
        m.kept = t.nn.Buffer(t.ones(1))
        m.hidden = t.nn.Buffer(t.ones(1), persistent=False)
        names = [n for n, _ in m.named_buffers()], list(m.state_dict())
        m.kept = t.zeros(1)
        m.hidden = t.nn.Buffer(t.zeros(1))
        twin = copy.deepcopy(m)
        return names, list(m.state_dict()), m.kept, list(twin.state_dict())

    agree(snippet)

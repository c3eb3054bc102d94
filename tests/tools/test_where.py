"""weft.tools.where: every place that it names exists and holds what was asked for."""

import inspect
import os
import subprocess
import sys

import pytest

import weft

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def line_at(place):
    file, _, number = place.rpartition(":")
    with open(os.path.join(ROOT, file)) as f:
        return f.read().splitlines()[int(number) - 1]


FOUND = [r for r in weft._library_ops.records() if r["function"] or "call" in r]


@pytest.mark.parametrize("record", FOUND[::7] + [r for r in FOUND if "call" in r])
def test_every_op_is_found_where_its_record_is(record):
    places = weft.tools.where(record["name"]).splitlines()
    if "call" in record:
        here = f"{record['file']}:{record['line']}"  # or the public function before the record
        assert here in places or not line_at(places[0]).startswith("@library_op")
        assert line_at(places[0]).startswith(("@", "def "))
        return
    if inspect.isfunction(getattr(weft, record["public_name"])):  # Python in front of the op
        assert "def " in line_at(places[0])
        return
    assert f"{record['file']}:{record['line']}" in places
    assert places[0].startswith("src/ops/") and line_at(places[0]).strip()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tanh", "tanh("),
        ("add_", '"add('),
        ("einsum", "def einsum"),
        ("Tensor.backward", "def backward"),
        ("Tensor.T", "def T"),
        ("T", "def T"),
        ("nn.Linear", "class Linear"),
        ("torch.optim.Adam", "class Adam"),
        ("nn.functional.normalize", "def normalize"),
        (weft.autograd.grad, "def grad"),
        (weft.relu, "relu"),
    ],
)
def test_the_line_shows_it(name, words):
    place = weft.tools.where(name).splitlines()[0]
    file, _, number = place.rpartition(":")
    with open(os.path.join(ROOT, file)) as f:
        near = f.read().splitlines()[int(number) - 1 : int(number) + 1]
    assert any(words in line for line in near), near


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="did you mean 'sigmoid'"):
        weft.tools.where("sigmoyd")
    with pytest.raises(TypeError, match="expected something with a source"):
        weft.tools.where(3)


def test_from_the_shell():
    run = subprocess.run(
        [sys.executable, "-m", "weft.tools.where", "tanh", "nn.Linear"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split() == [weft.tools.where("tanh"), weft.tools.where("nn.Linear")]

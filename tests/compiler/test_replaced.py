"""Methods and operators that a program replaces on the classes of tensors, between calls."""

import subprocess
import sys

import pytest

import weft
from weft import nn

REPLACED = {
    "exp": lambda x: x.exp() + 1,
    "T": lambda x: x.T.tanh() + 1,
    "size": lambda x: x.tanh() * x.size(0),
    "__matmul__": lambda x: x @ weft.eye(3) + 1,
    "__rsub__": lambda x: (2 - x).tanh(),
    "__iadd__": lambda x: plus_one_in_place(x * 2),
    "__neg__": lambda x: (-x).tanh(),
    "__gt__": lambda x: (x > 0.5).float() + 1,
    "__abs__": lambda x: abs(x).tanh() + 1,
}


def plus_one_in_place(x):
    x += 1
    return x.tanh()


@pytest.mark.parametrize("kind", [weft.Tensor, nn.Parameter], ids=["tensor", "parameter"])
@pytest.mark.parametrize("name", REPLACED)
def test_methods_and_operators_replaced_on_the_class_are_seen(name, kind, monkeypatch):
    """Stretches had asked class Tensor for its methods once, while they were traced."""
    function = REPLACED[name]
    compiled = weft.compile(function)
    x = nn.Parameter(weft.eye(3))
    seen = []

    def instead(tensor, *others):
        seen.append(name)
        return 7.0 if name == "size" else weft.full((3, 3), 7.0)

    def agree():
        for _ in range(4):
            counts = []
            for way in (function, compiled):
                seen.clear()
                with weft.no_grad():
                    value = way(x)
                counts.append((value.tolist(), len(seen)))
            assert counts[0] == counts[1]

    agree()
    monkeypatch.setattr(kind, name, property(instead) if name == "T" else instead)
    agree()
    monkeypatch.undo()
    agree()


ITEMS = """
import weft
f = lambda x: x[0].tanh() + 1
compiled, x = weft.compile(f), weft.eye(3)
for _ in range(4):
    compiled(x)
weft.Tensor.__getitem__ = lambda x, key: weft.full((3,), 7.0)
print([compiled(x).equal(f(x)) for _ in range(4)])
"""


def test_items_too():
    """In a process of its own: the class would stay a sequence to C when all is as it was."""
    done = subprocess.run([sys.executable, "-c", ITEMS], capture_output=True, text=True)
    assert done.stdout == "[True, True, True, True]\n", done.stderr

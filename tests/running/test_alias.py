"""Which modules of weft are PyTorch's by name, and what their versions are."""

import importlib
import pkgutil

import pytest

import weft
from weft.base import alias
from weft.torch_version import TorchVersion


def modules():
    yield from (m.name for m in pkgutil.walk_packages(weft.__path__, "weft."))


def test_what_is_wefts_alone_is_there():
    known = set(modules())
    assert sorted(alias._HOUSE - known - {"weft.__main__"}) == []
    assert not any(alias.is_house(name) for name in ("weft", "weft.nn", "weft.nn.functional", "os"))
    assert alias.is_house("weft.see.view.model") and alias.is_house("weft.nn.linear")


@pytest.mark.parametrize("package", ["torch", "torchvision"])
def test_each_module_is_wefts_alone_or_has_the_name_of_one_of_pytorch(request, package):
    """`import torch.x` must not give what PyTorch has not, or something else by that name."""
    request.getfixturevalue(package)
    wrong = []
    for name in modules():
        if alias.torch_name(name).partition(".")[0] == package and name != "weft._C":
            theirs = alias.torch_name(name)
            try:
                importlib.import_module(theirs)
            except ImportError:
                wrong.append(name)
    assert wrong == [], "neither in HOUSE of weft/base/alias.py nor a module of PyTorch's"


def test_names_without_the_finder_are_wefts():
    assert not alias.is_installed() and alias.home_name("torch.nn") == "torch.nn"
    assert weft.__name__ == "weft" and weft.__version__ == weft.version.weft


OTHERS = ["2.0", "2.13", "2.13.0", "2.14.1", "10.0", "abc", (2, 13), (2, 13, 0), (3,), None, 3, [2]]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_the_version_compares_as_pytorchs(torch, other):
    ours, theirs = TorchVersion("2.13.0"), torch.torch_version.TorchVersion("2.13.0")
    for method in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        assert getattr(ours, method)(other) == getattr(theirs, method)(other), method
    assert hash(ours) == hash("2.13.0") and f"{ours}" == "2.13.0"

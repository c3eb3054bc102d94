"""Files that were written before modules moved load: names in pickles stay valid.

`before_move/` was written once, by the package as it was: names.txt has the path of every class and
function that could be pickled then (less weft._checkpoint.dtypes.name_of and
weft.optim.optimizer.runs_plain, helpers that are gone and that no object holds, and the results of
weft.linalg's functions, which are weft.return_types' since), objects.pkl and the .pt files have
objects.
"""

import pickle
import sys
from pathlib import Path

import pytest

import weft
from weft.base.moved import MOVED

FOLDER = Path(__file__).parent / "before_move"


def listed(text):
    """(module, name) of each name in names.txt, whose longer lines go on indented."""
    module = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            module, _, line = line.partition(":")
        yield from ((module, name) for name in line.split())


def by_module():
    found = {}
    for module, name in listed((FOLDER / "names.txt").read_text()):
        found.setdefault(module, []).append(name)
    return found


def plain(name):
    return name.replace("_", "").lower()


@pytest.mark.parametrize("module, names", by_module().items())
def test_names_in_pickles_stay_valid(module, names):
    for name in names:
        thing = pickle.loads(b"\x80\x02c%s\n%s\n." % (module.encode(), name.encode()))
        # functions of constraints have become classes: independent is IndependentConstraint
        assert plain(name.split(".")[-1]) in plain(getattr(thing, "__name__", name))


def test_every_module_that_moved_is_among_them():
    unnamed = {"weft.special.older"}  # its functions were those of other modules
    assert set(MOVED) - unnamed <= set(by_module())
    for path in MOVED:
        __import__(path)
        assert not hasattr(sys.modules[path], "no_such_name")


def test_objects_load():
    old = pickle.loads((FOLDER / "objects.pkl").read_bytes())
    x = weft.arange(6.0).reshape(2, 3)
    assert weft.equal(old["tensor"], x) and weft.equal(old["permuted"], x.t())
    assert old["half"].dtype is weft.float16 and old["flags"].tolist() == (x > 2).tolist()
    assert old["complex"].dtype is weft.complex64 and old["empty"].shape == (0, 3)
    assert old["grad"].requires_grad and isinstance(old["param"], weft.nn.Parameter)
    assert old["size"] == weft.Size([2, 3]) and isinstance(old["size"], weft.Size)
    assert old["dtypes"] == [weft.float32, weft.bool, weft.bfloat16, weft.complex128]
    assert old["device"] == weft.device("cpu") and old["other_device"].index == 1
    assert old["layout"] is weft.strided and old["form"] is weft.channels_last
    assert old["finfo"].max == weft.finfo(weft.float32).max and old["iinfo"].min == -128
    assert old["sorted"].values.item() == 2 and old["modes"][0] is weft.no_grad
    assert old["signs"] is weft.linalg.LinAlgError
    F = weft.nn.functional
    assert old["functions"][:5] == [weft.allclose, weft.where, weft.einsum, weft.meshgrid, F.relu]
    assert F.normalize in old["functions"] and F.ctc_loss in old["functions"]
    net, parts = old["network"], old["parts"]
    assert net(x).shape == (2, 2) and parts["lstm"](x)[0].shape == (2, 4)
    assert parts["lazy"](x).shape == (2, 3) and parts["emb"](weft.tensor([1])).shape == (1, 3)
    weft.optim.Adam(net.parameters()).load_state_dict(old["adam"])
    assert old["normal"].log_prob(weft.tensor(0.0)).item() == pytest.approx(-0.9189385)


def test_saved_files_load():
    nn = weft.nn
    with weft.serialization.safe_globals([nn.Sequential, nn.Linear, nn.BatchNorm1d, nn.ReLU]):
        net = weft.load(FOLDER / "module.pt")
    state = weft.load(FOLDER / "state.pt")
    assert state["device"] == weft.device("cpu") and state["dtype"] is weft.float64
    assert state["size"] == (2, 3) and state["layout"] is weft.strided
    for name, value in net.state_dict().items():
        assert weft.equal(value, state["net"][name])


def test_functions_and_methods_pickle():
    """Those with `out=` and the in-place methods did not: their names led to other objects."""
    for f in (weft.quantile, weft.renorm, weft.take_along_dim, weft.detach, weft.squeeze_copy,
              weft.Tensor.quantile, weft.Tensor.renorm_, weft.Tensor.t_, weft.Tensor.backward,
              weft.Tensor.allclose, weft.addmv_, weft.as_strided_):  # fmt: skip
        assert pickle.loads(pickle.dumps(f)) is f, f

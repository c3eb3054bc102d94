"""docs/compatibility.md: which arguments are taken and have no effect, and that these are all."""

import dis
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import weft
from weft.base.alias import is_house

PAGE = Path(__file__).parent.parent / "docs/compatibility.md"
READS = {"LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "LOAD_CLASSDEREF", "DELETE_FAST",
         "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW"}  # fmt: skip


def modules():
    """The public modules: weft, and those with the name of one of PyTorch's."""
    yield "weft"
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not is_house(module.name) and "._" not in module.name:
            yield module.name


def unread(code):
    """The parameters that a function's code never loads; none of one that always raises."""
    count = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & f) for f in (4, 8))
    steps = list(dis.get_instructions(code))
    if not any(s.opname.startswith(("RETURN_", "YIELD_")) for s in steps):
        return []
    read = set(code.co_cellvars)
    for step in steps:
        if step.opname.count("_FAST") == 2:  # two in one, of Python 3.13
            ways = re.findall("LOAD|STORE", step.opname)
            read.update(n for n, way in zip(step.argval, ways, strict=True) if way == "LOAD")
        elif step.opname in READS:
            read.add(step.argval)
    names = code.co_varnames[:count]
    return [n for n in names if n not in read and n not in ("self", "cls") and n[0] != "_"]


def below(cls):
    yield cls
    for sub in type.__subclasses__(cls):
        yield from below(sub)


def read_by_others(cls, name):
    """The arguments of a method that others of the classes which share it read: it is an interface,
    and each of them takes what all of them may need."""
    first = [c for c in cls.__mro__ if name in vars(c) and c.__module__.startswith("weft.")][-1]
    codes = {
        inspect.unwrap(getattr(member, "__func__", member)).__code__
        for c in below(first)
        if c.__module__.startswith("weft.") and inspect.isfunction(member := vars(c).get(name))
    }
    return {n for code in codes for n in code.co_varnames if n not in unread(code)}


PUBLIC_ALL_THE_SAME = ("__init__", "__call__", "__new__", "_make_wrapper_subclass")


def functions(thing, path):
    """A public function, or those of a class, with their paths; what others of its kind read."""
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_") or name in PUBLIC_ALL_THE_SAME:
                shared = thing.__module__.startswith("weft.") and name[0] != "_"
                read = read_by_others(thing, name) if shared else set()
                yield f"{path}.{name}", getattr(member, "__func__", member), read
    elif callable(thing):
        yield path, thing, set()


def without_effect():
    """{(function, argument)}: each function by the shortest of its public paths."""
    found, shared = {}, {}
    for hidden in pkgutil.walk_packages(weft.__path__, "weft."):  # they have classes that read, too
        if hidden.name.startswith("weft.distributed.") and not hidden.name.endswith("over_mpi"):
            importlib.import_module(hidden.name)
    for home in modules():
        module = importlib.import_module(home)
        for name in dir(module):
            thing = getattr(module, name)
            of = str(getattr(thing, "__module__", None) or "weft").partition(".")[0]
            if name.startswith("_") or of not in ("weft", "torch"):
                continue
            for path, function, read in functions(thing, f"torch{home[4:]}.{name}"):
                code = getattr(inspect.unwrap(function), "__code__", None)
                if code is not None and f"{weft.__path__[0]}/" in code.co_filename:
                    place = (path.count("."), path)
                    found[code] = min(found.get(code, place), place)
                    shared.setdefault(code, set()).update(read)
    return {
        (path, name)
        for code, (_, path) in found.items()
        for name in unread(code)
        if name not in shared[code]
    }


def listed():
    """The same of the page: its rows are of arguments, functions and a reason."""
    text = PAGE.read_text().partition("## Arguments without effect")[2].partition("\n## ")[0]
    out = []
    for row in re.findall(r"^\| (`.*?) \| (`.*?) \| (\S.*) \|$", text, re.MULTILINE):
        arguments, of, why = row
        assert why == "the same" or len(why) > 10, row
        out += [(f, a) for f in re.findall("`(.*?)`", of) for a in re.findall("`(.*?)`", arguments)]
    return out


def test_the_page_lists_what_has_no_effect():
    rows = listed()
    assert len(rows) == len(set(rows)) > 50
    found = without_effect()
    assert sorted(found - set(rows)) == [], "give them an effect, refuse them, or list them"
    assert sorted(set(rows) - found) == [], "they are read now, or gone"


def test_what_is_not_read_is_found():
    def some(a, b, *rest, c=1, _d=2, **words):
        def inner():
            return b

        return inner  # fmt: skip

    def raises(a):
        raise NotImplementedError

    assert unread(some.__code__) == ["a", "c", "rest", "words"]
    assert unread(raises.__code__) == []


MAKERS = {
    "zeros": lambda **k: weft.zeros(2, **k), "tensor": lambda **k: weft.tensor([1.0], **k),
    "arange": lambda **k: weft.arange(2, **k), "rand": lambda **k: weft.rand(2, **k),
    "empty_strided": lambda **k: weft.empty_strided((2,), (1,), **k),
    "range": lambda **k: weft.range(1, 2, **k), "full": lambda **k: weft.full((2,), 1.0, **k),
    "scalar_tensor": lambda **k: weft.scalar_tensor(1.0, **k),
    "tril_indices": lambda **k: weft.tril_indices(2, 2, **k),
    "triu_indices": lambda **k: weft.triu_indices(2, 2, **k),
    "fft.fftfreq": lambda **k: weft.fft.fftfreq(3, **k),
    "fft.rfftfreq": lambda **k: weft.fft.rfftfreq(3, **k),
    "signal.windows.cosine": lambda **k: weft.signal.windows.cosine(3, **k),
    "signal.windows.bartlett": lambda **k: weft.signal.windows.bartlett(3, **k),
}  # fmt: skip
#: Which of PyTorch's makers take these words at all.
TAKES = {
    "layout": set(MAKERS) - {"tensor"},
    "pin_memory": {"zeros", "tensor", "arange", "rand", "empty_strided", "range", "full"},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_what_makes_tensors_makes_no_others(name):
    """Six of them took device="cuda" and gave a tensor on the CPU."""
    make = MAKERS[name]
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        make(device="cuda")
    with pytest.raises(NotImplementedError, match="no other device"):
        make(device="mps")
    assert make(device="cpu").device == weft.device("cpu")
    if name in TAKES["layout"]:
        assert make(layout=weft.strided).layout is weft.strided
        with pytest.raises((RuntimeError, TypeError, ValueError), match="layout"):
            make(layout=weft.sparse_coo)
    if name in TAKES["pin_memory"]:
        assert not make(pin_memory=False).is_pinned()
        with pytest.raises(RuntimeError, match="no pinned memory allocator is available"):
            make(pin_memory=True)

"""10 000 mutated files: nothing crashes, no code runs, memory stays bounded, errors are documented.

Whole files, pickles inside sound archives (where no checksum protects them) and safetensors are
mutated: bits, lengths, opcodes, cuts, splices, and names and calls that attackers use.
"""

import importlib
import io
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile
from collections import OrderedDict

import pytest

import weft
from weft import safetensors

ALLOWED = (RuntimeError, pickle.UnpicklingError, ValueError)
MEMORY = 8 << 20  # for files of a few kB

#: Audit events of running something, of importing by name, of files and processes.
FORBIDDEN = ("os.", "subprocess.", "exec", "compile", "socket.", "ctypes.", "shutil.", "pickle.")
_heard: list[str] = []
_listening = False


def _hook(event, args):
    if _listening and (event == "open" or event.startswith(FORBIDDEN)):
        _heard.append(f"{event} {args!r:.80}")


NUMBERS = [
    struct.pack(form, value)
    for form, values in {
        "<B": (0, 1, 0x7F, 0x80, 0xFF),
        "<I": (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
        "<Q": (0, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    }.items()
    for value in values
]
NAMES = [
    b"cos\nsystem\n", b"cposix\nsystem\n", b"csubprocess\nPopen\n", b"cbuiltins\neval\n",
    b"c__builtin__\nexec\n", b"cbuiltins\n__import__\n", b"cbuiltins\ngetattr\n",
    b"cweft.serialization\nload\n", b"cnumpy\nsave\n", b"ctorch\nTensor\n",
    b"cbuiltins\nset\n", b"c__builtin__\nbytearray\n", b"c_codecs\nencode\n",
    b"ccollections\nOrderedDict\n", b"ctorch\nSize\n", b"ctorch\ndevice\n", b"ctorch\nfloat64\n",
    b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch._utils\n_rebuild_tensor_v3\n",
    b"ctorch._utils\n_rebuild_parameter\n", b"ctorch\nLongStorage\n",
    b"ctorch.storage\nUntypedStorage\n", b"\x8c\x02os\x8c\x06system\x93",
]  # fmt: skip
CALLS = [
    b"cos\nsystem\nX\x04\x00\x00\x00true\x85R", b"c__builtin__\neval\nX\x03\x00\x00\x001+1\x85R",
    b"c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x7f\x85R", b")R", b"}b", b"Q", b"0",
    b"1",
    b"(" * 200, b"]" * 200, b"\x85" * 200, b"h\x00\x86" * 40, b"h\x00a" * 20, b")\x85R", b"\x81",
    b"}(h\x00h\x01u", b"\x95" + b"\xff" * 8, b"\x8f", b"(\x91", b"\x94" * 50, b"q\x00" * 50,
]  # fmt: skip
OPCODES = bytes(range(0x80, 0x99)) + b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu})]BCG"


def mutated(data, rng, pieces):
    """`data` after one to four random edits."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(9)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at] = rng.randrange(256)
        elif kind == 2:
            number = rng.choice(NUMBERS)
            out[at : at + len(number)] = number
        elif kind == 3 and rng.random() < 0.3:
            del out[at:]
        elif kind == 4:
            del out[at : at + rng.randint(1, 12)]
        elif kind == 5:
            other = rng.randrange(len(out) + 1)
            out[at:at] = out[other : other + rng.randint(1, 60)]
        elif kind == 6 and out:
            out[at] = rng.choice(OPCODES)
        else:
            piece = rng.choice(pieces)
            where = rng.choice(marks(out)) if rng.random() < 0.5 else at
            out[where : where + rng.choice((0, 0, len(piece)))] = piece
    return bytes(out)


def marks(data):
    """Places before names and reductions, where insertions hurt most."""
    found = [i for i, c in enumerate(data) if c in b"cR(tQ"]
    return found or [0]


def checkpoint():
    base = weft.arange(12.0)
    return OrderedDict(
        a=base.reshape(3, 4).t(),
        b=base[4:],
        p=weft.nn.Parameter(weft.ones(2)),
        n={"step": weft.tensor(3), "betas": (0.9, 0.999), "names": ["x", b"yz", None, True]},
        s={1, 2},
        size=weft.Size([1, 2]),
        dtype=weft.float64,
        big=2**70,
    )


def whole_files():
    file = io.BytesIO()
    weft.save(checkpoint(), file)
    return file.getvalue()


def unprotected(pickled, storages):
    """A sound archive around a mutated pickle: its checksum is that of the mutated bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("a/data.pkl", pickled)
        for key, data in storages.items():
            out.writestr(f"a/data/{key}", data)
    return file.getvalue()


def touch(value, depth=0):
    """Reads what was loaded: a bad layout would be seen here."""
    if isinstance(value, weft.Tensor):
        if value.numel() < 1000:
            value.tolist()
    elif isinstance(value, dict) and depth < 5:
        for item in list(value.values())[:50]:
            touch(item, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 5:
        for item in value[:50]:
            touch(item, depth + 1)


def outcomes(files, load):
    """How many files loaded and how many raised; fails on anything else."""
    global _listening
    counts = {"loaded": 0, "raised": 0}
    tracemalloc.start()
    held = weft._C._memory_stats()["current"]
    try:
        for data in files:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            weft._C._reset_peak_memory()
            _heard.clear()
            _listening = True
            try:
                touch(load(data))
                counts["loaded"] += 1
            except ALLOWED as error:
                counts["raised"] += 1
                del error
            finally:
                _listening = False
            assert not _heard, (_heard, data)
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY, data
            assert weft._C._memory_stats()["peak"] - held < MEMORY, data
    finally:
        tracemalloc.stop()
    return counts


@pytest.fixture(scope="module", autouse=True)
def audit():
    sys.addaudithook(_hook)  # for the life of the process; idle unless _listening
    weft.load(io.BytesIO(whole_files()))  # what is imported lazily is imported now
    safetensors.load(safetensors.save({"a": weft.ones(1)}))
    importlib.import_module("weft.base.failures")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(2))
def test_whole_archives(part):
    rng = random.Random(f"archives {part}")
    data = whole_files()
    files = (mutated(data, rng, [b"PK\x01\x02", b"PK\x03\x04", *NUMBERS]) for _ in range(1500))
    counts = outcomes(files, lambda raw: weft.load(io.BytesIO(raw)))
    assert counts["raised"] > 300


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_pickles_in_sound_archives(part):
    rng = random.Random(f"pickles {part}")
    with zipfile.ZipFile(io.BytesIO(whole_files())) as archive:
        pickled = archive.read("archive/data.pkl")
        storages = {str(i): archive.read(f"archive/data/{i}") for i in range(3)}
    files = (unprotected(mutated(pickled, rng, NAMES + CALLS), storages) for _ in range(1125))
    counts = outcomes(files, lambda raw: weft.load(io.BytesIO(raw)))
    assert counts["raised"] > 500


@pytest.mark.filterwarnings("ignore")
def test_old_files(torch):
    rng = random.Random("old")
    file = io.BytesIO()
    torch.save(
        {"a": torch.ones(2, 3), "b": [torch.arange(3)]}, file, _use_new_zipfile_serialization=False
    )
    files = (mutated(file.getvalue(), rng, NAMES + CALLS) for _ in range(1000))
    counts = outcomes(files, lambda raw: weft.load(io.BytesIO(raw)))
    assert counts["raised"] > 500


def test_safetensors():
    rng = random.Random("safetensors")
    data = safetensors.save(
        {"a": weft.arange(6.0).reshape(2, 3), "b": weft.tensor([True]), "c": weft.empty(0, 3)},
        {"k": "v"},
    )
    pieces = [
        b"[" * 50, b'{"a":' * 20, b"1e999", b"-1", b"0.5", b"NaN", b"99999999999999999999",
        b'"F64"',
        b'"I64"', b'"BOOL"', b"[]", b"{}", b"null", b'"a":', b'"__metadata__":', b"\xff",
        b"\\ud800",
        b"[4611686018427387904,0]", *NUMBERS,
    ]  # fmt: skip
    files = (mutated(data, rng, pieces) for _ in range(1500))
    counts = outcomes(files, safetensors.load)
    assert counts["raised"] > 500


def test_the_audit_hears():
    global _listening
    _listening = True
    try:
        open("/dev/null").close()
    finally:
        _listening = False
    assert any("open" in event for event in _heard)

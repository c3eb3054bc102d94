"""Files that libweft maps: the rules are weft.safetensors', which is the oracle; changed files are
refused or run."""

import json
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from libweft import Context, Failed, Program
from test_libweft import Counter, loop, saved, tree

import weft
from weft import safetensors
from weft.closing.program import package_of

HERE = Path(__file__).parent


def forward(x):
    return x @ WEIGHT + 1


WEIGHT = weft.arange(12.0).reshape(3, 4)
A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file_of(header, data=b"\0" * 8, length=None):
    """The bytes of a file: `header` as text or as what JSON makes of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def changed(**fields):
    return file_of({"a": {**A, **fields}})


FILES = {
    "nothing": b"",
    "seven bytes": b"1234567",
    "no header": file_of(b"", b""),
    "a header longer than the file": file_of({"a": A}, length=10**6),
    "a header of 2^63 bytes": file_of({"a": A}, length=2**63),
    "a header of 100 MB and more": file_of({"a": A}, length=100_000_001),
    "cut short": file_of({"a": A})[:-1],
    "longer": file_of({"a": A}) + b"x",
    "no JSON": file_of(b"{a}"),
    "a space before": file_of(b" " + json.dumps({"a": A}).encode()),
    "spaces behind": file_of(json.dumps({"a": A}).encode() + b"   "),
    "a list": file_of([A]),
    "no UTF-8": file_of(b'{"\xff": 1}'),
    "NaN": file_of(b'{"a": NaN}'),
    "a name twice": file_of(b'{"a": %s, "a": %s}' % ((json.dumps(A).encode(),) * 2)),
    "deep": file_of(b'{"a": ' + b"[" * 100_000),
    "a long number": file_of(b'{"a": ' + b"1" * 10_000 + b"}"),
    "metadata that is no map": file_of({"a": A, "__metadata__": 1}),
    "metadata that is no text": file_of({"a": A, "__metadata__": {"weft": 1}}),
    "a tensor that is no map": file_of({"a": 1}),
    "a field too many": changed(more=1),
    "a field too few": file_of({"a": {"dtype": "F32", "shape": [2]}}),
    "an unknown dtype": changed(dtype="F12"),
    "a dtype that is no text": changed(dtype=4),
    "a dtype of other size": changed(dtype="F64"),
    "the same bytes as another dtype": changed(dtype="I32"),
    "a shape that is no list": changed(shape=2),
    "a size that is no int": changed(shape=[2.0]),
    "a size that is true": changed(shape=[True, 2]),
    "a size below 0": changed(shape=[-2]),
    "64 dimensions": changed(shape=[1] * 63 + [2]),
    "65 dimensions": changed(shape=[1] * 64 + [2]),
    "2^64 elements": changed(shape=[2**32, 2**32]),
    "2^64 elements and a 0": file_of(
        {"a": {**A, "shape": [2**32, 2**31, 0], "data_offsets": [0, 0]}}, b""
    ),
    "offsets that are no pair": changed(data_offsets=[0, 4, 8]),
    "offsets that change places": changed(data_offsets=[8, 0]),
    "an offset below 0": changed(data_offsets=[-8, 0]),
    "an offset of 2^63": changed(data_offsets=[2**63, 2**63 + 8]),
    "a hole": file_of({"a": {**A, "data_offsets": [8, 16]}}, b"\0" * 16),
    "an overlap": file_of({"a": A, "b": {**A, "data_offsets": [4, 12]}}, b"\0" * 12),
    "two tensors": file_of({"b": {**A, "data_offsets": [8, 16]}, "a": A}, b"\0" * 16),
    "a tensor without elements": file_of(
        {"a": {**A, "shape": [0, 3], "data_offsets": [0, 0]}, "b": A}
    ),
    "none": file_of({}, b""),
}


@pytest.mark.parametrize("name", FILES)
def test_the_rules_of_a_file(lib, tmp_path, name):
    """A file without a program is refused, but as what it is."""
    path = tmp_path / "a.weft"
    path.write_bytes(FILES[name])
    try:
        safetensors.load(FILES[name])
        wanted = "metadata 'weft'"
    except safetensors.SafetensorError:
        wanted = "[safetensors]"
    with pytest.raises(Failed) as e:
        Program(lib, path)
    assert e.value.kind == "ValueError" and wanted in e.value.message


def test_what_is_no_file(lib, tmp_path):
    for path in (tmp_path, tmp_path / "nothing", "/dev/zero"):
        with pytest.raises(Failed):
            Program(lib, path)


def test_a_tensor_that_is_missing(lib, tmp_path):
    path = tmp_path / "a.weft"
    made = package_of({"forward": forward})
    safetensors.save_file({"other": weft.ones(1)}, path, {"weft": made.to_json()})
    with pytest.raises(Failed) as e:
        Program(lib, path)
    assert e.value.kind == "ValueError"


def test_tensors_that_lie_unaligned_and_truths_of_other_bytes(lib, tmp_path):
    """Bytes in a file may be anything; a truth value in memory is 0 or 1."""
    weight, truths = weft.ones(2), weft.tensor([True, False, True])

    def use(x):
        return x + weight, truths.sum()

    made = package_of({"forward": use})
    names = {name: t.dtype for name, t in made.tensors.items()}
    (float_name,) = (n for n, t in names.items() if t == weft.float32)
    (bool_name,) = (n for n, t in names.items() if t == weft.bool)
    header = {
        "__metadata__": {"weft": made.to_json()},
        bool_name: {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]},
        float_name: {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
    }
    path = tmp_path / "a.weft"
    path.write_bytes(file_of(header, b"\x02\x00\xff" + struct.pack("<ff", 5.0, 7.0)))
    sums, count = Context(Program(lib, path)).run("forward", weft.zeros(2))
    assert sums.tolist() == [5.0, 7.0] and count.item() == 2


def test_a_file_may_be_replaced_while_it_is_used(lib, tmp_path):
    path = saved(tmp_path / "a.weft", {"forward": forward})
    own = Context(Program(lib, path))
    path.unlink()
    x = weft.randn(2, 3)
    assert weft.equal(own.run("forward", x), forward(x))


@dataclass
class Point:
    x: int
    y: float = 0.5


SIZE, GROUP = weft.Size((3, 2)), frozenset({2, "a"})
NAMES = {2: "two", 3.5: (None, 1j)}


def constants(x, more=(slice(None, 2), {1, 2}, range(3), [2.5], ...)):
    """Constants of every kind, beside objects."""
    n = x.size(0)
    told = [n in GROUP, NAMES[n], SIZE[n - 1], more[n - 2], 1j * n, SIZE.numel()]
    point = Point(n)
    point.x += 1
    told.append(f"{point.y:.{n}f} {sorted(more[1])} {GROUP | {n}}")
    try:
        told.append(SIZE[n + 5])
    except (IndexError, KeyError) as error:
        told.append(str(error))
    with weft.no_grad():
        y = forward(x.reshape(SIZE).to(weft.float64)[..., :n].T.float())
    return y, told, point


def bessel(x):
    return weft.special.bessel_j0(x)


KINDS = """builtin complex dict dtype ellipsis float frozenset function library list mode object op
range record set size slice tensor tuple type""".split()


def kinds(told):
    """The kinds of constants in JSON."""
    if isinstance(told, dict):
        ((kind, inside),) = told.items()
        return {kind} if kind == "record" else {kind} | kinds(inside)
    return set().union(*map(kinds, told)) if isinstance(told, list) else set()


def test_changed_files_are_refused_or_run(compiled, tmp_path):
    module = Counter()
    files = [
        saved(tmp_path / "d.weft", {"forward": constants, "bessel": bessel}),
        saved(tmp_path / "a.weft", {"forward": forward}),
        saved(tmp_path / "b.weft", {"forward": loop, "tree": tree}),
        saved(tmp_path / "c.weft", {"forward": module.step, "scale": module.scale}, module),
    ]
    found = set()
    for path in files:
        with safetensors.safe_open(path, "pt") as file:
            for one in json.loads(file.metadata()["weft"])["functions"]:
                found |= kinds([*one["constants"], *one["defaults"].values()])
    assert sorted(found) == KINDS
    fuzzer = compiled(HERE / "fuzz_files.cpp")
    count = int(os.environ.get("WEFT_FUZZ_FILES", "1000"))
    command = [fuzzer, count, 1, tmp_path, *files]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    counts = [int(word) for word in done.stdout.split() if word.isdigit()]
    assert counts[0] == count and counts[1] and counts[3] and counts[4] < 5000, done.stdout

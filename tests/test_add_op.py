"""CONTRIBUTING's "nothing else is edited": an op that is only a record is everything an op is.

A family's file with one more record is compiled beside the sources and linked with the objects of
the build. The package over that core, in a folder of its own, has the op as function, method,
in-place and out= form; it is documented, merges, is cast, and passes the laws over the table.

Beside it is a name of a second version (Note [Versions]): files of the first mean what they meant.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from built import BUILD, EXTENSION, ROOT, commands

FAMILY = "src/ops/gamma_draw.cpp"
FUNCTOR = """
struct Cube {
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x * x * x;
    }
};
"""
RECORD = """
    ops::pointwise_op<Cube, NumberTypes, ops::Result::Same, 1>(t, "cube(Tensor self) -> Tensor")
        .doc("self to the third power.\\n>>> weft.cube(weft.tensor([2.]))\\ntensor([8.])")
        .inplace()
        .autocast(Cast::Narrow)
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * 3.0 * g.in(0) * g.in(0); })
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    // once it said whether to negate; now by which number to multiply
    t.add("cubed.negated(Tensor self, bool negate=False) -> Tensor")
        .until(2)
        .body([](Call& c) {
            Tensor x = c.in[0];
            c.set(x * x * x * (c.attr(0).as_bool() ? -1.0 : 1.0));
        });
    t.add("cubed.scaled(Tensor self, float scale) -> Tensor")
        .version(2)
        .body([](Call& c) {
            Tensor x = c.in[0];
            c.set(x * x * x * c.attr(0).as_double());
        })
        .doc("self to the third power, scaled.");
"""
VERSIONS = """
import json

import weft
from weft.closing.program import package_of


def function(x, how):
    return weft.cubed(x, how)


def method(x, how):
    return x.cubed(how)


def made(f, version):
    data = json.loads(package_of({"f": f}).to_json())
    assert set(data["ops"].values()) == {2}, data["ops"]  # what is written is today's
    data["ops"] = dict.fromkeys(data["ops"], version)
    return weft._C._Package(json.dumps(data), {})


x = weft.tensor([1.0, -2.0])
assert weft.cubed(x, 2.0).tolist() == x.cubed(2.0).tolist() == [2, -16]
try:
    weft.cubed(x)  # Python has today's alone
except TypeError as error:
    assert "negate" not in str(error)
else:
    raise AssertionError
assert not any(r["name"] == "cubed.negated" for r in weft._C._records())
for f in (function, method):
    for _ in range(3):  # the third time by plan
        assert made(f, 2).call("f", (x, 2.0), {}).tolist() == [2, -16]
        assert made(f, 1).call("f", (x, True), {}).tolist() == [-1, 8]
    for version, how in ((2, True), (1, 2.5)):
        try:
            out = made(f, version).call("f", (x, how), {})
        except TypeError:
            continue
        assert version == 2 and out.tolist() == [1, -8]  # a bool is a number, too
    try:
        made(f, 3)
    except ValueError as error:
        assert "expected version 2 of" in str(error) and "cubed" in str(error), error
    else:
        raise AssertionError
"""
PROGRAM = """
import runpy
import sys

import weft
from weft import _C

x = weft.tensor([1.0, -2.0])
assert weft.cube(x).tolist() == x.cube().tolist() == [1, -8]
assert weft.cube(input=x).tolist() == [1, -8]
out = weft.empty(0)
assert weft.cube(x, out=out) is out and out.tolist() == [1, -8]
same = x.clone()
assert same.cube_() is same and weft.cube_(x.clone()).tolist() == same.tolist() == [1, -8]
with weft.autocast("cpu"):
    assert weft.cube(x).dtype is weft.bfloat16
assert weft.cube(weft.tensor(2**62 + 1)).item() == 1 - 2**62  # it wraps around

sys.path.insert(0, "tools")  # where a script finds what lies beside it
stubs = runpy.run_path("tools/make_stubs.py")
assert stubs["stub"]().count("def cube(") == 3 and "def cube_(self)" in stubs["stub"]()
page = stubs["ops_page"]().split("## cube\\n")[1].split("\\n## ")[0]
assert "cube(Tensor self) -> Tensor" in page and "self to the third power." in page
assert FAMILY in page
assert "- `cube` (" + FAMILY + "): self to the third power." in stubs["names_page"]()

with weft.explain() as report:
    weft.autobatch(lambda v: (v * 1).cube() + 1)([x] * 8)
assert any(b["op"] == "cube" and b["calls"] == 8 for f in report.flushes for b in f["batches"])
"""


def read(file: str) -> str:
    return (ROOT / file).read_text()


def build_larger(out: Path) -> None:
    """weft/_C with one more record at the start of the family's registration."""
    files = commands(BUILD)
    family = f'#include "{ROOT / FAMILY}"'
    # The file itself, or the unit of a folder's files that has it: Note [Units] in CMakeLists.txt.
    alone = str(ROOT / FAMILY)
    unit = alone if alone in files else next(f for f in files if family in read(f))
    words = [*files[unit][0]]
    source, at = out / "family.cpp", words.index("-o") + 1
    name = f"void register_{Path(FAMILY).stem}(Table& t) {{\n"
    head, begin, body = read(FAMILY).partition(name)
    parts = [f'#line 1 "{ROOT / FAMILY}"\n#include "ops/pointwise_common.h"\n', head, FUNCTOR]
    source.write_text("".join([*parts, begin, RECORD, body]))
    whole = out / "unit.cpp"
    text = family if unit == alone else read(unit)
    whole.write_text(text.replace(family, f'#include "{source}"'))
    words[at], words[-1] = str(out / "family.o"), str(whole)
    subprocess.run([*words, "-O1"], cwd=BUILD, check=True)
    objects = [
        out / "family.o" if file == unit else made
        for file, (_, made) in files.items()
        if "weft_c.dir" not in str(made)  # the C interface is none of the extension's
    ]
    core = str(out / "weft" / EXTENSION)
    link = [words[0], "-shared", "-o", core, *objects, "-ldl", "-lpthread"]
    subprocess.run(link, check=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with the package over the larger core, tools and tests."""
    if not (BUILD / "compile_commands.json").exists():
        pytest.skip("no build folder, whose objects the core is linked from")
    compiler = next(iter(commands(BUILD).values()))[0][0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler: {compiler}")
    out = tmp_path_factory.mktemp("larger")
    shutil.copytree(ROOT / "weft", out / "weft", ignore=shutil.ignore_patterns("_C.*.so"))
    for folder in ("src", "tools", "tests", "pyproject.toml"):
        (out / folder).symlink_to(ROOT / folder)
    build_larger(out)
    return out


def run(package: Path, *args: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *args], cwd=package, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_record_is_all(package):
    run(package, "-c", f"FAMILY = {FAMILY!r}\n" + PROGRAM)


def test_files_of_an_older_version_mean_what_they_meant(package):
    (package / "versions.py").write_text(VERSIONS)
    run(package, "versions.py")


def test_the_laws_are_applied_to_it(package):
    laws = ["test_every_op.py", "test_every_dtype.py", "deferred/test_batched_is_loop.py"]
    files = [str(package / "tests" / law) for law in laws]
    done = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", "cube", *files]
    run(package, *done)

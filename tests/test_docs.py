"""Every example in the docstrings of the package runs and prints what it says."""

import doctest
import fnmatch
import importlib
import importlib.util
import inspect
import os
import pathlib
import pkgutil
import re
import runpy

import pytest

import weft

ROOT = pathlib.Path(__file__).parent.parent
# Packages that the examples of modules need.
NEEDED = {
    "onnx": "onnx", "utils.tensorboard": "tensorboard", "vision": "PIL",
    "distributed.ray.running.run": "ray", "distributed.ray.session": "ray",
    "distributed.ray.searching": "ray",
}  # fmt: skip
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules():
    """The package and every Python module below it."""
    yield "weft"
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.startswith("weft._C"):
            yield module.name


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in modules():
        module = importlib.import_module(name)
        for test in finder.find(module, name, extraglobs={"weft": weft}):
            if test.examples:
                yield pytest.param(test, id=test.name)


def test_every_module_says_what_it_is():
    for name in modules():
        assert inspect.getdoc(importlib.import_module(name)), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("test", list(examples()))
def test_the_example_runs(test):
    for module, package in NEEDED.items():
        if f"{test.name}.".startswith(f"weft.{module}."):
            pytest.importorskip(package)
    report: list[str] = []
    weft.manual_seed(0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize(
    "record", [pytest.param(r, id=r["name"]) for r in weft._library_ops.records()]
)
def test_the_example_of_the_op_runs(record):
    assert record["doc"].strip()
    names = {"weft": weft}
    test = doctest.DocTestParser().get_doctest(record["doc"], names, record["name"], None, None)
    report: list[str] = []
    weft.manual_seed(0)
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("page", ["docs/seeing.md", "docs/finding-faults.md"])
def test_the_examples_of_a_guide_run(page):
    """All of a guide is one session: what an example makes, the next ones use."""
    report: list[str] = []
    weft.manual_seed(0)
    text = re.sub(r"^```.*$", "", (ROOT / page).read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert len(test.examples) > 5
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


# What a site that `make docs` builds runs too, with what is printed below each cell.
RECIPES = sorted(p.name for p in (ROOT / "docs/cookbook").glob("*.md") if p.name != "index.md")
CELLS = ["docs/from-pytorch.md", *(f"docs/cookbook/{name}" for name in RECIPES)]
BLOCK = re.compile(r'```python( exec="on" .*)?')
PRINTED = re.compile(r"^ *print\(.*\)  +# (.*)$", flags=re.MULTILINE)


compiling = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="it shows what is compiled"
)


with_onnx = pytest.mark.skipif(
    importlib.util.find_spec("onnx") is None, reason="the package onnx is not installed"
)


with_pictures = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("PIL", "tensorboard"))),
    reason="the packages pillow and tensorboard are not both installed",
)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/array-api.md",
        "docs/export.md",
        "docs/masked.md",
        "docs/nested.md",
        pytest.param("docs/compile.md", marks=compiling),
        pytest.param("docs/onnx.md", marks=with_onnx),
        pytest.param("docs/vision.md", marks=with_pictures),
        *CELLS,
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, capsys, monkeypatch):
    """Its blocks are one program, in a file, as compiling reads sources; what a `print` has
    behind it is printed."""
    lines, inside = [], False
    for line in (ROOT / page).read_text().splitlines():
        inside = bool(BLOCK.fullmatch(line)) or (inside and line != "```")
        lines.append(line if inside and not line.startswith("```") else "")
    (tmp_path / "page.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "page.py"))
    rest = capsys.readouterr().out
    expected = PRINTED.findall("\n".join(lines))
    assert len(expected) > 1 or (page in CELLS and "assert " in "\n".join(lines) and rest)
    for text in expected:
        parts = [re.escape(part.strip()) for part in text.split("...")]
        found = re.search("(?s:.*?)".join(parts), rest)
        assert found, f"{text} in {rest}"
        rest = rest[found.end() :]


PAGES = ("DESIGN.md", "CONTRIBUTING.md", "README.md")
NAMED = re.compile(r"(?<![\w/])[\w*./-]*\w\.(?:py|cpp|h|md|pyi|toml)\b")


def test_the_navigation_names_every_page():
    """Of docs/; `mkdocs build --strict` finds what it names and is not there."""
    named = re.findall(r"^ +- ([\w/.-]+\.md)\b", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) == len(set(named))
    there = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert there <= set(named), there - set(named)
    others = set(named) - there
    assert others == {"index.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE.md"}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    known = {p.name for folder in ("src", "weft", "tests", "bench", "examples", "tools", "docs")
             for p in (ROOT / folder).rglob("*.*")}  # fmt: skip
    named = set(NAMED.findall((ROOT / page).read_text()))
    assert named
    for name in sorted(named):
        below = any(ROOT.glob(name)) or any((ROOT / "src").glob(name))
        alone = "/" not in name and any(fnmatch.fnmatch(k, name) for k in known)
        assert below or alone, f"{page} names {name}"

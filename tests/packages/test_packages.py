"""Scripts over public packages run under `weft run`, and print what they print with PyTorch."""

import re
import tomllib
from pathlib import Path

import pytest

from weft.running.differences import same_line

HOME = Path(__file__).parent
ROOT = HOME.parent.parent
SCRIPTS = sorted(HOME.glob("*/*.py"))


def by_package(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("script", SCRIPTS, ids=by_package, indirect=True)
def test_prints_what_it_prints_with_pytorch(script, with_torch):
    ours = script.with_weft()
    if with_torch:
        theirs = script.with_torch()
        apart = [(a, b) for a, b in zip(theirs, ours) if not same_line(a, b)]
        assert not apart and len(theirs) == len(ours), (apart[:5], len(theirs), len(ours))


def test_the_extra_the_table_and_the_scripts_name_the_same_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = dict(pin.split("==") for pin in project["optional-dependencies"]["compat"])
    page = (ROOT / "docs/compatibility.md").read_text()
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([\d.]+\w*) \|", page, re.M))
    assert {path.parent.name for path in SCRIPTS} == set(pins)
    assert {name: rows.get(name) for name in pins} == pins

"""Every example runs at a small size, in a fresh interpreter, and does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name, *arguments, cwd):
    """The standard output of one example."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_listops_learns(tmp_path):
    picture = tmp_path / "curves" / "loss.png"
    output = run("listops.py", "--trees", 2000, "--dim", 32, "--out", picture, cwd=tmp_path)
    accuracy, count, majority = map(
        float, re.search(r"accuracy ([\d.]+) on (\d+) .*class ([\d.]+)", output).groups()
    )
    assert 80 < count <= 100
    assert accuracy > majority + 0.05
    pytest.importorskip("matplotlib")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_listops_repeats_itself(tmp_path):
    arguments = ["--trees", 64, "--dim", 8, "--epochs", 2, "--depth", 2]
    first = run("listops.py", *arguments, cwd=tmp_path)
    assert first == run("listops.py", *arguments, cwd=tmp_path)


# At sizes of a few seconds: what to find in the output, and what must hold of the numbers.
SMALL = {
    "adaptive_time.py": (
        ["--examples", 6400, "--size", 3], r"accuracy ([\d.]+) .* ([\d.]+) steps each",
        lambda accuracy, steps: accuracy > 0.6 and steps >= 1,
    ),
    "char_gpt.py": (
        ["--steps", 250, "--text", 60000, "--dim", 32, "--layers", 1, "--length", 32],
        r"([\d.]+) bits per character on unseen text, ([\d.]+)",
        lambda bits, alone: bits < alone,
    ),
    "digits_cnn.py": (
        ["--epochs", 2, "--width", 4], r"accuracy ([\d.]+) on 360 .*class ([\d.]+)",
        lambda accuracy, majority: accuracy > 0.5 > majority,
    ),
    "digits_vae.py": (
        ["--epochs", 8, "--hidden", 64], r"bound ([\d.]+) nats .* ([\d.]+) by",
        lambda bound, alone: bound < alone + 1,
    ),
    "growing_net.py": (
        ["--epochs", 40, "--patience", 1], r"after: (\d) grown layers, .* accuracy ([\d.]+)",
        lambda layers, accuracy: layers >= 1 and accuracy > 0.8,
    ),
    "maml.py": (
        ["--steps", 300, "--tasks", 50], r"error ([\d.]+), after one step ([\d.]+)",
        lambda before, after: after < before,
    ),
    "mixture_of_experts.py": (
        ["--epochs", 6], r"accuracy ([\d.]+) on 360 .*class ([\d.]+)",
        lambda accuracy, majority: accuracy > 0.7 > majority,
    ),
    "packed_tagger.py": (
        ["--lines", 800, "--epochs", 1, "--dim", 24], r"accuracy ([\d.]+) on .*alone ([\d.]+)",
        lambda accuracy, alone: accuracy > 0.4,
    ),
    "reinforce_cartpole.py": (
        ["--episodes", 60], r"mean return (\d+) .* (\d+) in the first",
        lambda last, first: last > first,
    ),
    "spelled_tagger.py": (
        ["--lines", 3000], r"accuracy ([\d.]+) on .*tag ([\d.]+)",
        lambda accuracy, alone: accuracy > alone,
    ),
    "stack_machine.py": (
        ["--formulas", 3200], r"parsed ([\d.]+), accuracy ([\d.]+)",
        lambda parsed, accuracy: parsed > 0.8 and accuracy > 0.8,
    ),
}  # fmt: skip
BATCHED = {
    "mixture_of_experts.py": ["--epochs", 1],
    "spelled_tagger.py": ["--lines", 200],
    "stack_machine.py": ["--formulas", 192],
}
NEEDS = {"digits_cnn.py": "sklearn", "digits_vae.py": "sklearn", "growing_net.py": "sklearn",
         "mixture_of_experts.py": "sklearn",
         "reinforce_cartpole.py": "gymnasium"}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_an_example_does_what_it_says(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    arguments, pattern, holds = SMALL[name]
    output = run(name, *arguments, cwd=tmp_path)
    assert (found := re.search(pattern, output)), output
    assert holds(*map(float, found.groups())), output


@pytest.mark.parametrize("name", BATCHED)
def test_batched_and_plain_come_to_the_same(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    batched, plain = (
        run(name, *BATCHED[name], *more, cwd=tmp_path) for more in ([], ["--plain"])
    )  # fmt: skip
    numbers = [[float(n) for n in re.findall(r"[\d.]*\d", text)] for text in (batched, plain)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.02)


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"listops.py", *SMALL}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(path.read_text().splitlines()) <= 130

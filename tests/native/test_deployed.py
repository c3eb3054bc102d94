"""The programs of examples/deploy: one model from everywhere, and trees from C++."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_libweft import saved

import weft
from weft import nn

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"
HERE = Path(__file__).parent


class TreeScore(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.join = nn.Embedding(10, 8), nn.Linear(16, 8)
        self.score = nn.Linear(8, 1)

    def node(self, tree):
        if isinstance(tree, int):
            return self.words.weight[tree]
        return weft.tanh(self.join(weft.cat([self.node(tree[0]), self.node(tree[1])])))

    def forward(self, tree):
        return self.score(self.node(tree))


def run(program, *arguments):
    return subprocess.run(
        [str(program), *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the files that train.py writes, and without train.py."""
    folder = tmp_path_factory.mktemp("deploy")
    done = subprocess.run(
        [sys.executable, DEPLOY / "train.py", "--steps", "60"],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[1]) > 0.8
    for name in ("run.py", "run_onnx.py"):
        shutil.copy(DEPLOY / name, folder)
    return folder


ROWS = [[0.5, -1.0, 2.0, 1.5], [0.1], [-0.3, 0.2, 0.005], [0.02, -0.03], [0.0] * 9, [-0.9] * 20]


@pytest.fixture(scope="module")
def printed(trained):
    """What run.py prints of each row."""
    lines = []
    for row in ROWS:
        done = run(sys.executable, trained / "run.py", trained / "model.weft", *row)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout)
    return lines


def test_python_prints_what_the_model_computes(trained, printed):
    program = weft.jit.load(trained / "model.weft")
    for row, line in zip(ROWS, printed):
        probability, thoughts = program(weft.tensor(row))
        assert line == f"{probability.item():.4f} {thoughts}\n"
    thoughts = {line.split()[1] for line in printed}
    assert "0" in thoughts and len(thoughts) > 1  # the loop over values had turns


def test_onnxruntime_prints_the_same(trained, printed):
    pytest.importorskip("onnxruntime")
    for row, line in zip(ROWS, printed):
        done = run(sys.executable, trained / "run_onnx.py", trained / "model.onnx", *row)
        assert (done.stdout, done.stderr) == (line, "")


@pytest.mark.parametrize("source, shared", [("run.c", False), ("run.c", True), ("run.cpp", True)])
def test_c_and_cxx_print_the_same(compiled, trained, tmp_path, printed, source, shared):
    program = compiled(DEPLOY / source, shared, f"-I{ROOT / 'src' / 'c'}")
    for row, line in zip(ROWS, printed):
        done = run(program, trained / "model.weft", *row)
        assert (done.stdout, done.stderr) == (line, "")
    assert run(program, tmp_path / "nothing.weft", 1).returncode == 1
    assert run(program, trained / "model.onnx", 1).returncode == 1
    path = saved(tmp_path / "other.weft", {"forward": lambda x: x})
    done = run(program, path, 1)
    assert done.returncode == 1 and "expected" in done.stderr


def test_trees_of_its_own_in_cxx(compiled, tmp_path):
    weft.manual_seed(0)
    model = TreeScore()
    path = saved(tmp_path / "tree.weft", {"forward": model.forward}, model)
    program = compiled(DEPLOY / "tree.cpp", False, f"-I{ROOT / 'src' / 'c'}")
    trees = [3, [1, 2], [3, [1, 2]], [[0, 1], [[2, 3], 4]], [[[[5, 6], 7], 8], 9]] * 5
    texts = [str(t).replace("[", "(").replace("]", ")").replace(",", "") for t in trees]
    done = run(program, path, *texts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"{model(t).item():.5f}" for t in trees]
    done = run(program, path, "(1 99)")
    assert (
        done.returncode == 1 and "IndexError" in done.stderr and "in TreeScore.node" in done.stderr
    )


def test_the_header_is_c99_and_cxx11(tmp_path):
    source = tmp_path / "header.c"
    source.write_text(
        '#include "c/weft.h"\nint main(void) { return weft_int(3).kind != WEFT_INT; }\n'
    )
    for command in (["cc", "-std=c99"], ["c++", "-std=c++11", "-xc++"]):
        try:
            checks = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
            done = subprocess.run(
                [*command, *checks, f"-I{ROOT / 'src'}", str(source)],
                capture_output=True, text=True,
            )  # fmt: skip
        except FileNotFoundError:
            pytest.skip(f"needs {command[0]}")
        assert done.returncode == 0, done.stderr

"""`import weft` is quick because it loads nothing it does not need at once."""

import json
import subprocess
import sys

HEAVY = ["numpy", "torch", "greenlet", "tqdm", "scipy", "matplotlib", "multiprocessing"]


def modules_after(code, cwd):
    """Names in sys.modules of a fresh interpreter that ran `code`."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_is_lazy(tmp_path):
    loaded = modules_after("import weft", tmp_path)
    assert "weft._C" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_a_step_of_training_stays_lazy(tmp_path):
    loaded = modules_after(
        "import weft\n"
        "model = weft.nn.Linear(3, 1)\n"
        "optimizer = weft.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(weft.ones(2, 3)).sum().backward()\n"
        "optimizer.step()",
        tmp_path,
    )
    assert [name for name in HEAVY if name in loaded] == []


def test_the_check_sees_what_is_loaded(tmp_path):
    assert "numpy" in modules_after("import numpy", tmp_path)


def test_functions_pickle_and_copy_by_name():
    """They went through getattr on the module, which no copy or pickle can hold."""
    import copy
    import pickle

    import weft

    for f in (weft.add, weft.relu_, weft.nn.functional.gelu, weft.nn.functional.linear,
              weft.Tensor.add, weft.Tensor.exp_):  # fmt: skip
        assert pickle.loads(pickle.dumps(f)) is f
        assert copy.deepcopy(f) is f

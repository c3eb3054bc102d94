"""`weft run`: programs for PyTorch run as `python` would run them, with torch being weft."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import weft

WEFT = [sys.executable, "-m", "weft", "run"]
ROOT = os.path.dirname(os.path.dirname(weft.__file__))


def environment(**changes):
    clean = {k: v for k, v in os.environ.items() if k not in ("WEFT_AS_TORCH", "PYTHONPATH")}
    return clean | {"PYTHONPATH": ROOT, **changes}


def start(words, cwd, **changes):
    return subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=120, env=environment(**changes)
    )


def passes(words, cwd, **changes):
    done = start(words, cwd, **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def script(folder, text, name="script.py"):
    (folder / name).write_text(textwrap.dedent(text))
    return name


IDENTITY = """
    import importlib, importlib.metadata, importlib.util, sys
    import torch, torch.nn as nn, torch.nn.functional as F
    import torch.nn.modules.conv, torch.nn.utils.spectral_norm, torch.utils.data
    from torch.utils.data import DataLoader
    import weft
    import weft.see, weft.nn.init

    # one module object under two names, those that load later too
    assert torch is weft and nn is weft.nn and F is weft.nn.functional
    assert torch.distributions is weft.distributions is sys.modules["torch.distributions"]
    assert torch.distributions.__name__ == "torch.distributions"
    assert torch.nn.modules.conv is weft.nn.modules.conv
    assert torch.nn.modules.conv.__name__ == "torch.nn.modules.conv"
    assert callable(torch.nn.utils.spectral_norm)  # not the module of its name
    old, F.relu = F.relu, lambda x: "patched"
    assert weft.nn.functional.relu(1) == torch.nn.functional.relu(1) == "patched"
    F.relu = old

    # names and versions are PyTorch's, and weft's own are weft's
    assert torch.__name__ == "torch" and F.__name__ == "torch.nn.functional"
    assert nn.__spec__.name == "torch.nn" and nn.__package__ == "torch.nn"
    assert weft.see.__name__ == "weft.see" and weft.see.__spec__.name == "weft.see"
    assert torch.__version__ == torch.version.__version__ == "2.13.0"
    assert torch.__version__ > "2.9" and torch.__version__ >= (2, 13)
    assert type(torch.__version__) is torch.torch_version.TorchVersion
    assert importlib.metadata.version("torch") == "2.13.0"
    assert importlib.metadata.version("Torch") == "2.13.0"
    assert "torch" in importlib.metadata.packages_distributions()["torch"]
    assert importlib.metadata.version("numpy")
    assert torch.version.weft == weft.version.weft != torch.__version__

    # weft.vision is torchvision, by the same rule
    import torchvision
    from torchvision.transforms import v2, functional as TF
    assert torchvision is weft.vision and TF is weft.vision.transforms.functional
    assert torchvision.__name__ == "torchvision" and torchvision.__version__ == "0.28.0"
    assert v2.__name__ == "torchvision.transforms.v2" and v2.__spec__.name == v2.__name__
    assert importlib.metadata.version("torchvision") == "0.28.0"
    assert torchvision.models.resnet18.__module__ == "weft.vision.models.resnet"
    # what DETR's nested_tensor_from_tensor_list asks for, which programs copy
    seen = []
    asks = lambda x: (seen.append(bool(torchvision._is_tracing())), x * 2)[1]
    torch.jit.trace(asks, torch.ones(2))
    assert seen and seen[0] and not torchvision._is_tracing()

    # what there is not
    def said(name):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as e:
            assert e.name == name and type(e).__name__ == "ModuleNotFoundError"
            return str(e)
    assert said("torch.nn.functionl") == (
        "No module named 'torch.nn.functionl'. Hint: did you mean torch.nn.functional?")
    assert said("torchvision.transform").endswith("did you mean torchvision.transforms?")
    for name in ("torchvision.transforms.chance", "torchvision.no_such", "torch.vision"):
        assert "torch.vision" not in said(name).partition("Hint")[2]
    for name in ("torch.no_such", "torch.see", "torch.base", "torch.tensor"):
        assert f"No module named '{name}'" in (said(name) or "imported"), name
    assert importlib.util.find_spec("torch.no_such") is None
    assert importlib.util.find_spec("torch.nn.init").name == "torch.nn.init"
    try:
        torch.rnad
    except AttributeError as e:
        assert str(e) == "module 'torch' has no attribute 'rnad'. Hint: did you mean 'rand'?"
    try:
        from torch.nn import Lienar
    except ImportError as e:
        assert str(e).startswith("cannot import name 'Lienar' from 'torch.nn'")
    assert not hasattr(torch, "no_such_name")

    # weft's own machines know weft's functions by the names that they have now
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    from torch import fx
    assert "relu" in fx.symbolic_trace(lambda x: F.relu(x) + 1).code
    importlib.reload(torch.nn.init)
    assert torch.nn.init is weft.nn.init
    print("passed")
"""


def test_torch_is_weft(tmp_path):
    assert passes([*WEFT, script(tmp_path, IDENTITY)], tmp_path) == "passed\n"


SAME = {
    "argv": ("import sys; print(sys.argv, sys.path[0], __name__, __file__, sys.flags.optimize)",
             ["-O", "script.py", "-x", "--compare", "a b", "-"]),
    "exit": ("import sys; print('out'); sys.exit(3)", ["script.py"]),
    "exit text": ("import sys; sys.exit('said')", ["script.py"]),
    "traceback": ("def f(x):\n    return x / 0\n\nprint('before')\nf(1)", ["script.py"]),
    "module": ("import sys; print(sys.argv, __name__, __spec__.name)", ["-m", "script", "-m", "x"]),
    "code": ("", ["-c", "import sys; print(sys.argv)", "-c"]),
    "no script": ("", ["missing.py"]),
    "module that is not there": ("", ["-m", "missing_module"]),
    "warnings": ("import warnings; warnings.warn('said')", ["-W", "error", "script.py"]),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", ["script.py"]),
    "interrupted": ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", ["script.py"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_what_python_does_weft_run_does(tmp_path, name):
    text, words = SAME[name]
    script(tmp_path, text)
    ours, pythons = start([*WEFT, *words], tmp_path), start([sys.executable, *words], tmp_path)
    assert ours.stdout == pythons.stdout
    assert ours.stderr == pythons.stderr
    assert ours.returncode == pythons.returncode


def test_a_traceback_shows_the_lines_of_the_program_alone(tmp_path):
    name = script(tmp_path, """
        import torch
        def f(x):
            return x @ torch.ones(4, 4)
        f(torch.ones(2, 3))
    """)  # fmt: skip
    done = start([*WEFT, name], tmp_path)
    assert done.returncode == 1
    files = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert len(files) == 2 and all("script.py" in line for line in files), done.stderr


def test_pdb_steps_through_a_program(tmp_path):
    name = script(tmp_path, "import torch\nx = torch.ones(2)\ny = x + 1\n")
    done = subprocess.run(
        [*WEFT, "-m", "pdb", name], input="next\nnext\np x\nquit\n", cwd=tmp_path,
        capture_output=True, text=True, timeout=120, env=environment(),
    )  # fmt: skip
    assert "tensor([1., 1.])" in done.stdout and "y = x + 1" in done.stdout, done.stdout


def test_ctrl_c_ends_a_program_that_waits(tmp_path):
    name = script(tmp_path, "import torch, time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen(
        [*WEFT, name], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(), start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(30) == -signal.SIGINT
        assert child.stderr.read().rstrip().endswith("KeyboardInterrupt")


CHILD = """
    import torch
    def name_of_torch(_=None):
        return torch.__name__ + " " + torch.__file__
"""
CHILDREN = """
    import multiprocessing, os, subprocess, sys
    import child
    def main():
        import torch
        import torch.utils.data as data
        here = child.name_of_torch()
        there = subprocess.run([sys.executable, "-c", "import child; print(child.name_of_torch())"],
                               capture_output=True, text=True, check=True).stdout.strip()
        assert there == here, there
        for how in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(how).Pool(1) as pool:
                assert pool.map(child.name_of_torch, [0]) == [here], how
        for how in ("fork", "spawn"):
            loader = data.DataLoader(Names(), num_workers=1, multiprocessing_context=how,
                                     collate_fn=list)
            assert list(loader) == [[here]], how
        print("passed", os.path.basename(os.path.dirname(here)))
    class Names:
        def __len__(self):
            return 1
        def __getitem__(self, k):
            return child.name_of_torch()
    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("how", ["weft run", "install_as_torch"])
def test_children_have_the_mode(tmp_path, how):
    script(tmp_path, CHILD, "child.py")
    if how == "weft run":
        words = [*WEFT, script(tmp_path, CHILDREN)]
    else:
        first = "    import weft; weft.install_as_torch(); weft.install_as_torch()\n"
        words = [sys.executable, script(tmp_path, first + CHILDREN)]
    assert passes(words, tmp_path) == "passed weft\n"


def test_the_mode_is_off_elsewhere(tmp_path):
    """Also where PyTorch is installed: the alias is there in this mode, and never otherwise."""
    code = "import weft, sys; assert 'torch' not in sys.modules; print(weft.__name__)"
    assert passes([sys.executable, "-c", code], tmp_path) == "weft\n"
    pytest.importorskip("torch")
    code = (
        "import importlib.util as u, importlib.metadata as m, weft; "
        "print(u.find_spec('torch').origin, m.version('torch'), weft.__version__)"
    )
    origin, version, own = passes([sys.executable, "-c", code], tmp_path).split()
    assert "site-packages" in origin and version.startswith("2.13.0") and own == weft.__version__
    # a child that is told not to
    code = (
        "import subprocess, sys, os; subprocess.run([sys.executable, '-c', "
        "'import importlib.util as u; print(u.find_spec(\"torch\").origin)'], "
        "env=os.environ | {'WEFT_AS_TORCH': '0'})"
    )
    assert passes([*WEFT, "-c", code], tmp_path).strip() == origin


def test_a_sitecustomize_that_is_there_still_runs(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import builtins; builtins.customized = __file__")
    code = "import sys, torch; print(customized, sys.modules['sitecustomize'].__file__, *sys.path)"
    out = passes([*WEFT, "-c", code], tmp_path, PYTHONPATH=f"{folder}{os.pathsep}{ROOT}")
    first, second, *path = out.split()
    assert first == second == str(folder / "sitecustomize.py")
    assert str(folder) in path and not any("weft/base" in entry for entry in path)


def test_pickles_load_in_both_modes(tmp_path):
    made = script(tmp_path, """
        import pickle, sys
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Conv2d(1, 1, 1))
        things = [model, torch.arange(3.), torch.Size([2]), torch.float32, torch.device("cpu"),
                  torch.nn.functional.gelu, torch.optim.SGD(model.parameters(), lr=0.5)]
        file = open(sys.argv[1], "wb")
        pickle.dump(things, file)
        torch.save({"model": model.state_dict()}, sys.argv[1] + ".pt")
    """, "make.py")  # fmt: skip
    script(tmp_path, (tmp_path / "make.py").read_text().replace("torch", "weft"), "make_weft.py")
    read = script(tmp_path, """
        import pickle, sys, weft
        model, x, size, dtype, device, gelu, sgd = pickle.load(open(sys.argv[1], "rb"))
        assert type(model[0]) is weft.nn.Linear and x.tolist() == [0, 1, 2] and size == (2,)
        assert dtype is weft.float32 and gelu is weft.nn.functional.gelu
        assert sgd.defaults["lr"] == 0.5
        data = open(sys.argv[1], "rb").read()
        assert b"weft.nn.linear" in data and b"torch" not in data
        model.load_state_dict(weft.load(sys.argv[1] + ".pt")["model"])
        print("passed")
    """, "read.py")  # fmt: skip
    passes([*WEFT, made, "in_mode"], tmp_path)
    passes([sys.executable, "make_weft.py", "without"], tmp_path)
    assert passes([sys.executable, read, "in_mode"], tmp_path) == "passed\n"
    assert passes([*WEFT, read, "without"], tmp_path) == "passed\n"


def test_install_as_torch_refuses_where_torch_is_imported(tmp_path):
    code = """
        import sys, types, os
        sys.modules["torch"] = torch = types.ModuleType("torch")
        import weft
        before = dict(os.environ)
        try:
            weft.install_as_torch()
        except RuntimeError as e:
            assert "expected a process that has not imported torch" in str(e)
        else:
            raise AssertionError
        import torch as again
        assert again is torch and weft.nn.__name__ == "weft.nn" and dict(os.environ) == before
        print("passed")
    """
    assert passes([sys.executable, script(tmp_path, code)], tmp_path) == "passed\n"


def test_install_as_torch_within_a_program(tmp_path):
    code = """
        import weft, weft.distributions, weft.see
        assert weft.__version__ == weft.version.weft and weft.nn.__name__ == "weft.nn"
        weft.install_as_torch()
    """
    text = textwrap.dedent(code) + textwrap.dedent(IDENTITY)
    assert passes([sys.executable, script(tmp_path, text)], tmp_path) == "passed\n"


@pytest.mark.parametrize("flags", [["-I"], ["-uE"], ["-u", "-S"]])
def test_flags_that_leave_the_environment_out_are_refused(tmp_path, flags):
    done = start([*WEFT, *flags, "-c", "print(1)"], tmp_path)
    assert done.returncode == 2 and "install_as_torch() in the program" in done.stderr


def test_a_flag_with_a_value_takes_its_word(tmp_path):
    assert passes([*WEFT, "-X", "utf8=1", "-WE", "-c", "print(1)", "-E"], tmp_path) == "1\n"

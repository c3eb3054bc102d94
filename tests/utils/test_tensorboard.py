"""Event files, read back by TensorBoard and beside those that PyTorch's writer makes."""

import io
import os

import numpy as np
import pytest

import weft

pytest.importorskip("tensorboard")
accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")

from weft.utils.tensorboard import SummaryWriter  # noqa: E402

RNG = np.random.default_rng(8)
PICTURE = RNG.uniform(size=(3, 5, 6))
VALUES = RNG.normal(size=50)


def values(folder):
    """Every value of a folder's event files, without times: (step, tag, content)."""
    names = sorted(name for name in os.listdir(folder) if "tfevents" in name)
    files = (loader.LegacyEventFileLoader(os.path.join(str(folder), name)) for name in names)
    return [(e.step, v.tag, v) for file in files for e in file.Load() for v in e.summary.value]


CALLS = [
    "w.add_scalar('a/b', 0.5, 3)", "w.add_scalar('a', t.tensor([2.5]), 3)",
    "w.add_scalar('a', 2, t.tensor(4))", "w.add_scalar('a', 0.1, 1, new_style=True)",
    "w.add_scalar('a', 0.1, new_style=True, double_precision=True)",
    "w.add_histogram('h', V, 2)", "w.add_histogram('h', t.from_numpy(V), 2, bins='auto')",
    "w.add_histogram('h', V, bins=[-1, 0, 0.5, 1])", "w.add_histogram('h', V, max_bins=40)",
    "w.add_histogram('h', t.zeros(3, 2), 2)", "w.add_histogram('h', t.arange(9), bins=4)",
    "w.add_histogram('h', t.ones(2).bfloat16(), 1)",
    "w.add_histogram_raw('h', 0, 3, 4, 5.5, 9.0, [1, 2, 3], [2, 1, 1], 7)",
    "w.add_pr_curve('p', V > 0, abs(V) / abs(V).max(), 3)",
    "w.add_pr_curve('p', t.tensor([1, 0, 1, 1]), t.tensor([0.9, 0.4, 0.2, 1.0]), num_thresholds=5)",
    "w.add_pr_curve('p', t.tensor([1, 0]), t.tensor([0.9, 0.4]), 1, 500, weights=0.5)",
    "w.add_pr_curve_raw('p', *[[3, 2, 1]] * 6, 2, 3)",
    "w.add_image('i', P, 1)", "w.add_image('i', t.from_numpy(P[:1]), 1)",
    "w.add_image('i', P[0], dataformats='HW')", "w.add_image('i', P.T, dataformats='WHC')",
    "w.add_image('i', (P * 255).astype('uint8'))", "w.add_images('i', P[None].repeat(10, 0), 2)",
    "w.add_images('i', P[:, None], dataformats='NCHW')",
    "w.add_custom_scalars({'A': {'a': ['Multiline', ['x', 'y']]}, 'B': {"
    "'b': ['Margin', ['x', 'y', 'z']], 'c': ['Multiline', []]}})",
    "w.add_custom_scalars_multilinechart(['x', 'y'])",
    "w.add_custom_scalars_marginchart(['x', 'y', 'z'], 'C', 'd')",
    "w.add_text('t', '**bold** \\u00e9', 5)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_a_call_writes_what_pytorchs_writer_does(torch, tmp_path, text):
    theirs = pytest.importorskip("torch.utils.tensorboard")
    found = []
    for lib, kind in ((weft, SummaryWriter), (torch, theirs.SummaryWriter)):
        folder = tmp_path / kind.__module__
        with kind(str(folder)) as w:
            eval(text, {"w": w, "t": lib, "V": VALUES, "P": PICTURE})
        found.append(values(folder))
    (step, tag, ours), (their_step, their_tag, expected) = found[0][0], found[1][0]
    assert len(found[0]) == len(found[1]) == 1 and (step, tag) == (their_step, their_tag)
    if ours.HasField("image"):
        from PIL import Image

        a, b = (np.asarray(Image.open(io.BytesIO(x.image.encoded_image_string)))
                for x in (ours, expected))  # fmt: skip
        assert np.array_equal(a, b) and ours.image.height == expected.image.height == a.shape[0]
        assert ours.image.colorspace == expected.image.colorspace
    elif ours.HasField("histo") and "max_bins" in text:
        for fact in ("min", "max", "num", "sum", "sum_squares"):
            assert getattr(ours.histo, fact) == pytest.approx(getattr(expected.histo, fact))
        assert sum(ours.histo.bucket) == len(VALUES) and len(ours.histo.bucket) <= 42
    elif ours.HasField("histo"):
        for field in ("bucket", "bucket_limit"):
            np.testing.assert_allclose(getattr(ours.histo, field), getattr(expected.histo, field))
        for fact in ("min", "max", "num", "sum", "sum_squares"):
            assert getattr(ours.histo, fact) == pytest.approx(getattr(expected.histo, fact))
    else:
        assert ours == expected


def test_tensorboard_reads_scalars_in_order(tmp_path):
    with SummaryWriter(tmp_path, flush_secs=1, max_queue=2, filename_suffix=".x") as w:
        for step in range(5):
            w.add_scalar("loss", 1 / (step + 1), step, walltime=100.0 + step)
    read = accumulators.EventAccumulator(str(tmp_path)).Reload()
    found = read.Scalars("loss")
    assert [s.step for s in found] == list(range(5)) and found[2].wall_time == 102.0
    assert [s.value for s in found] == pytest.approx([1 / (n + 1) for n in range(5)])
    assert all(name.endswith(".x") for name in os.listdir(tmp_path))


def test_scalars_of_one_tag_are_runs_below_the_folder(tmp_path):
    with SummaryWriter(tmp_path) as w:
        w.add_scalars("a/loss", {"train": 1.0, "test": weft.tensor(2.0)}, 3)
        w.add_scalars("a/loss", {"train": 0.5}, 4)
    for name, expected in (("train", [1.0, 0.5]), ("test", [2.0])):
        read = accumulators.EventAccumulator(str(tmp_path / f"a_loss_{name}")).Reload()
        assert [s.value for s in read.Scalars("a/loss")] == expected


def test_a_purge_forgets_later_steps_of_earlier_files(tmp_path):
    for purge, steps in ((None, range(6)), (3, range(3, 5))):
        with SummaryWriter(tmp_path, purge_step=purge, filename_suffix=f".{purge}") as w:
            for step in steps:
                w.add_scalar("x", 10.0 * (purge or 0) + step, step)
    read = accumulators.EventAccumulator(str(tmp_path)).Reload()
    assert [s.value for s in read.Scalars("x")] == [0, 1, 2, 33, 34]


def test_hyperparameters_are_a_run_with_three_records(torch, tmp_path):
    theirs = pytest.importorskip("torch.utils.tensorboard")
    found = []
    for name, kind in (("a", SummaryWriter), ("b", theirs.SummaryWriter)):
        with kind(str(tmp_path / name)) as w:
            w.add_hparams({"lr": 0.1, "n": 3, "kind": "adam"}, {"loss": 0.5},
                          {"kind": ["adam", "sgd"], "n": [1, 3]}, "run", 2)  # fmt: skip
        found.append([v[:2] + (v[2].SerializeToString(),) for v in values(tmp_path / name / "run")])
    assert [v[:2] for v in found[0]] == [v[:2] for v in found[1]] and len(found[0]) == 4
    assert found[0] == found[1]
    w = SummaryWriter(tmp_path / "c")
    w.add_hparams({"flag": True, "none": None, "x": weft.tensor(2.0)}, {}, run_name="run")
    assert len(values(tmp_path / "c" / "run")) == 3


def test_a_figure_is_a_picture(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = [pyplot.figure(figsize=(1, 2), dpi=30) for _ in range(2)]
    with SummaryWriter(tmp_path) as w:
        w.add_figure("one", figures[0], 1, close=False)
        assert pyplot.fignum_exists(figures[0].number)
        w.add_figure("two", figures, 1)
        assert not pyplot.fignum_exists(figures[0].number)
    sizes = [(v.tag, v.image.width, v.image.height) for _, _, v in values(tmp_path)]
    assert sizes == [("one", 30, 60), ("two", 60, 60)]


def test_points_are_files_of_the_projector(torch, tmp_path):
    theirs = pytest.importorskip("torch.utils.tensorboard")
    points, pictures = RNG.normal(size=(5, 3)), RNG.uniform(size=(5, 3, 4, 4))
    for lib, name, kind in ((weft, "a", SummaryWriter), (torch, "b", theirs.SummaryWriter)):
        with kind(str(tmp_path / name)) as w:
            w.add_embedding(
                lib.from_numpy(points), list("abcde"), lib.from_numpy(pictures), 2, "x/y"
            )
            w.add_embedding(points, [[i, "z"] for i in range(5)], metadata_header=["n", "name"])
    listed = [sorted(str(p.relative_to(tmp_path / n)) for p in (tmp_path / n).rglob("*.[tp][sbn]*"))
              for n in "ab"]  # fmt: skip
    assert listed[0] == listed[1] and len(listed[0]) == 6
    for name in listed[0]:
        one, other = (tmp_path / n / name for n in "ab")
        assert one.read_bytes() == other.read_bytes() or name.endswith("sprite.png")


WRONG = [
    ("w.add_scalar('x', t.zeros(2))", AssertionError, "should contain one element"),
    ("w.add_scalar('x', 'y')", NotImplementedError, "numpy array or torch tensor"),
    ("w.add_histogram('x', t.zeros(0))", ValueError, "has no element"),
    ("w.add_histogram('x', t.ones(2), bins=[2, 3])", ValueError, "within the bins"),
    ("w.add_histogram_raw('x', 0, 1, 1, 1, 1, [1], [])", ValueError, "bucket_limits"),
    ("w.add_image('x', t.zeros(2, 2))", AssertionError, "size of input tensor"),
    ("w.add_image('x', t.zeros(2, 2), dataformats='HH')", AssertionError, "shorthand twice"),
    ("w.add_images('x', t.zeros(2, 2, 3, 3))", AssertionError, "3 channels"),
    ("w.add_custom_scalars_marginchart(['x'])", AssertionError, "Expected 3 tags, got 1"),
    ("w.add_hparams([], {})", TypeError, "should be dictionary"),
    ("w.add_hparams({'x': []}, {})", ValueError, "should be one of int"),
    ("w.add_hparams({'x': 1}, {}, {'x': ['y']})", TypeError, "list of same type"),
    ("w.add_embedding(t.zeros(2), ['a', 'b'])", AssertionError, "mat should be 2D"),
    ("w.add_embedding(t.zeros(2, 2), ['a'])", AssertionError, "#labels should equal"),
    ("w.add_graph(t.nn.Linear(2, 1), t.zeros(1))", RuntimeError, "shape"),
]


@pytest.mark.parametrize(("text", "error", "said"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_raises_and_writes_nothing(tmp_path, text, error, said):
    with SummaryWriter(tmp_path) as w, pytest.raises(error) as caught:
        eval(text, {"w": w, "t": weft})
    assert said in str(caught.value) and str(caught.value).startswith("[")
    assert values(tmp_path) == [] and len(list(tmp_path.iterdir())) == 1


def test_a_graph_has_calls_within_modules(tmp_path):
    """What a node reads is a node; modes and gradients are as before."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    layers = weft.nn.Sequential(weft.nn.Linear(4, 3), weft.nn.Dropout(), weft.nn.Linear(3, 2))
    layers[1].eval()
    with SummaryWriter(tmp_path) as w:
        w.add_graph(layers, weft.ones(5, 4))
    (path,) = tmp_path.iterdir()
    (graph,) = [
        GraphDef.FromString(e.graph_def)
        for e in loader.LegacyEventFileLoader(str(path)).Load()
        if e.graph_def
    ]
    nodes = {n.name: n for n in graph.node}
    assert len(nodes) == len(graph.node)
    assert all(source in nodes for n in graph.node for source in n.input)
    last = nodes["Sequential/2/linear"]
    assert last.op == "aten::linear"
    assert list(last.input)[1:] == ["Sequential/2/weight", "Sequential/2/bias"]
    assert [d.size for d in last.attr["_output_shapes"].list.shape[0].dim] == [5, 2]
    assert list(nodes["Sequential/0/linear"].input)[0] == "input"
    assert list(nodes["output"].input) == ["Sequential/2/linear"]
    assert [m.training for m in layers.modules()] == [True, True, False, True]


def test_the_folder_is_named_by_time_and_host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_try") as w:
        w.add_scalar("x", 1.0)
        w.flush()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_try") and w.get_logdir() == f"runs/{folder.name}"
    w.close()  # again: nothing
    w.add_scalar("x", 2.0)  # a new file
    w.close()
    assert [v.simple_value for _, _, v in values(folder)] == [1.0, 2.0]


def test_without_tensorboard_the_import_says_what_is_missing():
    import subprocess
    import sys

    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'tensorboard' else find(n, *a)\n"
        "from weft.utils import *\n"
        "from weft.utils.tensorboard import SummaryWriter"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ModuleNotFoundError" in run.stderr and "pip install 'weft[tensorboard]'" in run.stderr


def test_records_of_hyperparameters_take_pytorchs_arguments():
    from weft.utils.tensorboard.summary import hparams

    records = hparams({"lr": 0.1}, {"loss": 1.0})
    tags = [record.value[0].tag for record in records]
    assert tags == [record.value[0].tag for record in hparams(hparam_dict={"lr": 0.1})]
    assert len(tags) == 3

"""Every model of examples/ and of bench/batching computes compiled what it computes eagerly."""

import random
import sys
from pathlib import Path

import pytest
from test_stretches import Gradient, bits

import weft

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import zoo  # noqa: E402

STEPS = 4


@pytest.fixture(autouse=True)
def one_by_one():
    weft.autobatch.enabled = False
    yield
    weft.autobatch.enabled = True


def shown(value):
    return bits(value) if isinstance(value, weft.Tensor) else value


def trained(case, way):
    """What each of some steps gives, with the gradients; between them weights and modes change."""
    weft.manual_seed(0)
    random.seed(0)
    made = case.make(8)
    step, parameters, results = way(made), made.parameters(), []
    for k in range(STEPS + 2):
        result = step()
        grads = [Gradient(p.grad) for p in parameters]
        results.append((shown(result), grads, weft.get_rng_state().tolist()))
        if k == STEPS - 1 and isinstance(made.model, weft.nn.Module):
            made.model.eval()
    return results


@pytest.mark.parametrize("batched", [False, True], ids=["one by one", "autobatch"])
@pytest.mark.parametrize("way", zoo.WAYS)
@pytest.mark.parametrize("case", zoo.CASES, ids=lambda case: case.name)
def test_compiled_is_eager(case, way, batched):
    if case.needs:
        pytest.importorskip(case.needs)
    weft.autobatch.enabled = batched
    expected = trained(case, zoo.as_it_is)
    for k, (found, wanted) in enumerate(zip(trained(case, zoo.WAYS[way]), expected, strict=True)):
        assert found == wanted, k


@pytest.mark.parametrize(
    "case", [c for c in zoo.CASES if not c.name.startswith(("many", "small"))], ids=lambda c: c.name
)
def test_trainings_come_to_the_same(case):
    """The losses of some steps with SGD, from gradients that may differ in their last bits."""
    if case.needs:
        pytest.importorskip(case.needs)
    losses = []
    for way in (zoo.as_it_is, zoo.whole_step):
        weft.manual_seed(0)
        made = case.make(8)
        if not made.trains:
            pytest.skip("it is not trained")
        step = way(made)
        optimizer = weft.optim.SGD(made.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(6):
            losses[-1].append(float(step()))
            optimizer.step()
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


MAINS = {
    "adaptive_time": ["--examples", 320, "--size", 3],
    "char_gpt": ["--steps", 12, "--text", 20000, "--dim", 16, "--layers", 1, "--length", 16],
    "digits_cnn": ["--epochs", 1, "--width", 4],
    "digits_vae": ["--epochs", 2, "--hidden", 16],
    "growing_net": ["--epochs", 12, "--patience", 1],
    "listops": ["--trees", 320, "--dim", 8, "--out", "curve.png"],
    "maml": ["--steps", 10, "--tasks", 4],
    "mixture_of_experts": ["--epochs", 1],
    "packed_tagger": ["--lines", 200, "--epochs", 1, "--dim", 8],
    "reinforce_cartpole": ["--episodes", 8],
    "spelled_tagger": ["--lines", 200],
    "stack_machine": ["--formulas", 64],
}
NEEDS = {case.name.partition(".")[0]: case.needs for case in zoo.CASES if case.needs}


@pytest.mark.parametrize("name", MAINS)
@pytest.mark.parametrize("plain", [False, True])
def test_whole_programs_print_the_same(name, plain, capsys, monkeypatch, tmp_path):
    """`main` compiled: data, training and report; with autobatch, where the example has it."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    module = zoo.example(name)
    weft.autobatch.enabled = not plain
    if plain and "--plain" in Path(module.__file__).read_text():
        monkeypatch.setattr(sys, "argv", [name, *map(str, MAINS[name]), "--plain"])
    elif plain:
        pytest.skip("it has no other way")
    else:
        monkeypatch.setattr(sys, "argv", [name, *map(str, MAINS[name])])
    printed = []
    for main in (module.main, weft.compile(module.main)):
        main()
        printed.append(capsys.readouterr().out)
    assert printed[1] == printed[0] != ""


def test_every_example_is_here():
    assert {path.stem for path in zoo.EXAMPLES.glob("*.py")} == set(MAINS)
    assert {case.name.partition(".")[0] for case in zoo.CASES if ".py" in case.name} == set(MAINS)

"""All models of examples/ and of bench/batching: what a training step costs compiled.

    .venv/bin/python bench/zoo.py [--only TEXT] [--small]

Ratios are compiled time over eager time, minima of processor time in turn, one thread, for three
ways of compiling: the whole step with its backward; the loss of one example; and each part of the
model alone, as `cell.compile()` does. tests/compiler/test_zoo.py compares what they compute.
"""

import argparse
import dataclasses
import functools
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from batching import MODELS
from batching.many_programs import PROGRAMS
from batching.small_programs import DIM, SmallPrograms

import weft
from weft.nn import functional as F

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@dataclasses.dataclass
class Made:
    """A model, the loss of one example (or, where it `trains` not, an answer), and the examples."""

    model: Any
    loss: Callable[..., Any]
    examples: list[tuple[Any, ...]]
    trains: bool = True

    def parameters(self) -> list[weft.Tensor]:
        return list(self.model.parameters())


@dataclasses.dataclass(frozen=True)
class Case:
    """`make(size)` prepares a model of so many units and some examples; `needs` is a module."""

    name: str
    make: Callable[[int], Made]
    needs: str | None = None


CASES: list[Case] = []


def case(name, needs=None):
    def add(make):
        CASES.append(Case(name, make, needs))
        return make

    return add


def example(name):
    """A file of examples/ as a module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


@case("adaptive_time.py")
def adaptive_time(dim):
    made = example("adaptive_time")
    generator = weft.Generator().manual_seed(0)
    model = made.Thinker(6, dim)

    def loss(x, odd):
        scores, cost, _ = model(x)
        return F.cross_entropy(scores, weft.tensor(odd)) + made.TIME_PENALTY * cost

    return Made(model, loss, [made.draw(6, generator) for _ in range(8)])


@case("char_gpt.py")
def char_gpt(dim):
    made = example("char_gpt")
    length = 16
    model = made.GPT(90, length, dim, 4, 2)
    data = weft.randint(0, 90, (400,))

    def loss(starts):
        x, y = made.windows(data, starts, length)
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return Made(model, loss, [(weft.randint(0, 380, (4,)),) for _ in range(2)])


@case("char_gpt.py, a text continued")
def char_gpt_sampled(dim):
    model = example("char_gpt").GPT(90, 16, dim, 4, 2)

    def said(x):
        with weft.no_grad():
            return model.continue_text(x, 20).tolist()

    return Made(model, said, [(weft.randint(0, 90, (1, 1)),)], trains=False)


@case("digits_cnn.py", "sklearn")
def digits_cnn(dim):
    model = example("digits_cnn").network(max(4, dim // 4))

    def loss(images, labels):
        return F.cross_entropy(model(images), labels)

    batches = [(weft.rand(32, 1, 8, 8), weft.randint(0, 10, (32,))) for _ in range(2)]
    return Made(model, loss, batches)


@case("digits_vae.py", "sklearn")
def digits_vae(dim):
    model = example("digits_vae").VAE(64, 2 * dim, 8)
    return Made(model, lambda x: model(x).mean(), [(weft.rand(64, 64),) for _ in range(2)])


@case("growing_net.py", "sklearn")
def growing_net(dim):
    model = example("growing_net").Growing(dim)
    for _ in range(2):
        model.grow()
    batches = [(weft.rand(64, 64), weft.randint(0, 10, (64,))) for _ in range(2)]
    return Made(model, lambda x, y: F.cross_entropy(model(x), y), batches)


@case("listops.py")
def listops(dim):
    made = example("listops")
    model, rng = made.TreeLSTM(dim), random.Random(0)

    def loss(tree, value):
        return F.cross_entropy(model(tree), weft.tensor(value))

    return Made(model, loss, [made.expression(rng, 2) for _ in range(8)])


@case("maml.py")
def maml(dim):
    made = example("maml")
    model = made.network(dim)

    def loss(points):
        parameters = made.adapted(model, *points(10), create_graph=True)
        x, y = points(10)
        return F.mse_loss(made.run(model, parameters, x), y)

    return Made(model, loss, [(made.task(),) for _ in range(4)])


@case("mixture_of_experts.py", "sklearn")
def mixture_of_experts(dim):
    model = example("mixture_of_experts").Mixture(4, dim)

    def loss(x, digit):
        scores, weights, _ = model(x)
        return F.cross_entropy(scores, weft.tensor(digit)) + 0.1 * weights.square().sum()

    return Made(model, loss, [(weft.rand(64), k % 10) for k in range(12)])


@case("packed_tagger.py")
def packed_tagger(dim):
    made = example("packed_tagger")
    model = made.Tagger(dim)
    lines = [(line, [len(w) % 6 for w in line]) for line in ("def f(x):", "return x + 1", "pass")]

    def loss(some):
        codes, tags = made.pack(some)
        return F.cross_entropy(model(codes), tags)

    return Made(model, loss, [(lines,), (lines[:2],)])


@case("reinforce_cartpole.py", "gymnasium")
def reinforce_cartpole(dim):
    import gymnasium

    made = example("reinforce_cartpole")
    nn = weft.nn
    policy = nn.Sequential(nn.Linear(4, dim), nn.Tanh(), nn.Linear(dim, 2))
    environment = gymnasium.make("CartPole-v1")

    def loss(seed):
        log_probs, rewards = made.play(environment, policy, seed)
        return -(log_probs * made.returns(rewards, 0.99)).sum()

    return Made(policy, loss, [(0,), (1,)])


@case("spelled_tagger.py")
def spelled_tagger(dim):
    made = example("spelled_tagger")
    model = made.Tagger(["def", "x", "return", "(", ")", ":"], dim)

    def loss(words, tags):
        return F.cross_entropy(model(words), weft.tensor(tags), ignore_index=made.NO_NAME)

    lines = ["def f ( x ) :", "return total + x", "if first is None : pass"]
    return Made(model, loss, [(w, [len(v) % 7 for v in w]) for w in map(str.split, lines)])


@case("stack_machine.py")
def stack_machine(dim):
    made = example("stack_machine")
    model, rng = made.Machine(dim), random.Random(0)

    def loss(symbols, moves, value):
        answer, choices, _ = model(symbols, moves)
        first = F.cross_entropy(answer, weft.tensor(value))
        return sum([F.cross_entropy(s, weft.tensor(m)) for s, m in choices], first)

    return Made(model, loss, [made.formula(rng, rng.randint(1, 7)) for _ in range(8)])


@case("stack_machine.py, on its own")
def stack_machine_alone(dim):
    made = example("stack_machine")
    model, rng = made.Machine(dim), random.Random(0)

    def answered(symbols):
        with weft.no_grad():
            answer, _, moves = model(symbols)
            return moves, answer.argmax().item()

    formulas = [made.formula(rng, rng.randint(4, 7))[:1] for _ in range(4)]
    return Made(model, answered, formulas, trains=False)


def of_model(model, dim):
    """A model of batching.MODELS."""
    made = model.make(weft, dim=dim)
    examples = [(e,) for e in model.examples(weft, 0, 8, dim=dim)]
    return Made(made, lambda e: model.one(made, e), examples, model.trains)


def of_program(make, dim):
    """One of batching.many_programs, which are as large as they are."""
    model, loss, some = make(weft)
    return Made(model, loss, [(some(k),) for k in range(6)])


def of_small(name, dim):
    """One of batching.small_programs."""
    programs = SmallPrograms(weft)
    function = programs.all()[name]

    def loss(x):
        return function(x).sum()

    return Made(programs, loss, [(weft.randn(DIM),) for _ in range(4)])


for _model in MODELS:
    CASES.append(Case(f"batching: {_model.name}", functools.partial(of_model, _model)))
for _name, _make in PROGRAMS.items():
    CASES.append(Case(f"many: {_name}", functools.partial(of_program, _make)))
for _name in (n for n in vars(SmallPrograms) if not n.startswith("_")):
    if _name not in ("all", "parameters", "words"):
        CASES.append(Case(f"small: {_name}", functools.partial(of_small, _name)))


def as_it_is(made):
    """A training step, or the answers, of all examples."""
    return step_of(made, made.loss)


def step_of(made, loss):
    parameters, examples, trains = made.parameters(), made.examples, made.trains

    def step():
        if not trains:
            return [loss(*e) for e in examples]
        for p in parameters:
            p.grad = None
        total = 0.0
        for e in examples:
            total = total + loss(*e)
        if total.requires_grad:
            total.backward()
        return total

    return step


def whole_step(made):
    """The step compiled."""
    return weft.compile(step_of(made, made.loss))


def one_loss(made):
    """The loss of one example compiled."""
    return step_of(made, weft.compile(made.loss))


def parts(made):
    """Each part of the model compiled for itself."""
    for module in made.model.children() if isinstance(made.model, weft.nn.Module) else ():
        if not isinstance(module, (weft.nn.ModuleList, weft.nn.ModuleDict)):
            module.compile()
    return step_of(made, made.loss)


WAYS = {"step": whole_step, "loss": one_loss, "parts": parts}


def prepared(case, way, size):
    """The step of a case, made from the same seed for each way."""
    weft.manual_seed(0)
    return way(case.make(size))


def seconds(call, repeats):
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def ratios(case, size, rounds=9, spent=0.03):
    """The eager time, and compiled over eager for each way."""
    steps = [prepared(case, way, size) for way in (as_it_is, *WAYS.values())]
    for step in steps:
        for _ in range(4):
            step()
    repeats = max(1, int(spent / max(seconds(steps[0], 1), 1e-7)))
    times = [[seconds(step, repeats) for step in steps] for _ in range(rounds)]
    best = [min(column) for column in zip(*times, strict=True)]
    return best[0], [b / best[0] for b in best[1:]]


def ways(case):
    steps = {"compiled": whole_step, "eager": as_it_is}
    return {way: prepared(case, make, SIZE) for way, make in steps.items()}


SIZE = 64
ROWS = [
    harness.Ways(f"step: {case.name}", functools.partial(ways, case), below={"eager": 1.05})
    for case in CASES
    if (".py" in case.name or case.name.startswith("batching"))
    and (case.needs is None or importlib.util.find_spec(case.needs))
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="models whose name has TEXT")
    parser.add_argument("--size", type=int, default=SIZE, help="units of a layer")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    weft.set_num_threads(1)
    weft.autobatch.enabled = False
    print(f"{'model':40} {'eager':>10}", *(f"{way:>6}" for way in WAYS))
    for case in CASES:
        if args.only in case.name:
            eager, found = ratios(case, args.size, args.rounds)
            mark = "  LOSES" if max(found) > 1.05 else ""
            shown = f"{case.name:40} {eager * 1e3:7.3f} ms"
            print(shown, *(f"{r:6.2f}" for r in found), mark, flush=True)


if __name__ == "__main__":
    main()

"""What dynamic batching costs beside what it gains: a kept call, a plan, memory, a batch of one.

Models and ways are those of dynamic_batching. Memory is the peak of a training step of 32
examples: of tensors by weft's counter, and of the process (VmHWM over VmRSS), which counts the
calls that wait and the fibers too, each way in a process of its own.
"""

import functools
import statistics
import subprocess
import sys
import time
from itertools import repeat
from pathlib import Path

import dynamic_batching
import harness
from batching import MODELS
from batching.small_programs import DIM, SmallPrograms, step

PROGRAM = """
import re, sys
sys.path.insert(0, {folder!r})
import dynamic_batching, weft

def resident(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

weft.set_num_threads(1)
case = dynamic_batching.MODELS[{index}]
dynamic_batching.step(weft, case, {way!r}, size=2)()
step = dynamic_batching.step(weft, case, {way!r})
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = resident("VmRSS")
for _ in range(3):
    weft._C._reset_peak_memory()
    step()
print(weft._C._memory_stats()["peak"], 1024 * (resident("VmHWM") - before))
"""


def only_weft(value):
    """`Fact.value` that has no meaning for other libraries."""
    return lambda name: value(harness.load(["weft"])["weft"]) if name == "weft" else None


def keep(make):
    """Nanoseconds of a kept call over (1, 128); running it is not timed, nor a caller in Python."""

    def nanoseconds(weft):
        (f, *others), samples = make(weft), []
        for _ in range(50):
            with weft.deferred():
                operands = [repeat(weft.ones(1, 128) + 1, 1000), *map(repeat, others)]
                start = time.perf_counter()
                results = list(map(f, *operands))
                samples.append((time.perf_counter() - start) / len(results))
        return 1e9 * min(samples)  # other work on the machine only adds

    return only_weft(nanoseconds)


def sigmoid(weft):
    return [weft.sigmoid]


def linear(weft):
    return weft.nn.functional.linear, weft.ones(128, 128).requires_grad_()


def plan(weft):
    """Nanoseconds for each kept call of trees not seen before."""
    case, samples = MODELS[0], []
    model = case.make(weft)
    for seed in range(15):
        examples = case.examples(weft, seed, dynamic_batching.EXAMPLES)
        report = weft.explain(lambda example: case.one(model, example), examples)
        assert not any(flush["plan_known"] for flush in report.flushes)
        samples.append(sum(flush["plan_s"] for flush in report.flushes) / report.calls)
    return 1e9 * min(samples)


def ratio(case, first, second):
    """How much longer a step of the (way, size) `first` takes for each example."""

    def times(weft):
        steps = [dynamic_batching.step(weft, case, way, size) for way, size in (first, second)]
        seconds = [statistics.median(sample) for sample in harness.alternate(steps)]
        return seconds[0] / first[1] / (seconds[1] / second[1])

    return only_weft(times)


@functools.cache
def peaks(index, way):
    """Bytes of tensors and of the process."""
    folder = str(Path(__file__).parent)
    program = PROGRAM.format(folder=folder, index=index, way=way)
    return [*map(int, subprocess.check_output([sys.executable, "-c", program]).split())]


def memory(index, which):
    return only_weft(lambda _: peaks(index, "autobatch")[which] / peaks(index, "by_hand")[which])


def worst_small_program(grad):
    """The longest time of a small program over the plain loop's, backward included."""

    def value(weft):
        small, ratios = SmallPrograms(weft), []
        parameters = small.parameters()
        xs = [weft.randn(DIM) for _ in range(dynamic_batching.EXAMPLES)]
        for fn in small.all().values():
            batched = weft.autobatch(fn)
            runs = [lambda f=fn: [f(x) for x in xs], lambda f=batched: f(xs)]
            steps = [step(weft, run, parameters, grad) for run in runs]
            steps[1]()  # the first run batches, and shows whether it pays
            samples = [[harness.timed(run, 1) for run in steps] for _ in range(60)]
            times = [statistics.median(sample) for sample in zip(*samples)]
            ratios.append(times[1] / times[0])
        return max(ratios)

    return only_weft(value)


ROWS = [
    harness.Fact("batching: keep a sigmoid", keep(sigmoid), "ns", limit=150),
    harness.Fact("batching: keep a linear layer", keep(linear), "ns", limit=150),
    harness.Fact("batching: plan a call, new trees", only_weft(plan), "ns", limit=100),
    harness.Fact(
        "Tree-LSTM: a tree of 256 over one of 32",
        ratio(MODELS[0], ("autobatch", 256), ("autobatch", 32)), "x", limit=1,
    ),
]  # fmt: skip
for grad in (False, True):
    how = "training" if grad else "inference"
    ROWS.append(
        harness.Fact(
            f"batching: worst small program over plain, {how}", worst_small_program(grad), "x",
            limit=1.2,
        )
    )  # fmt: skip
for index, case in enumerate(MODELS):
    ROWS += [
        harness.Fact(
            f"{case.name}: batch of one over plain",
            ratio(case, ("autobatch", 1), ("plain", 1)), "x", limit=1.2,
        ),
        harness.Fact(f"{case.name}: tensors over by hand", memory(index, 0), "x", limit=1.5),
        harness.Fact(f"{case.name}: process over by hand", memory(index, 1), "x", limit=1.5),
    ]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

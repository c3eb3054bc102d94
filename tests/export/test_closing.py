"""Programs that leave Python compute what they computed in it: packages, run by a plain
interpreter of their JSON and by src/native, give what the functions give."""

import copy
import enum
import random
import re
import sys
from pathlib import Path

import closing_programs as p
import pytest
from evaluate_package import Packaged

import weft
from weft import nn
from weft.closing import known
from weft.closing.errors import NotExportable
from weft.closing.program import package_of

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import zoo  # noqa: E402

R = weft.randn


class Native:
    """A package run without Python; what is met again by plan."""

    by_plan = True

    def __init__(self, text, tensors):
        self.package = weft._C._Package(text, tensors)
        self.package.by_plan = self.by_plan

    def call(self, entry, *args, **kwargs):
        return self.package.call(entry, args, kwargs)


class ByInstruction(Native):
    by_plan = False


RUNNERS = {"plain": Packaged, "native": Native, "by instruction": ByInstruction}
TIMES = {"plain": 1, "native": 3, "by instruction": 1}  # the second time plans are made
in_both = pytest.mark.parametrize("runner", RUNNERS)


def packaged(function, root=None, runner="plain"):
    made = package_of({"forward": function}, root)
    return RUNNERS[runner](made.to_json(), made.tensors)


def flat(value):
    """The leaves of a result, comparable."""
    if isinstance(value, weft.Tensor):
        return [(value.dtype, value.shape, value.tolist())]
    if isinstance(value, dict):
        return [x for pair in value.items() for x in flat(pair)]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *(leaf for item in value for leaf in flat(item))]
    if isinstance(value, (set, frozenset)):
        return [type(value).__name__, value]
    return [value]


def outcome(function, args):
    weft.manual_seed(1)
    try:
        return flat(function(*copy.deepcopy(args)))
    except Exception as error:
        return [type(error).__name__, str(error)]


def agrees(function, *cases, root=None, runner="plain"):
    program = packaged(function, root, runner)
    for args in cases * TIMES[runner]:
        wanted = outcome(function, args)
        assert outcome(lambda *a: program.call("forward", *a), args) == wanted, args


# ---- what the source can say

FUNCTIONS = {
    p.branches: [(R(3) + 5,), (R(3) - 9,), (weft.zeros(3) - 0.1,)],
    p.loops: [(R(2), 0), (R(2) + 9, 4), (R(2), 9)],
    p.over_layers: [(R(3), 5), (R(3) + 9, 0), (R(3), 0)],
    p.chosen: [(R(3), 0, "a"), (R(3), -1, "b"), (R(3), 2, "b"), (R(3), 7, "a"), (R(3), 0, "c")],
    p.turns_of_a_range: [(R(3),)],
    p.zipped: [(R(3), [1, 2, 3]), (R(3), [1]), (R(3), []), (R(3), [1, 2, 3, 4])],
    p.comprehensions: [([R(3), R(3) + 1, R(3) - 1], 0), ([R(3)], -99)],
    p.recursive: [((R(3), (R(3), R(3))),), (R(3),)],
    p.factorial: [(1,), (10,)],
    p.counts_down: [()],
    p.records: [(R(2),)],
    p.objects: [(R(2),)],
    p.given_a_tree: [(p.Node(R(2), p.Node(R(2)), p.Node(R(2))), 2), (p.Node(R(1)), 1)],
    p.inner_functions: [(R(2), 3), (R(2), 1)],
    p.arguments: [(R(2),), (R(2), 1, 2)],
    p.tried: [(R(4), 2), (R(4), 3), (R(2), 1)],
    p.raises: [(1,), (0,), (9,), (3,)],
    p.texts: [(R(2, 3), 7)],
    p.items: [([1, 2, 3, 4], {}), ([1, 2], {"b": 1})],
    p.tensors: [(R(2, 3),), (R(1, 3),)],
    p.modes: [(R(3),)],
    p.by_key: [([("a", 2), ("b", 3), ("c", 1)],)],
    p.unrecorded: [(R(3), 2), (R(3),)],
    p.tables_of_functions: [(R(2), "relu"), (R(2), "tanh"), (R(2), "none")],
    p.sorted_in_place: [([("a", 2), ("b", 3), ("c", 1)],), ([],)],
    p.beams: [(1, 2), (2, 3)],
    p.swapped: [(R(2), 0), (R(2), 3)],
    p.einsums: [(R(3, 3), R(3, 3))],
    p.broadcast_einsum: [(R(2, 3), R(3, 4)), (R(2, 3), R(1, 4)), (R(2, 3), R(4, 4))],
    p.einsums_over_rest: [(R(2, 3), R(2, 3)), (R(5, 2, 3), R(2, 3)), (R(4, 1, 2, 3), R(5, 2, 3))],
    p.by_numpy: [(R(3, 3),), (weft.eye(3),)],
    p.narrow_products: [(R(2, 3, 3), R(2, 3, 3))],
    p.channels_last: [(R(2, 3, 4, 5),)],
    p.passed_on: [(R(3),), (R(3), 2)],
    p.star: [(R(3), {}, {}), (R(3), {"inplace": False}, {"alpha": 2})],
    p.spread: [(R(4), [2], [(1, 2), (3,)]), (R(4, 2), [2, 1], [])],
    p.from_itertools: [([1, 2, 3], [4, 5, 6], 2), ([1], [2, 3], 1), ([], [2], 0)],
    p.through_itertools: [(R(3), 2)],
    p.with_functions: [([1, 5, 2, 0], [(3, 1)], 2), ([3], [], 9), ([], [], 1)],
    p.consumed_at_once: [([1, 5, 2], 2), ([3], 9)],
    p.unlike_ways: [(R(3) + 5,), (R(3) - 5,), (R(3) * 0 - 0.5,)],
    p.tables_of_lambdas: [(R(2), "twice", 0), (R(2), "relu", 1), (R(2), "other", 1)],
    p.keys_and_operators: [([("a", 2), ("b", 1)], [3, 1, 2]), ([], [2])],
    p.partials: [(R(2), 3)],
    p.encoded: [("abc",), ("ä€",)],
    p.with_complex: [(R(2),)],
    p.limits: [
        (R(2), weft.tensor([3])),
        (R(2).double(), weft.tensor([3], dtype=weft.uint8)),
        (R(2).half(), weft.tensor([3], dtype=weft.int16)),
        (weft.tensor([1]), weft.tensor([1])),
    ],
    p.resized: [(R(1, 2, 3, 3),), (R(1, 1, 8, 2),)],
    p.lacks_a_method: [(R(2),)],
    p.known_iterators: [(R(2),)],
    p.long_ranges: [(R(2), 3), (R(2), 999)],
}


@in_both
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_package_does_what_its_function_does(function, runner):
    agrees(function, *FUNCTIONS[function], runner=runner)


# ---- layers


def parametrized(name, layer):
    return getattr(nn.utils.parametrizations, name)(layer)


I = weft.tensor  # noqa: E741
STATE = R(1, 2, 4)
NETS = {
    "Linear": (lambda: nn.Linear(4, 3), [R(2, 4)]),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), [R(5, 3), R(5, 4)]),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular"), [R(2, 3, 7)]),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding="same"), [R(2, 3, 7, 7)]),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), [R(1, 2, 4, 4, 4)]),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 2, 2), [R(1, 3, 4, 5)]),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), [R(5, 3)]),
    "BatchNorm2d, eval": (lambda: nn.BatchNorm2d(3).eval(), [R(5, 3, 4, 4)]),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True), [R(5, 3, 4, 4)]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [R(2, 4, 5)]),
    "LayerNorm": (lambda: nn.LayerNorm(4), [R(2, 4)]),
    "RMSNorm": (lambda: nn.RMSNorm(4), [R(2, 4)]),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, return_indices=True), [R(2, 3, 6, 6)]),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), [R(2, 3, 6, 6)]),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((2, 3)), [R(2, 3, 6, 6)]),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), [R(1, 3, 6, 6)]),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), [R(1, 3, 4, 5)]),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), [R(3, 4, 5)]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), [R(1, 8, 2, 3)]),
    "PReLU": (lambda: nn.PReLU(3), [R(2, 3)]),
    "Flatten": (nn.Flatten, [R(2, 3, 4)]),
    "Unfold": (lambda: nn.Unfold(2), [R(1, 2, 4, 4)]),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), [R(5, 2, 3)]),
    "LSTM, state": (lambda: nn.LSTM(3, 4), [R(5, 2, 3), (STATE, STATE)]),
    "GRU": (lambda: nn.GRU(3, 4, batch_first=True), [R(5, 2, 3)]),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), [R(2, 3)]),
    "GRUCell": (lambda: nn.GRUCell(3, 4), [R(2, 3), R(2, 4)]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), [R(5, 8), R(3, 8), R(3, 8)]),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), [R(5, 2, 8)],
    ),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), [R(5, 2, 8), R(4, 2, 8)]),
    "Embedding": (lambda: nn.Embedding(10, 4, padding_idx=0), [I([[1, 2], [0, 3]])]),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 4, mode="sum"), [I([[1, 2], [0, 3]])]),
    "Dropout": (lambda: nn.Dropout(0.5), [R(20)]),
    "CosineSimilarity": (nn.CosineSimilarity, [R(3, 4), R(3, 4)]),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6]), [R(5, 4), I([0, 4, 7, 9, 2])],
    ),
    "weight_norm": (lambda: parametrized("weight_norm", nn.Linear(3, 4)), [R(2, 3)]),
    "spectral_norm": (lambda: parametrized("spectral_norm", nn.Linear(3, 4)).eval(), [R(2, 3)]),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, [R(3, 4), I([0, 1, 2])]),
    "MSELoss": (nn.MSELoss, [R(3), R(3)]),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), [R(3, 4), weft.rand(3, 4)]),
    "TripletMarginLoss": (nn.TripletMarginLoss, [R(3, 4), R(3, 4), R(3, 4)]),
    "CTCLoss": (
        nn.CTCLoss, [R(6, 2, 4).log_softmax(-1), I([[1, 2], [1, 3]]), I([6, 6]), I([2, 2])],
    ),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Softmax(-1)), [R(2, 4)]),
}  # fmt: skip


@in_both
@pytest.mark.parametrize("name", NETS)
def test_a_package_computes_what_its_layer_computes(name, runner):
    make, args = NETS[name]
    weft.manual_seed(0)
    layer = make()
    twin = copy.deepcopy(layer)
    program = packaged(twin.forward, twin, runner)
    for _ in range(2 * TIMES[runner]):
        assert outcome(lambda *a: program.call("forward", *a), args) == outcome(layer, args)
    assert list(map(flat, twin.buffers())) == list(map(flat, layer.buffers()))


# ---- every model of examples/ and of bench/batching

NOT_YET = {
    "maml.py": "gradients inside of a program",
    "reinforce_cartpole.py": "arrays of NumPy",
}


@in_both
@pytest.mark.parametrize("case", zoo.CASES, ids=lambda case: case.name)
def test_a_package_computes_what_its_model_computes(case, runner):
    if case.needs:
        pytest.importorskip(case.needs)
    if case.name in NOT_YET:
        pytest.skip(NOT_YET[case.name])
    weft.manual_seed(0)
    random.seed(0)
    made = case.make(8)
    root = made.model if isinstance(made.model, nn.Module) else None
    program = packaged(made.loss, root, runner)
    for args in made.examples[: 3 if runner == "plain" else 2] * TIMES[runner]:
        assert outcome(lambda *a: program.call("forward", *a), args) == outcome(made.loss, args)


# ---- what no package can have


REFUSED = {
    p.with_numpy: "in numpy of weft's own",
    p.unlike_turns: "something else than another way",
    p.a_function_of_two_turns: "scaled is something else than another way",
    p.changes_a_table: "append() of a list that is there before the program runs",
    p.a_generator: "a generator function",
    p.raises_its_own: "an exception of the class Unlike. Hint: raise one that a program has",
    p.catches_its_own: "the class Unlike as a value",
}


class Color(enum.Enum):
    RED, BLUE = 1, 2


def a_color(x):
    return Color.RED if x.sum() > 0 else Color.BLUE


def a_large_int(x):
    return 1 << 64


def some_bytes(x):
    if x.sum() > 0:
        return b"positive"
    return x


def one_of_two_colors(x):
    def pick():
        if x.sum() > 0:
            return Color.RED
        return Color.BLUE

    return x + (1 if pick() is Color.RED else 2)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (a_color, "something else than another way"), (one_of_two_colors, "Color"),
        (a_large_int, "an int of more than 64 bits"), (some_bytes, "bytes"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_hold_is_not_returned(function, what):
    """None was, without a word."""
    with pytest.raises(NotExportable, match=what):
        packaged(function)


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_needs_python_is_refused_by_line(function):
    with pytest.raises(NotExportable) as caught:
        packaged(function)
    assert REFUSED[function] in str(caught.value)
    assert Path(caught.value.file).suffix == ".py" and caught.value.line > 0


def test_the_exceptions_of_programs_are_those_of_the_native_host():
    text = (Path(__file__).parents[2] / "src/native/errors.h").read_text()
    named = {"BaseException", *re.findall(r"^    X\((\w+), ", text, re.M)}
    assert {error.__name__ for error in known.ERRORS} == named


def test_refusals_name_the_line_of_the_user():
    with pytest.raises(NotExportable) as caught:
        packaged(p.changes_a_table)
    line = p.changes_a_table.__code__.co_firstlineno
    assert (caught.value.file, caught.value.line) == (p.__file__, line + 1)
    assert caught.value.function == "changes_a_table"

"""Every record that has a form in ONNX, on values at the edge: as eager, or refused.

The samples of the records are run with NaN, infinities, zeros of both signs, denormals, integers
at their bounds and below 0, booleans, and with empty tensors, one element and no dimensions. What
eager refuses is left out. A new record is tried without anything being said; `OTHERWISE` lists what
ONNX Runtime does not do as the standard has it, or what has no one right value, with the reason.
"""

import re
import zlib
from typing import Any

import numpy as np
import pytest
from op_samples import Inputs, ours
from record_runs import NOT_RUN, RECORDS, UNSET, entered, name_of
from test_onnx_records import MAPPED, MORE

import weft

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from weft.onnx.builder import Builder  # noqa: E402
from weft.onnx.errors import NotOnnx  # noqa: E402
from weft.onnx.graph import Model  # noqa: E402
from weft.onnx.model import model_of  # noqa: E402
from weft.onnx.walk import Walk  # noqa: E402

INF, NAN = np.inf, np.nan
FLOATS = {
    "floats": [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 3.0, 2.5, -0.25],
    "nan": [NAN, 1.0, -1.0, 2.5, 0.5],
    "inf": [INF, -INF, 1.0, 0.5, -1.5],
    "zeros": [0.0, -0.0, 1.0, -1.0, -0.3, 1e-40],
}
BOUNDS = {
    "int64": [2**63 - 1, -(2**63), 0, -1, 1, 7],
    "int32": [2**31 - 1, -(2**31), 0, -1, 1, 7],
    "uint8": [0, 255, 1, 7],
}
NEGATIVE = [-7, 7, -3, 3, 2, -2, 1, -1, 5]
SHAPES = {
    "empty": lambda sizes: (0,) * len(sizes),
    "no rows": lambda sizes: (0, *sizes[1:]) if sizes else (),
    "0-d": lambda sizes: (),
    "one": lambda sizes: (1,) * len(sizes),
}
# Which values, the dtype of T, and how often each sample.
KINDS = [
    *((kind, "float32", 2) for kind in FLOATS),
    *((kind, "float32", 1) for kind in SHAPES),
    *((kind, dtype, 2) for kind in ("bounds", "negative") for dtype in ("int64", "int32")),
    ("bounds", "uint8", 1),
    ("bool", "bool", 1),
]
WIDE = "ONNX Runtime adds and multiplies integers in double, and powers too"
POOL = "ONNX Runtime's MaxPool begins at the lowest finite number, which NaN and -inf do not pass"
MEANS = "a mean with infinities is NaN or infinite by the order in which numbers are added"
NOTHING = "0 * NaN and 0 * inf, which one side leaves out: a weight, a mask or a target of 0"
SIGN = "the sign of NaN is 0 in PyTorch, NaN in ONNX Runtime"
ROWS = "ONNX Runtime's kernel refuses tensors without rows, aloud"
INSIDE = "an internal record, whose callers never pass it these"
_REASONS: list[tuple[str, str, str]] = [  # why, kinds, records
    (
        NOTHING, "floats nan inf",
        "_upsample _grid_sample scaled_dot_product_attention conv_transpose1d conv_transpose2d "
        "_rnn_sequence",
    ),
    (NOTHING, "floats inf", "batch_norm cross_entropy"),
    (SIGN, "floats nan inf", "linalg_slogdet"),
    (NOTHING, "floats", "instance_norm prelu"),
    (NOTHING, "inf", "binary_cross_entropy_with_logits"),
    (POOL, "floats inf nan", "max_pool1d max_pool1d_with_indices"),
    (
        POOL, "floats nan",
        "max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices",
    ),
    (MEANS, "floats inf", "var_mean var_mean.dim std_mean std_mean.dim _var_mean _std_mean gelu"),
    (MEANS, "inf", "var_mean.unbiased std_mean.unbiased"),
    (
        WIDE, "bounds",
        "sum sum.dim prod.dim nansum cumprod pow l1_loss mse_loss.weighted masked_fill",
    ),
    (ROWS, "empty", "multinomial diag diag_embed group_norm instance_norm cummax cummin "
                    "cross_entropy"),
    (ROWS, "no rows", "multinomial diag col2im pad cummax cummin"),
    (ROWS, "one", "pad instance_norm"),
    (INSIDE, "bounds", "_times _pick_along"),
    (INSIDE, "negative", "_pick_along"),
]  # fmt: skip
OTHERWISE = {
    (name, kind): why
    for why, kinds, names in _REASONS
    for name in names.split()
    for kind in re.findall("no rows|[^ ]+", kinds)
}
# The records of which opset 23 has another form.
CHANGED = ["scaled_dot_product_attention", "rms_norm"]
# Pointwise records of which the sign of a zero is compared. Not of others: ONNX Runtime's Where
# adds two halves, and its Floor, Ceil, Elu, Atanh and Neg give 0.0 for -0.0.
SIGNED = {"copysign", "atan2", "abs", "mul", "sqrt", "round", "reciprocal", "sinh", "clone"}
FREE_PLACES = {"kthvalue", "topk"}  # among equal values
HUGE = {"f(T(2, 2, 4, 5, 3), 9)"}  # hundreds of windows, a few nodes each


class Special(Inputs):
    """The T, I and B of a sample, of values at the edge."""

    def __init__(self, dtype: str, sample: str, kind: str, k: int, pointwise: bool) -> None:
        super().__init__(weft, dtype, sample)
        self.rng = np.random.default_rng(zlib.crc32(f"{sample}{kind}{k}".encode()))
        self.kind, self.pointwise = kind, pointwise

    def sized(self, sizes: Any) -> Any:
        return SHAPES.get(self.kind, tuple)(sizes)

    def chosen(self, pool: Any, sizes: Any, dtype: str) -> Any:
        return self._tensor(self.rng.choice(np.array(pool), self.sized(sizes)), dtype).detach()

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        if self.dtype == "bool":
            return self.chosen([True, False], sizes, "bool")
        if self.dtype in BOUNDS:
            pool = NEGATIVE if self.kind == "negative" else BOUNDS[self.dtype]
            return self.chosen(pool, sizes, self.dtype)
        if self.kind in FLOATS:
            return self.chosen(FLOATS[self.kind], sizes, self.dtype)
        return super().T(*self.sized(sizes), lo=lo, hi=hi)

    def I(self, *sizes: int, high: int = 5) -> Any:  # noqa: E743
        if self.pointwise and self.kind in FLOATS:
            return self.chosen(FLOATS[self.kind], sizes, self.dtype)
        if self.kind in ("bounds", "negative"):
            pool = NEGATIVE if self.kind == "negative" else BOUNDS["int64"]
            return self.chosen(pool, sizes, "int64")
        return super().I(*self.sized(sizes), high=high)

    def B(self, *sizes: int) -> Any:
        return super().B(*self.sized(sizes))


class Tried:
    """A record's samples of one kind of values as one model."""

    def __init__(self, name: str, kind: str, dtype: str, times: int, opset: int = 21) -> None:
        self.record, self.kind, self.dtype = RECORDS[name], kind, dtype
        self.model = Model(opset)
        self.g = Builder(self.model)
        self.walk = Walk({"functions": [], "objects": [], "entries": {}}, {}, self.model)
        self.made: list[Any] = []
        self.outs: list[Any] = []
        for sample in [*self.record["samples"], *MORE.get(name, [])]:
            if (name, sample) not in NOT_RUN and sample not in HUGE:
                for k in range(times):
                    self.write(sample, k)

    def write(self, sample: str, k: int) -> None:
        """Adds a call, unless eager refuses it or it is refused by its reason."""

        def inputs() -> Special:
            return Special(self.dtype, sample, self.kind, k, self.record["pointwise"])

        def f(*args: Any, **words: Any) -> Any:
            args = [entered(a, self.model, self.made, False) for a in args]
            words = {n: entered(v, self.model, self.made, False) for n, v in words.items()}
            return self.walk.call_op(name_of(self.record), args, words)

        try:
            with weft.no_grad():
                inputs().run(ours(self.record), sample)
        except Exception:
            return
        before, nodes = len(self.made), len(self.g.nodes)
        source = inputs()
        try:
            found = source.run(f, sample)
        except NotOnnx:
            del self.made[before:], self.g.nodes[nodes:]
            return
        said = f"{sample} of {[t.tolist() for t in source.made]}"
        self.outs += [(said, out, k) for k, out in enumerate(found)]

    def check(self) -> None:
        if not self.outs:
            return
        inputs = [(v, list(t.shape)) for v, t in self.made]
        written = model_of(self.g, inputs, [o for _, o, _ in self.outs], None, self.model.opset)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(written.SerializeToString(), options)
        except Exception as error:
            assert "NOT_IMPLEMENTED" in str(error), error  # no kernel of this dtype: not silent
            return
        got = session.run(None, {v.name: t.numpy() for v, t in self.made})
        with weft.no_grad():
            loaded = weft.onnx.load(written)(*(t for _, t in self.made))
        loaded = loaded if isinstance(loaded, tuple) else (loaded,)
        for found, again, (said, out, k) in zip(got, loaded, self.outs, strict=True):
            expected = out.examples[0].detach().numpy()
            for way in (found, again.detach().numpy()):
                self.compare(way, expected, said, k)

    def compare(self, found: Any, expected: Any, said: str, k: int) -> None:
        name = self.record["name"]
        assert found.shape == expected.shape and found.dtype == expected.dtype, said
        if self.record["random"] or self.record["public_name"] in UNSET:
            return
        if name in FREE_PLACES and k:
            return
        np.testing.assert_allclose(found, expected, 2e-4, 2e-5, equal_nan=True, err_msg=said)
        if name in SIGNED and found.dtype.kind == "f":
            unlike = np.signbit(found) != np.signbit(expected)
            assert not unlike[found == 0].any(), f"a zero's sign: {said}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAPPED)
def test_values_at_the_edge_are_eagers_or_refused(name: str) -> None:
    internal = name.startswith("_") and not RECORDS[name]["in_packages"]
    for kind, dtype, times in KINDS:
        if (name, kind) in OTHERWISE or internal and kind in SHAPES:
            continue
        try:
            Tried(name, kind, dtype, times).check()
        except Exception as error:
            raise AssertionError(f"{name}, {kind} in {dtype}: {error}") from error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({name for name, _ in OTHERWISE}))
def test_what_is_listed_is_otherwise(name: str) -> None:
    """A third of the list was not: a kind of values for all that one record of a line needs."""
    for of, kind in OTHERWISE:
        if of == name:
            with pytest.raises(Exception):  # noqa: B017
                for tried in (Tried(name, *row) for row in KINDS if row[0] == kind):
                    tried.check()


def has_another_form(name: str) -> bool:
    """Whether the nodes of a record are others in opset 23."""
    nodes = [Tried(name, "zeros", "float32", 1, opset).g.nodes for opset in (21, 23)]
    first, second = ([node.op_type for node in row] for row in nodes)
    return first != second


@pytest.mark.filterwarnings("ignore")
def test_values_at_the_edge_in_the_forms_of_opset_23() -> None:
    changed = [name for name in MAPPED if has_another_form(name)]
    assert changed == CHANGED
    for name in changed:
        for kind, dtype, times in KINDS:
            if (name, kind) not in OTHERWISE:
                try:
                    Tried(name, kind, dtype, times, 23).check()
                except Exception as error:
                    raise AssertionError(f"{name}, {kind} in {dtype}: {error}") from error


def test_what_is_listed_is_there() -> None:
    assert {name for name, _ in OTHERWISE} <= set(MAPPED)
    assert SIGNED | FREE_PLACES <= set(MAPPED)

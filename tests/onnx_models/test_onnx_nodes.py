"""The backend tests of the package onnx: each model is loaded, run and compared.

Every case passes, or is refused for a reason of `REFUSED`, or stands in `OTHERWISE`.
"""

import functools
import glob
import re
import warnings
from typing import Any

import numpy as np
import pytest

import weft

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
PARTS = 16
# Of the 2024 cases of opset 28, how many of each part pass; no number goes down.
PASSED = (113, 111, 113, 113, 113, 110, 113, 110, 109, 111, 109, 111, 110, 109, 109, 111)
REFUSED = [
    r"the type (STRING|FLOAT8\w+|FLOAT4E2M1|U?INT[24])$",
    r": (to|output_dtype|dtype) (STRING|FLOAT8\w+|FLOAT4E2M1|U?INT[24])$",
    r"^Cast.*: its attribute 'round_mode'",
    r"^(ImageDecoder|TfIdfVectorizer|DeformConv|StringNormalizer|RegexFullMatch) .*no operator",
    r"^ai\.onnx\.(ml|preview\.training)\.",
    # broadcasting and training as opset 6 and earlier had them
    r"its attribute '(axis|broadcast|is_test)'$",
    r"^Scan .*: sequence_lens, which later versions do not have",
]
RANDOM = "draws of another generator: shapes and dtypes are compared"
OTHERWISE = {
    **dict.fromkeys(
        [
            "test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed",
            "test_bernoulli_expanded", "test_bernoulli_double_expanded",
            "test_bernoulli_seed_expanded", "test_training_dropout_default",
            "test_training_dropout_default_mask", "test_training_dropout",
            "test_training_dropout_mask",
        ],
        RANDOM,
    ),
    "test_attention_4d_causal_bf16_expanded": "one of 192 elements rounds the other way",
    **dict.fromkeys(
        [
            "test_resize_downsample_scales_linear_align_corners",
            "test_resize_downsample_scales_cubic_align_corners",
        ],
        "ONNX Runtime and PyTorch count the new size in whole pixels",
    ),
    "test_div_uint64": "weft does not divide uint64",
    "test_mod_uint64": "weft does not divide uint64",
}  # fmt: skip


@functools.cache
def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [test for kind in KINDS for test in load_model_tests(kind=kind)]


def model_of(test: Any) -> Any:
    if test.model is not None:
        return test.model
    with open(f"{test.model_dir}/model.onnx", "rb") as file:
        return onnx.load_model_from_string(file.read())


def parsed(raw: bytes, kind: Any) -> Any:
    """What a file of inputs or outputs holds."""
    which = kind.WhichOneof("value")
    made = {
        "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto
    }.get(which, onnx.TensorProto)()  # fmt: skip
    made.ParseFromString(raw)
    if which == "sequence_type":
        return numpy_helper.to_list(made)
    return numpy_helper.to_optional(made) if which == "optional_type" else made


def data_of(test: Any, model: Any) -> list[tuple[Any, Any]]:
    """Inputs and outputs, as often as the case has them."""
    if test.data_sets is not None:
        return list(test.data_sets)
    out = []
    for folder in sorted(glob.glob(f"{test.model_dir}/test_data_set*")):
        pair = []
        for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
            row = []
            for k in range(len(glob.glob(f"{folder}/{kind}_*.pb"))):
                with open(f"{folder}/{kind}_{k}.pb", "rb") as file:
                    row.append(parsed(file.read(), infos[k].type))
            pair.append(row)
        out.append((pair[0], pair[1]))
    return out


def array(v: Any) -> Any:
    return numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v)


def entered(v: Any) -> Any:
    """An input as weft's."""
    if v is None or isinstance(v, list):
        return v if v is None else [entered(i) for i in v]
    v = array(v)
    if v.dtype.name == "bfloat16":
        return weft.from_numpy(v.view(np.int16).copy()).view(weft.bfloat16)
    return weft.from_numpy(np.array(v, copy=True))


def expect(got: Any, wanted: Any, rtol: float, random: bool) -> None:
    if wanted is None:
        assert got is None
        return
    if isinstance(wanted, list):
        assert isinstance(got, list) and len(got) == len(wanted)
        for a, b in zip(got, wanted):
            expect(a, b, rtol, random)
        return
    wanted, narrow = array(wanted), 1e-2
    if wanted.dtype.name == "bfloat16":
        assert got.dtype == weft.bfloat16
        found, wanted = got.detach().float().numpy(), wanted.astype(np.float32)
    else:
        found = got.detach().numpy()
        assert found.dtype == wanted.dtype
        narrow = 1e-2 if wanted.dtype == np.float16 else rtol
    assert found.shape == wanted.shape
    if not random:
        np.testing.assert_allclose(found, wanted, max(rtol, narrow), 1e-5, equal_nan=True)


def run(test: Any) -> str:
    """What of a model is refused; empty of one that gives what the case says."""
    model = model_of(test)
    try:
        made = weft.onnx.load(model)
    except weft.onnx.Unsupported as error:
        return error.found[0]
    for inputs, outputs in data_of(test, model):
        with weft.no_grad():
            got = made(*map(entered, inputs))
        row = got if isinstance(got, tuple) else (got,)
        for a, b in zip(row, outputs, strict=True):
            expect(a, b, test.rtol, OTHERWISE.get(test.name) == RANDOM)
    return ""


@pytest.mark.parametrize("part", range(PARTS))
def test_backend_cases_give_what_they_say(part: int) -> None:
    passed, wrong = 0, []
    for test in cases()[part::PARTS]:
        if OTHERWISE.get(test.name, RANDOM) != RANDOM:
            continue
        try:
            reason = run(test)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        passed += not reason
        if reason and not any(re.search(known, reason) for known in REFUSED):
            wrong.append(f"{test.name}: {reason}")
    assert not wrong, "\n".join(wrong)
    assert passed >= PASSED[part] or onnx.defs.onnx_opset_version() != 28

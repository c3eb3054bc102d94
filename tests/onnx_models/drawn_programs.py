"""Drawn programs in ONNX Runtime: refused when they are exported, or as eager on every input."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import weft
from weft.onnx import NotOnnx, export

Eager = Callable[[Any, weft.Tensor], Any]  #: what a program gives, None for what fails


def runs_that_agree(
    program: Callable[[int, Path], Any], seeds: Iterable[int], eager: Eager,
    given: weft.Tensor, inputs: Sequence[weft.Tensor], folder: Path,
) -> int:  # fmt: skip
    """How many runs were compared, of programs that export with `given` for their example."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    ran = 0
    for seed in seeds:
        f = program(seed, folder)
        if eager(f, given) is None:
            continue
        try:
            made = export(f, (given,), dynamic_shapes={"x": {0: "n"}})
        except NotOnnx:
            continue
        session = onnxruntime.InferenceSession(made.model_proto.SerializeToString(), options)
        for x in inputs:
            if (expected := eager(f, x)) is not None:
                ran += 1
                for a, b in zip(session.run(None, {"x": x.numpy()}), expected, strict=True):
                    np.testing.assert_allclose(a, b, 1e-4, 1e-4, err_msg=f"seed {seed}")
    return ran

"""Optimizers over parameters of half and complex dtypes, beside PyTorch, fast step and plain."""

import pytest

import weft

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"initial_accumulator_value": 0.5}),
    *((name, {}) for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")),
]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "complex64": 1e-5, "complex128": 1e-6}


@pytest.mark.parametrize("foreach", [None, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_steps_are_pytorchs(torch, name, settings, dtype, foreach):
    def made(t, values, turn):
        values = t.tensor(values)
        return (
            t.complex(values, values * turn) if "complex" in dtype else values.to(getattr(t, dtype))
        )

    ends, states = [], []
    for t in (weft, torch):
        p = t.nn.Parameter(made(t, [0.5, -1.25, 2.0, 0.1], 0.3).to(getattr(t, dtype)))
        optimizer = getattr(t.optim, name)([p], foreach=foreach, **settings)
        for i in range(5):
            p.grad = made(t, [0.3, -0.7, 0.1 * i + 0.1, 1.0], -0.5).to(p.dtype)
            optimizer.step()
        ends.append(p.tolist())
        states.append({k: str(v.dtype) for k, v in optimizer.state[p].items() if v is not None})
    assert ends[0] == pytest.approx(ends[1], abs=TOLERANCE[dtype])
    assert states[0] == states[1]

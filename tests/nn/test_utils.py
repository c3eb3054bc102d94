"""`weft.nn.utils`, side by side with PyTorch's."""

from __future__ import annotations

import pytest


def with_grads(t, *grads):
    parameters = [t.nn.Parameter(t.zeros(len(g))) for g in grads if g is not None]
    for p, g in zip(parameters, (g for g in grads if g is not None)):
        p.grad = t.tensor(g)
    return [*parameters, t.nn.Parameter(t.zeros(1))]  # the last one has none


UTILS = {
    "norm": lambda t, u, p: u.clip_grad_norm_(p, 1.0),
    "norm of one": lambda t, u, p: u.clip_grad_norm_(p[0], 1.0),
    "norm of a generator": lambda t, u, p: u.clip_grad_norm_(iter(p), 1.0),
    "norm of nothing": lambda t, u, p: u.clip_grad_norm_([], 1.0),
    "norm large": lambda t, u, p: u.clip_grad_norm_(p, 100),
    "norm 1": lambda t, u, p: u.clip_grad_norm_(p, 1.0, norm_type=1),
    "norm 3": lambda t, u, p: u.clip_grad_norm_(p, 1.0, norm_type=3.0),
    "norm inf": lambda t, u, p: u.clip_grad_norm_(p, 1.0, norm_type=float("inf")),
    "norm of string": lambda t, u, p: u.clip_grad_norm_(p, "a"),
    "norm not finite": lambda t, u, p: u.clip_grad_norm_(
        with_grads(t, [float("inf"), 1.0]), 1.0, error_if_nonfinite=True
    ),
    "total": lambda t, u, p: u.get_total_norm([q.grad for q in p if q.grad is not None]),
    "with norm": lambda t, u, p: u.clip_grads_with_norm_(p, 1.0, t.tensor(2.0)),
    "value": lambda t, u, p: u.clip_grad_value_(p, 2.5),
    "value of one": lambda t, u, p: u.clip_grad_value_(p[1], 0.5),
    "to vector": lambda t, u, p: u.parameters_to_vector(p),
    "from vector": lambda t, u, p: u.vector_to_parameters(t.arange(6.0), p),
    "from list": lambda t, u, p: u.vector_to_parameters([1.0], p),
    "from short vector": lambda t, u, p: u.vector_to_parameters(t.arange(4.0), p),
}
UTILS_OWN_WORDS = {"from short vector"}


@pytest.mark.parametrize("name", UTILS)
def test_utils(agree, name):
    def snippet(t):
        p = with_grads(t, [3.0, -4.0], None, [1.0, 2.0, -2.0])
        result = UTILS[name](t, t.nn.utils, p)
        return result, [q.grad for q in p], p

    agree(snippet, messages=name not in UTILS_OWN_WORDS)

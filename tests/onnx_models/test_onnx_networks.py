"""Networks with free sizes in ONNX Runtime, at sizes beside the example's."""

from collections.abc import Callable
from typing import Any

import free_networks as networks
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import weft  # noqa: E402


def leaves(v: Any) -> list[Any]:
    if isinstance(v, (dict, tuple)):
        return [t for i in (v.values() if isinstance(v, dict) else v) for t in leaves(i)]
    return [v]


@pytest.mark.parametrize(
    ("kind", "given", "free", "example"),
    networks.NETWORKS,
    ids=lambda k: getattr(k, "__name__", ""),
)
def test_networks_are_eagers_at_other_sizes(
    kind: type[weft.nn.Module], given: Callable[..., Any], free: Any, example: tuple[int, int]
) -> None:
    """Of an input of 4 by 4, as of 8 by 8, strides left one window, which was one for all sizes; a
    mask of padding was refused in an encoder, and nodes[3] of a list that a loop had made."""
    weft.manual_seed(1)
    network = kind().eval()
    made = weft.onnx.export(network, given(*example), dynamic_shapes=free)
    for sizes in ((1, 1), (2, 3), (3, 8), (5, 16), (4, 2), (7, 7)):
        args = given(*sizes)
        with weft.no_grad():
            want = leaves(network(*args))
        weft.testing.assert_close(made(*args), want, rtol=1e-3, atol=1e-4)

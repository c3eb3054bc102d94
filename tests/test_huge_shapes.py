"""A short run of the fuzzer of huge shapes, and the faults it must find."""

import fuzz_shapes
import pytest

import weft


def test_every_op_works_or_raises() -> None:
    assert fuzz_shapes.search(seed=0, calls=4000) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: x.clone(),
        lambda x: weft.empty_like(x),
        lambda x: weft.zeros_like(x),
        lambda x: x.exp(),
        lambda x: x.half(),
        lambda x: x.flip(0),
        lambda x: weft.rand_like(x),
        lambda x: weft.nn.functional.dropout(x),
        lambda x: weft.cat([x, x]),
        lambda x: weft.autobatch(lambda y: y + 1)([x, x]),
    ],
)
@pytest.mark.parametrize("size", [2**61, 2**61 + 4, 2**62, 2**63 - 1])
def test_bytes_do_not_wrap(call, size) -> None:
    """2**61 + 4 elements of 8 bytes are 32 bytes modulo 2**64: that many were allocated."""
    for dtype in (weft.float32, weft.float64, weft.complex128):
        with pytest.raises(RuntimeError, match="expected"):
            call(weft.ones(1, dtype=dtype).expand(size))


@pytest.mark.parametrize("less", [0, 1, 62, 63, 64, 65, 1024])
def test_bytes_and_their_header_do_not_wrap(less) -> None:
    """2**63 - 1 bytes fit a count, but not with the 64 of the storage before them."""
    x = weft.ones(1, dtype=weft.int64).expand(2**63 - 1 - less)
    for call in (lambda: x == 2, lambda: x.isfinite(), lambda: x.bool(), lambda: x.to(weft.uint8)):
        with pytest.raises(RuntimeError, match="expected"):
            call()


def test_layouts_beyond_memory_are_found() -> None:
    x = weft.ones(2, 3)
    assert fuzz_shapes.within_memory(x.t()[1:]) is None
    beyond = weft._C.ops._spread(weft.ones(1), 0, False, (2, 3))
    assert "elements 0 to 2 of 1" in fuzz_shapes.within_memory(beyond)


def test_calls_that_die_or_never_end_are_found(tmp_path, monkeypatch) -> None:
    for body, told in (("os.abort()", "status -6"), ("time.sleep(60)", "does not end")):
        script = tmp_path / "calls.py"
        script.write_text(
            f"import os, sys, time\nprint(7, flush=True)\nif sys.argv[4] == '0':\n    {body}\n"
        )
        monkeypatch.setattr(fuzz_shapes, "__file__", str(script))
        monkeypatch.setattr(fuzz_shapes, "PATIENCE", 2)
        (found,) = fuzz_shapes.search(seed=3, calls=8)
        assert "--seed 3 --only 7" in found and told in found

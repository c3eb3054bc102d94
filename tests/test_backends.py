"""Programs may ask for libraries and set their switches."""

import pytest

import weft


def test_answers_are_those_of_pytorch_without_a_gpu(torch):
    for text in ("cudnn.is_available()", "cudnn.version()", "cudnn.benchmark", "cudnn.enabled",
                 "cudnn.deterministic", "cuda.matmul.allow_tf32", "mps.is_available()",
                 "mps.is_built()", "cuda.is_built()", "cuda.flash_sdp_enabled()"):  # fmt: skip
        ours = eval("t.backends." + text, {"t": weft})  # noqa: S307
        assert ours == eval("t.backends." + text, {"t": torch})  # noqa: S307
    for text in ("is_available()", "device_count()", "current_accelerator()"):
        ours = eval("t.accelerator." + text, {"t": weft})  # noqa: S307
        assert ours == eval("t.accelerator." + text, {"t": torch})  # noqa: S307
    for t in (weft, torch):
        with pytest.raises(RuntimeError, match="accelerator"):
            t.accelerator.set_device_index(0)
    assert weft.version.cuda is None and weft.version.__version__ == weft.__version__


def test_switches_are_kept():
    b = weft.backends
    b.cudnn.benchmark = True
    b.cuda.enable_flash_sdp(False)
    try:
        with b.cudnn.flags(benchmark=False, deterministic=True):
            assert b.cudnn.deterministic and not b.cudnn.benchmark
        assert b.cudnn.benchmark and not b.cudnn.deterministic
        assert not b.cuda.flash_sdp_enabled() and b.cuda.math_sdp_enabled()
    finally:
        b.cudnn.benchmark = False
        b.cuda.enable_flash_sdp(True)
    with pytest.raises(TypeError, match="expected one of"), b.cudnn.flags(other=1):
        pass

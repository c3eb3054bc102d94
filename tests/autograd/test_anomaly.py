"""Anomaly mode: the forward call is named, nan is refused."""

import warnings

import pytest

import weft


def run(lib, function):
    """(type and first line of the error, warnings' first lines) of a backward in anomaly mode."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with lib.autograd.detect_anomaly():
            try:
                function(lib)
                error = None
            except RuntimeError as e:
                error = str(e).splitlines()[0]
    return error, [str(w.message) for w in caught]


def sqrt_of_negative(lib):
    x = lib.tensor([1.0, -1.0], requires_grad=True)
    x.sqrt().sum().backward()


def test_nan_is_refused_as_in_torch(torch):
    ours, theirs = run(weft, sqrt_of_negative), run(torch, sqrt_of_negative)
    assert ours[0] == theirs[0] == "Function 'SqrtBackward0' returned nan values in its 0th output."
    for messages in (ours[1], theirs[1]):
        assert len(messages) == 2
        assert messages[0].startswith("Anomaly Detection has been enabled.")
        head = "Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n"
        assert messages[1].startswith(head)
        assert "x.sqrt().sum().backward()" in messages[1] and "test_anomaly.py" in messages[1]


def test_error_names_the_node_and_its_line():
    error, messages = run(weft, sqrt_of_negative)
    with pytest.warns(UserWarning), weft.autograd.detect_anomaly():
        with pytest.raises(
            RuntimeError, match=r"in the backward of SqrtBackward0, made at .*sqrt_of_neg"
        ):
            sqrt_of_negative(weft)


def test_induced_by_the_node_of_the_first_pass():
    def second(lib):
        x = lib.tensor(0.0, requires_grad=True)
        (g,) = lib.autograd.grad(x**1.5, x, create_graph=True)
        lib.autograd.grad(g * 0, x)

    error, messages = run(weft, second)
    assert "returned nan values" in error
    assert (
        "Previous calculation was induced by PowBackward0. Traceback of forward call"
        in messages[-1]
    )
    assert "x**1.5" in messages[-1]


def test_no_forward_information():
    y = weft.tensor(-1.0, requires_grad=True).sqrt()
    error, messages = run(weft, lambda lib: y.backward())
    assert error and "No forward pass information available" in messages[1]


def test_check_nan_may_be_off():
    x = weft.tensor(-1.0, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        with weft.autograd.detect_anomaly(check_nan=False):
            assert weft.is_anomaly_enabled() and not weft.is_anomaly_check_nan_enabled()
            x.sqrt().backward()
    assert weft.isnan(x.grad)


def test_infinity_is_no_nan():
    assert run(weft, lambda lib: lib.zeros((), requires_grad=True).sqrt().backward())[0] is None


def test_errors_of_a_custom_backward():
    class Fails(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with weft.autograd.set_detect_anomaly(True), pytest.raises(KeyError, match="mine"):
            Fails.apply(weft.ones(2, requires_grad=True)).sum().backward()
    assert any("Error detected in FailsBackward" in str(w.message) for w in caught)


def test_warnings_as_errors_do_not_hide_the_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with weft.autograd.set_detect_anomaly(True):
            with pytest.raises(RuntimeError, match="nan values"):
                sqrt_of_negative(weft)


def test_mode_is_set_and_put_back():
    assert not weft.is_anomaly_enabled()
    with weft.autograd.set_detect_anomaly(True, check_nan=False):
        assert weft.is_anomaly_enabled() and not weft.is_anomaly_check_nan_enabled()
        with weft.autograd.set_detect_anomaly(False):
            assert not weft.is_anomaly_enabled()
        assert weft.is_anomaly_enabled() and not weft.is_anomaly_check_nan_enabled()
    assert not weft.is_anomaly_enabled()
    try:
        weft.autograd.set_detect_anomaly(True)
        assert weft.is_anomaly_enabled() and weft.is_anomaly_check_nan_enabled()
    finally:
        weft.autograd.set_detect_anomaly(False)
    sqrt_of_negative(weft)

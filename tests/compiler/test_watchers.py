"""Who looks at a program while it runs, or after it failed, sees what the function would show."""

import inspect
import logging
import sys
import traceback
import warnings

import pytest
from failing_programs import calls_what_fails, on_311

import weft

# ---- tools that watch Python


def traced(x):
    y = x + 1
    return y * 2


def test_tracers_and_profilers_see_functions():
    compiled, seen = weft.compile(traced), []
    compiled(1)

    def tracer(frame, event, arg):
        if frame.f_code is traced.__code__:
            seen.append((event, frame.f_lineno))
        return tracer

    sys.settrace(tracer)
    try:
        assert compiled(1) == 4
    finally:
        sys.settrace(None)
    first = traced.__code__.co_firstlineno
    assert seen == [
        ("call", first),
        ("line", first + 1),
        ("line", first + 2),
        ("return", first + 2),
    ]

    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append((frame.f_code.co_name, event)))
    try:
        compiled(1)
    finally:
        sys.setprofile(None)
    assert ("traced", "call") in calls


def deprecated():
    warnings.warn("old", DeprecationWarning, stacklevel=2)


def calls_what_is_deprecated():
    deprecated()  # blamed
    return 1


def warns_itself():
    warnings.warn("mine", UserWarning)  # noqa: B028


@on_311
@pytest.mark.parametrize("function", [calls_what_is_deprecated, warns_itself])
def test_warnings_blame_the_same_line(function):
    def blamed(f):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f()
        return [(str(w.message), w.filename, w.lineno) for w in caught]

    expected = blamed(function)
    assert blamed(weft.compile(function)) == expected and expected[0][1] == __file__


logger = logging.getLogger("weft.tests.compiler")


def logs():
    logger.warning("from here")
    return 1


@on_311
def test_logs_name_the_same_line():
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.funcName, record.lineno))

    handler = Keep()
    logger.addHandler(handler)
    try:
        logs()
        weft.compile(logs)()
    finally:
        logger.removeHandler(handler)
    assert records[0] == records[1] and records[0][0] == "logs"


def stack_names():
    return [f.name for f in traceback.extract_stack()][-2:]


def asks_for_its_stack():
    return inner_of_stack()


def inner_of_stack():
    return [f.function for f in inspect.stack()][:2], stack_names()


@on_311
def test_stacks_show_programs():
    expected = asks_for_its_stack()
    assert weft.compile(asks_for_its_stack)() == expected
    assert expected[0] == ["inner_of_stack", "asks_for_its_stack"]


# ---- tracebacks


def frames(f):
    try:
        f(1)
    except ZeroDivisionError as error:
        trace, out = error.__traceback__.tb_next, []
        while trace:
            frame = trace.tb_frame
            names = {
                k: v for k, v in frame.f_locals.items()
                if k not in (".0", "inner") and not k.startswith("_")
            }  # fmt: skip
            out.append((frame.f_code, trace.tb_lineno, frame.f_lineno, names))
            trace = trace.tb_next
        return out


def test_frames_of_tracebacks():
    expected, ours = frames(calls_what_fails), frames(weft.compile(calls_what_fails))
    assert [e[:2] for e in ours] == [e[:2] for e in expected]
    if sys.version_info < (3, 12):
        assert [e[2] for e in ours] == [e[2] for e in expected]
        assert [e[3] for e in ours[:2]] == [e[3] for e in expected[:2]]
        assert ours[0][3] == {"z": 1, "before": 2}
        assert ours[1][3] == {"x": 2, "rest": (7,), "key": 3, "local": 3}


def test_tracebacks_print_with_their_locals():
    try:
        weft.compile(calls_what_fails)(1)
    except ZeroDivisionError as error:
        text = "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )
    assert "calls_what_fails" in text and "ZeroDivisionError" in text


def test_frames_of_a_traceback_can_be_asked_for_their_variables():
    # on CPython 3.12 and later this crashed where a function has free variables
    offset = 3

    def fails(x):
        return x[offset]

    with pytest.raises(IndexError) as raised:
        weft.compile(lambda x: fails(x))([1, 2])
    entry = raised.value.__traceback__
    while entry:
        assert isinstance(dict(entry.tb_frame.f_locals), dict)
        entry = entry.tb_next

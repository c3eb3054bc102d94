"""A short run of the fuzzer of saved programs, and what it found."""

import collections

import fuzz_frontend
import fuzz_saved
import pytest
from fuzz_saved import Fuzzer, fuzz
from python_programs import saved

import weft
from weft.closing.program import package_of
from weft.export import NotExportable


def test_saved_programs_do_what_their_functions_do():
    found, fuzzer = fuzz(150, 0)
    assert not found, fuzz_frontend.shown(found[0])
    assert sum(fuzzer.outside.values()) < 60


def test_it_finds_what_differs(monkeypatch):
    monkeypatch.setattr(fuzz_saved, "ways", lambda function: [(lambda *args: 1, 1)])
    found, _ = fuzz(3, 0)
    assert len(found) == 1


def test_what_saving_raises_beside_refusals_is_found(monkeypatch):
    def fails(function):
        raise AttributeError("no")

    monkeypatch.setattr(fuzz_saved, "ways", fails)
    assert "saved" in fuzz(1, 0)[0][0].got
    assert NotExportable in Fuzzer.refuses


def test_the_variable_of_a_loop_that_is_left_early():
    """It was what it had been before the loop, where the turns are written out."""

    def left(i):
        for i in [0, 2]:  # noqa: B007, B020, PLR1704
            break
        return i

    def gone_on(i):
        for i in (1, 2):  # noqa: B020, PLR1704
            if i > 0:
                continue
        else:
            i += 5
        return i

    for f in (left, gone_on):
        assert saved(f)(-2) == f(-2)


def test_what_cannot_be_divided_and_sorted():
    def modulo(i):
        return 1 % i

    def of_ints(i):
        i.sort(key=lambda x: x)

    for f, told in ((modulo, "integer modulo by zero"), (of_ints, "'int' object has no attribute")):
        for run in (f, saved(f)):
            try:
                run(0)
            except Exception as error:
                assert told in str(error), run
            else:
                raise AssertionError


def test_what_the_test_of_a_loop_assigns():
    """It was not set where the test was false from the start."""

    def program(i):
        while j := i - i:
            pass
        else:
            i += 1
        for _ in [1, 2]:
            while k := 0:
                pass
        return i + j + k

    assert saved(program)(1) == program(1) == 2


def test_a_function_that_a_try_makes_is_refused_behind_it():
    """The program raised UnboundLocalError."""

    def program(i):
        try:

            def double(a):
                return a * 2

        except ValueError:
            pass
        return double(i)

    with pytest.raises(NotExportable, match="double is something else"):
        saved(program)


def test_what_is_worked_out_in_a_try():
    """It was unbound behind it, or what it had been before."""

    def program(i):
        k = 0
        try:
            k = 2 - 1
            n = not None
            [][i]
        except IndexError:
            i += k
        return i, k, n

    assert saved(program)(2) == program(2) == (3, 1, True)


def test_turns_that_a_first_go_at_a_loop_refuses():
    """What was reached by it was left in the package, half written: an AttributeError."""

    def one_of(k, x):
        weight = weft.ones(3) * k
        return getattr(x, ("relu", "exp")[k])() + weight

    def program(x):
        for k in range(2):
            x = one_of(k, x)
        return x

    run = saved(program)
    assert run(weft.ones(3)).tolist() == program(weft.ones(3)).tolist()


def test_what_a_refused_go_at_a_loop_referred_to_is_not_saved():
    lost, kept = weft.ones(3), weft.zeros(3)

    def one_of(k, x):
        y = x + lost if k else x + kept
        return getattr(y, ("relu", "exp")[k])()

    def program(x):
        for k in range(1):
            x = one_of(k, x)
        return x

    package = package_of({"forward": program})
    assert [t.tolist() for t in package.tensors.values()] == [[0.0, 0.0, 0.0]]
    assert len(package.functions) == 2


def test_a_loop_left_where_its_else_raises():
    """What the else had assigned was taken for what is behind the loop; a temporary of it, refused
    by the verifier."""

    def going(xs):
        k = 1
        for x in xs:
            if x:
                break
        else:
            k = 5
            raise ValueError(k)
        return k

    def written_out(xs):
        k = 1
        for f in (len, sum):
            if f(xs):
                break
        else:
            k = (xs, 2)
            raise ValueError(k)
        return k

    def turning(xs):
        k = 1
        while len(xs) < 3:
            if xs:
                break
            xs.append(0)
            xs.extend([0, 0])
        else:
            k = (xs, 5)
            raise ValueError(k)
        return k

    for f in (going, written_out, turning):
        run = saved(f)
        assert run([0, 2]) == f([0, 2]) == 1
        with pytest.raises(ValueError, match="5|2"):
            run([])


def test_temporaries_of_an_else_are_its_own():
    """A list that was made in it was taken for one of the same temporary behind the loop, and the
    verifier refused what it was made of."""

    def program(i, xs):
        for _ in xs:
            break
        else:
            (i for _ in [0, 0])
        while [*xs, i]:
            break
        for f in (len, sum):
            if f(xs):
                break
        else:
            (i for _ in [0, 0])
        return [*xs, i]

    for xs in ([], [1]):
        assert saved(program)(2, xs) == program(2, xs)


def test_a_list_under_two_temporaries_where_ways_meet():
    """It lay in the register of one, and the verifier refused what read the other."""

    def chosen(i, xs):
        while i > 5:
            i -= 5 * i
        a = xs and [1, 2] or i
        a *= 2
        return a

    def gone_through(i, xs):
        out = []
        for q in (xs or {1: i}) or i:
            out.append(q)
        a, b = i and [q for q in {1: 2, 3: 4}] or xs
        return out, a, b

    for f in (chosen, gone_through):
        for args in ((1, [3, 4]), (0, [3, 4]), (2, [])):
            assert saved(f)(*args) == f(*args)


def test_an_iterator_on_one_of_two_ways():
    """`next` was refused a tuple."""

    def known(i):
        z = i and zip([1], [2]) or zip([3, 5], [4, 6])
        return next(z), list(z), list(z)

    def one_of_a_run(i):
        given = iter([i, i])
        z = (k * i for k in range(i + 2)) if i else given
        return next(z), list(z), list(given)

    for f in (known, one_of_a_run):
        for i in (0, 3):
            assert saved(f)(i) == f(i)


def test_named_tuples_and_sizes_show_what_they_are_beside_classes_that_show_themselves():
    """They were shown as tuples, where any class of the program had a `__repr__`."""

    def program(i, x):
        q = collections.deque([i])
        row = fuzz_saved.Row(i, q)
        return str(row), f"{[row]} {row!r}", repr(x.shape), str(q)

    x = weft.ones(2, 3)
    assert saved(program)(1, x) == program(1, x)


@pytest.mark.parametrize("by", [1, -3, True, 2.0, "x", None])
@pytest.mark.parametrize("items", [[], [1, 2]])
def test_a_deque_turns_by_whole_numbers(items, by):
    """The error was that of `%`, and an empty deque took anything."""

    def turned(items, by):
        q = collections.deque(items)
        try:
            q.rotate(by)
        except TypeError as error:
            return str(error)
        return list(q)

    assert saved(turned)(items, by) == turned(items, by)

"""A short run of the fuzzer, and the faults it must find."""

import fuzz
import pytest
from fuzz_programs import Options, draw, draw_data, source

import weft

PROGRAMS = 300


@pytest.mark.parametrize("seed", range(2))
def test_batched_is_plain(seed):
    report = fuzz.search(seed, PROGRAMS)
    assert report.invalid < PROGRAMS * 0.02
    if report.mismatch is not None:
        key, difference, blocks, data, call = report.mismatch
        blocks, data = fuzz.minimal(blocks, data, call=call)
        pytest.fail(f"program {key}: {difference}\n{fuzz.script(blocks, data, call)}")


def test_programs_repeat_and_most_run_through():
    assert source(draw("a")) == source(draw("a")) != source(draw("b"))
    quiet = Options(errors=False, late=False)
    outcomes = [fuzz.run(fuzz.built(draw(k, quiet)), draw_data(k, empty=0))[0] for k in range(200)]
    assert [out.error for out in outcomes if out.error] == []


def changed(change):
    """One by one, then `change(examples, results)`."""

    def call(fn, examples):
        results = fuzz.one_by_one(fn)(examples)
        change(examples, results)
        return results

    return call


def tensors(results):
    return [t for result in results for t in fuzz.tensors(result) if t.requires_grad]


def a_digit(examples, results):
    if found := tensors(results):
        with weft.no_grad():
            found[-1].data.view(-1)[-1:].add_(1e-9)


def swapped(examples, results):
    if len(results) > 2:
        results[0], results[2] = results[2], results[0]


def a_gradient(examples, results):
    if found := tensors(results):
        found[0].register_hook(lambda g: g * (1 + 1e-9))


def swapped_gradients(examples, results):
    if len(examples) > 1 and all(e.y.requires_grad for e in examples[:2]):
        one, two = examples[0].y, examples[1].y
        kept = {}
        one.register_hook(lambda g: kept.setdefault("g", g) * 0 + g.flip(0))
        two.register_hook(lambda g: g.flip(0))


def one_draw_more(examples, results):
    weft.rand(())


def backwards(fn, examples):
    return fuzz.one_by_one(fn)(examples[::-1])[::-1]


def other_error(fn, examples):
    try:
        return fuzz.one_by_one(fn)(examples)
    except Exception as error:
        raise KeyError(str(error)) from error


def last_error(fn, examples):
    errors = []
    for example in examples:
        try:
            fn(example)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[-1]
    return fuzz.one_by_one(fn)(examples)


def stops_early(fn, examples):
    return fuzz.one_by_one(fn)(examples[:-1])


def twice(fn, examples):
    fn(examples[0])
    return fuzz.one_by_one(fn)(examples)


def detached(fn, examples):
    def without(example):
        with weft.no_grad():
            return fn(example)

    return fuzz.one_by_one(without)(examples)


FAULTS = [changed(f) for f in (a_digit, swapped, a_gradient, swapped_gradients, one_draw_more)]
FAULTS += [backwards, other_error, last_error, stops_early, twice, detached]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault):
    report = fuzz.search(5, 200, call=fault)
    assert report.mismatch is not None


def test_a_mismatch_is_made_small(capsys):
    """A fault of one op is shown by a program of few lines, which runs where it is pasted."""
    functional = weft.nn.functional
    correct = functional.gelu

    def call(fn, examples):
        functional.gelu = lambda x: correct(x) * (1 + 1e-9)
        try:
            return fuzz.one_by_one(fn)(examples)
        finally:
            functional.gelu = correct

    report = fuzz.search(3, 1000, call=call)
    blocks, data = fuzz.minimal(*report.mismatch[2:4], call=call)
    text = source(blocks)
    assert "gelu" in text and len(text.splitlines()) < 8 and len(data) == 1
    assert fuzz.wrong(blocks, data, call=call)
    exec(fuzz.script(blocks, data), {})
    assert capsys.readouterr().out == "None\n"  # without the fault


def test_what_a_program_leaves_changed_ends_with_it():
    """Made smaller, a program lost the line that put a weight back: later ones computed with it."""

    def program(e, w, log):
        w.a = w.a + 1
        w.linear.weight = weft.nn.Parameter(w.linear.weight * 2)
        raise ValueError

    def results():
        return fuzz.numbers([fuzz.weights_of(weft).a, fuzz.weights_of(weft).linear.weight])

    before = results()
    with pytest.raises(fuzz.Invalid, match="written"):
        fuzz.check(program, draw_data("a", empty=0))
    assert results() == before


def test_a_dead_value_is_known_by_what_it_saves():
    """Of examples without rows a dead value spoiled a shared weight's gradient: as documented."""

    def program(e, w, log):
        v = e.x.logsumexp(0)
        v = weft.nn.functional.layer_norm(v, (4,), w.y, None, 0.1)
        return e.x.sum() * e.y if e.k else v

    kinds = [([[1.0] * 4], 0), ([], 1)]
    data = [{**draw_data(1, empty=0)[0], "x": rows, "k": k} for rows, k in kinds]
    assert fuzz.saves_infinity(program, data, weft)
    assert not fuzz.saves_infinity(program, data[:1], weft)
    assert fuzz.check(program, data) is None

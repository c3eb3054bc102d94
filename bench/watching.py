"""What watching costs: a call that is recorded, a training step that is looked at."""

import statistics

import gpt
import harness


def share(every):
    """Percent of a GPT step, with every step looked at, or none but for the search for the nan."""

    def value(name):
        if name != "weft":
            return None
        import weft

        plain, watched = gpt.training_step(weft), gpt.training_step(weft)

        def in_watch():
            with weft.stop_when(nan=True, action=print):
                return watched()

        def looked_at():
            with weft.watch(watched.model, nan=False):
                return watched()

        off, on = harness.alternate([plain, looked_at if every else in_watch])
        return 100 * (statistics.median(on) / statistics.median(off) - 1)

    return value


def per_call(**options):
    """Nanoseconds more for each of many additions of 4 floats, while they are recorded."""

    def value(name):
        if name != "weft":
            return None
        import weft

        x = weft.ones(4)

        def calls():
            y = x
            for _ in range(1000):
                y = y + x

        def recorded():
            with weft.record(**options):
                calls()

        off, on = harness.alternate([calls, recorded])
        return (statistics.median(on) - statistics.median(off)) * 1e6

    return value


def recorded_step(name):
    """Percent of a GPT step, recorded with statistics of results."""
    if name != "weft":
        return None
    import weft

    step = gpt.training_step(weft)

    def recorded():
        with weft.record(statistics=True):
            step()

    off, on = harness.alternate([step, recorded])
    return 100 * (statistics.median(on) / statistics.median(off) - 1)


ROWS = [
    harness.Fact("recording a call: what ran", per_call(times=False), "ns", limit=60),
    harness.Fact("recording a call: with times", per_call(), "ns", limit=90),
    harness.Fact("recording a GPT step, with statistics", recorded_step, "%", limit=3),
    harness.Fact("first nan of a GPT step, searched in every result", share(0), "%", limit=10),
    harness.Fact("layers of a GPT step, looked at in every step", share(1), "%"),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

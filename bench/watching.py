"""What watching costs a training step: the search for the first nan, and layers looked at."""

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


ROWS = [
    harness.Fact("first nan of a GPT step, searched in every result", share(0), "%", limit=10),
    harness.Fact("layers of a GPT step, looked at in every step", share(1), "%"),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

"""What it costs that every node knows the line it was recorded on: recording with and without."""

import statistics

import harness

CHAIN = 1000


def nanoseconds(name):
    if name != "weft":
        return None
    import weft

    x, b = weft.ones(4, requires_grad=True), weft.full((4,), 1.001)

    def recording(provenance):
        def step():
            weft._C._set_provenance(provenance)
            y = x
            for _ in range(CHAIN):
                y = y * b

        return step

    try:
        on, off = harness.alternate([recording(True), recording(False)])
    finally:
        weft._C._set_provenance(True)
    return statistics.median(a - b for a, b in zip(on, off)) / CHAIN * 1e9


ROWS = [harness.Fact("provenance, per recorded op", nanoseconds, "ns", limit=15)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

"""Rows of the other scripts again, on two threads of each library."""

import dataclasses

import cnn
import gpt
import harness
import matmul
import pointwise

ROWS = [
    dataclasses.replace(row, name=row.name + ", two threads", ratio=1.2, threads=2)
    for script in (gpt, cnn, matmul, pointwise)
    for row in script.ROWS[:1]
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

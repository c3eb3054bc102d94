"""The saved model from Python: its source is not needed.

python examples/deploy/run.py model.weft 0.5 -1 2 1.5
"""

import sys

import weft as torch

program = torch.jit.load(sys.argv[1])
probability, thoughts = program(torch.tensor([float(number) for number in sys.argv[2:]]))
print(f"{probability.item():.4f} {thoughts}")

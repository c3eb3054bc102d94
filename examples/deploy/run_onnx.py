"""The exported model from ONNX Runtime: neither weft nor the source is needed.

python examples/deploy/run_onnx.py model.onnx 0.5 -1 2 1.5
"""

import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
numbers = np.array([float(number) for number in sys.argv[2:]], dtype=np.float32)
probability, thoughts = session.run(None, {"x": numbers})
print(f"{probability.item():.4f} {thoughts.item()}")

"""A model is exported, checked, run by ONNX Runtime and compared, as PyTorch's tutorials do it."""

import os
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
folder = tempfile.mkdtemp()


class ImageClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc2(F.relu(self.fc1(x)))


model = ImageClassifier().eval()
example_inputs = (torch.randn(1, 1, 32, 32),)
program = torch.onnx.export(model, example_inputs, dynamo=True)
print(type(program).__name__, isinstance(program, torch.onnx.ONNXProgram))
path = os.path.join(folder, "classifier.onnx")
program.save(path)
onnx.checker.check_model(onnx.load(path))
onnx.checker.check_model(program.model_proto)
inputs = [tensor.numpy(force=True) for tensor in example_inputs]
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
given = {arg.name: value for arg, value in zip(session.get_inputs(), inputs)}
found = session.run(None, given)
print([arg.name for arg in session.get_inputs()], found[0].shape)
torch.testing.assert_close(model(*example_inputs), torch.tensor(found[0]))
torch.testing.assert_close(program(*example_inputs)[0], model(*example_inputs))

# names, free sizes, with a file
batch = torch.export.Dim("batch", min=1)
torch.onnx.export(
    model, example_inputs, path, input_names=["image"], output_names=["scores"],
    opset_version=21, dynamo=True, dynamic_shapes={"x": {0: batch}}, external_data=False,
)  # fmt: skip
session = onnxruntime.InferenceSession(path)
print([i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()])
print(session.get_inputs()[0].shape)
print(session.run(None, {"image": np.zeros((3, 1, 32, 32), np.float32)})[0].shape)

# the older way of saying it
torch.onnx.export(
    model, example_inputs, path, export_params=True, opset_version=21, do_constant_folding=True,
    input_names=["input"], output_names=["output"], dynamo=False,
    dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
)  # fmt: skip
session = onnxruntime.InferenceSession(path)
print(session.get_inputs()[0].shape, session.get_outputs()[0].shape[0])
print(session.run(["output"], {"input": np.zeros((2, 1, 32, 32), np.float32)})[0].shape)


class Branches(nn.Module):
    def forward(self, x):
        def positive(x):
            return x * 2

        def other(x):
            return x - 1

        return torch.cond(x.sum() > 0, positive, other, (x,))


made = torch.onnx.export(Branches(), (torch.ones(2),), dynamo=True, dynamic_shapes=({0: "n"},))
for x in (torch.ones(3), -torch.ones(4)):
    torch.testing.assert_close(made(x)[0], Branches()(x))
print([node.op_type for node in made.model_proto.graph.node][-2:])

exported = torch.export.export(
    model, example_inputs, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
)
again = torch.onnx.export(exported, dynamo=True)
image = torch.randn(4, 1, 32, 32)
torch.testing.assert_close(again(image)[0], model(image), rtol=1e-4, atol=1e-5)

scripted = torch.jit.script(model)
torch.onnx.export(scripted, example_inputs, path)
print(os.path.getsize(path) > 1000)


class Words(nn.Module):
    def forward(self, x, y=None, *, scale=1.0):
        return x * scale if y is None else x + y


words = torch.onnx.export(Words(), (torch.ones(2),), kwargs={"scale": 3.0}, dynamo=True)
print(words(torch.ones(2))[0])
pair = torch.onnx.export(Words(), (torch.ones(2),), kwargs={"y": torch.ones(2)}, dynamo=True)
print([i.name for i in pair.model_proto.graph.input], pair(torch.ones(2), y=torch.ones(2))[0])

try:
    torch.onnx.export(lambda x: torch.lgamma(x), (torch.ones(2),), path)
except torch.onnx.OnnxExporterError as error:
    print(type(error).__name__, "lgamma" in str(error))

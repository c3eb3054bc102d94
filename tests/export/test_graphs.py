"""The graph of an exported program, and the example that its file has."""

import copy
import io
import pickle
from dataclasses import dataclass

import pytest

import weft
from weft import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.register_buffer("shift", weft.ones(3), persistent=False)
        self.other = weft.full((3,), 2.0)

    def forward(self, x, n: int, *rest, words):
        return self.layer(x) * n + self.shift, {"sum": rest[0] + words["a"] + self.other}


def again(exported):
    file = io.BytesIO()
    weft.export.save(exported, file)
    file.seek(0)
    return weft.export.load(file)


def test_inputs_are_parameters_buffers_constants_and_tensors_among_the_arguments():
    net = Net()
    args, words = (weft.ones(4, 2), 3, weft.ones(3)), {"words": {"a": weft.ones(3)}}
    exported = weft.export.export(net, args, words)
    for program in (exported, again(exported)):
        signature, graph = program.graph_signature, program.graph
        inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
        assert inputs == [spec.arg.name for spec in signature.input_specs]
        assert signature.inputs_to_parameters == {
            "p_layer_weight": "layer.weight", "p_layer_bias": "layer.bias",
        }  # fmt: skip
        assert signature.inputs_to_buffers == {"b_shift": "shift"}
        assert len(signature.lifted_tensor_constants) == 1
        assert signature.user_inputs == ("x", "rest_0", "words_a")
        assert len(signature.user_outputs) == 2
        outputs = graph.output_node().args[0]
        assert [tuple(node.meta["val"].shape) for node in outputs] == [(4, 3), (3,)]
        assert not any("grad" in str(node.target) for node in graph.nodes)
        given = [net.layer.weight, net.layer.bias, net.shift, net.other, args[0], args[2]]
        found = program.graph_module(*given, words["words"]["a"])
        wanted = net(*args, **words)
        assert weft.equal(found[0], wanted[0]) and weft.equal(found[1], wanted[1]["sum"])
        assert program.constants.keys() == exported.constants.keys()


def test_a_file_has_the_example():
    exported = again(weft.export.export(nn.Linear(2, 3), (weft.ones(4, 2) * 2,)))
    ((x,), words) = again(exported).example_inputs
    assert weft.equal(x, weft.ones(4, 2) * 2) and words == {}


@dataclass
class Pair:
    a: weft.Tensor


class OfPairs(nn.Module):
    def forward(self, pair: Pair):
        return pair.a * 2


def test_a_file_without_an_example_says_so():
    exported = weft.export.export(OfPairs(), (Pair(weft.ones(2)),))
    assert len(exported.graph.find_nodes(op="call_function")) == 1
    loaded = again(exported)
    assert loaded.example_inputs is None
    assert loaded.module()(Pair(weft.ones(2))).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="objects of classes go into no file"):
        loaded.graph  # noqa: B018


@pytest.mark.parametrize("args", [[weft.ones(2)], weft.ones(2)], ids=["list", "tensor"])
def test_arguments_that_are_no_tuple(args):
    from weft._dynamo.exc import TorchDynamoException, UserError, UserErrorType

    with pytest.raises(UserError, match="Expecting `args` to be a tuple of example") as caught:
        weft.export.export(weft.nn.ReLU(), args)
    assert caught.value.error_type is UserErrorType.INVALID_INPUT
    assert isinstance(caught.value, TorchDynamoException)


class Moves(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.steps = nn.BatchNorm1d(2), 0
        self.register_buffer("count", weft.zeros(1))
        self.table = weft.ones(2)

    def forward(self, x):
        self.steps += 1
        self.count.add_(1)
        x.mul_(2)
        return self.norm(x) * weft.rand(1) + self.table


def test_reading_the_graph_writes_nothing():
    """It ran the example on the user's Module: buffers, the example and random numbers moved."""
    module, x = Moves(), weft.randn(3, 2)
    exported = weft.export.export(module, (x,))
    before = {name: t.clone() for name, t in module.state_dict().items()}
    seen, state = x.clone(), weft.get_rng_state()
    signature = exported.graph_signature
    assert {"count", "norm.running_mean"} < {*signature.buffers}
    assert weft.equal(state, weft.get_rng_state()) and weft.equal(seen, x)
    assert all(weft.equal(t, before[name]) for name, t in module.state_dict().items())
    assert exported._program.steps == 0
    assert len(signature.lifted_tensor_constants) == 1


def test_copies_of_an_exported_program_whose_graph_was_read():
    """The graph, with the program's own Modules in it, was part of the state that is copied."""
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    program, x = weft.export.export(net, (weft.randn(4, 3),)), weft.randn(4, 3)
    program.graph_signature  # noqa: B018
    for made in (copy.deepcopy(program), pickle.loads(pickle.dumps(program)), copy.copy(program)):
        assert weft.equal(made.module()(x), net(x))
        assert str(made.graph) == str(program.graph)
        assert made.graph_signature == program.graph_signature
    with weft.no_grad():
        next(copy.deepcopy(program).parameters()).zero_()
    assert weft.equal(program.module()(x), net(x))

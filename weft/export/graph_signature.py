"""`torch.export.graph_signature`: what the inputs and outputs of an exported graph are."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "TensorArgument",
]  # fmt: skip


class InputKind(enum.Enum):
    """What an input of a graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """What an output of a graph is."""

    USER_OUTPUT = enum.auto()


class TensorArgument(NamedTuple):
    """A tensor, by the name of its node."""

    name: str


class ConstantArgument(NamedTuple):
    """A value that is no tensor."""

    name: str
    value: Any


class InputSpec(NamedTuple):
    """One input of a graph: a parameter's `target` is its name in the Module."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None


class OutputSpec(NamedTuple):
    """One output of a graph."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None


class ExportGraphSignature(NamedTuple):
    """What the inputs and outputs of a graph are, in its order.

    Attributes:
        input_specs, output_specs: each of them.
        user_inputs, user_outputs: the names of those that a caller passes and gets.
        parameters, buffers, lifted_tensor_constants: the names of the others in the Module.
        inputs_to_parameters, inputs_to_buffers, inputs_to_lifted_tensor_constants: these names by
            the names of the inputs.
        buffers_to_mutate: nothing: writes are calls of the graph.

    >>> import weft
    >>> signature = weft.export.export(weft.nn.Linear(2, 1), (weft.ones(2),)).graph_signature
    >>> signature.parameters, signature.user_inputs
    (('weight', 'bias'), ('input',))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind}

    @property
    def user_inputs(self) -> tuple[str, ...]:
        """The names of the inputs that a caller passes."""
        return tuple(s.arg.name for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the outputs; of those that are no tensors the values."""
        found = [s.arg for s in self.output_specs]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in found)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in the Module."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers in the Module."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the other tensors of the program."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """The parameters by the names of the inputs."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """The buffers by the names of the inputs."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """The other tensors of the program by the names of the inputs."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Nothing: writes are calls of the graph."""
        return {}

"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, arguments, results, written values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument", "TokenArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """What keeps effects in order, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A size, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A number computed from sizes, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A condition on sizes, by the name of its node."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class that PyTorch's library defines."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is the same in every call."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """Where an input of the graph comes from."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What is done with an output of the graph."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """One input of the graph."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output of the graph."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """The gradients among the outputs of a graph."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _targets(kind: InputKind, doc: str) -> tuple[str, ...]:
    """A property: the targets of the inputs of a kind. Checkers see what instances have."""
    made: Any = property(lambda self: tuple(str(s.target) for s in self._inputs(kind)), doc=doc)
    return made


def _by_name(kind: InputKind | OutputKind, doc: str) -> Mapping[str, str]:
    """A property: the targets of the inputs or outputs of a kind, by their names in the graph."""

    def found(self: ExportGraphSignature) -> dict[str, str]:
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        return {s.arg.name: str(s.target) for s in specs if s.kind is kind}

    made: Any = property(found, doc=doc)
    return made


@dataclasses.dataclass
class ExportGraphSignature:
    """All inputs and outputs of an exported graph, in order.

    >>> import flambeau as torch
    >>> ep = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> ep.graph_signature.parameters, ep.graph_signature.user_inputs, ep.graph_signature.user_outputs
    (('weight', 'bias'), ('input',), ('linear',))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    parameters = _targets(InputKind.PARAMETER, "The paths of the parameters.")
    buffers = _targets(InputKind.BUFFER, "The paths of the buffers.")
    lifted_tensor_constants = _targets(InputKind.CONSTANT_TENSOR, "The names of the constants.")
    lifted_custom_objs = _targets(InputKind.CUSTOM_OBJ, "The names of objects; there are none here.")
    inputs_to_parameters = _by_name(InputKind.PARAMETER, "Names of inputs to paths of parameters.")
    inputs_to_buffers = _by_name(InputKind.BUFFER, "Names of inputs to paths of buffers.")
    inputs_to_lifted_tensor_constants = _by_name(InputKind.CONSTANT_TENSOR, "Names of inputs to names of constants.")
    inputs_to_lifted_custom_objs = _by_name(InputKind.CUSTOM_OBJ, "Names of inputs to names of objects.")
    buffers_to_mutate = _by_name(
        OutputKind.BUFFER_MUTATION, "Names of outputs to paths of the buffers that they are written to."
    )
    parameters_to_mutate = _by_name(
        OutputKind.PARAMETER_MUTATION, "Names of outputs to paths of the parameters that they are written to."
    )
    user_inputs_to_mutate = _by_name(
        OutputKind.USER_INPUT_MUTATION, "Names of outputs to names of the arguments that they are written to."
    )

    def _inputs(self, kind: InputKind) -> list[InputSpec]:
        return [s for s in self.input_specs if s.kind is kind]

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The paths of the buffers that are not part of the state."""
        return tuple(str(s.target) for s in self._inputs(InputKind.BUFFER) if not s.persistent)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The arguments: names of nodes, or values that are the same in every call."""
        return tuple(_shown(s.arg) for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The results: names of nodes, or values."""
        wanted = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_shown(s.arg) for s in self.output_specs if s.kind in wanted)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """The gradients among the outputs; None, as there are none."""
        return None

    @property
    def assertion_dep_token(self) -> None:
        """What keeps assertions in order; None, as nothing has to."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        return tuple(s.arg.name for s in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self) -> tuple[str, ...]:
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Gives a node another name in the signature."""
        for arg in [s.arg for s in (*self.input_specs, *self.output_specs)]:
            if arg.name == old:
                arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, Any, Any], None]:
        """A hook for changes of the graph that keeps the signature's names right."""

        def renamed(old: Any, new: Any, user: Any) -> None:
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return renamed

    def __str__(self) -> str:
        inputs = "".join(f"{s}\n" for s in self.input_specs)
        outputs = "".join(f"{s}\n" for s in self.output_specs)
        return f"\n# inputs\n{inputs}\n# outputs\n{outputs}"


def _shown(arg: ArgumentSpec) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name

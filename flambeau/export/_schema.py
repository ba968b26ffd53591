"""The numbers and names that `.pt2` archives have for dtypes, layouts and memory formats."""

from __future__ import annotations

from .._core.dtypes import BY_NAME, dtype
from .._core.layouts import FORMATS, LAYOUTS, layout, memory_format
from .graph_signature import InputKind, OutputKind

VERSION = (8, 20)
_DTYPE_NAMES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
    11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
DTYPES: dict[int, dtype] = {code: BY_NAME[name] for code, name in _DTYPE_NAMES.items() if name in BY_NAME}
_LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "strided")
LAYOUT_NAMES: dict[int, layout] = {
    i: found for i, name in enumerate(_LAYOUTS, 1) for found in LAYOUTS if repr(found) == f"torch.{name}"
}
_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
FORMAT_NAMES: dict[int, memory_format] = {
    i: found for i, name in enumerate(_FORMATS, 1) for found in FORMATS if found.name == name
}
# What may be done with sizes, by the names of Python's functions.
ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_",
)  # fmt: skip


def code_of(value: dtype | layout | memory_format) -> int:
    """The number of a dtype, layout or memory format."""
    for table in (DTYPES, LAYOUT_NAMES, FORMAT_NAMES):
        for code, known in table.items():
            if known is value:
                return code
    raise NotImplementedError(f"torch.export.save: archives have no number for {value}")


# How inputs with a target and outputs that are written back are named in archives: kind, and the name of the target.
INPUTS = {
    InputKind.PARAMETER: ("parameter", "parameter_name"),
    InputKind.BUFFER: ("buffer", "buffer_name"),
    InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name"),
}
OUTPUTS = {
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
}

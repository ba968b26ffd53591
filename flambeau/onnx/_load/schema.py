"""What ONNX files hold: the messages that are read from them, with the numbers of their fields."""

from __future__ import annotations

from .wire import Field

SCHEMA: dict[str, dict[int, Field]] = {
    "Model": {
        1: Field("ir_version", "int"),
        2: Field("producer_name", "text"),
        7: Field("graph", "Graph"),
        8: Field("opset_import", "Opset", True),
        25: Field("functions", "Function", True),
    },
    "Opset": {1: Field("domain", "text"), 2: Field("version", "int")},
    "Graph": {
        1: Field("node", "Node", True),
        2: Field("name", "text"),
        5: Field("initializer", "Tensor", True),
        11: Field("input", "ValueInfo", True),
        12: Field("output", "ValueInfo", True),
        15: Field("sparse_initializer", "bytes", True),
    },
    "Node": {
        1: Field("input", "text", True),
        2: Field("output", "text", True),
        3: Field("name", "text"),
        4: Field("op_type", "text"),
        5: Field("attribute", "Attribute", True),
        7: Field("domain", "text"),
    },
    "Attribute": {
        1: Field("name", "text"),
        2: Field("f", "float"),
        3: Field("i", "int"),
        4: Field("s", "bytes"),
        5: Field("t", "Tensor"),
        6: Field("g", "Graph"),
        7: Field("floats", "float", True),
        8: Field("ints", "int", True),
        9: Field("strings", "bytes", True),
        20: Field("type", "int"),
        21: Field("ref_attr_name", "text"),
    },
    "Function": {
        1: Field("name", "text"),
        4: Field("input", "text", True),
        5: Field("output", "text", True),
        6: Field("attribute", "text", True),
        7: Field("node", "Node", True),
        9: Field("opset_import", "Opset", True),
        10: Field("domain", "text"),
        11: Field("attribute_proto", "Attribute", True),
    },
    "Tensor": {
        1: Field("dims", "int", True),
        2: Field("data_type", "int"),
        4: Field("float_data", "float", True),
        5: Field("int32_data", "int", True),
        7: Field("int64_data", "int", True),
        8: Field("name", "text"),
        9: Field("raw_data", "bytes"),
        10: Field("double_data", "double", True),
        11: Field("uint64_data", "uint", True),
        13: Field("external_data", "Entry", True),
        14: Field("data_location", "int"),
    },
    "Entry": {1: Field("key", "text"), 2: Field("value", "text")},
    "ValueInfo": {1: Field("name", "text"), 2: Field("type", "Type")},
    "Type": {1: Field("tensor_type", "TensorType")},
    "TensorType": {1: Field("elem_type", "int"), 2: Field("shape", "Shape")},
    "Shape": {1: Field("dim", "Dim", True)},
    "Dim": {1: Field("dim_value", "int"), 2: Field("dim_param", "text")},
}

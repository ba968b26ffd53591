"""Functions of PyTorch's inner representation of programs, which is not here."""

from __future__ import annotations

from typing import Any


def _refuse(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name}: PyTorch's inner representation of programs is not read here; use torch.jit.load for archives, torch.fx for graphs"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Not available: PyTorch's inner representation of programs is not read here."
    return function


import_ir_module, import_ir_module_from_buffer = _refuse("import_ir_module"), _refuse("import_ir_module_from_buffer")
parse_ir, parse_type_comment = _refuse("parse_ir"), _refuse("parse_type_comment")
merge_type_from_type_comment, unify_type_list = _refuse("merge_type_from_type_comment"), _refuse("unify_type_list")

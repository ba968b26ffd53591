"""`GraphModule`: a module whose `forward` is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._tensor import Tensor
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._codegen import PythonCode, _PyTreeCodeGen
from .graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOK_TABLES = ("_create_node_hooks", "_erase_node_hooks", "_replace_hooks", "_deepcopy_hooks")
_numbers = itertools.count()


def _compiled(code: PythonCode) -> Callable[..., Any]:
    """The function of generated source; tracebacks show its lines."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    space = dict(code.globals)
    exec(compile(code.src, name, "exec", dont_inherit=True), space)
    return space["forward"]


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Puts what `from_module` has at a dotted path at the same place of another module."""
    *path, last = target.split(".")
    for atom in path:
        inner = getattr(from_module, atom)
        if inner is getattr(to_module, atom, None):
            return  # already shared
        if not isinstance(getattr(to_module, atom, None), Module):
            setattr(to_module, atom, Module())
        from_module, to_module = inner, getattr(to_module, atom)
    found = getattr(from_module, last)
    if isinstance(found, Tensor) and not isinstance(found, Parameter):
        persistent = last not in from_module._non_persistent_buffers_set
        to_module.register_buffer(last, found, persistent=persistent)
    else:
        setattr(to_module, last, found)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Puts an object at a dotted path, with empty modules on the way where there are none."""
    *path, last = target.split(".")
    for atom in path:
        if not hasattr(to_module, atom):
            setattr(to_module, atom, Module())
        to_module = getattr(to_module, atom)
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(last, from_obj)
    else:
        setattr(to_module, last, from_obj)


def _get_attr(model: Any, attr_name: str) -> Any:
    """What a module has at a dotted path."""
    for atom in attr_name.split("."):
        model = getattr(model, atom)
    return model


def _del_attr(model: Module, attr_name: str) -> None:
    path, _, last = attr_name.rpartition(".")
    delattr(_get_attr(model, path) if path else model, last)


def _has_attr(model: Any, attr_name: str) -> bool:
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


class _CodeOnlyModule(Module):
    """A module with given attributes and nothing else."""

    def __init__(self, body: dict[str, Any]):
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    """A GraphModule from its saved form."""
    made = GraphModule(_CodeOnlyModule(dict(body)), graph, name)
    for key, value in body.items():
        if key not in made.__dict__:
            made.__dict__[key] = value
    made.training = body.get("training", True)
    return made


class GraphModule(Module):
    """A module made of a graph and what the graph names: submodules, parameters, buffers.

    `root` is the module (or dictionary of attributes) they are taken from. Change `graph`, call `recompile()`, and
    `forward` follows.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) * 2)
    >>> for node in module.graph.nodes:
    ...     if node.target is torch.relu:
    ...         node.target = torch.neg
    >>> code = module.recompile()
    >>> module(torch.tensor([3.0]))
    tensor([-6.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each has a class of its own, because `forward` is looked up in the class.
        base = next(c for c in cls.__mro__ if "GraphModuleImpl" not in c.__qualname__)

        class GraphModuleImpl(base):  # type: ignore[valid-type, misc]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        self.__class__.__qualname__ = f"GraphModuleImpl.{class_name}"
        wanted = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in wanted:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(wanted, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        for table in _HOOK_TABLES:
            self.__dict__[table] = []
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {})) if isinstance(root, Module) else {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph. Assigning one makes new code; changes inside need `recompile()`."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        if not hasattr(self, "_code"):
            raise RuntimeError("there is no code yet: assign a graph first")
        return self._code

    def recompile(self) -> PythonCode:
        """Makes `forward` anew from the graph."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code("self")
        self._code = code.src
        type(self).forward = _compiled(code)
        return code

    # -- submodules -----------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a dotted path, with empty modules on the way; False if something else is in the way."""
        place: Any = self
        *path, last = target.split(".")
        for atom in path:
            if not hasattr(place, atom):
                setattr(place, atom, Module())
            place = getattr(place, atom)
            if not isinstance(place, Module):
                return False
        place.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a dotted path; False if there is none."""
        path, _, last = target.rpartition(".")
        try:
            place = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(place, last, None), Module):
            return False
        delattr(place, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the submodules that the graph does not use."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                atoms = node.target.split(".")
                used.update(".".join(atoms[:i]) for i in range(1, len(atoms) + 1))
                if node.op == "call_module":
                    try:
                        inside = self.get_submodule(node.target).named_modules()
                    except AttributeError:
                        continue
                    used.update(f"{node.target}.{name}" for name, _ in inside if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # -- copies and files -----------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code", *_HOOK_TABLES)}
        return reduce_graph_module, (body, self._graph, "GraphModule")

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code", "_tracer_cls", "_tracer_extras")}
        root = _CodeOnlyModule(copy.deepcopy(body, memo))
        made = GraphModule(root, copy.deepcopy(self._graph))
        memo[id(self)] = made
        self._carry(root, made)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self._graph, type(self).__name__)
        self._carry(self, made)
        return made

    @staticmethod
    def _carry(source: Module, made: GraphModule) -> None:
        """Attributes that the graph does not name but users count on: hooks, metadata, their own."""
        skipped = {"_graph", "_code", "_parameters", "_buffers", "_modules", "_tracer_cls", "_tracer_extras"}
        for key, value in source.__dict__.items():
            if key not in skipped:
                made.__dict__[key] = value

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes the module as a package: its code, and its tensors and submodules in files beside it."""
        from .. import serialization  # saving is not needed for anything else here

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        serialization.save(self.state_dict(), place / "state_dict.pt")
        lines = []
        for name, module in self.named_children():
            serialization.save(module, place / f"{name}.pt")
            lines.append(f'self.{name} = torch.load(here / "{name}.pt", weights_only=False)')
        for name, tensor in self._buffers.items():
            if tensor is not None:
                lines.append(f"self.register_buffer({name!r}, torch.empty({list(tensor.shape)}, dtype={tensor.dtype}))")
        for name, tensor in self._parameters.items():
            if tensor is not None:
                lines.append(
                    f"self.{name} = torch.nn.Parameter(torch.empty({list(tensor.shape)}, dtype={tensor.dtype}))"
                )
        lines.append('self.load_state_dict(torch.load(here / "state_dict.pt"))')
        body = "\n".join("        " + line for line in lines)
        code = self.code.strip().replace("\n", "\n    ")
        (place / "module.py").write_text(
            f"import torch\nimport torch.fx\nfrom math import inf, nan\nfrom pathlib import Path\nfrom torch import device\n\n"
            f"here = Path(__file__).parent\n\n\nclass {module_name}(torch.nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n{body}\n\n    {code}\n"
        )
        (place / "__init__.py").write_text("from .module import *\n")

    # -- hooks ----------------------------------------------------------------------------------------------------

    def _register_create_node_hook(self, f: Callable[[Any], Any]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Any], Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Any], Any]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Any], Any]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    # -- text -----------------------------------------------------------------------------------------------------

    def print_readable(self, print_output: bool = True, *options: Any, **more: Any) -> str:
        """The code of this module and of the GraphModules inside, with the places it was traced from."""
        text = _readable(self, type(self).__name__)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code, hint])


def _readable(module: GraphModule, name: str) -> str:
    code = module._graph.python_code("self", verbose=True).src.strip("\n ")
    body = "\n".join("    " + line if line.strip() else "" for line in code.split("\n"))
    text = f"class {name}(torch.nn.Module):\n{body}\n"
    for inner_name, inner in module.named_children():
        if isinstance(inner, GraphModule):
            text += "\n" + "\n".join(
                "    " + line if line.strip() else "" for line in _readable(inner, inner_name).split("\n")
            )
    return text

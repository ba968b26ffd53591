"""The schemas beside the declarations: readable, in the right file, complete; the operators of `torch.ops.aten` that have them."""

import inspect
import operator
import pickle
import pydoc
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau._kernel.native.site import Site
from flambeau._library import schema_texts as _schemas
from flambeau._library.schema import parse_schema
from flambeau._library.signatures import signature_of
from flambeau._ops.records.facts import lines_in
from flambeau._ops.registry import functions

# Functions of the top that are no operators in PyTorch, either.
PYTHON = {
    "as_tensor", "asarray", "eig", "from_dlpack", "from_numpy", "frombuffer", "lstsq", "lu", "matrix_rank", "pca_lowrank", "solve",
    "svd_lowrank", "symeig", "tensor", "unique", "unravel_index",
}  # fmt: skip
FACTS = {
    "autocast",
    "builtin",
    "composite",
    "parts",
    "whole",
    "flops",
    "onnx",
    "parsed",
    "python",
    "record",
    "number",
    "silent",
}


def _declared_in(function):
    """The file that declares a function."""
    op = _schemas.record_of(function)
    while op is None:
        if isinstance(getattr(function, "__self__", None), Site):
            function = function.__self__.slow
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return (function if op is None else op.body).__code__.co_filename


def test_schemas_are_readable_and_stand_beside_the_declarations():
    for module in _schemas._modules():
        for name, rest, facts in lines_in(module):
            assert all(fact.partition("=")[0] in FACTS for fact in facts.split(", ")) or not facts, name
            if not rest:
                continue
            schema = parse_schema(f"aten::{name}{rest}")
            assert parse_schema(str(schema)) == schema
            function = _schemas.function_of(name)
            assert function is not None, name
            assert _declared_in(function) == module.__file__, name


def test_public_functions_have_schemas():
    assert {name for name in functions if "." not in name and not _schemas.schemas_of(name)} == PYTHON


@pytest.mark.parametrize(
    ("operator", "overload", "text"),
    [
        ("add", "Tensor", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
        ("add_", "Scalar", "aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"),
        ("tanh", "out", "aten::tanh.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"),
        ("arccosh_", "default", "aten::arccosh_(Tensor(a!) self) -> Tensor(a!)"),
        ("special_expit", "default", "aten::special_expit(Tensor self) -> Tensor"),
        ("eye", "m_out", "aten::eye.m_out(SymInt n, SymInt m, *, Tensor(a!) out) -> Tensor(a!)"),
        ("permute_copy", "default", "aten::permute_copy(Tensor self, int[] dims) -> Tensor"),
        (
            "layer_norm",
            "default",
            "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
            "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
        ),
        (
            "min",
            "dim_min",
            "aten::min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) min_indices) "
            "-> (Tensor(a!) values, Tensor(b!) indices)",
        ),
        ("_foreach_add_", "List", "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()"),
    ],
)  # fmt: skip
def test_texts(operator, overload, text):
    assert str(getattr(getattr(torch.ops.aten, operator), overload)._schema) == text


def test_overloads():
    packet = torch.ops.aten.max
    assert sorted(packet.overloads()) == ["default", "dim", "dim_max", "other", "out", "unary_out"]
    assert {"add", "_softmax", "linalg_qr"} <= set(dir(torch.ops.aten))
    with pytest.raises(AttributeError, match=r"The underlying op of 'aten\.add' has no overload name 'nope'"):
        torch.ops.aten.add.nope  # noqa: B018
    assert torch.ops.aten.t.default.is_view and not torch.ops.aten.add.Tensor.is_view
    assert torch.ops.aten.add_.Tensor._schema.is_mutable
    argument = torch.ops.aten.sum.dim_IntList._schema.arguments[1]
    assert (argument.name, argument.type, argument.has_default_value()) == ("dim", "Optional[List[int]]", False)


def test_arguments_by_the_names_of_the_schema():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.ops.aten.mm.default(self=x, mat2=x.t()).tolist() == [[5, 14], [14, 50]]
    assert torch.ops.aten.sum.dim_IntList(x, [1], keepdim=True).tolist() == [[3], [12]]
    assert torch.ops.aten.relu(self=-x).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert torch.ops.aten.pow.Tensor_Scalar(self=x, exponent=2).tolist() == [[0, 1, 4], [9, 16, 25]]
    out = torch.empty(2, 3)
    assert torch.ops.aten.add.out(x, x, alpha=2, out=out) is out and out[1, 2] == 15


@pytest.mark.slow
def test_texts_cost_nothing_at_import():
    code = "import sys, flambeau; print([m for m in sys.modules if m in ('flambeau._library.schema_texts', 'flambeau._library.schema')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("add", "(input, other, *, alpha=1, out=None)"),
        ("sum", "(input, dim=None, keepdim=False, *, dtype=None, out=None)"),
        ("tanh", "(input, *, out=None)"),
        ("acos_", "(input)"),
        ("where", "(condition, input=None, other=None, *, out=None)"),
        ("conv2d", "(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)"),
        ("linalg.svd", "(A, full_matrices=True, *, driver=None, out=None)"),
        ("fft.fft", "(input, n=None, dim=-1, norm=None, *, out=None)"),
    ],
)
def test_signatures(name, signature):
    function = operator.attrgetter(name)(torch)
    assert str(inspect.signature(function)) == signature
    assert (
        pydoc.render_doc(function, renderer=pydoc.plaintext)
        .splitlines()[2]
        .endswith(name.rpartition(".")[2] + signature)
    )


def test_signatures_of_methods():
    assert str(inspect.signature(torch.ones(2).view)) == "(*shape)"
    shown = inspect.signature(torch.where)
    assert pickle.loads(pickle.dumps(shown)) == inspect.signature(torch.where)
    assert shown.bind(1, other=2).arguments == {"condition": 1, "other": 2}


def test_planned_functions_name_their_arguments_as_the_schemas_do():
    """Their signatures stand in machine memory, so they are those of the functions."""
    for name in sorted(functions):
        function = functions[name]
        if (
            "." in name
            or name[0] == "_"
            or not isinstance(getattr(function, "__self__", None), Site)
            or _schemas.has_own_arguments(name)
        ):
            continue
        shown, own = signature_of(name), inspect.signature(function).parameters
        if shown is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in own.values()):
            continue  # `tensor`, which no schema describes; functions that take sizes one by one, or further options
        wanted, got = set(shown.parameters), set(own)
        other = {"out_dtype", "out", "other", "src", "indices_or_sections", "sections"}
        assert got ^ wanted <= other, (name, got ^ wanted)


def test_operators_number_reductions_and_give_lists():
    aten = torch.ops.aten
    x, y = torch.arange(8.0).reshape(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    assert aten.mse_loss(x, y, 0).shape == x.shape and aten.mse_loss(x, y, 2).item() == 92
    assert aten.huber_loss.default(x, y, reduction=2, delta=0.5).item() == 10.125
    assert aten.nll_loss(x[0, 0], torch.tensor([1, 2]), None, 2, -100).item() == -7
    assert type(aten.split.Tensor(x, 2, 3)) is list and type(aten.unbind.int(x, 2)) is list
    assert aten.avg_pool2d.default(x, [2, 2], []).tolist() == [[[[2.5, 4.5]]]]


def test_overloads_take_only_their_own_arguments():
    a, add = torch.tensor(2.0), torch.ops.aten.add.Tensor
    assert add(a, a, alpha=2).item() == add(self=a, other=a, alpha=2).item() == 6
    for call in (lambda: add(a, a, out=a.clone()), lambda: add(a, a, beta=1)):
        with pytest.raises(RuntimeError, match="Unknown keyword argument"):
            call()
    with pytest.raises(RuntimeError, match="missing value for argument 'other'"):
        add(a)
    with pytest.raises(RuntimeError, match="at most 2"):
        add(a, a, a)

"""Every record through every way: a sample call that reaches it is run in each way that calls can go, and compared.

The samples are those of `tests/samples.py`; which records a call reaches is seen by the dispatcher. A cell of the table is
passed, does not apply (`Skip`, with the reason), or is known to be missing (`MISSING`). `-s` prints the table.
"""

import ast
import contextlib
import functools
import importlib.util
import io
import linecache
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau._core.state import CAPTURE, local, modes
from flambeau._kernel.native import site
from flambeau._library import schema_texts as _schemas
from flambeau._ops.records.pointwise_op import Pointwise
from flambeau._ops.records.shape_rules import DataDependent
from flambeau._ops.registry import functions, records

_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)
pytestmark = pytest.mark.filterwarnings("ignore")

# Records that no sample call reaches, and why.
UNREACHED = {
    "copy": "only `copy_` into a tensor whose history is being kept runs it",
    "to_copy": "moves between devices; `tools/gpu_check.py` runs it",
    "zero": "the history of `zero_`",
    "scatter_combine": "scatter_reduce with a reduction that needs the old values, in place",
    "convolution_weight": "second derivatives of convolutions", "bilinear_left": "gradients of 16-bit bilinear products: samples are of float32",
    "standard_gamma": "random", "sample_dirichlet": "random", "alias": "aliases of a tensor for its history", "as_subclass": "of a class that overrides",
    "neg_view": "recordings hold its values", "complex_part": "of a conjugate: recordings hold its values",
}  # fmt: skip
# Calls of records that the dispatcher does not see, since those who look get other operations in their place.
HIDDEN = {
    "part_at": "records['part_at'](x, i[:1], 0, None, None)", "taken_at": "records['taken_at'](x, i[:1], 0, None)",
    "place_at": "records['place_at'](x[0], i[:1], tuple(x.shape), 0, None, None)",
    "batch_norm_given": "torch.nn.functional.batch_norm(x, x[0].detach(), x[1].detach().abs())",
    "class_loss": "torch.nn.functional.cross_entropy(x, i[:3])", "channel_windows": "torch.nn.functional.local_response_norm(u, 3)",
    "sum_bags": "torch.nn.functional.embedding_bag(i.view(1, 5), x, mode='sum')",
    "sum_spans": "torch.nn.functional.embedding_bag(i, x, i[:2] * 0, mode='sum')", "sparse_values": "x.to_sparse().values()",
    "eigvalsh_op": "torch.linalg.eigvalsh(q.detach() @ q.detach().t())", "sparse_rebuild": "x.to_sparse().to_dense()", "sparse_product": "torch.sparse.mm(x.detach().to_sparse(), m)",
    "multi_margin": "torch.nn.functional.multi_margin_loss(x, i[:3])", "multilabel_margin": "torch.nn.functional.multilabel_margin_loss(x, x.argsort().detach())",
    "distances": "torch.cdist(x.detach(), x.detach() + 1)", "largest": "torch.cdist(x, x.detach() + 1, p=float('inf'))",
}  # fmt: skip
HIDDEN_BEHIND = {
    "sum_bags_backward": HIDDEN["sum_bags"], "sum_spans_backward": HIDDEN["sum_spans"], "sparse_sampled_product": HIDDEN["sparse_product"],
    "multi_margin_backward": HIDDEN["multi_margin"], "multilabel_margin_backward": HIDDEN["multilabel_margin"],
}  # fmt: skip
# Cells that are known to be wrong, and why.
MISSING = {
    ("sparse_rebuild", "forward mode"): "to_sparse refuses", ("sparse_values", "forward mode"): "to_sparse refuses",
    ("sparse_values", "vmap"): "a sparse tensor of samples is not coalesced",
    ("ctc_loss", "forward mode"): "its second derivative is not there, and PyTorch's is not either",
    ("histogram_counts", "meta"): "edges between the extremes are values; PyTorch refuses, too",
    ("part_at", "meta"): "a view is where its position says, which is an element", ("place_at", "meta"): "its derivative is part_at",
}  # fmt: skip


class Skip(Exception):
    """A way that a call cannot go, with the reason."""


class Names:
    """Stands where a recording does, and keeps the names of the records that run."""

    def __init__(self):
        self.names = set()

    def add(self, op, args, out):
        self.names.add(op.name)

    def add_write(self, *args):
        pass

    born = asked = borrowed_from = add_write

    def accumulate(self, function, *args):
        function(*args)

    def step(self, function, args, named):
        return function.__wrapped__(*args, **named)

    def __enter__(self):
        local.captures = (*local.captures, self)
        modes.enter(CAPTURE)
        return self

    def __exit__(self, *error):
        local.captures = local.captures[:-1]
        modes.leave(CAPTURE)


def operand(op, index, d, rng):
    """An operand of a pointwise record."""
    if index in op.masks or (op.name == "where" and not index):
        return torch.from_numpy(rng.integers(0, 2, (3, 4)).astype(bool))
    if d.category == 0:
        return torch.from_numpy(rng.integers(0, 2, (3, 4)).astype(bool))
    if d.category == 1:
        return torch.from_numpy(rng.integers(1, 5, (3, 4))).to(d)
    low, high = samples.domain_of(op, index)
    values = rng.uniform(low, high, (3, 4))
    values = np.where(np.abs(values * 2 - np.rint(values * 2)) < 0.05, values + 0.06, values)
    return torch.from_numpy(values).to(d).requires_grad_(op.grads[index] is not None)


@functools.cache
def pointwise_operands(name, floats):
    op = records[name]
    usual = getattr(torch, floats)
    kinds = [usual, torch.complex64, torch.int64, torch.bool]
    d = next(d for d in kinds if d.category in op.rule.takes and d not in op.rule.excluded)
    rng = np.random.default_rng(len(name))
    return {f"a{i}": operand(op, i, d, rng) for i in range(op.arity)}


@functools.cache
def usual_operands(floats):
    return samples.operands(torch, floats)


class Case:
    """A call that reaches a record."""

    def __init__(self, record, text, pointwise=False, behind=False):
        self.record, self.text, self.pointwise, self.behind = record, text, pointwise, behind

    def operands(self, floats="float32"):
        given = pointwise_operands(self.record, floats) if self.pointwise else usual_operands(floats)
        used = {n.id for n in ast.walk(ast.parse(self.text)) if isinstance(n, ast.Name)}
        return {n: t.detach().clone().requires_grad_(t.requires_grad) for n, t in given.items() if n in used}

    def run(self, values, dev="cpu"):
        def ones(*shape):
            return torch.ones(*shape, device=dev, dtype=torch.float64 if self.wide(values) else None)

        space = {"torch": torch, "dev": dev, "ones": ones, "records": records, **values}
        torch.manual_seed(0)
        if ";" in self.text:
            exec(self.text, space)
            return space["out"]
        return eval(self.text, space)

    @staticmethod
    def wide(values):
        return any(t.dtype is torch.float64 and n not in ("d",) for n, t in values.items())

    def function(self, values):
        """A function of the first operand that has a gradient, and the operand."""
        name = next((n for n, t in values.items() if t.is_floating_point() and t.requires_grad), None)
        if name is None:
            raise Skip("no operand of floating dtype")
        rest = {n: t.detach() for n, t in values.items() if n != name}
        return name, lambda x: self.run({**rest, name: x})


def tensors(made):
    if isinstance(made, torch.Tensor):
        return [made]
    return [t for part in made for t in tensors(part)] if isinstance(made, (tuple, list)) else []


def agree(made, expected, bound=None, strides=False):
    found, wanted = tensors(made), tensors(expected)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.shape == b.shape, f"{tuple(a.shape)} instead of {tuple(b.shape)}"
        assert bound is not None or a.dtype is b.dtype, f"{a.dtype} instead of {b.dtype}"
        if not a.numel():
            continue
        assert not strides or a.is_sparse or a.stride() == b.stride(), f"strides {a.stride()} instead of {b.stride()}"
        if a.is_sparse or b.is_sparse:
            a, b = a.to_dense(), b.to_dense()
        small = min(a.dtype.itemsize, b.dtype.itemsize) <= 2 and a.dtype.is_floating_point
        wide = torch.complex128 if a.dtype.is_complex or b.dtype.is_complex else torch.float64
        x, y = (t.detach().resolve_conj().resolve_neg().to(wide) for t in (a, b))
        allowed = bound or (2e-2 if small else 2e-5)
        scale = max(1.0, float(y.abs().nan_to_num(0, 0, 0).max()))
        close = ((x - y).abs() <= allowed * scale) | (x == y) | (x.isnan() & y.isnan())
        assert close.all(), f"differs by {float((x - y).abs().nan_to_num().max()):g}"


RANDOM = ("rand", "empty", "dropout", "bernoulli", "multinomial", "normal", "exponential", "uniform")


# -- which call reaches which record ----------------------------------------------------------------------------------


def is_ours(op):
    """Whether a record is one of the engine's; those of vision are tested there."""
    return not getattr(getattr(op, "forward", None), "__module__", "").startswith("flambeau.vision")


_UNFIT = (
    "repr",
    "str(",
    "torch.equal",
    "allclose",
    "autograd.grad",
)  # calls that give no tensor, or run what is behind


@functools.cache
def cases():
    texts = sorted(
        {t for family in samples.SAMPLES.values() for t in family if not any(w in t for w in _UNFIT)}, key=len
    )
    found = {name: Case(name, text) for name, text in HIDDEN.items()}
    behind = {name: Case(name, text, behind=True) for name, text in HIDDEN_BEHIND.items()}
    for text in texts:
        case = Case("", text)
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Names() as seen:
                made = case.run(case.operands())
            for name in seen.names:
                found.setdefault(name, Case(name, text))
            outs = [t for t in tensors(made) if t.requires_grad]
            if outs:
                with Names() as seen:
                    torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])
                for name in seen.names:
                    behind.setdefault(name, Case(name, text, behind=True))
    for name, op in records.items():
        if name in found or not isinstance(op, Pointwise) or op.derived:
            continue
        given = ", ".join(f"a{i}" for i in range(op.arity))
        plain = name in functions and not op.params
        numbers = "".join(f", {p!r}" for p in samples.params_of(op))
        text = f"torch.{name}({given})" if plain else f"records[{name!r}]({given}{numbers})"
        found[name] = Case(name, text, pointwise=True)
    for name, case in behind.items():
        found.setdefault(name, case)
    wanted = {n for n, op in records.items() if not getattr(op, "derived", False) and is_ours(op)}
    return {name: found[name] for name in sorted(wanted & set(found))}, sorted(wanted - set(found))


# -- ways ---------------------------------------------------------------------------------------------------------------


def reference(case, values):
    """What the Python functions give, without plans."""
    with torch.no_grad(), site.switched_off():
        return case.run(values)


def plain(values):
    return {n: t.detach() for n, t in values.items()}


def eager(case):
    values = plain(case.operands())
    with torch.no_grad():
        made = case.run(values)
    if any(w in case.text for w in ("empty", "rand")) and "sort" not in case.text:
        raise Skip("random or unfilled")
    with torch.no_grad(), Names():  # by the dispatcher
        agree(made, case.run(plain(case.operands())), strides=True)


def slow(case):
    values = case.operands()
    with site.switched_off():
        made = case.run(values)
    if any(w in case.text for w in RANDOM):
        raise Skip("random or unfilled")
    agree(made, reference(case, plain(case.operands())), strides=True)


def native(case):
    if not isinstance(getattr(torch.exp, "__self__", None), site.Site):
        raise Skip("the native entry is switched off")
    if any(w in case.text for w in RANDOM):
        raise Skip("random or unfilled")
    with torch.no_grad():
        for _ in range(3):
            case.run(plain(case.operands()))
        agree(case.run(plain(case.operands())), reference(case, plain(case.operands())), strides=True)


def called(case, values):
    """The function that a text calls, its arguments and named arguments."""
    tree = ast.parse(case.text, mode="eval").body if ";" not in case.text else None
    if not isinstance(tree, ast.Call) or any(isinstance(a, ast.Starred) for a in tree.args):
        raise Skip("not one call")
    space = {"torch": torch, "dev": "cpu", "ones": torch.ones, "records": records, **values}
    one = lambda node: eval(compile(ast.Expression(node), "", "eval"), space)
    args, named = [one(a) for a in tree.args], {k.arg: one(k.value) for k in tree.keywords}
    if not isinstance(tree.func, ast.Attribute):
        raise Skip("a record without a public function")
    owner = one(tree.func.value)
    if isinstance(owner, torch.Tensor):
        return tree.func.attr, getattr(torch.Tensor, tree.func.attr), [owner, *args], named
    return tree.func.attr, one(tree.func), args, named


def written_out(case):
    values = plain(case.operands())
    with torch.no_grad():
        name, function, args, named = called(case, values)
        if not _schemas.takes_out(function) and not _schemas.takes_out(functions.get(name)):
            raise Skip("no out=")
        function = functions.get(name, function) if not _schemas.takes_out(function) else function
        expected = function(*args, **named)
        if isinstance(expected, torch.Tensor):
            out = torch.empty(0, dtype=expected.dtype)
        elif isinstance(expected, tuple) and all(isinstance(t, torch.Tensor) for t in expected):
            out = tuple(torch.empty(0, dtype=t.dtype) for t in expected)
        else:
            raise Skip("no tensor")
        made = function(*args, **named, out=out)
        assert made is out or next(iter(made)) is out[0]
        agree(out, expected)


def in_place(case):
    values = plain(case.operands())
    with torch.no_grad():
        name, function, args, named = called(case, values)
        method = getattr(torch.Tensor, name.rstrip("_") + "_", None)
        if (
            method is None
            or not args
            or not isinstance(args[0], torch.Tensor)
            or name.startswith("__")
            or name.endswith("_")
            or any(w in case.text for w in RANDOM)  # `normal_` does something else than `normal`
        ):
            raise Skip("no form in place")
        expected = function(*args, **named)
        if (
            not isinstance(expected, torch.Tensor)
            or expected.shape != args[0].shape
            or expected.dtype is not args[0].dtype
        ):
            raise Skip("the result does not fit into the operand")
        target = args[0].clone()
        assert method(target, *args[1:], **named) is target
        agree(target, expected)


def described(made):
    return [(tuple(t.shape), t.dtype, t.stride() if t.numel() and not t.is_sparse else None) for t in tensors(made)]


def turned(t):
    """The same elements with dimensions in another order in memory."""
    order = {2: (1, 0), 3: (1, 2, 0), 4: (0, 2, 3, 1)}.get(t.ndim)
    if order is None:
        return t
    back = sorted(range(t.ndim), key=order.__getitem__)
    return t.detach().permute(order).contiguous().permute(back).requires_grad_(t.requires_grad)


def meta(case):
    values = case.operands()
    if "sparse" in case.text:
        raise Skip("sparse")
    if any(w in case.text for w in (".item()", "tolist", "bool(s)", "cpu()")):
        raise Skip("reads elements")
    for other in (False, True):
        given = {n: turned(t) for n, t in values.items()} if other else values
        try:
            expected = case.run(given)
        except RuntimeError:
            if other:
                break  # a view that needs rows
            raise
        without = {n: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for n, t in given.items()}
        without = {n: t.requires_grad_(given[n].requires_grad) for n, t in without.items()}
        try:
            made = case.run(without, "meta")
        except NotImplementedError as error:
            if isinstance(error, DataDependent) or case.record == "bincount":
                raise Skip("the shape depends on elements") from None
            raise
        assert described(made) == described(expected), f"{described(made)} instead of {described(expected)}"
        assert all(t.device.type == "meta" for t in tensors(made))
        outs = [t for t in tensors(made) if t.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])
            assert all(t.grad is None or t.grad.shape == t.shape for t in without.values())


def mapped(case):
    values = plain(case.operands())
    for t in values.values():
        if t.is_floating_point():
            t.requires_grad_()
    name, function = case.function(values)
    if ";" in case.text or any(
        w in case.text
        for w in (
            *RANDOM,
            ".item()",
            "tolist",
            "bool(s)",
            "storage_offset",
            "is_contiguous",
            "get_device",
            "result_type",
            "is_floating",
        )
    ):
        raise Skip("reads what a sample does not have, or is random")
    x = values[name].detach()
    pair = torch.stack([x, x * 0.9 + 0.01])
    if case.behind:
        inner = function

        def function(t):
            return torch.func.grad(lambda v: sum(o.abs().sum() for o in tensors(inner(v))))(t)

    expected = [function(t.clone()) for t in pair]
    if not tensors(expected[0]):
        raise Skip("no tensor")
    if described(expected[0]) != described(expected[1]) and [d[0] for d in described(expected[0])] != [
        d[0] for d in described(expected[1])
    ]:
        raise Skip("the shape depends on elements")
    try:
        made = torch.vmap(function)(pair)
    except RuntimeError as error:
        if "dynamic shape" in str(error):
            raise Skip("the shape depends on elements") from None
        raise
    for i, wanted in enumerate(expected):
        agree([t[i] for t in tensors(made)], tensors(wanted))


def smooth(case):
    """A scalar function of one operand in float64, its place, and a direction."""
    values = case.operands("float64")
    if ";" in case.text or any(w in case.text for w in (*RANDOM, "detach()", ".item()", "tolist")):
        raise Skip("random, written to, or without history")
    _, function = case.function(values)
    name = next(n for n, t in values.items() if t.is_floating_point() and t.requires_grad)
    x = values[name].detach()
    outs = [t for t in tensors(function(x.clone().requires_grad_())) if t.requires_grad and t.is_floating_point()]
    if not outs or x.dtype is not torch.float64:
        raise Skip("not differentiable")

    def scalar(t):
        made = [o for o in tensors(function(t)) if o.is_floating_point()]
        return sum(
            (o.double() * torch.linspace(0.5, 1.5, o.numel(), dtype=torch.float64).reshape(o.shape)).sum() for o in made
        )

    return scalar, x, torch.from_numpy(np.random.default_rng(5).normal(size=tuple(x.shape)))


def backward(case):
    scalar, x, direction = smooth(case)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(scalar(leaf), leaf)
    step = 1e-6
    with torch.no_grad():
        expected = float((scalar(x + step * direction) - scalar(x - step * direction)) / (2 * step))
    found = float((slope * direction).sum())
    assert math.isclose(found, expected, rel_tol=1e-4, abs_tol=1e-4), f"{found} instead of {expected}"


def forward(case):
    scalar, x, direction = smooth(case)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(scalar(leaf), leaf)
    _, tangent = torch.func.jvp(scalar, (x,), (direction,))
    expected = float((slope * direction).sum())
    assert math.isclose(float(tangent), expected, rel_tol=1e-6, abs_tol=1e-8), f"{float(tangent)} instead of {expected}"


def autocast(case):
    values = plain(case.operands())
    if any(w in case.text for w in RANDOM):
        raise Skip("random or unfilled")
    if not any(t.is_floating_point() for t in values.values()):
        raise Skip("no operand of floating dtype")
    if "ldl" in case.text:
        raise Skip("of a product, which is in bfloat16")
    with torch.no_grad():
        expected = case.run(plain(case.operands()))
        with torch.autocast("cpu", torch.bfloat16):
            made = case.run(values)
    assert all(a.dtype is b.dtype or a.is_floating_point() for a, b in zip(tensors(made), tensors(expected)))
    agree(made, expected, 5e-2)


def scripted(case):
    values = plain(case.operands())
    if (
        ";" in case.text
        or "records[" in case.text
        or "(*" in case.text
        or not values
        or any(w in case.text for w in RANDOM)
    ):
        raise Skip("not an expression of public functions")
    text = re.sub(r"\bones\(([^()]*)\)", r"torch.ones([\1])", case.text).replace(", device=dev", "")
    arguments = ", ".join(f"{n}: Tensor" for n in values)
    source = f"def f({arguments}):\n    return {text}\n"
    file = f"<{case.record}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file  # where the compiler looks for it
    space = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(source, file, "exec"), space)
    with torch.no_grad():
        agree(torch.jit.script(space["f"])(*values.values()), case.run(values))


def exported(case):
    values = plain(case.operands())
    if not values or any(w in case.text for w in RANDOM):
        raise Skip("not a function of tensors")

    class Net(torch.nn.Module):
        def forward(self, *args):
            return case.run(dict(zip(values, args)))

    file = io.BytesIO()
    try:
        torch.onnx.export(Net(), tuple(values.values()), file, opset_version=17)
    except (
        torch.onnx.errors.UnsupportedOperatorError,
        torch.onnx.errors.OnnxExporterError,
        TypeError,
        NotImplementedError,
    ) as error:
        raise Skip(f"no form: {type(error).__name__}") from None
    assert file.getvalue()


def compiled(case):
    values = case.operands()
    if ";" in case.text or "records[" in case.text or "sparse" in case.text or not values:
        raise Skip("not an expression of public functions")
    space = {"torch": torch, "dev": "cpu", "ones": torch.ones}
    exec(f"def f({', '.join(values)}):\n    return {case.text}\n", space)
    program = torch.compile(space["f"])
    for factor in (1.0, 0.9, 1.0, 0.95):
        found = []
        for function in (space["f"], program):
            given = [
                t.detach() * factor if t.is_floating_point() and factor != 1.0 else t.detach().clone()
                for t in values.values()
            ]
            given = [g.requires_grad_(t.requires_grad) for g, t in zip(given, values.values())]
            torch.manual_seed(0)
            outs = tensors(function(*given))
            slopes = [o for o in outs if o.requires_grad]
            if slopes:
                torch.autograd.backward(slopes, [torch.ones_like(o) for o in slopes])
            found.append([*outs, *[g.grad for g in given if g.grad is not None]])
        agree(found[1], found[0])
    if program._region.problem is not None:
        raise Skip(f"breaks: {program._region.problem.reason}")


WAYS = {
    "eager": eager, "slow path": slow, "native entry": native, "out=": written_out, "in place": in_place, "meta": meta, "vmap": mapped,
    "backward": backward, "forward mode": forward, "autocast": autocast, "TorchScript": scripted, "ONNX": exported, "compiled": compiled,
}  # fmt: skip


@pytest.mark.slow
def test_every_record_is_reached():
    _, unreached = cases()
    found = {
        name for name in unreached if not re.fullmatch(r"index\w*_[3-9]", name)
    }  # made when a key has so many tensors
    assert found == set(UNREACHED), found ^ set(UNREACHED)


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] if way in ("compiled", "backward") else []) for way in WAYS]
)
def test_way(way):
    if way == "ONNX":
        pytest.importorskip("onnx")
    found, _ = cases()
    passed, skipped, missing, failed = 0, 0, [], []
    for name, case in found.items():
        if case.behind and way not in ("meta", "backward", "vmap"):
            skipped += 1
            continue
        try:
            WAYS[way](case)
            passed += 1
            if (name, way) in MISSING:
                failed.append(f"{name}: passes, strike it off MISSING")
        except Skip:
            skipped += 1
        except Exception as error:
            if (name, way) in MISSING:
                missing.append(name)
            else:
                failed.append(f"{name} ({case.text}): {type(error).__name__}: {str(error)[:150]}")
    print(
        f"\n{way}: {len(found)} records, {passed} passed, {skipped} do not apply, {len(missing)} missing, {len(failed)} failed"
    )
    assert not failed, f"{len(failed)} of {len(found)}:\n" + "\n".join(failed)

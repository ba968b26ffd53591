"""CUDA text of every pointwise record: well formed, complete, and free of what C++ leaves undefined."""

import re

import pytest

import flambeau as torch
from flambeau._kernel.cuda.random import SAMPLERS, _positive, _unit, philox, render_random
from flambeau._kernel.cuda.render import Cuda, elements, render_dense, render_kernel, render_pointwise
from flambeau._kernel.cuda.rows import Rows, Schedule, render_rows
from flambeau._kernel.folds.reduce import FOLDS, finish, fold_rows
from flambeau._kernel.render.symbols import symbols
from flambeau._kernel.render.value import Value
from flambeau._ops.records.pointwise_op import Pointwise
from flambeau._ops.registry import records

POINTWISE = {name: op for name, op in sorted(records.items()) if isinstance(op, Pointwise)}
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.bfloat16, torch.int64)


def check_text(text):
    """Brackets match, every variable is declared once and before use, every goto has a label."""
    assert text.count("{") == text.count("}") and text.count("(") == text.count(")")
    assert set(re.findall(r"goto (\w+);", text)) <= set(re.findall(r"^(\w+):;", text, re.M))
    for function in re.split(r"^(?=extern|__device__)", text, flags=re.M):
        declared = re.findall(
            r"\b([vspi]\d+)\b(?=[,;])", "\n".join(re.findall(r"^  [a-z ]+ \*?[vspi]\d+(?:, .*)?;$", function, re.M))
        )
        assert len(declared) == len(set(declared))
        used = set(re.findall(r"\b[vs]\d+\b", function)) - set(re.findall(r"long long ([vs]\d+)\b", function))
        assert used <= set(declared), used - set(declared)


def variants(op):
    for d in DTYPES:
        try:
            compute, result = op.rule(op.name, d)
        except (RuntimeError, TypeError):
            continue
        results = (result,) if op.result_of is None else op.result_of(compute)
        operands = [torch.bool if k in op.masks else compute for k in range(len(op.names))]
        yield [o.code for o in operands], [r.code for r in results], [o.wide.code for o in operands]


@pytest.mark.parametrize("name", POINTWISE)
def test_every_record_renders(name):
    op = POINTWISE[name]
    found = 0
    for inputs, outputs, compute in variants(op):
        for rank in (1, 3):
            text = render_pointwise("kernel", op.body, inputs, outputs, compute, rank, index="u32")
            check_text(text)
            assert text.count("__global__") == 1 and f"s{len(inputs)}_{rank - 1}" in text
        check_text(render_dense("kernel", op.body, inputs, outputs, compute))
        found += 1
    assert found


@pytest.mark.parametrize("name", [n for n, op in POINTWISE.items() if any(op.grads)])
def test_every_derivative_renders(name):
    for derivative in POINTWISE[name].grads:
        if derivative is not None and derivative.kernel is not None:
            kernel = derivative.kernel
            types = ["b1" if k in kernel.masks else "f32" for k in range(len(kernel.names))]
            check_text(render_pointwise("kernel", kernel.body, types, ["f32"], types))


def test_numbers_are_passed_by_value():
    text = render_pointwise(
        "add", lambda m, x, y: x + y, ["bf16", "bf16"], ["bf16"], ["f32", "f32"], numbers=frozenset([1])
    )
    assert "void add(char* x0, char* x2, float x1, long long n, long long s0_0, long long s1_0)" in text
    text = render_pointwise("mul", lambda m, x, y: x * y, ["c64"] * 2, ["c64"], ["c64"] * 2, numbers=frozenset([0]))
    assert "float x0_re, float x0_im" in text


def test_contiguous_operands_are_read_in_packs():
    text = render_dense("add", lambda m, x, y: x + y, ["bf16", "bf16"], ["bf16"], ["f32", "f32"], single=frozenset([1]))
    assert "n / 8" in text and "Pack<2> one1" in text and "Pack<16> a0" in text
    assert "n / 2" in render_dense("add", lambda m, x, y: x + y, ["f64", "f64"], ["f64"], ["f64", "f64"])


def test_signed_overflow_is_defined():
    text = render_pointwise("add", lambda m, x, y: x + y, ["i32", "i32"], ["i32"], ["i32", "i32"])
    assert "(int)((unsigned int)" in text


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("f32", 0.1, "0.10000000149011612f"), ("f32", float("inf"), "__uint_as_float(0x7F800000u)"), ("f32", 1e300, "__uint_as_float(0x7F800000u)"),
        ("f64", -2.5, "(-2.5)"), ("f64", float("nan"), "__longlong_as_double(0x7FF8000000000000ULL)"), ("i32", -1, "((int)4294967295ULL)"),
        ("i64", 7, "7LL"), ("u64", -1, "((unsigned long long)18446744073709551615ULL)"), ("b1", True, "true"), ("u8", 3, "((unsigned char)3ULL)"),
    ],
)  # fmt: skip
def test_literals(type, value, text):
    assert Cuda("kernel", []).constant(type, value).name == text


def test_casts_of_floats_saturate():
    r = Cuda("kernel", [])
    r.cast(Value(r, "x", "f32"), "i64")
    assert "x != x ? 0LL" in r.lines[-1] and "9.223372036854775807LL" not in r.lines[-1]
    assert "x >= 9.223372036854776e+18f" in r.lines[-1]


def test_half_precision_has_forms_of_its_own():
    marks = {"f16": "float_to_half(x)", "bf16": "float_to_bfloat16(x)", "f32": "*(float*)to = x;"}
    for type in marks:
        r = Cuda("kernel", [])
        r.store("to", type, Value(r, "x", "f32"))
        assert [mark for mark in marks.values() if mark in "\n".join(r.lines)] == [marks[type]]


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_nan_is_the_least_and_the_greatest(name):
    r = Cuda("kernel", [])
    r.intrinsic(name, Value(r, "a", "f64"), Value(r, "b", "f64"))
    operator, negative = ("<", "a") if name == "minimum" else (">", "b")
    better, _, sign, missing, first, same, equal, taken, result = [line.strip().partition(" = ")[2] for line in r.lines]
    assert (better, missing, same) == (f"a {operator} b;", "a != a;", "a == b;")
    assert (r.lines[1].strip(), sign) == (f"v2 = __double_as_longlong({negative});", "v2 < 0LL;")
    assert (first, equal, taken, result) == ("v4 | v1;", "v6 & v3;", "v5 | v7;", "v8 ? a : b;")
    r = Cuda("kernel", [])
    r.intrinsic(name, Value(r, "a", "f32"), Value(r, "b", "f32"))
    assert r.lines == [f"  v1 = float_{name}(a, b);"] and "max.NaN.f32" in "".join(r.helpers)


def test_rare_cases_are_branches():
    r = Cuda("kernel", [])
    x = Value(r, "x", "f32")
    r.rare(x > 1.0, lambda: symbols.exp(x), x)
    assert any(line.strip().startswith("if (") for line in r.lines)
    check_text(r.text())


@pytest.mark.parametrize("fold", FOLDS)
def test_folds_render(fold):
    for code in ("f32", "bf16", "i64", "b1", "c64"):
        if code == "c64" and fold in ("max", "peak", "min", "any", "all", "count"):
            continue
        result = FOLDS[fold].wide(code)
        lift = FOLDS[fold].lift
        rows = Rows(
            ((fold, lambda m, x, count: lift(m, x)),), lambda m, total, count: finish(m, total, count, None), each=False
        )
        text = render_rows("fold", rows, [code], [result], code, Schedule(2, 2, columns=True))
        check_text(text)
        assert text.count("__syncthreads();") == 3
        check_text(render_rows("fold", rows, [code], [result], code, Schedule(2, 2)))


def test_kernels_of_the_language_render():
    text = render_kernel("fold", fold_rows, ("f32", "f32"), {"fold": "sum", "how": "mean"}, 2)
    check_text(text)
    assert "d_n" in text and "for (" in text


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_render(sampler):
    count = 1 if sampler in ("exponential", "bernoulli", "keep_mask") else 2
    check_text(render_random("draw", sampler, "i64" if sampler == "randint" else "f32", count))


@pytest.mark.parametrize(("type", "bits"), [("f64", 53), ("f32", 24), ("bf16", 8), ("f16", 11)])
def test_ends_of_uniform_numbers(type, bits):
    """With Python numbers instead of kernel values."""

    class Numbers:
        cast = staticmethod(lambda value, type: value)

    least, most = [0, 0, 0, 0], [(1 << 32) - 1] * 4
    assert _unit(Numbers, least, type) == 0 and _unit(Numbers, most, type) == 1 - 2.0**-bits
    if type in ("f32", "f64"):
        assert _positive(Numbers, least, type) == 2.0**-bits and _positive(Numbers, most, type) == 1


def test_the_generator_is_philox():
    """Run with Python integers instead of kernel values: the words of the published test vector."""

    class Word:
        def __init__(self, value, bits):
            self.bits, self.value = bits, value % (1 << bits)
            self.r, self.type = self, f"u{bits}"

        def constant(self, type, value):
            return Word(value, int(type[1:]))

        def cast(self, a, type):
            return Word(a.value, int(type[1:]))

        def _with(self, other, made):
            return Word(made(self.value, getattr(other, "value", other)), self.bits)

        def __mul__(self, o):
            return self._with(o, lambda a, b: a * b)

        def __add__(self, o):
            return self._with(o, lambda a, b: a + b)

        def __xor__(self, o):
            return self._with(o, lambda a, b: a ^ b)

        def __rshift__(self, o):
            return self._with(o, lambda a, b: a >> b)

    words = philox(Word(0, 64), Word(0, 64))
    assert [w.value for w in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_of_elements(rank):
    text = elements(2, rank, "i32")
    assert ("rest" in text) is (rank > 1)  # one dimension needs no division
    assert f"i0 = {'rest' if rank > 1 else 'i'};" in text
    assert len(re.findall(r"rest %", text)) == rank - 1
    assert "long long" not in text and "int o1 = (int)i0 * (int)s1_0" in text
    assert "long long o1 = (long long)i0 * (long long)s1_0" in elements(2, rank, "u32")

"""The language that programs of archives are written in: names, operators, containers and classes, one by one."""

import io
import math
import re

import pytest

import flambeau as torch
from flambeau import jit, nn
from flambeau.jit._program import Program
from flambeau.jit._script_module import RecursiveScriptModule

HEAD = "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"


def _program(body, *classes):
    """A module whose `forward` has this body, beside other classes of its program."""
    program = Program()
    for text in classes:
        program.add("__torch__." + re.match(r"class (\w+)", text)[1], text)
    text = "".join("    " + line + "\n" for line in body.splitlines())
    program.add("__torch__.Net", HEAD + "  def forward(self: __torch__.Net, x: Tensor) -> Any:\n" + text)
    return RecursiveScriptModule(program.definition("__torch__.Net"))


def _run(body, *classes, x=None):
    return _program(body, *classes)(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) if x is None else x)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.size(x)", [2, 3]), ("torch.size(x, 1)", 3), ("torch.size(x, -2)", 2), ("(x).size()", [2, 3]), ("(x).size(1)", 3),
        ("torch.stride(x)", [3, 1]), ("torch.stride(x, 0)", 3), ("torch.dim(x)", 2), ("torch.numel(x)", 6), ("torch.len(x)", 2),
        ("torch.tolist(x)", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), ("torch.is_floating_point(x)", True), ("torch.is_contiguous(x)", True),
        ("torch.element_size(x)", 4), ("torch.item(torch.sum(x))", 21.0), ("torch.is_leaf(x)", True), ("torch.get_device(x)", -1),
        ("[torch.float32, torch.float64, torch.int64, torch.bool]", [6, 7, 4, 11]),
        ("torch.item(torch.special.expm1(torch.zeros([])))", 0.0),
        ("torch.add(2, 3)", 5), ("torch.sub(2, 3)", -1), ("torch.mul(2, 3)", 6), ("torch.div(3, 2)", 1.5), ("torch.floordiv(-7, 2)", -4),
        ("torch.remainder(-7, 3)", 2), ("torch.pow(2, 10)", 1024.0), ("torch.neg(3)", -3), ("torch.abs(-3)", 3),
        ("2 + 3", 5), ("2 - 3", -1), ("2 * 3", 6), ("3 / 2", 1.5), ("7 // 2", 3), ("7 % 4", 3), ("2 ** 3", 8.0), ("[0.0 ** -1, 10 ** 400, 2.0 ** 0.5, torch.isnan((-8.0) ** 0.5)]", [math.inf, math.inf, math.sqrt(2), True]), ("6 & 3", 2), ("6 | 3", 7),
        ("6 ^ 3", 5), ("1 << 4", 16), ("16 >> 2", 4), ("-2", -2), ("not True", False), ("~5", -6),
        ("[1 == 1, 1 != 1, 1 < 1, 1 <= 1, 1 > 1, 1 >= 1]", [True, False, False, True, False, True]),
        ("[2 == 1, 2 != 1, 2 < 1, 2 <= 1, 2 > 1, 2 >= 1]", [False, True, False, False, True, True]),
        ("[1 in [1, 2], 3 in [1, 2], 1 not in [1, 2], None is None, x is None, x is not None]", [True, False, False, True, False, True]),
        ("[True and False, True or False, False or False, True and True]", [False, True, False, True]),
        ("[torch.eq(1, 2), torch.ne(1, 2), torch.lt(1, 1), torch.le(1, 1), torch.gt(1, 1), torch.ge(1, 1)]", [False, True, False, True, False, True]),
        ("[torch.__and__(6, 3), torch.__or__(6, 3), torch.__xor__(6, 3), torch.__lshift__(1, 3), torch.__rshift__(9, 1)]", [2, 7, 5, 8, 4]),
        ("[torch.__not__(True), torch.__is__(None, None), torch.__isnot__(None, None)]", [False, True, False]),
        ("[torch.__contains__([1, 2], 2), torch.__contains__({'a': 1}, 'b')]", [True, False]),
        ("torch.__range_length(1, 10, 3)", 3), ("torch.__derive_index(2, 1, 3)", 7), ("torch.divmod(7, 2)", (3, 1)),
        ("[torch.max(2, 3), torch.min(2, 3)]", [3, 2]), ("[torch.sum([1, 2]), torch.all([True, False]), torch.any([True, False])]", [3, False, True]),
        ("torch.slice([1, 2, 3, 4], 1, 3)", [2, 3]), ("torch.slice('abcd', 0, None, 2)", "ac"), ("[1, 2, 3, 4][1:]", [2, 3, 4]),
        ("[1, 2, 3, 4][:-1]", [1, 2, 3]), ("[1, 2, 3, 4][::2]", [1, 3]), ("'text'[1]", "e"), ("{'a': 1}['a']", 1),
        ("torch.__getitem__([5, 6], -1)", 6), ("[torch.mul(y, 2) for y in [1, 2, 3] if torch.gt(y, 1)]", [4, 6]),
        ("torch.tolist(x[0])", [1.0, 2.0, 3.0]), ("torch.tolist(x[:, 1])", [2.0, 5.0]), ("torch.tolist(x[0, 1:])", [2.0, 3.0]),
        ("torch.format('{}-{}', 1, 'a')", "1-a"), ("torch.join(',', ['a', 'b'])", "a,b"), ("torch.split('a b', ' ')", ["a", "b"]),
        ("torch.upper('ab')", "AB"), ("torch.replace('aXbX', 'X', '-')", "a-b-"), ("torch.strip('  a ')", "a"), ("torch.find('abc', 'c')", 2),
        ("torch.startswith('abc', 'ab')", True), ("torch.ljust('a', 3)", "a  "), ("torch.zfill('7', 3)", "007"), ("torch.percentFormat('%d%%', 3)", "3%"),
        ("torch.str(3)", "3"), ("torch.ord('a')", 97), ("torch.chr(98)", "b"), ("torch.hex(255)", "0xff"), ("torch.bin(5)", "0b101"),
        ("torch.sorted([3, 1, 2])", [1, 2, 3]), ("torch.list('ab')", ["a", "b"]), ("torch.len({'a': 1})", 1), ("torch.keys({'a': 1, 'b': 2})", ["a", "b"]),
        ("torch.get({'a': 1}, 'b', 7)", 7), ("torch.get({'a': 1}, 'b')", None), ("torch.index([4, 5], 5)", 1), ("torch.count([1, 1, 2], 1)", 2),
        ("torch.Int(torch.sum(x))", 21), ("torch.Float(torch.sum(x))", 21.0), ("torch.Bool(torch.sum(x))", True), ("int(2.7)", 2), ("float(3)", 3.0),
        ("bool(0)", False), ("torch.sqrt(9.0)", 3.0), ("torch.floor(2.7)", 2), ("torch.ceil(2.1)", 3), ("torch.round(2.6)", 3.0), ("torch.gcd(12, 18)", 6),
        ("torch.isnan(nan)", True), ("torch.copysign(2.0, -1.0)", -2.0), ("torch.ldexp(1.5, 3)", 12.0), ("torch._unwrap_optional(3)", 3),
        ("torch.add([1], [2])", [1, 2]), ("torch.add('a', 'b')", "ab"), ("torch.mul([1, 2], 2)", [1, 2, 1, 2]), ("(x).dtype", 6),
        ("(x).shape", [2, 3]), ("(x).ndim", 2), ("(x).requires_grad", False), ("(x).is_cuda", False), ("((x).device).type", "cpu"),
        ("ops.aten.size(x)", [2, 3]), ("torch.tolist(ops.aten.neg(x)[0])", [-1.0, -2.0, -3.0]), ("annotate(int, 3)", 3), ("unchecked_cast(int, 3)", 3),
    ],
)  # fmt: skip
def test_expressions(expression, expected):
    found = _run("return " + expression)
    found = list(found) if isinstance(expected, list) and not isinstance(found, list) else found
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = [1]\ntorch.append(a, 2)\ntorch.extend(a, [3, 4])\ntorch.insert(a, 0, 0)\nreturn a", [0, 1, 2, 3, 4]),
        ("a = [3, 1, 2]\ntorch.sort(a)\ntorch.reverse(a)\nb = torch.pop(a)\nreturn [b, torch.len(a)]", [1, 2]),
        ("a = [1, 2, 3]\nb = torch.pop(a, 0)\ntorch.remove(a, 3)\nreturn [b, a[0]]", [1, 2]),
        ("a = [1]\nb = torch.copy(a)\ntorch.clear(a)\nreturn [torch.len(a), torch.len(b)]", [0, 1]),
        ("a = {'k': 1}\ntorch._set_item(a, 'l', 2)\ntorch.update(a, {'m': 3})\ntorch.Delete(a, 'k')\nreturn a", {"l": 2, "m": 3}),
        ("a = {'k': 1}\nreturn [torch.setdefault(a, 'k', 5), torch.setdefault(a, 'l', 5), torch.pop(a, 'k')]", [1, 5, 1]),
        ("a = 3\na += 2\na *= 4\na -= 1\nreturn a", 19),
        ("a = [1]\na += [2]\nreturn a", [1, 2]),
        ("a = 0\nfor k, v in torch.items({'p': 2, 'q': 3}):\n  a = torch.add(a, v)\nreturn a", 5),
        ("a = 0\nfor i in range(2, 9, 3):\n  a = torch.add(a, i)\nreturn a", 15),
        ("a = 0\nfor v in x:\n  a = torch.add(a, torch.Int(v[0]))\nreturn a", 5),
        ("a, (b, c) = (1, (2, 3))\nreturn [a, b, c]", [1, 2, 3]),
        ("a = 1\nif torch.gt(a, 2):\n  return 1\nelif torch.gt(a, 0):\n  return 2\nelse:\n  return 3", 2),
        ("pass\nreturn 4", 4),
        ("if True:\n  pass\nelse:\n  return 1\nreturn 2", 2),
    ],
)  # fmt: skip
def test_statements(body, expected):
    assert _run(body) == expected


COUNTER = """class Counter:
  count : int
  def __init__(self: __torch__.Counter, start: int) -> NoneType:
    self.count = start
    return None
  def more(self: __torch__.Counter, n: int=1) -> int:
    self.count = torch.add(self.count, n)
    return self.count
"""


def test_objects_of_classes():
    made = "c = __torch__.Counter.__new__(__torch__.Counter)\n_0 = (c).__init__(5)\n"
    assert _run(made + "return [(c).more(), (c).more(3), (c).count]", COUNTER) == [6, 9, 9]
    assert _run(made + "c.count = 2\nreturn (c).more(n=4)", COUNTER) == 6
    with pytest.raises(RuntimeError, match="has no method 'less'"):
        _run(made + "return (c).less()", COUNTER)
    with pytest.raises(RuntimeError, match="reads attribute 'other'"):
        _run(made + "return (c).other", COUNTER)
    with pytest.raises(RuntimeError):
        _run("return torch.Tensor.__new__(torch.Tensor)", COUNTER)
    with pytest.raises(RuntimeError, match="may not be used"):
        _run(made + "return (c).__dict__", COUNTER)


def test_what_the_body_of_a_class_may_have():
    assert _run("return 1", "class Empty(Module):\n  pass\n") == 1
    for line in ("print(1)", "for i in range(3):\n    a = i", "import os", "del x", "if True:\n    a = 1"):
        with pytest.raises(RuntimeError, match="only attributes and methods"):
            program = Program()
            program.add("__torch__.Bad", f"class Bad(Module):\n  {line}\n")
            program.definition("__torch__.Bad")


def test_members_of_enumerations():
    program = Program()
    program.add("__torch__.Colour", "class Colour(Enum):\n  red = 1\n  green = 2.0\n  blue = 'b'\n")
    colour = program.definition("__torch__.Colour")
    assert [colour.member(value).name for value in (1, 2.0, "b")] == ["red", "green", "blue"]
    assert repr(colour.member(1)) == "Colour.red" and colour.member("b").value == "b"
    for value in (2, 1.0, True, "c", None):
        with pytest.raises(RuntimeError, match="has no member with the value"):
            colour.member(value)


def test_constants_by_their_numbers():
    program = Program((torch.ones(1), torch.zeros(1)))
    assert [program.constant(name).item() for name in ("c0", "c1")] == [1, 0]
    for name in ("c2", "c", "d0", "c-1", "0"):
        with pytest.raises(RuntimeError, match="constant"):
            program.constant(name)


@pytest.mark.parametrize(
    ("function", "shape", "other"),
    [
        (lambda x: nn.functional.interpolate(x, scale_factor=0.5, mode="area"), (1, 2, 4, 6), None),
        (lambda x: nn.functional.interpolate(x, size=(2, 3), mode="area"), (1, 2, 4, 6), (1, 2, 6, 8)),
        (lambda x: nn.functional.interpolate(x, scale_factor=2.0), (1, 2, 4, 6), (1, 2, 3, 5)),
        (lambda x: nn.functional.interpolate(x, size=5, mode="bilinear", align_corners=True), (1, 2, 4, 6), (1, 2, 3, 3)),
        (lambda x: nn.functional.interpolate(x, scale_factor=(2.0, 0.5), mode="bicubic"), (1, 2, 4, 6), (1, 2, 6, 4)),
        (lambda x: nn.functional.interpolate(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True), (1, 2, 4), (1, 3, 4)),
        (lambda x: nn.functional.interpolate(x, size=(3, 3), mode="bilinear", antialias=True), (1, 2, 6, 6), (1, 1, 9, 5)),
        (lambda x: nn.functional.interpolate(x, scale_factor=2, mode="nearest-exact"), (1, 2, 3), (1, 2, 5)),
        (lambda x: nn.functional.interpolate(x, size=(2, 2, 3), mode="trilinear"), (1, 1, 3, 3, 3), (1, 2, 4, 2, 3)),
        (lambda x: nn.functional.interpolate(x, scale_factor=0.5, mode="area"), (1, 2, 8), None),
        (lambda x: nn.functional.upsample_bilinear(x, scale_factor=2), (1, 2, 3, 3), None),
        (lambda x: nn.functional.upsample_nearest(x, size=(5, 4)), (1, 2, 3, 3), (1, 1, 2, 2)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_traced_resizing_is_saved_and_runs_again(function, shape, other):
    x = torch.arange(float(torch.Size(shape).numel())).sin().view(shape)
    traced, file = jit.trace(function, x), io.BytesIO()
    jit.save(traced, file)
    file.seek(0)
    loaded = jit.load(file)
    torch.testing.assert_close(loaded(x), function(x))
    if other is not None:
        y = torch.arange(float(torch.Size(other).numel())).cos().view(other)
        torch.testing.assert_close(loaded(y), function(y))

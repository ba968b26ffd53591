"""Archives: what is written, what is read, and that hostile ones run nothing."""

import io
import pickle
import zipfile

import pytest

import flambeau as torch
from flambeau import jit, nn
from flambeau.jit._program import Program
from flambeau.jit._script_module import RecursiveScriptModule

HEAD = "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"


def _saved(code: str, constants=()) -> bytes:
    """An archive with a class `Net` of this source."""
    program = Program(tuple(constants))
    program.add("__torch__.Net", HEAD + "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n    return x")
    file = io.BytesIO()
    jit.save(RecursiveScriptModule(program.definition("__torch__.Net")), file)
    body = "".join("  " + line + "\n" for line in code.strip("\n").splitlines())
    return _with(file.getvalue(), "code/__torch__.py", (HEAD + body).encode())


def _with(data: bytes, name: str, content) -> bytes:
    """The archive with one record replaced, or without it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            if info.filename.partition("/")[2] == name:
                if content is not None:
                    new.writestr(info.filename, content, zipfile.ZIP_DEFLATED)
            else:
                new.writestr(info.filename, old.read(info))
    return out.getvalue()


def _load(code: str, constants=()):
    return jit.load(io.BytesIO(_saved(code, constants)))


def test_files_paths_and_extra_records(tmp_path):
    traced = jit.trace(nn.Linear(2, 3), torch.ones(1, 2))
    path = tmp_path / "model.pt"
    jit.save(traced, path, _extra_files={"note.txt": "hello", "raw.bin": b"\xff\x00"})
    extra = {"note.txt": "", "raw.bin": "", "absent": ""}
    loaded = jit.load(str(path), map_location="cpu", _extra_files=extra)
    assert extra == {"note.txt": b"hello", "raw.bin": b"\xff\x00", "absent": ""}
    x = torch.randn(4, 2)
    assert torch.equal(loaded(x), traced(x)) and loaded.weight.requires_grad and isinstance(loaded.weight, nn.Parameter)
    assert "RecursiveScriptModule(original_name=Linear)" in repr(loaded)
    assert torch.equal(jit.load(io.BytesIO(loaded.save_to_buffer()))(x), traced(x))
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    assert {"data.pkl", "constants.pkl", "version", "code/__torch__/torch/nn/modules/linear.py", "data/0"} <= names
    with pytest.raises(ValueError, match="does not exist"):
        jit.load(tmp_path / "none.pt")


def test_the_language_of_archives():
    net = _load('''
def forward(self: __torch__.Net,
    x: Tensor,
    n: int=3) -> Dict[str, Tensor]:
  out = annotate(Dict[str, Tensor], {})
  acc = annotate(List[Tensor], [])
  _0 = True
  i = 0
  while _0:
    i0 = torch.add(i, 1)
    _1 = torch.append(acc, torch.mul(x, i0))
    _0, i = torch.lt(i0, n), i0
  for k in range(torch.len(acc)):
    _2 = torch.add_(acc[k], 1)
  if torch.__isnot__(n, None):
    y = torch.cat(acc, 0)
  else:
    y = x
  a, b, = torch.split(y, 3)
  torch._set_item(out, "y", y)
  torch._set_item(out, "s", torch.slice(torch.select(torch.unsqueeze(y, 0), 0, 0), 0, 1, 9223372036854775807, 2))
  torch._set_item(out, "z", torch.zeros([int(ops.prim.NumToTensor(torch.size(x, 0))), 2], dtype=4, layout=None, device=torch.device("cpu"), pin_memory=False))
  torch._set_item(out, "t", torch.to(x, 7))
  torch._set_item(out, "c", torch.mul(CONSTANTS.c0, unchecked_cast(int, n)))
  torch._set_item(out, "i", torch.index(y, annotate(List[Optional[Tensor]], [torch.gt(y, 3)])))
  torch._set_item(out, "n", torch.softmax(a, 0, None))
  return out
''', [torch.tensor([1.5])])  # fmt: skip
    x = torch.tensor([1.0, 2.0])
    out = net(x)
    assert out["y"].tolist() == [2, 3, 3, 5, 4, 7] and out["s"].tolist() == [3, 5, 7]
    assert out["z"].dtype is torch.int64 and out["z"].shape == (2, 2) and out["t"].dtype is torch.float64
    assert out["c"].item() == 4.5 and out["i"].tolist() == [5, 4, 7] and net(x, n=2)["y"].tolist() == [2, 3, 3, 5]
    with pytest.raises(RuntimeError, match="Unknown keyword"):
        net(x, q=1)
    with pytest.raises(RuntimeError, match="at most"):
        net(x, 1, 2)


def test_errors_of_programs():
    net = _load(
        'def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n  ops.prim.RaiseException("no", "builtins.ValueError")\n  return x'
    )
    with pytest.raises(jit.Error, match="ValueError: no"):
        net(torch.ones(1))


@pytest.mark.parametrize(
    "body",
    [
        "return torch.definitely_not_an_operator(x)",
        "return ops.evil.run(x)",
        'return __import__("os").system("true")',
        "import os\n  return x",
        "return x.__class__",
        "return (x).__class__.__mro__",
        'return getattr(x, "__class__")',
        'return (x).apply_("f")',
        'return torch.from_file("/etc/passwd")',
        "return open(x)",
        'return eval("1")',
        "return (lambda y: y)(x)",
        "return [y for y in x for z in y if exec]",
        "return CONSTANTS.c7",
        "return __torch__.missing.function(x)",
        "return self.__dict__",
        "def g(y):\n    return y\n  return g(x)",
        "return torch.load(x)",
        "try:\n    return x\n  except:\n    return x",
        "return x.storage()",
        "global y\n  return x",
        "with x:\n    return x",
        "return torch.utils.cpp_extension.load(x)",
        "return x\n  yield x",
    ],
)
def test_hostile_code_is_refused(body):
    with pytest.raises(RuntimeError):
        _load(f"def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n  {body}")(torch.ones(1))


def test_values_lead_nowhere():
    """What cannot be seen before it runs raises when it runs."""
    for body in ("return self.weight_of_nothing", 'return torch.append(x, "a")', "return torch.mul(9223372036854775807, 2)",
                 'return torch.format("{0.__class__}", x)[99999]', "return (self).forward(x)"):  # fmt: skip
        with pytest.raises((RuntimeError, IndexError)):
            _load(f"def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n  {body}")(torch.ones(1))
    shown = _load('def forward(self: __torch__.Net, x: Tensor) -> str:\n  return torch.format("{0.__class__} {}", 1)')
    assert shown(torch.ones(1)) == "{0.__class__} 1"


class _Evil:
    def __reduce__(self):
        import os

        return os.system, ("true",)


def test_hostile_pickles_and_damaged_archives():
    good = _saved("def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n  return x")
    assert jit.load(io.BytesIO(good))(torch.ones(1)).item() == 1
    for name in ("data.pkl", "constants.pkl", "code/__torch__.py", "version"):
        broken = _with(good, name, None)
        if name == "version":
            broken = _with(broken, ".data/version", None)
        with pytest.raises(RuntimeError):
            jit.load(io.BytesIO(broken))(torch.ones(1))
    for content in (pickle.dumps(_Evil(), 2), b"", b"\x80\x02", pickle.dumps({"a": 1}, 2), b"garbage"):
        with pytest.raises(RuntimeError):
            jit.load(io.BytesIO(_with(good, "data.pkl", content)))
    for content in (b"class Net(Module:\n", b"\xff\xfe", b"x = 1\n", b"(" * 5000, b"print('hello')\n"):
        with pytest.raises(RuntimeError):
            jit.load(io.BytesIO(_with(good, "code/__torch__.py", content)))
    for size in (0, 10, len(good) // 2, len(good) - 30):
        with pytest.raises(RuntimeError):
            jit.load(io.BytesIO(good[:size]))
    file = io.BytesIO()
    torch.save({"a": torch.ones(1)}, file)
    with pytest.raises(RuntimeError, match=r"torch\.load"):
        jit.load(io.BytesIO(file.getvalue()))


def test_what_cannot_be_saved_says_so(tmp_path):
    with pytest.raises(AttributeError, match=r"torch\.jit\.script"):
        jit.save(nn.Linear(1, 1), tmp_path / "m.pt")
    assert not (tmp_path / "m.pt").exists()
    assert jit.export_opnames(jit.trace(nn.Linear(1, 1), torch.ones(1, 1))) == ["aten::linear"]


def test_torch_load_hands_programs_over(tmp_path):
    traced = jit.trace(nn.ReLU(), torch.ones(1))
    path = tmp_path / "m.pt"
    jit.save(traced, path)
    compressed = io.BytesIO(_with(path.read_bytes(), "code/__torch__/torch/nn/modules/activation.py", b"x" * 999))
    for f in (path, compressed):
        with pytest.raises(RuntimeError, match="TorchScript"):
            torch.load(f)
    with pytest.warns(UserWarning, match="dispatching"):
        assert torch.load(path, weights_only=False)(torch.tensor([-1.0])).item() == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("count : int = 3\n  return count", 3),
        ("bound : float\n  bound = 1.5\n  return bound", 1.5),
        ("return [inf, torch.neg(inf)]", [float("inf"), float("-inf")]),
        ("return isinstance(True, int)", False),
        ("return [isinstance(3, int), isinstance(2.5, int), isinstance(2.5, float), isinstance(True, bool)]", [True, False, True, True]),
        ("return [isinstance(1, bool), isinstance('a', str), isinstance(x, Tensor), isinstance(1, Tensor)]", [False, True, True, False]),
        ("return [isinstance([1], List[int]), isinstance([1], List[float]), isinstance([], List[float])]", [True, False, True]),
        ("return [isinstance({'a': 1}, Dict[str, int]), isinstance({'a': 1}, Dict[str, str])]", [True, False]),
        ("return [isinstance((1, 2.0), Tuple[int, float]), isinstance((1, 2), Tuple[int, float]), isinstance((1,), Tuple[int, int])]",
         [True, False, False]),
        ("return [isinstance(None, Optional[int]), isinstance(1, Optional[int]), isinstance('a', Optional[int])]", [True, True, False]),
        ("return [isinstance(1, Union[int, str]), isinstance(1.0, Union[int, str]), isinstance(1.0, (int, float))]", [True, False, True]),
        ("return [isinstance(1, number), isinstance(True, number), isinstance('1', number), isinstance(None, NoneType)]",
         [True, False, False, True]),
        ("a = 0\n  for i in range(9):\n    if torch.eq(i, 2):\n      continue\n    if torch.eq(i, 5):\n      break\n    a = torch.add(a, i)\n  return a", 8),
        ("a = 0\n  while True:\n    a = torch.add(a, 1)\n    if torch.lt(a, 3):\n      continue\n    break\n  return a", 3),
        ("for i in range(9):\n    if torch.gt(i, 3):\n      return i\n  return -1", 4),
        ("i = 0\n  while torch.lt(i, 9):\n    i = torch.add(i, 2)\n    if torch.gt(i, 3):\n      return i\n  return -1", 4),
        ("a = [1, 2, 3]\n  del a[1]\n  return a", [1, 3]),
        ("a = {'k': 1, 'l': 2}\n  del a['k']\n  return a", {"l": 2}),
        ("a = [1, 2, 3]\n  a[0] = 7\n  return a", [7, 2, 3]),
        ("a = {'k': 1}\n  a['m'] = 5\n  return a", {"k": 1, "m": 5}),
        ("a, b = (1, 2)\n  return [b, a]", [2, 1]),
        ("return [y for y in [1, 2, 3]]", [1, 2, 3]),
        ("return [torch.mul(y, 2) for y in (1, 2)]", [2, 4]),
        ("return torch.max(x, 0).values", 1.0),
        ("return torch.max(x, 0).indices", 0),
        ("return (torch.device('cpu')).type", "cpu"),
        ("assert True, 'no'\n  return 1", 1),
        ("return 1 if torch.gt(torch.sum(x), 0) else 2", 1),
        ("return (1, 2, 3)[1]", 2),
        ("return torch.len('abc')", 3),
    ],
)  # fmt: skip
def test_statements_and_expressions_of_archives(body, expected):
    found = _load(f"def forward(self: __torch__.Net, x: Tensor) -> Any:\n  {body}")(torch.ones(1))
    assert (found.item() if isinstance(found, torch.Tensor) else found) == expected
    assert isinstance(found, torch.Tensor) or type(found) is type(expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return nowhere", "'nowhere' is not defined"),
        ("y = 3\n  return y(x)", "calls a value of type int"),
        ("return x(x)", "calls a value of type Tensor"),
        ("y = 3\n  return y.name", "reads attribute 'name' of a value of type int"),
        ("y = [1]\n  return y.value", "reads attribute 'value' of a value of type list"),
        ("y = 3\n  y.name = 2\n  return y", "sets attribute 'name' of a value of type int"),
        ("y = 3\n  y[0] = 2\n  return y", "sets a part of a value of type int"),
        ("y = 3\n  del y[0]\n  return y", "deletes a part of a value of type int"),
        ("y = 3\n  return y[0]", "takes a part of a value of type int"),
        ("for y in 3:\n    return y\n  return x", "goes through a value of type int"),
        ("y = 3\n  return y.append(1)", "calls 'append' on a value of type int"),
        ("return (torch.device('cpu')).name", "reads attribute 'name' of a value of type device"),
        ("assert False, 'not so'\n  return x", "not so"),
        ("raise Exception('too bad')\n  return x", "too bad"),
        ("a, b = (1, 2, 3)\n  return a", "3|unpack|values"),
        ("for i in range(2):\n    y = i\n  else:\n    y = 2\n  return y", "else of a loop"),
        ("while False:\n    y = 1\n  else:\n    y = 2\n  return y", "else of a loop"),
    ],
)
def test_what_programs_do_wrong_is_said(body, message):
    with pytest.raises(Exception, match=message):
        _load(f"def forward(self: __torch__.Net, x: Tensor) -> Any:\n  {body}")(torch.ones(1))


def test_classes_of_programs():
    """A named tuple can be made by a program; objects of its other classes cannot, nor of classes that it does not have."""
    pair = "class Pair(NamedTuple):\n  first : Tensor\n  number : int\n"
    other = "class Other(Module):\n  __parameters__ = []\n  __buffers__ = []\n"

    def run(expression):
        program = Program()
        program.add("__torch__.Pair", pair)
        program.add("__torch__.Other", other)
        program.add(
            "__torch__.Net", HEAD + f"  def forward(self: __torch__.Net, x: Tensor) -> Any:\n    return {expression}"
        )
        return RecursiveScriptModule(program.definition("__torch__.Net"))(torch.ones(2))

    for expression in ("__torch__.Pair(x, 3)", "__torch__.Pair(x, number=3)", "__torch__.Pair(number=3, first=x)"):
        made = run(expression)
        assert made.number == 3 and made[0].tolist() == [1, 1] and len(made) == 2
    assert run("(__torch__.Pair(x, 3)).number") == 3
    with pytest.raises(RuntimeError, match="cannot be made by a program"):
        run("__torch__.Other(x, 3)")
    with pytest.raises(RuntimeError, match=r"Unknown type or function in the program: __torch__\.Missing"):
        run("__torch__.Missing(x)")
    with pytest.raises(RuntimeError, match="Unknown type or function"):
        _load("def forward(self: __torch__.Net, x: Tensor) -> Any:\n  return __torch__.Missing(x)")(torch.ones(1))

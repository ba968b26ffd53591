"""`script`: modules and functions that stay Python and can be written as TorchScript."""

import io
import math
import re
from enum import Enum
from typing import Dict, Final, List, NamedTuple, Optional  # noqa: UP035  (what programs write)

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import jit, nn

SCALE = 0.5


def _again(scripted):
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    return jit.load(file)


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0:
            return torch.relu(x)
        return torch.tanh(x)


def helper(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x * times + SCALE


class Everything(nn.Module):
    widths: List[int]  # noqa: UP006

    def __init__(self):
        super().__init__()
        self.widths = [1, 2, 3]
        self.name, self.scale, self.table, self.count = "net", 0.5, {"a": 1.5}, 0
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.register_buffer("shift", torch.arange(4.0))

    @jit.export
    def twice(self, x: torch.Tensor, times: int = 2) -> torch.Tensor:
        return x * times

    @jit.ignore
    def python_only(self, x):
        return [y for y in x]

    def forward(self, x: torch.Tensor, extra: torch.Tensor | None = None, flag: bool = True) -> Dict[str, torch.Tensor]:  # noqa: UP006
        """Uses much of the language."""
        out: Dict[str, torch.Tensor] = {}  # noqa: UP006
        seen: List[torch.Tensor] = []  # noqa: UP006
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i % 2 == 0 and flag:
                x = x + self.shift
            seen.append(x)
        n = 0
        while n < 5:
            n += 2
            if n == 4:
                break
        if extra is not None:
            x = x * extra
        else:
            x = x - self.scale
        if not jit.is_scripting():
            x = self.python_only(x)
        assert x.dim() == 2, f"bad {x.dim()}"
        y = x.clone()
        y[:, 0] = 1.0
        values, places = x.max(dim=1)
        out["x"], out["y"], out["v"], out["i"] = x, y, values, places
        out["cat"] = torch.cat(seen, dim=1)
        out["n"] = torch.tensor([n, len(seen), sum([w for w in self.widths])])
        out["f"] = F.softmax(helper(x) + helper(x, times=3), dim=1)
        out["t"] = self.twice(x, 2) if self.name == "net" else x
        out["c"] = x.to(torch.int64)[:, 1:3][..., None]
        out["d"] = torch.full((2,), self.table["a"])
        self.count += 1
        return out


def test_control_flow_survives_the_file():
    scripted = jit.script(Dynamic())
    loaded = _again(scripted)
    for x in (torch.tensor([1.0, -0.5]), torch.tensor([-1.0, 0.5])):
        assert torch.equal(scripted(x), Dynamic()(x)) and torch.equal(loaded(x), Dynamic()(x))
    assert "torch.relu(x)" in scripted.code and "prim::If" in str(scripted.graph)
    assert loaded.original_name == "Dynamic" and isinstance(loaded, jit.RecursiveScriptModule)


def test_the_language():
    model = Everything()
    scripted = jit.script(model)
    x, extra = torch.randn(3, 4), torch.randn(4)
    loaded = _again(scripted)
    for args in ((x,), (x, extra), (x, None, False)):
        want, got = scripted(*args), loaded(*args)
        assert want.keys() == got.keys()
        assert all(torch.allclose(want[k], got[k]) and want[k].dtype is got[k].dtype for k in want)
    assert loaded.count == 3 and loaded.widths == [1, 2, 3] and model.count == 3
    assert torch.equal(loaded.twice(x, 5), x * 5)
    assert list(loaded.state_dict()) == list(model.state_dict())


def test_functions():
    @jit.script
    def power(x: torch.Tensor, n: int):
        y = x
        for i in range(n):
            if i % 2 == 0:
                y = y * 2
            else:
                y = y - 1
        return y, (n, float(n) / 2)

    x = torch.randn(3)
    y, rest = power(x, 3)
    assert isinstance(power, jit.ScriptFunction) and rest == (3, 1.5)
    again = _again(power)
    assert torch.equal(again(x, 3)[0], y) and again(x, 3)[1] == (3, 1.5)
    assert "for i in range(n)" in power.code


def test_layers_in_scripted_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.rnn = nn.Embedding(9, 4), nn.LSTM(4, 5, batch_first=True)
            self.traced = jit.trace(nn.Linear(5, 5), torch.ones(1, 5))
            self.tail = nn.Sequential(nn.LayerNorm(5), nn.GELU(), nn.Dropout(0.5), nn.Linear(5, 2))

        def forward(self, x):
            y, (h, c) = self.rnn(self.emb(x))
            return self.tail(self.traced(y[:, -1])), h, c

    model = Net().eval()
    x = torch.randint(0, 9, (2, 3))
    got = _again(jit.script(model))(x)
    assert all(torch.allclose(a, b) for a, b in zip(got, model(x)))


def test_training_stays_a_choice():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    loaded = _again(jit.script(model))
    x = torch.randn(8, 2)
    assert loaded.training and (loaded(x) == 0).any()
    count = loaded[0].num_batches_tracked.item()
    loaded.eval()
    assert not (loaded(x) == 0).any() and count == 1


def test_what_the_language_lacks_is_refused():
    class Bad(nn.Module):
        def forward(self, x):
            try:
                return x
            except ValueError:
                return x

    class Starred(nn.Module):
        def forward(self, *args):
            return args[0]

    with pytest.raises(jit.frontend.UnsupportedNodeError, match="try blocks"):
        jit.script(Bad())
    with pytest.raises(jit.frontend.NotSupportedError, match="variable number"):
        jit.script(nn.Sequential(Starred()))


def _sized(x: torch.Tensor, height: int, width: int) -> torch.Tensor:
    return x * height + width


def _spread(x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return _sized(x, *size)


def _spread_list(x: torch.Tensor, size: list[int]) -> torch.Tensor:
    return _sized(x, *size)


def test_tuples_are_spread_into_arguments():
    spread = jit.script(_spread)
    assert spread(torch.ones(2), (2, 3)).tolist() == [5, 5]
    archive = io.BytesIO()
    jit.save(spread, archive)
    archive.seek(0)
    assert jit.load(archive)(torch.ones(2), (2, 4)).tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="annotate it as a tuple"):
        jit.save(jit.script(_spread_list), io.BytesIO())


def test_modules_give_others_to_be_scripted():
    class Any(nn.Module):
        def __prepare_scriptable__(self):
            return nn.ReLU()

        def forward(self, *inputs):
            return inputs

    x = torch.tensor([[-1.0, 2.0]])
    assert jit.script(Any())(x).tolist() == jit.script(nn.Sequential(Any(), nn.Identity()))(x).tolist() == [[0, 2]]


def test_is_scripting_is_known_inside_only():
    class Net(nn.Module):
        def forward(self, x):
            return x + 1 if jit.is_scripting() else x

    net = Net()
    assert net(torch.zeros(1)).item() == 0 and jit.script(net)(torch.zeros(1)).item() == 1 and not jit.is_scripting()


def test_units_of_source():
    unit = jit.CompilationUnit("def f(x, n: int = 2):\n    return x * n")
    assert unit.f(torch.ones(1)).item() == 2 and unit.f(torch.ones(1), n=3).item() == 3
    with pytest.raises(RuntimeError):
        jit.CompilationUnit("import os")
    module = jit.ScriptModule()
    module.define("def g(self, x):\n    return torch.relu(x)")
    assert module.g(torch.tensor([-1.0])).item() == 0


def test_freezing():
    scripted = jit.script(nn.Linear(2, 1))
    with pytest.raises(RuntimeError, match="eval"):
        jit.freeze(scripted)
    traced = jit.trace(nn.Linear(2, 1).eval(), torch.ones(1, 2))
    frozen = jit.freeze(traced)
    x = torch.randn(3, 2)
    assert torch.equal(frozen(x), traced(x)) and not frozen(x).requires_grad and traced(x).requires_grad
    assert torch.equal(jit.optimize_for_inference(traced)(x), traced(x))
    with pytest.raises(RuntimeError, match="ScriptModule"):
        jit.freeze(nn.Linear(1, 1).eval())


def test_written_as_a_script_module():
    class Old(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        @jit.script_method
        def helper(self, x):
            return x * self.weight

        @jit.script_method
        def forward(self, x):
            return self.helper(x) + 1

    model = Old()
    x = torch.randn(3, 2)
    assert torch.equal(_again(model)(x), model(x))


def test_what_cannot_be_written_says_so():
    class Strange(nn.Module):
        def forward(self, x):
            return x * len({}.__class__.__name__)

    scripted = jit.script(Strange())
    assert scripted(torch.ones(1)).item() == 4
    with pytest.raises(RuntimeError):
        _again(scripted)


def test_transformers_are_written():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    loaded = _again(jit.script(model))
    x, mask = torch.randn(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    assert torch.allclose(loaded(x), model(x), atol=1e-6)
    assert torch.allclose(loaded(x, mask), model(x, mask), atol=1e-6)
    attention = nn.MultiheadAttention(8, 2).eval()
    hidden = torch.tensor([[False, False, True], [False, True, True]])
    args = torch.randn(4, 2, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 8), hidden
    for a, b in zip(_again(jit.script(attention))(*args), attention(*args)):
        assert torch.allclose(a, b, atol=1e-6)


def test_names_that_mean_nothing_are_refused():
    def calls(x):
        return nothing_here(x)  # noqa: F821

    with pytest.raises(RuntimeError, match="undefined value nothing_here"):
        torch.jit.script(calls)


def test_super_is_refused_and_modules_without_forward_are_not():
    class Below(torch.nn.ReLU):
        def forward(self, x):
            return super().forward(x) * 3

    class Grid(torch.nn.Module):
        def double(self, x):
            return x * 2

    class Uses(torch.nn.Module):
        def __init__(self, child):
            super().__init__()
            self.child = child

        def forward(self, x):
            return self.child.double(x)

    with pytest.raises(RuntimeError, match="super"):
        torch.jit.script(Uses(Below()))
    assert torch.jit.script(Uses(Grid()))(torch.ones(2)).tolist() == [2.0, 2.0]


def test_unions_of_types():
    def one(x: torch.Tensor, n: int | None = None) -> torch.Tensor:
        return x if n is None else x * n

    def several(x: torch.Tensor, n: int | float, m: float | str | None = None) -> torch.Tensor:
        if isinstance(n, int):
            return x + n
        return x if m is None else -x

    scripted = jit.script(one)
    assert "n: Optional[int]" in scripted.code
    assert scripted(torch.ones(2)).tolist() == [1, 1] and scripted(torch.ones(2), 3).tolist() == [3, 3]
    scripted = jit.script(several)
    assert "n: Union[int, float]" in scripted.code and "m: Optional[Union[float, str]]" in scripted.code
    assert scripted(torch.ones(1), 2).item() == 3
    assert scripted(torch.ones(1), 0.5).item() == 1 and scripted(torch.ones(1), 0.5, "x").item() == -1


def chooses(x: torch.Tensor, flag: bool) -> torch.Tensor:
    if not torch.jit.is_scripting():
        return helper(x, *[3])
    if not flag:
        x = x + 1
    return x


def imports(x: torch.Tensor, flag: bool) -> torch.Tensor:
    if not flag:
        import math

        return x * math.pi
    return x


def roots(a: float) -> float:
    return math.sqrt(a) + math.pow(a, 3.0) + math.floor(2.5) + math.log(math.exp(1.0))


def test_only_what_scripts_cannot_reach_may_be_anything():
    assert jit.script(chooses)(torch.ones(2), False).tolist() == [2, 2]
    assert jit.script(chooses)(torch.ones(2), True).tolist() == [1, 1]
    with pytest.raises(jit.frontend.UnsupportedNodeError, match="import statements aren't supported"):
        jit.script(imports)


def test_functions_of_math_are_written():
    assert _again(jit.script(roots))(2.0) == pytest.approx(12.414213562373096)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("none", None)
        self.register_buffer("some", torch.ones(1))
        self.tag, self.number = "a", 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.some + self.number

    @jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x) * 2


def test_what_a_module_holds_is_found_in_its_script():
    scripted = jit.script(Holder())
    assert (scripted.number, scripted.none, scripted.tag) == (3, None, "a")
    assert scripted.some.tolist() == [1] and scripted.twice(torch.ones(1)).tolist() == [8]
    with pytest.raises(AttributeError):
        scripted.nothing  # noqa: B018
    loaded = _again(scripted)
    assert [name for name, _ in loaded.named_buffers()] == ["some"] and loaded.none is None
    assert loaded.twice(torch.ones(1)).tolist() == [8]


def test_sizes_are_lists():
    @jit.script
    def split(x: torch.Tensor):
        return x.view(x.shape[:-1] + [2, -1]), [1] + x.shape, x.size()

    parts, more, size = split(torch.ones(3, 4))
    assert parts.shape == (3, 2, 2) and more == [1, 3, 4] and size == [3, 4] and type(size) is list
    with pytest.raises(TypeError, match="can only concatenate tuple"):  # not outside of scripts
        torch.ones(3).shape + [1]


def test_sizes_equal_lists():
    @jit.script
    def is_pair(x: torch.Tensor) -> bool:
        return x.shape == [1, 2] and x.shape != [2, 1]

    assert is_pair(torch.ones(1, 2)) and not is_pair(torch.ones(2, 1))
    assert torch.ones(1, 2).shape != [1, 2] and torch.ones(1, 2).shape == (1, 2)  # as outside of scripts


def test_constants_are_part_of_programs():
    class Scaled(nn.Module):
        times: Final[int]
        shifts: Final[list[float]]
        far: "Final[float]"
        __constants__ = ["label", "none"]

        def __init__(self):
            super().__init__()
            self.times, self.shifts, self.far, self.label, self.none = -3, [0.5, 2.0], float("-inf"), "a", None
            self.layer = nn.Linear(2, 3)

        def forward(self, x):
            return self.layer(x) * self.times + self.shifts[1]

    model, x = Scaled(), torch.ones(1, 2)
    once = _again(jit.script(model))
    for program in (once, _again(once)):
        assert torch.equal(program(x), model(x))
        assert (program.times, program.shifts, program.far) == (-3, (0.5, 2.0), float("-inf"))
        assert (program.label, program.none, program.layer.in_features) == ("a", None, 2)


class Pair(NamedTuple):
    values: torch.Tensor
    count: int
    places: Optional[list[int]] = None  # noqa: UP045


def test_named_tuples_are_part_of_programs():
    class Counted(nn.Module):
        def forward(self, x, given: Pair) -> tuple[Pair, list[Pair], int]:
            first = Pair(x * 2, 3)
            second = Pair(count=given.count + first.count, values=x + given.values, places=[1, 2])
            pairs: list[Pair] = [second]
            pairs.append(first)
            total = 0
            for pair in pairs:
                total += pair.count
            _values, count, _places = first
            return second, pairs, total + count + len(second) + given[1]

    model, args = Counted(), (torch.ones(2), Pair(torch.full((2,), 3.0), 5))
    once = _again(jit.script(model))
    for program in (once, _again(once)):
        second, pairs, total = program(*args)
        assert total == model(*args)[2] and second._fields == Pair._fields and type(second).__name__ == "Pair"
        assert second.values.tolist() == [4.0, 4.0] and second.places == [1, 2] and pairs[1].places is None
        assert repr(second) == repr(model(*args)[0])


class Refusal(ValueError):
    pass


class Kind(Enum):
    SUM = "sum"
    MEAN = "mean"


def test_errors_are_raised_by_what_was_loaded():
    class Checked(nn.Module):
        def forward(self, x, n: int, kind: str = "sum"):
            if n > 3:
                y = x * n
            elif n == 3:
                raise AssertionError(f"{n} is too few")
            elif n == 2:
                raise Refusal("two", n)
            else:
                raise RuntimeError
            if kind == Kind.SUM.value:
                return y.sum()
            if kind == Kind.MEAN.value:
                return y.mean()
            raise ValueError(kind)

    program = _again(jit.script(Checked()))
    x = torch.ones(2)
    assert program(x, 4) == 8 and program(x, 4, "mean") == 4
    for args, text in (
        ((x, 3), "builtins.AssertionError: 3 is too few"),
        ((x, 2), f"{__name__}.Refusal: two 2"),
        ((x, 1), "builtins.RuntimeError: "),
        ((x, 4, "none"), "builtins.ValueError: none"),
    ):
        with pytest.raises(jit.Error, match=re.escape(text)):
            program(*args)


def test_functional_losses_take_their_reduction_as_a_number():
    class Losses(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, t: torch.Tensor) -> list[torch.Tensor]:
            if not isinstance(x, torch.Tensor) or isinstance(y, (list, tuple)):
                raise TypeError("tensors are wanted")
            if isinstance(x, (list, tuple)):
                raise TypeError(f"not {type(x).__name__}")  # never reached, so not compiled
            return [
                F.mse_loss(x, y), F.mse_loss(x, y, reduction="none"), F.l1_loss(x, y, reduction="sum"),
                F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y, "sum", 2.0), F.logsigmoid(x),
                F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), y.abs()), F.nll_loss(x, t, ignore_index=1),
                F.binary_cross_entropy_with_logits(x, y, pos_weight=y[0].abs(), reduction="sum"),
                F.cross_entropy(x, t, label_smoothing=0.1, reduction="sum"), F.cross_entropy(x, t, x[0].abs()),
            ]  # fmt: skip

    program = _again(jit.script(Losses()))
    args = (torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 1, 3]))
    for found, expected in zip(program(*args), Losses()(*args), strict=True):
        assert torch.equal(found, expected)
    assert "torch.nn.functional.mse_loss(x, y, None, None, 'none', None)" in program.code


def test_scripts_know_who_runs_them():
    """Questions about compilers are answered when the text is made, and what only Python reaches is no part of it."""

    def f(x):
        if not torch.compiler.is_compiling() and not torch.jit.is_scripting():
            x = python_only(x)  # noqa: F821 - nothing looks for it
        if torch.compiler.is_exporting() or torch._dynamo.is_compiling() or torch.onnx.is_in_onnx_export():
            return x + 1
        return x * 2

    scripted = torch.jit.script(f)
    assert scripted(torch.tensor(3)) == 6
    assert "python_only" not in scripted.code


def test_what_is_no_function_of_a_file_cannot_be_scripted():
    with pytest.raises(RuntimeError, match="Expected a single top-level function"):
        jit.script(lambda x: x)
    with pytest.raises(OSError, match="source"):
        jit.script(eval("lambda x: x"))
    for other in (3, "a", None):
        with pytest.raises(TypeError, match="built-in class"):
            jit.script(other)


def test_functions_of_the_package_are_scripted_whatever_they_are_written_in():
    assert torch.equal(jit.script(F.relu)(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))

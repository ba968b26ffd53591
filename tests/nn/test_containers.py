"""Containers of modules and parameters."""

import copy
import pickle
from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn


def sequence(n=3):
    return nn.Sequential(*[nn.Identity() for _ in range(n)])


def names(container):
    return list(container._modules)


# -- Sequential --------------------------------------------------------------------------------------------------


def test_sequential_runs_in_order():
    class Add(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            return [*x, self.n]

    s = nn.Sequential(Add(1), Add(2))
    assert s([]) == [1, 2]
    assert s.append(Add(3)) is s and s.insert(0, Add(0)) is s and s([]) == [0, 1, 2, 3]
    assert s.insert(-1, Add(9))([]) == [0, 1, 2, 9, 3]
    assert s.pop(3).n == 9 and s.pop(slice(0, 2))([]) == [0, 1] and s([]) == [2, 3] and names(s) == ["0", "1"]
    assert (s + nn.Sequential(Add(4)))([]) == [2, 3, 4] and (s * 2)([]) == (2 * s)([]) == [2, 3, 2, 3]
    s *= 2
    s += nn.Sequential(Add(5))
    assert s([]) == [2, 3, 2, 3, 5]
    s[0] = Add(7)
    del s[1:4]
    assert s([]) == [7, 5] and [m.n for m in s] == [7, 5] and s[-1].n == 5 and len(s) == 2
    assert s.extend([Add(1)])([]) == [7, 5, 1]


def test_sequential_names():
    s = nn.Sequential(OrderedDict(a=nn.Identity(), b=nn.Identity()))
    assert names(s[:1]) == ["a"] and s.a is s[0] and names(s.append(nn.Identity())) == ["a", "b", "2"]
    assert names(sequence()[1:]) == ["1", "2"]
    assert nn.Sequential()(3) == 3 and not nn.Sequential()


@pytest.mark.parametrize(
    "action, error",
    [
        (lambda s: s[5], IndexError), (lambda s: s["a"], TypeError), (lambda s: s.insert(9, nn.Identity()), IndexError),
        (lambda s: s.insert(0, 3), AssertionError), (lambda s: s + 3, ValueError), (lambda s: s * 0, ValueError),
        (lambda s: s * 1.5, TypeError), (lambda s: s.append(3), TypeError), (lambda s: s.__setitem__(0, 3), TypeError),
        (lambda s: s.__setitem__(7, nn.Identity()), IndexError), (lambda s: nn.Sequential({"a": nn.Identity()}), TypeError),
    ],
)  # fmt: skip
def test_sequential_errors(action, error):
    with pytest.raises(error):
        action(sequence())


# -- ModuleList and ModuleDict -----------------------------------------------------------------------------------


def test_module_list():
    items = [nn.Identity() for _ in range(3)]
    m = nn.ModuleList(items)
    assert len(m) == 3 and m[-1] is items[2] and list(m) == items and items[0] in m
    assert names(m[1:]) == ["0", "1"] and isinstance(m[1:], nn.ModuleList)
    extra = nn.Linear(1, 1)
    m.insert(1, extra)
    assert m[1] is extra and m[2] is items[1] and m.pop(1) is extra and list(m) == items
    m += [extra]
    assert list(m + [extra]) == [*items, extra, extra] and len(m) == 4
    del m[0]
    assert names(m) == ["0", "1", "2"] and m.append(extra) is m
    m[0] = extra
    assert m[0] is extra and len(list(m.parameters())) == 2
    for action, error in [
        (lambda: m[9], IndexError), (lambda: m.extend(3), TypeError), (lambda: nn.ModuleList([3]), TypeError),
        (lambda: m(1), NotImplementedError), (lambda: m.__delitem__(9), IndexError),
    ]:  # fmt: skip
        with pytest.raises(error):
            action()


def test_module_list_prints_equal_neighbours_once():
    block = lambda: nn.Sequential(nn.Identity())
    m = nn.ModuleList([nn.Identity(), nn.Identity(), nn.Flatten(), block(), block()])
    assert repr(m).split("\n") == [
        "ModuleList(", "  (0-1): 2 x Identity()", "  (2): Flatten(start_dim=1, end_dim=-1)", "  (3-4): 2 x Sequential(",
        "    (0): Identity()", "  )", ")",
    ]  # fmt: skip
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict():
    m = nn.ModuleDict({"z": nn.Identity(), "a": nn.Linear(1, 1)})
    assert list(m) == list(m.keys()) == ["z", "a"] and "z" in m and len(m) == 2
    assert [v for _, v in m.items()] == list(m.values()) and m["a"] is m.a
    m.update([("b", nn.Identity())])
    m.update(nn.ModuleDict({"c": nn.Identity()}))
    assert m.pop("b") and list(m) == ["z", "a", "c"]
    del m["z"]
    m.clear()
    assert not m
    for action, error in [
        (lambda: m["q"], KeyError), (lambda: m.update(3), TypeError), (lambda: m.update([3]), TypeError),
        (lambda: m.update([("a",)]), ValueError), (lambda: m.update({"a": 3}), TypeError),
        (lambda: m.update({3: nn.Identity()}), TypeError), (lambda: m.update({"keys": nn.Identity()}), KeyError),
    ]:  # fmt: skip
        with pytest.raises(error):
            action()


def test_container():
    with pytest.warns(FutureWarning):
        m = nn.Container(a=nn.Identity())
    assert names(m) == ["a"]


# -- parameters --------------------------------------------------------------------------------------------------


def test_parameter_list():
    m = nn.ParameterList([torch.zeros(2, 3), 5, nn.Parameter(torch.ones(1))])
    assert len(m) == 3 and m[1] == 5 and isinstance(m[0], nn.Parameter) and m[-1].item() == 1
    assert repr(m).split("\n") == [
        "ParameterList(", "    (0): Parameter containing: [torch.float32 of size 2x3]", "    (1): Object of type: int",
        "    (2): Parameter containing: [torch.float32 of size 1]", ")",
    ]  # fmt: skip
    assert list(m.state_dict()) == ["0", "2"] and len(m[:2]) == 2
    m += [torch.ones(1)]
    m[0] = torch.ones(4)
    assert len(list(m.parameters())) == 3 and m[0].shape == (4,) and m.append(3)[4] == 3
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert len(twin) == 5 and torch.equal(twin[0], m[0])
    for action, error in [
        (lambda: m(1), RuntimeError), (lambda: m[9], IndexError), (lambda: m.extend(3), TypeError),
        (lambda: m.extend(torch.ones(2)), TypeError), (lambda: m.__setitem__(0, 3), TypeError),
    ]:  # fmt: skip
        with pytest.raises(error):
            action()


def test_parameter_dict():
    m = nn.ParameterDict({"z": torch.zeros(2), "b": nn.Parameter(torch.ones(3))})
    assert list(m) == ["b", "z"] and list(reversed(m)) == ["z", "b"]  # a plain dict comes in the order of its keys
    assert list(nn.ParameterDict([("z", torch.ones(1)), ("b", torch.ones(1))])) == ["z", "b"]
    assert repr(m).split("\n")[1] == "    (b): Parameter containing: [torch.FloatTensor of size 3]"
    assert m.get("q", 3) == 3 and m.setdefault("b", 1) is m["b"] and "z" in m and len(m) == 2
    assert list((m | {"x": torch.ones(1)}).keys()) == ["b", "z", "x"] and list({"x": 1} | m) == ["x", "b", "z"]
    m |= {"c": 5}
    assert m["c"] == 5 and m.popitem() == ("c", 5) and m.pop("b").shape == (3,)
    assert dict(m.items()).keys() == {"z"} and m.copy()["z"] is m["z"]
    assert list(m.fromkeys(["u", "v"])) == ["u", "v"] and list(m.state_dict()) == ["z"]
    m.clear()
    assert not len(m) and not list(m.parameters())
    for action, error in [
        (lambda: m(1), RuntimeError), (lambda: m.update(3), TypeError), (lambda: m.__delitem__("q"), KeyError),
        (lambda: nn.ParameterDict({3: torch.ones(1)}), TypeError), (lambda: m.update([("a",)]), ValueError),
        (lambda: nn.ParameterDict({"a.b": torch.ones(1)}), KeyError), (lambda: m["q"], AttributeError),
    ]:  # fmt: skip
        with pytest.raises(error):
            action()


def test_names_of_numbers():
    names = nn.ModuleList([nn.Identity(), nn.Identity()])
    assert [names._get_abs_string_index(i) for i in (0, 1, -1)] == ["0", "1", "1"]
    assert nn.ParameterList([torch.ones(1)])._get_abs_string_index(-1) == "0"


@pytest.mark.parametrize("made", [sequence(), nn.ModuleList(sequence())])
def test_indices_have_the_name_that_subclasses_pass_them_by(made):
    new = nn.Flatten()
    made.__setitem__(idx=1, module=new)
    assert made.__getitem__(idx=1) is new
    made.__delitem__(idx=1)
    assert len(made) == 2 and new not in made
    held = nn.ParameterList([torch.ones(2)])
    held.__setitem__(idx=0, param=torch.zeros(2))
    assert held.__getitem__(idx=0).sum() == 0

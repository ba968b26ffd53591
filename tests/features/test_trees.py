"""Containers of tensors taken apart and made again: `torch.utils._pytree`, and dictionaries by identity."""

import collections
import dataclasses
import time

import pytest

import flambeau as torch

trees = torch.utils._pytree
Point = collections.namedtuple("Point", "x y")


def test_all_kinds_of_containers():
    tree = {
        "a": [1, (2, 3)],
        "b": collections.OrderedDict(x=4),
        "c": collections.defaultdict(list, k=5),
        "d": collections.deque([6, 7], maxlen=3),
        "e": Point(8, 9),
    }
    leaves, spec = trees.tree_flatten(tree)
    doubled = trees.tree_unflatten([x * 2 for x in leaves], spec)
    assert leaves == [1, 2, 3, 4, 5, 6, 7, 8, 9] == list(trees.tree_iter(tree)) and (
        spec.num_leaves,
        spec.num_children,
    ) == (9, 5)
    assert doubled["c"].default_factory is list and doubled["d"].maxlen == 3 and doubled["e"] == Point(16, 18)
    assert hash(spec) == hash(trees.tree_structure(tree)) and spec.children()[0] == trees.tree_structure([1, (2, 3)])
    keys = [trees.keystr(path) for path, _ in trees.tree_flatten_with_path(tree)[0]]
    assert keys[2:] == ["['a'][1][1]", "['b']['x']", "['c']['k']", "['d'][0]", "['d'][1]", "['e'].x", "['e'].y"]
    assert (trees.is_namedtuple(Point), trees.is_namedtuple_instance(Point), trees.is_structseq(time.localtime())) == (
        True,
        False,
        True,
    )


def test_some_leaves():
    tree = {"a": [1, 2.0, "s"], "b": 3}
    assert trees.tree_map_only(int, lambda x: x + 1, tree) == {"a": [2, 2.0, "s"], "b": 4}
    assert trees.tree_map_only(lambda x: isinstance(x, float), lambda x: -x, tree) == {"a": [1, -2.0, "s"], "b": 3}
    assert trees.tree_all_only(int, lambda x: x > 0, tree) and not trees.tree_any_only(str, lambda x: x == "q", tree)
    assert (
        trees.tree_all(bool, tree)
        and trees.tree_any(lambda x: x == 3, tree)
        and trees.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]
    )
    seen = []
    assert trees.tree_map_only_((int, str), seen.append, tree) is tree and seen == [1, "s", 3]
    assert trees.tree_map_(seen.append, tree) is tree and len(seen) == 7
    spec = trees.tree_structure({"a": [1, 2], "b": 3})
    spread = [trees._broadcast_to_and_flatten(part, spec) for part in ({"a": 0, "b": 1}, 7, [1])]
    assert spread == [[0, 0, 1], [7, 7, 7], None]
    with pytest.raises(TypeError):
        trees.map_only(3)
    with pytest.raises(ValueError):
        trees.tree_unflatten([1], spec)


def test_classes_of_programs():
    @dataclasses.dataclass
    class Pair:
        x: int
        y: object

    @dataclasses.dataclass(frozen=True)
    class Constant:
        value: int

    trees.register_dataclass(Pair)
    trees.register_constant(Constant)
    assert trees.tree_map(lambda x: x + 1, Pair(1, [2, 3])) == Pair(2, [3, 4])
    assert [trees.keystr(path) for path, _ in trees.tree_flatten_with_path(Pair(1, [2]))[0]] == [".x", ".y[0]"]
    leaves, spec = trees.tree_flatten([Constant(1), 4])
    assert leaves == [4] and spec == trees.tree_structure([Constant(1), 5]) != trees.tree_structure([Constant(2), 5])
    assert trees.is_constant_class(Constant) and not trees.is_constant_class(Pair)


def test_dictionary_by_identity():
    a, b = torch.ones(2), torch.ones(2)
    made = torch.utils.weak.WeakIdKeyDictionary([(a, 1), (b, 2)])
    both = made | torch.utils.weak.WeakIdKeyDictionary([(a, 9)])
    assert len(made) == len(both) == len(made.copy()) == 2 and both[a] == 9 and [*map(id, made)] == [id(a), id(b)]
    del made[a]
    assert a not in made and made.get(a, 3) == 3 and made.pop(b) == 2 and made.setdefault(b, 5) == 5
    del b
    assert len(made) == 0

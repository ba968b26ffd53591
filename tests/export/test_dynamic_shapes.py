"""Sizes that change from call to call: what follows them, what limits them, and what they are refused for."""

import collections
import copy
import io

import pytest

import flambeau as torch
import flambeau._higher_order_ops as higher_order
from flambeau.export import Dim, ShapesCollection, export
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError
from flambeau.utils import _pytree

from .models import zoo

nn = torch.nn
ZOO = zoo(torch)
UserError = torch._dynamo.exc.UserError


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


def shapes(ep):
    return [tuple(map(str, n.meta["val"].shape)) for n in ep.graph.nodes if n.name in ep.graph_signature.user_inputs]


def both(size=5):
    return torch.ones(size, 3), torch.ones(size, 3)


def automatic(value):
    if isinstance(value, torch.Tensor):
        return {0: Dim.AUTO} if value.dim() else None
    if isinstance(value, dict):
        return {k: automatic(v) for k, v in value.items()}
    return [automatic(v) for v in value] if isinstance(value, list) else None


def longer(value, n):
    if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.shape[0] < 2:
        return value
    return torch.cat([value] * n)


# The batch of all these follows; that of the first argument of recurrent layers is their length.
@pytest.mark.parametrize("name", [n for n in ZOO if n not in ("shapes", "embedding_bag", "indexing")])
def test_first_sizes_of_models_change(name):
    model, args, kwargs = copy.deepcopy(ZOO[name])
    given = [automatic(a) for a in (*args, *kwargs.values())]
    ep = export(model, args, kwargs, dynamic_shapes=given)
    assert ep.range_constraints
    read = io.BytesIO()
    torch.export.save(ep, read)
    more, named = _pytree.tree_map(lambda t: longer(t, 2), (args, kwargs))
    for program in (ep, torch.export.load(read)):
        reference = copy.deepcopy(model)
        for k, v in reference.state_dict().items():
            program.state_dict[k].data.copy_(v)
        got = program.module()(*copy.deepcopy(more), **copy.deepcopy(named))
        wanted = reference(*copy.deepcopy(more), **copy.deepcopy(named))
        for a, b in zip(_pytree.tree_leaves(got), _pytree.tree_leaves(wanted), strict=True):
            if isinstance(a, torch.Tensor):
                torch.testing.assert_close(a, b)


def test_sizes_become_expressions():
    class Model(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            flat = x.reshape(n * 3)
            return flat, torch.cat([x, x]), torch.zeros(n + 1, len(x)), x.expand(2, -1, -1).flatten(0, 1)[: n // 2], n

    ep = export(Model(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("n", min=2, max=50)},))
    found = {n.name: str(n.meta["val"].shape) for n in ep.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)}
    assert found["x"] == "torch.Size([s0, 3])" and found["cat"] == "torch.Size([2*s0, 3])"
    assert found["reshape"] == "torch.Size([3*s0])" and found["zeros"] == "torch.Size([s0 + 1, s0])"
    assert found["slice_1"] == "torch.Size([(s0//2), 3])"
    assert [str(k) for k in ep.range_constraints] == ["s0"] and "VR[2, 50]" in str(ep)
    out = ep.module()(torch.ones(9, 3))
    assert [tuple(t.shape) for t in out[:4]] == [(27,), (18, 3), (10, 9), (4, 3)] and out[4] == 9
    assert ep.graph_signature.output_specs[-1].arg.name == "sym_size_int"


def test_convolutions_have_quotients():
    ep = export(nn.Conv2d(1, 1, 3, stride=2), (torch.ones(2, 1, 9, 9),), dynamic_shapes=({2: Dim("h", min=4, max=99)},))
    (node,) = [n for n in ep.graph.nodes if n.name == "conv2d"]
    assert str(node.meta["val"].shape) == "torch.Size([2, 1, ((s0 + 1)//2) - 1, 4])"
    assert ep.module()(torch.ones(2, 1, 20, 9)).shape == (2, 1, 9, 4)


@pytest.mark.parametrize(
    ("given", "wanted", "limits"),
    [
        ({"x": {0: Dim("b")}, "y": {0: Dim("b")}}, [("s0", "3")] * 2, (0, None)),
        (({0: Dim("b", max=20)}, {0: Dim("b", max=20)}), [("s0", "3")] * 2, (0, 20)),
        ({"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, [("s1", "3")] * 2, (2, None)),
        ({"x": (Dim.DYNAMIC, Dim.STATIC), "y": (Dim.DYNAMIC, 3)}, [("s1", "3")] * 2, (2, None)),
        ({"x": {0: Dim.AUTO}, "y": None}, [("5", "3")] * 2, None),
    ],
)  # fmt: skip
def test_sizes_are_named_or_found(given, wanted, limits):
    ep = export(Sum(), both(), dynamic_shapes=given)
    assert shapes(ep) == wanted
    assert [tuple(r) for r in ep.range_constraints.values()] == ([] if limits is None else [limits])
    if limits is not None:
        assert ep.module()(*both(8)).shape == (8, 3)
        with pytest.raises(AssertionError, match=r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"):
            ep.module()(torch.ones(5, 3), torch.ones(6, 3))


def test_limits_hold_at_calls():
    module = export(Sum(), both(), dynamic_shapes=[{0: Dim("b", min=3, max=9)}] * 2).module()
    assert module(*both(9)).shape == (9, 3)
    for size, text in ((2, r"x.size\(\)\[0\] >= 3"), (25, r"x.size\(\)\[0\] <= 9")):
        with pytest.raises(AssertionError, match=text):
            module(*both(size))


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"x": {0: Dim("b")}, "y": {0: Dim("c")}}, UserError, "c = L\\['y'\\].size\\(\\)\\[0\\] and b = (.|\\n)*must always be equal(.|\\n)*c = b"),
        ({"x": {0: Dim("b")}, "y": None}, UserError, "You marked b as dynamic but your code specialized it to be a constant \\(5\\)"),
        ({"x": {0: Dim.DYNAMIC}, "y": None}, UserError, "specialized it to be a constant \\(5\\)"),
        ({"x": {5: Dim("b")}, "y": None}, IndexError, "out of range"),
        ({"x": {0: Dim("b")}}, UserError, "its top-level keys must be the arg names \\['x', 'y'\\]"),
        ({"x": (Dim("b"), 7), "y": None}, ConstraintViolationError, "Static shape constraint of 7 does not match input size of 3"),
        ({"x": {0: Dim("b", max=4)}, "y": {0: Dim("b", max=4)}}, ConstraintViolationError, r"5 not in range \[0, 4\]"),
        ({"x": {0: 2 * Dim("b")}, "y": None}, UserError, "of the form 2\\*b"),
        ({"x": {0: "b"}, "y": None}, UserError, "Unexpected dimension"),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused(given, kind, text):
    with pytest.raises(kind, match=text):
        export(Sum(), both(), dynamic_shapes=given)


def test_questions_limit_sizes():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 10 else x - 1

    with pytest.raises(
        UserError, match=r"2 <= L\['x'\].size\(\)\[0\] and L\['x'\].size\(\)\[0\] <= 10(.|\n)*b = Dim\('b', max=10\)"
    ):
        export(Branch(), (torch.ones(5, 3),), dynamic_shapes=({0: Dim("b")},))
    ep = export(Branch(), (torch.ones(5, 3),), dynamic_shapes=({0: Dim.AUTO},))
    assert [tuple(r) for r in ep.range_constraints.values()] == [(2, 10)]
    with pytest.raises(AssertionError, match="<= 10"):
        ep.module()(torch.ones(11, 3))
    export(Branch(), (torch.ones(5, 3),), dynamic_shapes=({0: Dim("b", max=10)},))

    class Fixed(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] == 5 else x - 1

    with pytest.raises(UserError, match="specialized it to be a constant"):
        export(Fixed(), (torch.ones(5, 3),), dynamic_shapes=({0: Dim("b")},))


def test_multiples_of_a_size():
    class Pairs(nn.Module):
        def forward(self, x):
            return x.view(x.shape[0] // 2, 2, 3)

    ep = export(Pairs(), (torch.ones(4, 3),), dynamic_shapes=({0: 2 * Dim("half")},))
    assert shapes(ep) == [("2*s0", "3")]
    module = ep.module()
    assert module(torch.ones(10, 3)).shape == (5, 2, 3)
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] % 2 == 0"):
        module(torch.ones(5, 3))
    with pytest.raises(UserError, match=r"Mod\(L\['x'\].size\(\)\[0\], 2\) == 0(.|\n)*b = 2\*_b"):
        export(Pairs(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("b")},))


class Later(nn.Module):
    def forward(self, x, y):
        return x + y[1:]


class Twice(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, x]) + y


class Rows(nn.Module):
    def forward(self, x, y):
        return x.reshape(-1, 3, 2).sum(1) + y[:1]


class BothInRows(nn.Module):
    def forward(self, x, y):
        return (x + y).reshape(-1, 2)


@pytest.mark.parametrize(
    ("model", "first", "second", "wanted", "refused"),
    [
        (Later(), 5, 6, ["s0", "s0 + 1"], (7, 7)),
        (Twice(), 5, 10, ["s0", "2*s0"], (7, 7)),
        (Rows(), 12, 4, ["6*s0", "4"], (13, 4)),
        (BothInRows(), 6, 6, ["2*s0", "2*s0"], (7, 7)),
    ],
)
def test_relations_and_steps_are_found(model, first, second, wanted, refused):
    if isinstance(model, Rows):
        given = ({0: Dim.AUTO}, None)
        args = lambda n, k: (torch.ones(n), torch.ones(k, 2))
    else:
        given, args = ({0: Dim.AUTO}, {0: Dim.DYNAMIC}), lambda n, k: (torch.ones(n), torch.ones(k))
    ep = export(model, args(first, second), dynamic_shapes=given)
    assert [sizes[0] for sizes in shapes(ep)] == wanted
    with pytest.raises(AssertionError, match="Guard failed"):
        ep.module()(*args(*refused))


def test_relations_of_named_sizes_are_told():
    given = ({0: Dim("a")}, {0: Dim("b")})
    with pytest.raises(UserError, match=r"must always be related to the values of a = (.|\n)*b = a \+ 1"):
        export(Later(), (torch.ones(5), torch.ones(6)), dynamic_shapes=given)


def test_numbers_that_no_expression_fits_are_refused():
    class Root(nn.Module):
        def forward(self, x):
            return x * float(len(x)) ** 0.5

    with pytest.raises(UserError, match="specialized"):
        export(Root(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("b")},))


def test_shapes_tensor_by_tensor():
    x, y = both()
    given = ShapesCollection()
    given[x] = {0: Dim("b")}
    given[y] = {0: Dim("b")}
    assert shapes(export(Sum(), (x, y), dynamic_shapes=given)) == [("s0", "3")] * 2


def test_hints_have_limits():
    assert repr(Dim.DYNAMIC(min=3, max=9)) == "DimHint(DYNAMIC, min=3, max=9)"
    ep = export(Sum(), both(), dynamic_shapes=[{0: Dim.AUTO(max=9)}] * 2)
    assert [tuple(r) for r in ep.range_constraints.values()] == [(2, 9)]


def test_whole_numbers_among_arguments_change():
    class Times(nn.Module):
        def forward(self, x, n):
            return x * n, n + 1, torch.zeros(n)

    for hint in (Dim.DYNAMIC, Dim.AUTO):
        ep = export(Times(), (torch.ones(3), 5), dynamic_shapes=(None, hint))
        assert [type(s.arg).__name__ for s in ep.graph_signature.input_specs] == ["TensorArgument", "SymIntArgument"]
        held = io.BytesIO()
        torch.export.save(ep, held)
        for program in (ep, torch.export.load(held)):
            x, n, zeros = program.module()(torch.ones(3), 7)
            assert (x.tolist(), n, zeros.shape) == ([7.0] * 3, 8, (7,))
    with pytest.raises(ValueError, match="named Dims"):
        export(Times(), (torch.ones(3), 5), dynamic_shapes=(None, Dim("n")))


def test_shapes_of_any_number_of_arguments():
    class Total(nn.Module):
        def forward(self, *parts, **more):
            return sum(parts) + more["last"]

    n = Dim("n")
    args, named = (torch.ones(3), torch.ones(3)), {"last": torch.ones(3)}
    for given in ({"parts": ({0: n}, {0: n}), "more": {"last": {0: n}}}, (({0: n}, {0: n}), {"last": {0: n}})):
        module = export(Total(), args, named, dynamic_shapes=given).module()
        assert module(torch.ones(5), torch.ones(5), last=torch.ones(5)).shape == (5,)


def test_several_equal_sizes_are_joined():
    class Three(nn.Module):
        def forward(self, x, y, z):
            return (x + y + z).view(-1, 2)

    args = (torch.ones(4), torch.ones(4), torch.ones(4))
    assert len({*shapes(export(Three(), args, dynamic_shapes=[{0: Dim.AUTO}] * 3))}) == 1
    with pytest.raises(UserError, match=r"n = 2\*_n"):
        export(Three(), args, dynamic_shapes=[{0: Dim.AUTO}, {0: Dim("n")}, {0: Dim.AUTO}])


def test_shapes_of_named_tuples():
    pair = collections.namedtuple("pair", "first second")

    class Both(nn.Module):
        def forward(self, p):
            return p.first.sum() + p.second

    ep = export(Both(), (pair(torch.ones(3), torch.ones(2)),), dynamic_shapes=(pair({0: Dim.AUTO}, None),))
    assert shapes(ep) == [("s0",), ("2",)]


TRANSFORMS = {
    "vmap": lambda x: torch.vmap(lambda a: a.sin().sum())(x),
    "closure": lambda x: (lambda y: torch.vmap(lambda a: a + y.sum(0))(x))(x * 2),
    "size": lambda x: torch.vmap(lambda a: a.expand(2, 3).reshape(-1) * x.shape[0])(x),
    "grad": lambda x: torch.func.grad(lambda a: (a * a).sin().sum())(x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "jacrev": lambda x: torch.func.jacrev(lambda a: (a * 2).sum(0))(x),
    "map": lambda x: higher_order.map(lambda a, b: a.cos() + b, x, x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("given", [None, ({0: Dim("n")},)])
def test_transforms_are_followed(name, given):
    class Model(nn.Module):
        def forward(self, x):
            return TRANSFORMS[name](x)

    ep = export(Model(), (torch.ones(4, 3),), dynamic_shapes=given)
    x = torch.arange(12.0 if given is None else 21.0).reshape(-1, 3)
    assert torch.allclose(ep.module()(x), TRANSFORMS[name](x))


def test_branches_by_sizes():
    class Branches(nn.Module):
        def forward(self, x, y):
            by_number = torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))
            return by_number, torch.cond(x.shape[0] > y.shape[0], lambda x: x * 2, lambda x: x * 3, (x,))

    module = export(Branches(), (torch.ones(4), torch.ones(3)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")})).module()
    for n, m in ((3, 3), (6, 2), (5, 9)):
        given = torch.ones(n), torch.ones(m)
        assert all(map(torch.equal, module(*given), Branches()(*given)))


def test_products_of_shifted_sizes_are_found():
    class Windows(nn.Module):
        def forward(self, x):
            return nn.functional.unfold(x, 2).sum(1), x.unfold(2, 2, 1).sum(-1)

    ep = export(Windows(), (torch.randn(2, 3, 5, 6),), dynamic_shapes={"x": {0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO}})
    x = torch.randn(4, 3, 7, 5)
    for got, wanted in zip(ep.module()(x), Windows()(x), strict=True):
        torch.testing.assert_close(got, wanted)


def test_made_up_elements_that_an_operator_refuses_do_not_keep_a_size_from_changing():
    bag = nn.EmbeddingBag(20, 3)
    words, offsets = torch.arange(9), torch.tensor([0, 3, 5])
    shapes = {"input": {0: Dim.AUTO}, "offsets": {0: Dim.AUTO}}
    module = export(bag, (words, offsets), dynamic_shapes=shapes).module()
    more = torch.arange(12), torch.tensor([0, 3, 5, 9])
    torch.testing.assert_close(module(*more), bag(*more))


def test_several_equal_sizes_may_follow_one():
    class Model(nn.Module):
        def forward(self, u, w, x, y):
            return u[1:] + w + x, y * 2

    given = torch.randn(5), torch.randn(4), torch.randn(4), torch.randn(4)
    module = export(Model(), given, dynamic_shapes=({0: Dim.DYNAMIC},) * 4).module()
    module(torch.randn(6), torch.randn(5), torch.randn(5), torch.randn(9))
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.randn(6), torch.randn(5), torch.randn(4), torch.randn(9))


def test_whole_numbers_may_change_from_one_and_cut_tensors():
    class Model(nn.Module):
        def forward(self, x, n):
            return x[:n] * n

    x = torch.randn(6)
    for first in (1, 3):
        module = export(Model(), (x, first), dynamic_shapes=(None, Dim.DYNAMIC)).module()
        for n in (2, 4, 6, 9):
            torch.testing.assert_close(module(x, n), Model()(x, n))


def test_sizes_in_a_tuple_are_in_the_order_of_the_parameters():
    class Model(nn.Module):
        def forward(self, a, first, second):
            return a.sum() + first.sum() - second.sum()

    named = {"second": torch.ones(4), "first": torch.ones(4)}
    ep = export(Model(), (torch.ones(4),), named, dynamic_shapes=(None, {0: Dim("d")}, None))
    assert ep.module()(torch.ones(4), second=torch.ones(4), first=torch.ones(9)) == 9

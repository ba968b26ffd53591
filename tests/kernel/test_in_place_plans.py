"""Pointwise writes in place by the native entry: what they write, what they count, and what they leave to Python."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native.plan import NO_PLAN
from flambeau._kernel.native.site import Site, wait
from flambeau._ops.registry import functions, methods, records


def plans(name):
    """The plans that an operation has for writing in place; the test has nothing to say where there is no native entry."""
    own = getattr(records[name].in_place, "__self__", None)
    if not isinstance(own, Site):
        pytest.skip("there is no native entry here")
    return [plan for _, _, (plan, *_) in own.table.kept if plan is not NO_PLAN]


def test_writes_are_planned_and_counted():
    x, y, row = torch.zeros(3, 4), torch.ones(3, 4), torch.arange(4.0)
    for _ in range(4):
        assert x.add_(y) is x
    assert plans("add") and x._version == 4 and x.tolist() == [[4.0] * 4] * 3
    for _ in range(4):
        x.add_(row)  # repeated for each row
    assert len(plans("add")) >= 2 and x._version == 8 and x[2].tolist() == [4.0, 8.0, 12.0, 16.0]
    for number in (2, 2.5, -1.0, 3):
        x.mul_(number)
    assert x._version == 12 and x[0].tolist() == [4 * -15.0, 8 * -15.0, 12 * -15.0, 16 * -15.0]
    for _ in range(4):
        x.add_(x)  # the same memory
    assert x[0].tolist() == [16 * -60.0, 16 * -120.0, 16 * -180.0, 16 * -240.0]


@pytest.mark.parametrize(
    "name, args", [("clamp_", (-0.5, 0.5)), ("relu_", ()), ("exp_", ()), ("pow_", (2.0,)), ("addcmul_", "xy")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_results_are_those_of_new_tensors(name, args, dtype):
    for turn in range(4):
        torch.manual_seed(turn)
        x = torch.randn(5, 7).to(dtype)
        given = (torch.randn(5, 7).to(dtype), torch.randn(7).to(dtype)) if args == "xy" else args
        want = getattr(x, name[:-1])(*given)
        assert torch.equal(getattr(x, name)(*given), want)


def test_memory_that_overlaps_is_left_to_python():
    held = np.arange(10.0)
    x, y = torch.zeros(9, dtype=torch.float64), torch.ones(9, dtype=torch.float64)
    for _ in range(4):
        x.add_(y)  # there is a plan for such operands
    first, second = torch.from_numpy(held[:9]), torch.from_numpy(held[1:])
    first.add_(second)
    np.testing.assert_array_equal(held, [1, 3, 5, 7, 9, 11, 13, 15, 17, 9])
    whole = torch.arange(4.0)
    for _ in range(4):
        torch.zeros(3).add_(torch.ones(3))
    with pytest.raises(RuntimeError, match="single memory location"):
        whole[1:].add_(whole[:-1])


def test_what_must_not_be_written_raises_though_there_is_a_plan():
    for _ in range(4):
        torch.zeros(3).mul_(2.0)
    leaf = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.mul_(2.0)
    with torch.no_grad():
        for _ in range(3):
            leaf.mul_(2.0)
    assert leaf._version == 3
    with torch.inference_mode():
        made = torch.ones(3)
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        made.mul_(2.0)
    held = np.ones(3, np.float32)
    fixed = torch.from_numpy(held)
    held.flags.writeable = False
    fixed._array.flags.writeable = False
    with pytest.raises((RuntimeError, ValueError)):
        fixed.mul_(2.0)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.zeros(3).add_(torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.zeros(3, dtype=torch.int64).add_(0.5)


def test_saved_values_notice_planned_writes():
    x = torch.ones(3, requires_grad=True)
    kept = torch.full((3,), 2.0)
    for _ in range(4):
        kept.mul_(1.0)
    y = (x * kept).sum()
    kept.mul_(3.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    product = x * 2  # has a history: Python rewrites it
    for _ in range(4):
        product.mul_(2.0)
    product.sum().backward()
    assert x.grad.tolist() == [32.0] * 3


# -- updates of a part ---------------------------------------------------------------------------------------------

UPDATES = {
    "index_put_": lambda i, v: ((i,), v),
    "index_put_ sums": lambda i, v: ((i,), v, True),
    "index_add_": lambda i, v: (0, i, v),
    "index_copy_": lambda i, v: (0, i % 7 + torch.arange(len(i)) * 7 % 21, v),
    "scatter_": lambda i, v: (0, i, v) if v.ndim == 1 else (0, i[:, None].expand(-1, 3), v),
    "scatter_add_": lambda i, v: (0, i, v) if v.ndim == 1 else (0, i[:, None].expand(-1, 3), v),
}


def update_plans(name):
    wait()
    own = getattr(functions.get(name) or methods[name], "__self__", None)
    if not isinstance(own, Site):
        pytest.skip("there is no native entry here")
    return [plan for _, _, (plan, *_) in own.table.kept if plan is not NO_PLAN]


@pytest.mark.parametrize("rest", [(), (3,)])
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.complex64])
def test_updates_in_place_are_planned_and_write_what_new_tensors_hold(name, dtype, rest):
    arguments, name = UPDATES[name], name.split()[0]
    update_plans(name)
    for turn in range(5):
        torch.manual_seed(turn)
        x, i = (torch.randn(20, *rest) * 9).to(dtype), torch.randint(0, 20, (2,))
        given = arguments(i, (torch.randn(2, *rest) * 9).to(dtype))
        want = getattr(x, name[:-1])(*given)
        before = x._version
        assert getattr(x, name)(*given) is x and x._version == before + 1 and torch.equal(x, want)
    wide = dtype.itemsize == 2 and name in ("scatter_add_", "index_add_")  # added up in float32
    assert wide or update_plans(name)


def test_updates_leave_to_python_what_a_plan_cannot_do():
    i, v = torch.tensor([1, 5, 5]), torch.tensor([1.0, 2.0, 3.0])
    for _ in range(4):
        torch.zeros(8).index_put_((i,), v, True)
        torch.zeros(8).scatter_add_(0, i, v)
    x = torch.zeros(8)
    x.index_put_((torch.tensor([-7, 5, -3]),), v, True)  # from the end
    assert x.tolist() == [0, 1, 0, 0, 0, 5, 0, 0]
    for wrong in ([1, 8, 5], [1, 5, -9]):
        with pytest.raises(IndexError, match="out of bounds"):
            x.index_put_((torch.tensor(wrong),), v, True)
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.scatter_add_(0, torch.tensor(wrong), v)
    assert x.tolist() == [0, 1, 0, 0, 0, 5, 0, 0]  # nothing has been written
    whole = torch.arange(8.0)
    for _ in range(4):
        torch.zeros(8).index_put_((i,), torch.ones(8)[1::2][:3], True)
    whole.index_put_((i,), whole[1::2][:3], True)  # values are read before they are written
    assert whole.tolist() == [0, 2, 2, 3, 4, 13, 6, 7]
    with pytest.raises(RuntimeError, match="single memory location"):
        whole.index_put_((i,), whole[4:7], True)
    places = torch.zeros(3, dtype=torch.int64)
    for _ in range(4):
        torch.zeros(3, dtype=torch.int64).index_put_((torch.arange(3),), torch.ones(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="single memory location"):
        places.index_put_((places,), torch.ones(3, dtype=torch.int64))
    row = torch.zeros(1).expand(8)
    for _ in range(4):
        with pytest.warns(UserWarning, match="expanded"):
            row.index_put_((i,), v, True)
    part = torch.zeros(16)[::2]
    for _ in range(4):
        part.index_put_((i,), v)
    assert part._base.tolist()[2] == 1.0 and part._base.sum().item() == 4.0


def test_updates_with_history_or_kept_values_are_noticed():
    i, v = torch.tensor([1, 5, 5]), torch.tensor([1.0, 2.0, 3.0])
    kept, x = torch.ones(8), torch.ones(8, requires_grad=True)
    for _ in range(4):
        kept.index_put_((i,), v, True)
    y = (x * kept).sum()
    kept.index_put_((i,), v, True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y, before = (x * kept).sum(), kept.clone()
        kept.index_put_((i,), v, True)
        y.backward()
    assert torch.equal(x.grad, before)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.index_put_((i,), v, True)
    product = x * 2
    for _ in range(4):
        product.index_put_((i,), v)
    (g,) = torch.autograd.grad(product.sum(), x)
    assert g.tolist() == [2, 0, 2, 2, 2, 0, 2, 2]
    with torch.inference_mode():
        made = torch.ones(8)
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        made.index_put_((i,), v, True)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_updates_by_several_indices_are_planned(accumulate, kind):
    update_plans("index_put_")
    for turn in range(5):
        rng = np.random.default_rng(turn)
        for shape, sizes in (
            ((6, 7), ((4,), (4,))),
            ((6, 7), ((3, 1), (2,))),
            ((3, 6, 7), ((5,), (5,), (5,))),
            ((6, 7, 2), ((4,), (4,))),
        ):
            x = rng.standard_normal(shape)
            places = [rng.integers(0, n, size) for n, size in zip(shape, sizes)]
            values = rng.standard_normal(x[tuple(places)].shape)
            made, want = torch.from_numpy(x.copy()), x.copy()
            made.index_put_(tuple([torch.from_numpy(p).to(kind) for p in places]), torch.from_numpy(values), accumulate)
            if accumulate:
                np.add.at(want, tuple(places), values)
            else:
                want[tuple(places)] = values
            np.testing.assert_array_equal(made.numpy(), want)
    assert {plan.inputs for plan in update_plans("index_put_")} >= {4, 5}  # with two indices, and three

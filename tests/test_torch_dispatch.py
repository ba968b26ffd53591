"""Classes and modes with `__torch_dispatch__`: operators below autograd."""

import contextlib

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map

aten = torch.ops.aten


class Wrapper(torch.Tensor):
    seen = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        assert Wrapper in types

        def inside(t):
            return t.inner if isinstance(t, Wrapper) else t

        out = func(*tree_map(inside, args), **tree_map(inside, kwargs or {}))
        return tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, out)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
I = torch.tensor([1])
CALLS = {
    "x + x": (lambda x: x + x, [aten.add.Tensor]), "x + 1": (lambda x: x + 1, [aten.add.Tensor]),
    "x ** 2": (lambda x: x**2, [aten.pow.Tensor_Scalar]), "x > 0": (lambda x: x > 0, [aten.gt.Scalar]),
    "x == x": (lambda x: x == x, [aten.eq.Tensor]), "exp": (lambda x: x.exp(), [aten.exp.default]),
    "sum": (lambda x: x.sum(), [aten.sum.default]), "sum(1)": (lambda x: x.sum(1), [aten.sum.dim_IntList]),
    "mean": (lambda x: x.mean(0), [aten.mean.dim]), "max": (lambda x: x.max(0).values, [aten.max.dim]),
    "x @ x": (lambda x: x @ x, [aten.mm.default]), "t": (lambda x: x.t(), [aten.t.default]),
    "linear": (lambda x: F.linear(x, x, x[0]), [aten.select.int, aten.t.default, aten.addmm.default]),
    "softmax": (lambda x: x.softmax(-1), [aten._softmax.default]), "view": (lambda x: x.view(4), [aten.view.default]),
    "x[0]": (lambda x: x[0], [aten.select.int]), "x[1:]": (lambda x: x[1:], [aten.slice.Tensor]),
    "cat": (lambda x: torch.cat([x, x]), [aten.cat.default]), "to": (lambda x: x.double(), [aten._to_copy.default]),
    "clone": (lambda x: x.clone(), [aten.clone.default]), "detach": (lambda x: x.detach(), [aten.detach.default]),
    "relu": (lambda x: x.relu(), [aten.relu.default]), "where": (lambda x: torch.where(x > 0, x, x), [aten.gt.Scalar, aten.where.self]),
    "x[idx]": (lambda x: x[I], [aten.index.Tensor]), "zeros_like": (torch.zeros_like, [aten.zeros_like.default]),
    "contiguous": (lambda x: x.t().contiguous(), [aten.t.default, aten.clone.default]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_operators_of_a_class(name):
    function, expected = CALLS[name]
    Wrapper.seen.clear()
    made = function(Wrapper(X.clone()))
    assert Wrapper.seen == expected
    assert isinstance(made, Wrapper) and made.inner.tolist() == function(X).tolist()
    assert made.shape == made.inner.shape and made.device == made.inner.device and made.dtype is made.inner.dtype


@pytest.mark.parametrize("name", CALLS)
def test_operators_of_a_mode(name):
    function, expected = CALLS[name]
    with Log() as mode:
        made = function(X)
    assert mode.seen == expected and made.tolist() == function(X).tolist()


def test_history_is_above():
    x = Wrapper(X.clone()).requires_grad_()
    loss = (x @ x).relu().exp().sum()
    loss.backward()
    plain = X.clone().requires_grad_()
    (plain @ plain).relu().exp().sum().backward()
    assert isinstance(x.grad, Wrapper) and x.grad.inner.tolist() == plain.grad.tolist()
    assert not x.inner.requires_grad


def test_writes_and_numbers():
    x = Wrapper(X.clone())
    assert x.add_(1) is x and x.inner.tolist() == (X + 1).tolist()
    x.zero_()
    assert x.inner.tolist() == [[0, 0], [0, 0]] and x.sum().item() == 0
    with Log() as mode:
        X.clone().mul_(2)
        torch.zeros(2)
    assert mode.seen == [aten.clone.default, aten.mul_.Tensor, aten.zeros.default]


def test_modes_come_before_classes_and_nest():
    Wrapper.seen.clear()
    with Log() as outer, Log() as inner:
        Wrapper(X) * 2
    assert inner.seen == outer.seen == Wrapper.seen == [aten.mul.Tensor]


def test_a_class_that_declines_is_an_error():
    class Declines(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'aten\.add\.Tensor'"):
        torch.add(X.as_subclass(Declines), 1)


class Slotted(torch.Tensor):
    """One that keeps what it wraps in a slot, and says nothing of `__torch_function__`."""

    __slots__ = ["elem"]

    @staticmethod
    def __new__(cls, elem):
        made = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype, device=elem.device)
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def inner(a):
            return a.elem if isinstance(a, cls) else a

        def outer(a):
            return cls(a) if isinstance(a, torch.Tensor) else a

        return torch.utils._pytree.tree_map(outer, func(*torch.utils._pytree.tree_map(inner, args), **(kwargs or {})))


def test_copies_of_wrappers_keep_their_slots_and_only_dispatch_makes_them():
    x = Slotted(X.clone()).requires_grad_()
    assert x.detach().elem.tolist() == X.tolist()
    (found,) = torch.autograd.grad(x.exp().sum(), x)
    assert found.elem.tolist() == X.exp().tolist()
    # a gradient that is the plain tensor handed in stays one
    (found,) = torch.autograd.grad(x.clone(), x, X)
    assert type(found) is torch.Tensor and found.tolist() == X.tolist()


def test_truth_of_wrappers_is_read_through_dispatch():
    x, y = Slotted(X.clone()), Slotted(X + 1)
    assert (x == x).all() and not (x == y).any()
    assert torch.equal(x, x) and not torch.equal(x, y)
    assert torch.allclose(x, x) and not torch.allclose(x, y)


def names_of(call):
    with Log() as mode:
        made = call()
    return [str(func).removeprefix("aten.") for func in mode.seen], made


B = torch.arange(24.0).reshape(2, 3, 4)
SEVERAL = {
    "batches": (lambda: B @ B.mT, "transpose.int expand.default view.default expand.default view.default bmm.default _unsafe_view.default"),
    "batch by matrix": (lambda: B @ B[0].t(), "select.int t.default view.default mm.default _unsafe_view.default"),
    "linear": (lambda: F.linear(B, B[0], B[0, :, 0]), "select.int select.int select.int view.default t.default addmm.default view.default"),
    "slices": (lambda: B[1:, ::2], "slice.Tensor slice.Tensor"), "numbers": (lambda: B[1, 2], "select.int select.int"),
    "new dimension": (lambda: X[:, None, 1:], "unsqueeze.default slice.Tensor"),
    "any": (lambda: (X > 0).any(), "gt.Scalar any.default"), "all": (lambda: (X > 0).all(1), "gt.Scalar all.dim"), "prod": (lambda: X.prod(1), "prod.dim_int"),
    "median": (lambda: X.median(), "median.default"), "lerp": (lambda: torch.lerp(X, X, 0.5), "lerp.Scalar"), "elu": (lambda: F.elu(X), "elu.default"),
    "addcmul": (lambda: torch.addcmul(X, X, X, value=2), "addcmul.default"), "masked_fill": (lambda: X.masked_fill(X > 0, 0.0), "gt.Scalar masked_fill.Scalar"),
    "item": (lambda: X.sum().item(), "sum.default _local_scalar_dense.default"), "svd": (lambda: torch.linalg.svd(X).S, "_linalg_svd.default"),
    "fft": (lambda: torch.fft.rfft(X), "_fft_r2c.default"), "avg_pool2d": (lambda: F.avg_pool2d(B, 2), "avg_pool2d.default"),
    "max_pool2d": (lambda: F.max_pool2d(B, 2), "max_pool2d_with_indices.default"), "empty": (lambda: torch.empty(2).shape, "empty.memory_format"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_operators_that_pytorch_shows(name):
    call, expected = SEVERAL[name]
    seen, made = names_of(call)
    assert seen == expected.split()
    plain = call()
    torch.testing.assert_close(made, plain)


def test_gradients_are_shown_by_what_they_compute():
    x = X.clone().requires_grad_()
    seen, _ = names_of(lambda: torch.autograd.grad((x * x).sum(), x))
    assert seen == [
        "mul.Tensor",
        "sum.default",
        "ones_like.default",
        "expand.default",
        "mul.Tensor",
        "mul.Tensor",
        "add.Tensor",
    ]
    seen, _ = names_of(lambda: torch.autograd.grad(x.tanh().sum(), x))
    assert seen[-1] == "tanh_backward.default"
    b = B.clone().requires_grad_()
    with Log():
        (found,) = torch.autograd.grad(F.linear(b, B[0]).square().sum(), b)
    (plain,) = torch.autograd.grad(F.linear(b, B[0]).square().sum(), b)
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_steps_of_optimizers_are_seen(optimizer):
    p, q = (torch.nn.Parameter(X.clone()) for _ in range(2))
    p.grad, q.grad = X.clone(), X.clone()
    seen, _ = names_of(getattr(torch.optim, optimizer)([p]).step)
    getattr(torch.optim, optimizer)([q]).step()
    assert "copy_.default" in seen or "add_.Tensor" in seen
    torch.testing.assert_close(p, q)


def test_a_block_in_which_nobody_is_asked():
    from flambeau.utils._mode_utils import no_dispatch

    asked = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append(str(func))
            with torch.overrides.enable_reentrant_dispatch():
                assert torch.ones(1, requires_grad=True).exp().grad_fn is not None
            with no_dispatch():
                return func(*args, **(kwargs or {}))

    t = torch.Tensor._make_subclass(Own, torch.tensor([1.0, 4.0]))
    assert torch.sqrt(t).tolist() == [1, 2] and len(asked) == 1


def test_what_schemas_say_about_memory():
    from flambeau.utils._python_dispatch import AliasInfo, get_alias_info

    aten = torch.ops.aten
    added = get_alias_info(aten.add_.Tensor)
    assert added.args[0] == AliasInfo({"a"}, True, "self") and added.outs == [AliasInfo({"a"}, True, None)]
    assert (
        added.outs_write_aliases == ["a"] and added.read_only_alias_match_indexes == [] and not added.is_inplace_view_op
    )
    for view in (aten.view.default, aten.split.Tensor):
        assert get_alias_info(view).read_only_alias_match_indexes == [(0, 0)]
        assert get_alias_info(view).outs_write_aliases is None
    assert get_alias_info(aten.add.out).args[-1] == AliasInfo({"a"}, True, "out")
    assert get_alias_info(aten.squeeze_.default).is_inplace_view_op
    assert get_alias_info(aten.relu.default).outs == [AliasInfo(set(), False, None)]


def test_a_subclass_has_a_dtype_of_its_own():
    class Held(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            made = torch.Tensor._make_wrapper_subclass(cls, data.size(), dtype=data.dtype, device=data.device)
            made.held = data
            return made

        @property
        def dtype(self):
            return self.held.dtype

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[a.held if isinstance(a, cls) else a for a in args], **(kwargs or {}))

    held = Held(torch.arange(3))
    assert held.dtype is torch.int64
    assert (held + 1).tolist() == [1, 2, 3]
    assert held.equal(torch.arange(3)) and torch.equal(torch.arange(3), held) and not held.equal(torch.zeros(3))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.mul_(3), lambda y: y.clamp_(0, 1.5), lambda y: y.lerp_(torch.zeros(2), 0.5), lambda y: y.pow_(2),
        lambda y: y.scatter_(0, torch.tensor([0]), 7.0), lambda y: y.masked_fill_(torch.tensor([True, False]), 3.0),
        lambda y: y.__setitem__(torch.tensor([0]), torch.tensor([5.0])), lambda y: y[1:].mul_(4),
        lambda y: y.index_fill_(0, torch.tensor([1]), 2.0), lambda y: F.relu(y, inplace=True),
    ],
)  # fmt: skip
def test_writes_under_a_mode_have_their_history(write):
    class Passing(TorchDispatchMode):
        seen: list = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func._opname)
            return func(*args, **(kwargs or {}))

    found = []
    for mode in (contextlib.nullcontext(), Passing()):
        x = torch.tensor([1.0, -0.2], requires_grad=True)
        with mode:
            y = x * 2
            write(y)
            version = y._version
            (y * torch.tensor([1.0, 10.0])).sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
        assert version > 0
    assert found[0] == found[1] and any(name.endswith("_") for name in Passing.seen)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (lambda x, y, o: x.clamp_(0, 1), "aten.clamp_.default"),
        (lambda x, y, o: x.lerp_(y, 0.5), "aten.lerp_.Scalar"),
        (lambda x, y, o: x.lerp_(y, y), "aten.lerp_.Tensor"),
        (lambda x, y, o: x.add_(y, alpha=2), "aten.add_.Tensor"),
        (lambda x, y, o: x.addcmul_(x, y, value=3), "aten.addcmul_.default"),
        (lambda x, y, o: x.fmod_(2), "aten.fmod_.Scalar"),
        (lambda x, y, o: x.pow_(2), "aten.pow_.Scalar"),
        (lambda x, y, o: x.masked_fill_(y > 0, 1.0), "aten.masked_fill_.Scalar"),
        (lambda x, y, o: x.scatter_(0, torch.zeros(2, 3, dtype=torch.long), 1.0), "aten.scatter_.value"),
        (lambda x, y, o: x.__setitem__(torch.tensor([0]), y[0]), "aten.index_put_.default"),
        (lambda x, y, o: torch.add(x, y, alpha=2, out=o), "aten.add.out"),
        (lambda x, y, o: torch.exp(x, out=o), "aten.exp.out"),
        (lambda x, y, o: torch.clamp(x, 0, 1, out=o), "aten.clamp.out"),
        (lambda x, y, o: torch.pow(x, y, out=o), "aten.pow.Tensor_Tensor_out"),
        (lambda x, y, o: torch.sum(x, 0, out=o), "aten.sum.IntList_out"),
        (lambda x, y, o: torch.cat([x, y], out=o), "aten.cat.out"),
        (lambda x, y, o: torch.mm(x, y.t(), out=o), "aten.mm.out"),
    ],
)
def test_writes_are_shown_as_the_operator_that_writes(call, shown):
    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def tensors():
        return torch.arange(1.0, 7.0).view(2, 3), torch.full((2, 3), 0.5), torch.empty(0)

    x, y, o = tensors()
    with Names():
        call(x, y, o)
    assert seen[-1] == shown
    assert "aten.copy_.default" not in seen
    a, b, c = tensors()
    call(a, b, c)
    assert torch.equal(x, a) and torch.equal(o, c)
    assert x._version == a._version


def test_operators_of_derivatives_belong_to_a_packet():
    packets = set()

    class Packets(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            packets.add(func.overloadpacket)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Packets():
        F.relu(x).sum().backward()
    assert torch.ops.aten.threshold_backward in packets


def test_wrappers_that_name_no_device_are_on_the_cpu():
    made = torch.Tensor._make_wrapper_subclass(Wrapper, (2,), dtype=torch.float64)
    assert made.device == torch.device("cpu") and not made.is_meta and made.dtype is torch.float64


class Passing(torch.Tensor):
    """Leaves operations to what tensors do by themselves."""

    seen: list = []

    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_subclass(cls, elem, elem.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_classes_may_pass_operations_on():
    a = torch.arange(2.0)
    Passing.seen.clear()
    made = Passing(a) + Passing(a)
    assert type(made) is torch.Tensor and made.tolist() == [0, 2] and Passing.seen == ["aten.add.Tensor"]
    assert torch.cat([Passing(a), a]).tolist() == [0, 1, 0, 1]
    x = a.clone().requires_grad_()
    (Passing(a) * x).sum().backward()
    assert x.grad.tolist() == [0, 1]


def test_what_handlers_give_for_tensors_are_tensors():
    class Wrong(Passing):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "words"

    for call in (lambda x: x.neg(), lambda x: x + 1, lambda x: x.detach()):
        with pytest.raises(RuntimeError, match="Unable to cast 'words' to Tensor"):
            call(Wrong(torch.ones(2)))


def test_modes_are_asked_by_a_method():
    class Shared(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="as a classmethod is not supported"), Shared():
        pass


class Shown(torch.Tensor):
    @staticmethod
    def __new__(cls, e, device=None):
        made = torch.Tensor._make_wrapper_subclass(
            cls, e.size(), dtype=e.dtype, strides=e.stride(), storage_offset=e.storage_offset(), device=device
        )
        made.e = e
        return made

    def __repr__(self):
        return super().__repr__(tensor_contents=str(self.e))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def test_wrappers_lie_and_read_as_they_say():
    x = torch.randn(4, 6).t().diagonal(offset=2)
    made = Shown(x)
    assert (made.shape, made.stride(), made.storage_offset()) == (x.shape, x.stride(), x.storage_offset())
    assert str(Shown(torch.ones(1))) == "Shown(tensor([1.]))"
    assert str(Shown(torch.ones(1), "cuda:0")) == "Shown(tensor([1.]), device='cuda:0')"
    assert str(Shown(torch.ones(0, 2))) == "Shown(tensor([], size=(0, 2)), size=(0, 2))"
    for read in (made.numpy, made.tolist):
        with pytest.raises(RuntimeError, match="is not supported for tensor subclasses"):
            read()

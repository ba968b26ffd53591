"""`nn.Module`: registration, hooks, state, conversion, printing and copying."""

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.modules import _hooks
from flambeau.nn.modules import module as module_file


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1)

    def forward(self, x, scale=1.0):
        return self.second(torch.tanh(self.first(x))) * scale


class Scale(nn.Module):
    def __init__(self, value=2.0):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([value]))

    def forward(self, x):
        return x * self.factor


# -- attributes --------------------------------------------------------------------------------------------------


def test_assignment_registers_by_kind():
    m = nn.Module()
    m.p, m.m, m.b, m.x = nn.Parameter(torch.ones(1)), nn.Identity(), nn.Buffer(torch.ones(2), persistent=False), 3
    assert list(m._parameters) == ["p"] and list(m._modules) == ["m"] and list(m._buffers) == ["b"]
    assert m._non_persistent_buffers_set == {"b"} and m.__dict__["x"] == 3
    assert all(name not in m.__dict__ for name in "pmb")
    m.b = torch.zeros(1)
    assert m._buffers["b"].shape == (1,)
    m.b = nn.Parameter(torch.ones(1))  # another kind takes the name over
    assert not m._buffers and not m._non_persistent_buffers_set and list(m._parameters) == ["p", "b"]
    m.x = nn.Parameter(torch.ones(1))
    assert "x" not in m.__dict__
    m.p = None
    assert m._parameters["p"] is None and m.p is None
    del m.x, m.m
    assert not hasattr(m, "x") and not m._modules


def test_writes_into_the_tables_are_seen():
    m = Scale()
    new = nn.Parameter(torch.tensor([5.0]))
    m._parameters["factor"] = new
    assert m.factor is new and m(torch.ones(1)).item() == 5.0


@pytest.mark.parametrize(
    "action, error, text",
    [
        (lambda m: m.absent, AttributeError, "'Linear' object has no attribute 'absent'"),
        (lambda m: setattr(m, "weight", 3), TypeError, "cannot assign 'int' as parameter 'weight'"),
        (lambda m: setattr(m, "weight", torch.ones(1)), TypeError, "as parameter 'weight'"),
        (lambda m: m.add_module("a.b", m), KeyError, "can't contain"),
        (lambda m: m.add_module("", m), KeyError, "can't be empty string"),
        (lambda m: m.add_module("weight", m), KeyError, "attribute 'weight' already exists"),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.add_module(3, m), TypeError, "module name should be a string"),
        (lambda m: m.register_parameter("q", torch.ones(1)), TypeError, "to parameter 'q'"),
        (lambda m: m.register_parameter("forward", None), KeyError, "already exists"),
        (lambda m: m.register_buffer("q", 3), TypeError, "to buffer 'q'"),
        (lambda m: m.register_buffer("a.b", None), KeyError, "can't contain"),
        (lambda m: delattr(m, "absent"), AttributeError, "absent"),
        (lambda m: m.train("yes"), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(torch.int32), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: m.load_state_dict(3), TypeError, "Expected state_dict to be dict-like"),
        (lambda m: m.get_submodule("a.b"), AttributeError, "has no attribute `a`"),
        (lambda m: m.get_submodule("weight"), AttributeError, "is not an nn.Module"),
        (lambda m: m.get_parameter("forward"), AttributeError, "is not an nn.Parameter"),
        (lambda m: m.get_buffer("weight"), AttributeError, "is not a buffer"),
        (lambda m: m.set_submodule("", m), ValueError, "without a target"),
        (lambda m: m.set_submodule("weight", nn.Identity()), AttributeError, "is not an nn.Module"),
        (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward" function'),
        (lambda m: nn.Module(3), TypeError, "positional argument"),
        (lambda m: nn.Module(a=3), TypeError, "unexpected keyword argument 'a'"),
    ],
)
def test_errors(action, error, text):
    with pytest.raises(error) as caught:
        action(nn.Linear(2, 3))
    assert text in str(caught.value.args[0])


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    for value in (nn.Parameter(torch.ones(1)), nn.Identity(), nn.Buffer(torch.ones(1))):
        with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
            Early(value)
    with pytest.raises(AttributeError, match="_forward_hooks"):
        Early(3)(1)


def test_non_leaf_is_no_parameter():
    made = nn.Parameter(torch.ones(1))
    computed = made * 2
    computed._is_param = True
    with pytest.raises(ValueError, match="non-leaf"):
        nn.Module().register_parameter("p", computed)


def test_call_super_init():
    class Other:
        def __init__(self, value):
            self.value = value

    class Both(nn.Module, Other):
        call_super_init = True

    assert Both(7).value == 7


# -- walking -----------------------------------------------------------------------------------------------------


def test_names():
    s = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Identity()))
    s.add_module("again", s[0])
    assert [n for n, _ in s.named_modules()] == ["", "0", "1", "1.0"]
    assert [n for n, _ in s.named_modules(remove_duplicate=False)] == ["", "0", "1", "1.0", "again"]
    assert [n for n, _ in s.named_modules(prefix="p")] == ["p", "p.0", "p.1", "p.1.0"]
    assert [n for n, _ in s.named_children()] == ["0", "1"]
    assert [n for n, _ in s.named_parameters()] == ["0.weight", "0.bias"]
    assert [n for n, _ in s.named_parameters(remove_duplicate=False)][2:] == ["again.weight", "again.bias"]
    assert not list(s.named_parameters(recurse=False))
    assert [n for n, _ in s[0].named_parameters(prefix="q")] == ["q.weight", "q.bias"]
    seen = []
    s.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Identity", "Sequential", "Sequential"]


def test_by_dotted_name():
    s = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    assert s.get_submodule("") is s and s.get_submodule("0.0") is s[0][0]
    assert s.get_parameter("0.0.weight") is s[0][0].weight
    s.set_submodule("0.0", nn.Identity())
    assert isinstance(s[0][0], nn.Identity)
    with pytest.raises(AttributeError):
        s.set_submodule("0.5", nn.Identity(), strict=True)


def test_train_eval_and_gradients():
    net = Net()
    assert net.eval() is net and not net.first.training and net.train().second.training
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.first.bias.grad.tolist() == [0, 0, 0]
    net.zero_grad()
    assert net.first.bias.grad is None
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


# -- conversion --------------------------------------------------------------------------------------------------


def test_conversion_keeps_parameters():
    m = nn.Linear(2, 2)
    m.register_buffer("count", torch.arange(3))
    weight = m.weight
    weight.grad = grad = torch.ones(2, 2)
    m.double()
    assert m.weight is weight and weight.dtype is torch.float64 and weight.requires_grad
    assert weight.grad is grad and grad.dtype is torch.float64 and m.count.dtype is torch.int64
    for action, expected in [
        (lambda: m.half(), torch.float16),
        (lambda: m.bfloat16(), torch.bfloat16),
        (lambda: m.float(), torch.float32),
        (lambda: m.to("cpu", torch.float64), torch.float64),
        (lambda: m.to(torch.ones(1)), torch.float32),
        (lambda: m.to(device="cpu", dtype=torch.float16, non_blocking=True), torch.float16),
        (lambda: m.to("cpu"), torch.float16),
    ]:
        assert action() is m and m.weight.dtype is expected and m.weight.grad.dtype is expected
    m.float().to("meta")
    assert m.weight is not weight and m.weight.is_meta and m.weight.grad.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        m.to("cpu")
    m.to_empty(device="cpu")
    assert m.weight.shape == (2, 2) and m.weight.device.type == "cpu" and m.weight.requires_grad


def test_tied_parameters_stay_tied():
    m = nn.Module()
    m.layer = nn.Linear(2, 2)
    m.weight = m.layer.weight
    m.double()
    assert m.weight is m.layer.weight
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert twin.weight is twin.layer.weight and twin.weight is not m.weight


def test_memory_format():
    m = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    assert m.weight.stride() == (18, 1, 6, 2)


# -- hooks -------------------------------------------------------------------------------------------------------


def test_forward_hooks_in_order():
    net, calls = Net(), []
    note = lambda name: lambda *args: calls.append((name, len(args)))
    net.register_forward_hook(note("after"))
    net.register_forward_hook(note("after first"), prepend=True)
    net.register_forward_hook(note("after named"), with_kwargs=True)
    net.register_forward_pre_hook(note("before"))
    net.register_forward_pre_hook(note("before first"), prepend=True)
    handle = net.register_forward_pre_hook(note("before named"), with_kwargs=True)
    net(torch.ones(1, 2), scale=2.0)
    assert calls == [
        ("before first", 2), ("before", 2), ("before named", 3), ("after first", 3), ("after", 3), ("after named", 4),
    ]  # fmt: skip
    handle.remove()
    assert len(net._forward_pre_hooks) == 2 and not net._forward_pre_hooks_with_kwargs
    handle.remove()


def test_forward_hooks_replace():
    m = Scale()
    m.register_forward_pre_hook(lambda m, args: args[0] + 1)
    m.register_forward_hook(lambda m, args, out: out * 10)
    assert m(torch.ones(1)).item() == 40
    net = Net()
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": 0.0}), with_kwargs=True)
    assert net(torch.ones(1, 2), scale=3.0).item() == 0
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        net(torch.ones(1, 2))


def test_always_call():
    net, seen = Net(), []
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda m, args, out: seen.append("not called"))
    with pytest.raises(RuntimeError):
        net(torch.ones(1, 5))
    assert seen == [None]


def test_full_backward_hooks():
    m, seen = Scale(), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(("after", gi[0].item(), go[0].item())))
    m.register_full_backward_pre_hook(lambda m, go: seen.append(("before", go[0].item())))
    x = torch.ones(1, requires_grad=True)
    (m(x) * 3).sum().backward()
    assert seen == [("before", 3.0), ("after", 6.0, 3.0)]
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    m.register_full_backward_pre_hook(lambda m, go: go[0] * 2)
    x.grad = None
    m(x).sum().backward()
    assert x.grad.item() == 40
    m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        m(x).sum().backward()


def test_full_backward_hooks_with_other_arguments():
    class Several(nn.Module):
        def forward(self, x, y, n):
            return x * 2, y * 3, n

    m, seen = Several(), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    m(x, y, 4)[0].sum().backward()
    (gi, go) = seen[0]
    assert gi[0].tolist() == [2, 2] and gi[1].tolist() == [0, 0] and gi[2] is None
    assert go[0].tolist() == [1, 1] and go[1:] == (None, None)


def test_full_backward_hook_without_input_gradients():
    m, seen = Scale(), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.ones(1)).sum().backward()
    assert seen == [(None,)]


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_older_backward_hook():
    m, seen = Scale(), []
    m.register_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    m(torch.ones(1)).sum().backward()
    assert seen[0][1][0].item() == 1
    with pytest.raises(RuntimeError, match="Cannot use both"):
        m.register_full_backward_hook(lambda *args: None)


def test_global_hooks():
    seen = []
    handles = [
        module_file.register_module_forward_pre_hook(lambda m, args: seen.append("before")),
        module_file.register_module_forward_hook(lambda m, args, out: seen.append("after")),
        module_file.register_module_full_backward_hook(lambda m, gi, go: seen.append("backward")),
        module_file.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)),
        module_file.register_module_module_registration_hook(lambda m, name, p: seen.append(name)),
        module_file.register_module_buffer_registration_hook(lambda m, name, p: seen.append(name)),
    ]
    try:
        m = Scale()
        m.register_buffer("buffer", torch.ones(1))
        m.child = nn.Identity()
        m(torch.ones(1, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["factor", "buffer", "child", "before", "after", "backward"]
    m(torch.ones(1))
    assert len(seen) == 6 and not module_file._has_any_global_hook()


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_global_backward_hooks_of_one_kind_only(monkeypatch):
    old, full = module_file.register_module_backward_hook, module_file.register_module_full_backward_hook
    for first, second in ((old, full), (full, old)):
        monkeypatch.setitem(_hooks._global_kind, "full", None)
        seen = []
        handles = [first(lambda m, gi, go, seen=seen: seen.append((type(m), go[0].item()))) for _ in range(2)]
        try:
            with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
                second(lambda *args: None)
            Scale()(torch.ones(1, requires_grad=True)).sum().backward()
        finally:
            for handle in handles:
                handle.remove()
        assert seen == [(Scale, 1.0)] * 2


# -- state -------------------------------------------------------------------------------------------------------


def test_state_dict():
    net = Net()
    net.register_buffer("kept", torch.ones(1))
    net.register_buffer("dropped", torch.ones(1), persistent=False)
    state = net.state_dict()
    assert list(state) == ["kept", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert dict(state._metadata) == {"": {"version": 1}, "first": {"version": 1}, "second": {"version": 1}}
    assert not state["first.weight"].requires_grad and type(state["first.weight"]) is torch.Tensor
    assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    assert next(iter(net.state_dict(prefix="top."))) == "top.kept"
    destination = {}
    assert net.state_dict(destination=destination) is destination and "kept" in destination
    with pytest.warns(FutureWarning):
        net.state_dict(destination)
    with torch.no_grad():
        net.kept.fill_(7)
    assert state["kept"].item() == 7  # the same memory


def test_load_state_dict():
    net, other = Net(), Net()
    weight = net.first.weight
    assert str(net.load_state_dict(other.state_dict())) == "<All keys matched successfully>"
    assert net.first.weight is weight and torch.equal(weight, other.first.weight)
    state = other.state_dict()
    del state["first.weight"], state["second.bias"]
    state["unknown"] = state["first.extra"] = torch.ones(1)
    state["second.weight"] = torch.ones(5)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Net:\n\tMissing key(s)")
    for part in ('"first.weight", "second.bias"', '"unknown", "first.extra"', "size mismatch for second.weight"):
        assert part in text
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(state, strict=False)
    del state["second.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["first.weight", "second.weight", "second.bias"]
    assert result.unexpected_keys == ["unknown", "first.extra"]
    with pytest.raises(RuntimeError, match="Tensor-like object"):
        net.load_state_dict({"first.bias": 3}, strict=False)


def test_load_assign():
    m = nn.Linear(2, 2, device="meta")
    values = {"weight": torch.ones(2, 2, dtype=torch.float64), "bias": torch.ones(2)}
    with pytest.warns(UserWarning, match="no-op"):
        m.load_state_dict(values)
    m.load_state_dict(values, assign=True)
    assert m.weight.dtype is torch.float64 and isinstance(m.weight, nn.Parameter) and m.weight.requires_grad


def test_single_numbers_in_old_files():
    m = nn.Module()
    m.register_buffer("total", torch.tensor(1.0))
    m.load_state_dict({"total": torch.tensor([3.0])})
    assert m.total.item() == 3 and m.total.ndim == 0


def test_extra_state():
    class Counter(nn.Module):
        value = 0

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    m = nn.Sequential(Counter())
    m[0].value = 5
    assert m.state_dict() == {"0._extra_state": {"value": 5}}
    other = nn.Sequential(Counter())
    other.load_state_dict(m.state_dict())
    assert other[0].value == 5
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        nn.Module().load_state_dict({"_extra_state": 1})


def test_state_hooks():
    net, seen = Net(), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("save before", prefix, keep)))
    net.register_state_dict_post_hook(lambda m, state, prefix, metadata: state.update(extra=1))
    assert net.state_dict()["extra"] == 1 and seen == [("save before", "", False)]
    net.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop("extra"))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net.load_state_dict({"extra": 1, "first.bias": torch.ones(3)})
    net.register_state_dict_post_hook(lambda *args: 3)
    with pytest.raises(RuntimeError, match="must return None"):
        net.state_dict()


# -- printing and copying ----------------------------------------------------------------------------------------


def test_repr():
    class Named(nn.Module):
        def extra_repr(self):
            return "size=3"

    m = Named()
    assert repr(m) == "Named(size=3)" and repr(nn.Module()) == "Module()"
    m.inner = Net()
    assert repr(m).split("\n") == [
        "Named(", "  size=3", "  (inner): Net(", "    (first): Linear(in_features=2, out_features=3, bias=True)",
        "    (second): Linear(in_features=3, out_features=1, bias=True)", "  )", ")",
    ]  # fmt: skip


def double(module, args, out):
    return out * 2


def test_copies():
    net = Net()
    net.register_forward_hook(double)
    net.first.weight.grad = torch.ones(3, 2)
    x = torch.randn(4, 2)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), net(x)) and twin.first.weight is not net.first.weight
        assert type(twin.first.weight) is nn.Parameter and twin.first.weight.requires_grad
    shallow = copy.copy(net)
    assert shallow.first is net.first


def test_old_pickles():
    net = Net()
    state = {k: v for k, v in net.__dict__.items() if k in ("_parameters", "_buffers", "_modules", "training")}
    made = Net.__new__(Net)
    made.__setstate__(state)
    assert torch.equal(made(torch.ones(1, 2)), net(torch.ones(1, 2)))


def test_dir():
    s = nn.Sequential(nn.Identity())
    s.weight = nn.Parameter(torch.ones(1))
    assert {"weight", "forward", "training"} <= set(dir(s)) and "0" not in dir(s)


def test_call_has_no_overhead_of_hooks_left_behind():
    m = Scale()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with m.register_forward_hook(lambda *args: None):
            m(torch.ones(1))
        assert not m._forward_hooks and m(torch.ones(1)).item() == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_data_parallel_without_gpus():
    m = nn.DataParallel(nn.Linear(2, 2))
    x = torch.ones(3, 2)
    assert torch.equal(m(x), m.module(x)) and list(m.state_dict()) == ["module.weight", "module.bias"]
    parts = nn.parallel.scatter((torch.arange(4), {"a": 1}), ["cpu", "cpu"])
    assert parts[1][0].tolist() == [2, 3] and parts[1][1] == {"a": 1}
    assert nn.parallel.gather([torch.ones(2), torch.zeros(1)], "cpu").tolist() == [1, 1, 0]
    replicas = nn.parallel.replicate(m.module, ["cpu", "cpu"])
    outs = nn.parallel.parallel_apply(replicas, [x, x])
    sum(o.sum() for o in outs).backward()
    assert m.module.bias.grad.tolist() == [6, 6]


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_output_of_a_module_with_backward_hooks_is_not_written_in_place(register):
    layer = torch.nn.Linear(2, 2)
    handle = getattr(layer, register)(lambda *args: None)
    for write in (lambda y: y.add_(1), lambda y: y.relu_(), lambda y: torch.nn.functional.relu(y, inplace=True)):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            write(layer(torch.ones(1, 2)))
    with torch.no_grad():
        layer(torch.ones(1, 2)).add_(1)
    handle.remove()
    layer(torch.ones(1, 2)).add_(1).sum().backward()
    assert layer.weight.grad is not None


def test_global_tables_of_hooks_can_be_replaced():
    seen = []
    nn.modules.module.register_module_forward_hook(lambda module, args, out: seen.append(module))
    layer = nn.Identity()
    layer(torch.ones(1))
    assert seen == [layer]
    nn.modules.module._global_forward_hooks = OrderedDict()
    layer(torch.ones(1))
    assert seen == [layer] and not nn.modules.module._global_forward_hooks
    handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: seen.append("pre"))
    layer(torch.ones(1))
    assert seen == [layer, "pre"] and handle.hooks_dict_ref() is nn.modules.module._global_forward_pre_hooks
    handle.remove()
    assert not handle.hooks_dict_ref()


def test_hooks_of_loading_do_not_keep_their_module_alive():
    layer = nn.Linear(1, 1)
    layer.register_load_state_dict_pre_hook(print)
    gone = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert gone() is None
    finally:
        gc.enable()

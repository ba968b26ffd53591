"""Modules and containers."""

import copy
from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.relu = nn.ReLU()
        self.drop = nn.Dropout(p=0.3)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(self.drop(self.relu(self.fc1(x))))


def test_subclasses():
    assert MLP()(torch.randn(32, 784)).shape == (32, 10)
    with pytest.raises(NotImplementedError):
        nn.Module()(torch.ones(1))


def test_attributes_are_registered():
    model = MLP()
    model.scale = nn.Parameter(torch.ones(1))
    model.register_buffer("mean", torch.zeros(1))
    assert list(model._modules) == ["fc1", "relu", "drop", "fc2"]
    assert list(model._parameters) == ["scale"] and list(model._buffers) == ["mean"]
    del model.drop
    assert list(model._modules) == ["fc1", "relu", "fc2"]


def test_init_must_come_first():
    class Early(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError):
        Early()


def test_hooks_run_for_calls_only():
    layer, seen = nn.Linear(2, 3), []
    layer.register_forward_pre_hook(lambda module, given: seen.append("before"))
    layer.register_forward_hook(lambda module, given, out: seen.append(tuple(out.shape)))
    layer.forward(torch.ones(1, 2))
    assert seen == []
    layer(torch.ones(1, 2))
    assert seen == ["before", (1, 3)]


def test_hooks_change_outputs_and_see_gradients():
    layer, seen = nn.Linear(2, 3), []
    handle = layer.register_forward_hook(lambda module, given, out: out * 0)
    backward = layer.register_full_backward_hook(lambda module, gin, gout: seen.append((gin[0].shape, gout[0].shape)))
    x = torch.ones(4, 2, requires_grad=True)
    out = layer(x)
    assert not out.any()
    out.sum().backward()
    assert seen == [((4, 2), (4, 3))]
    handle.remove()
    backward.remove()
    assert layer(x).any()


def test_walking_a_model():
    model = nn.Sequential(OrderedDict(body=nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), head=nn.Linear(3, 1)))
    names = ["body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "head.weight", "head.bias"]
    assert [n for n, _ in model.named_parameters()] == names and len(list(model.parameters())) == 6
    assert [n for n, _ in model.named_buffers()] == [
        f"body.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")
    ]
    assert len(list(model.buffers())) == 3
    assert [n for n, _ in model.named_children()] == ["body", "head"] and len(list(model.children())) == 2
    assert [n for n, _ in model.named_modules()] == ["", "body", "body.0", "body.1", "head"] and len(
        list(model.modules())
    ) == 5
    assert sum(p.numel() for p in MLP().parameters()) == 203530


def test_state_dicts():
    model, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    nn.init.normal_(model.weight)
    state = model.state_dict()
    assert type(state) is OrderedDict
    assert list(state) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert torch.equal(other.weight, model.weight) and other.weight is not model.weight
    model.weight.data.zero_()
    assert other.weight.any()


def test_strict_and_other_loading():
    model = nn.Linear(2, 3)
    state = {"weight": torch.zeros(3, 2), "extra": torch.zeros(1)}
    with pytest.raises(RuntimeError, match=r"bias[\s\S]*extra"):
        model.load_state_dict(state)
    result = model.load_state_dict(state, strict=False)
    assert result.missing_keys == ["bias"] and result.unexpected_keys == ["extra"] and not model.weight.any()
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict({"weight": torch.zeros(1, 2)}, strict=False)


def test_parameters():
    p = nn.Parameter(torch.zeros(2))
    assert isinstance(p, torch.Tensor) and p.requires_grad
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError):
        model.weight = torch.zeros(1, 1)
    model.register_parameter("extra", p)
    assert dict(model.named_parameters())["extra"] is p


def test_buffers_are_saved_and_moved_but_not_trained():
    model = nn.Module()
    model.register_buffer("mean", torch.zeros(2))
    model.register_buffer("cache", torch.zeros(2), persistent=False)
    model.other = nn.Buffer(torch.ones(2))
    model.plain = torch.ones(2)
    assert list(model.state_dict()) == ["mean", "other"] and not list(model.parameters())
    model.double()
    assert model.mean.dtype is model.cache.dtype is model.other.dtype is torch.float64
    assert model.plain.dtype is torch.float32


def test_modes_reach_every_part():
    model = nn.Sequential(nn.Sequential(nn.Dropout()), nn.BatchNorm1d(2))
    assert model.training and model.eval() is model
    assert not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())


def test_apply_visits_children_first():
    seen = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_casts_leave_integers():
    model = nn.BatchNorm1d(2)
    for cast, kind in (
        ("half", torch.float16),
        ("double", torch.float64),
        ("float", torch.float32),
        ("bfloat16", torch.bfloat16),
    ):
        assert getattr(model, cast)() is model
        assert model.weight.dtype is model.running_mean.dtype is kind
        assert model.num_batches_tracked.dtype is torch.int64
    assert model.cpu() is model


def test_gradients_of_all_parameters_at_once():
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    assert model.requires_grad_(False) is model and not any(p.requires_grad for p in model.parameters())


def test_sequential():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert isinstance(model[0], nn.Linear) and isinstance(model[:2], nn.Sequential) and len(model[:2]) == 2
    assert [type(m).__name__ for m in model] == ["Linear", "ReLU", "Linear"]
    named = nn.Sequential(OrderedDict([("fc1", nn.Linear(784, 256)), ("relu", nn.ReLU())]))
    assert named.fc1.weight.shape == (256, 784)


def test_lists_and_dictionaries():
    model = nn.Module()
    model.blocks = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
    model.blocks.append(nn.Linear(2, 2))
    model.heads = nn.ModuleDict({"sentiment": nn.Linear(2, 2), "topic": nn.Linear(2, 10)})
    model.scales = nn.ParameterList([torch.ones(1), torch.ones(2)])
    model.named = nn.ParameterDict({"left": torch.ones(1)})
    names = [n for n, _ in model.named_parameters()]
    for expected in ("blocks.0.weight", "blocks.2.bias", "heads.topic.weight", "scales.1", "named.left"):
        assert expected in names
    assert list(model.heads.keys()) == ["sentiment", "topic"] and model.heads["topic"].out_features == 10


def test_lazy_linear():
    layer = nn.LazyLinear(5)
    assert layer(torch.ones(2, 7)).shape == (2, 5)
    assert type(layer) is nn.Linear and layer.in_features == 7


def test_printing():
    assert repr(nn.Linear(784, 256)) == "Linear(in_features=784, out_features=256, bias=True)"
    text = "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n  (1): Dropout(p=0.5, inplace=False)\n)"
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Dropout())) == text


def test_copies_are_independent():
    model = nn.Linear(2, 2)
    twin = copy.deepcopy(model)
    model.weight.data.zero_()
    assert twin.weight.any() and twin.weight.requires_grad

"""Quantization over graphs: layers that become one, observers between nodes, quantized layers in their place."""

import io

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization import (
    QConfigMapping,
    default_dynamic_qconfig,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
    quantize_fx,
)
from flambeau.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx, prepare_qat_fx

MAPPING = get_default_qconfig_mapping("qnnpack")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1, self.c2 = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)
        self.d, self.l, self.r, self.p = nn.Conv2d(2, 4, 1), nn.Linear(4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(torch.sin(torch.arange(float(p.numel())) + i).reshape(p.shape) / 2)

    def forward(self, x):
        y = self.r(self.b1(self.c1(x)))
        y = nn.functional.relu(self.c2(y) + self.d(x))
        return self.l(torch.flatten(self.p(y), 1))


X = torch.cos(torch.arange(144.0)).view(2, 2, 6, 6)


def kinds(module):
    return {name: type(part).__name__ for name, part in module.named_children() if "post_process" not in name}


@pytest.mark.slow
def test_layers_that_follow_each_other_are_one():
    model = Residual().eval()
    fused = fuse_fx(model)
    assert kinds(fused) == {"c1": "ConvReLU2d", "c2": "Conv2d", "d": "Conv2d", "l": "Linear", "p": "AdaptiveAvgPool2d"}
    torch.testing.assert_close(fused(X), model(X))


def test_results_are_those_of_pytorch():
    model = Residual().eval()
    observed = prepare_fx(model, MAPPING, (X,))
    torch.testing.assert_close(observed(X), model(X))
    for scale in (0.5, 1.5):
        observed(X * scale)
    made = convert_fx(observed)
    # of PyTorch 2.13, engine qnnpack
    wanted = torch.tensor([[-0.01973, 0.20713, -0.9025], [-0.06904, 0.25152, -0.91237]])
    torch.testing.assert_close(made(X), wanted, atol=2e-5, rtol=0)
    assert "quantized" in type(made.c1).__module__
    assert [n.op for n in made.graph.nodes if "post_process" in str(n.target)] == []
    other = prepare_fx(model, MAPPING, (X,))
    other(X * 3)
    again = convert_fx(other)
    held = io.BytesIO()
    torch.save(made.state_dict(), held)
    held.seek(0)
    again.load_state_dict(torch.load(held, weights_only=False))
    assert torch.equal(again(X), made(X))


def test_what_is_joined_has_one_scale():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.cat([self.a(x), self.b(x) * 1.0], 1), torch.cat([self.a(x), self.b(x)], 1)

    model, x = Joined().eval(), torch.rand(8, 4)
    observed = prepare_fx(model, MAPPING, (x,))
    observed(x)
    made = convert_fx(observed)
    assert made.a.scale == made.b.scale
    for got, wanted in zip(made(x), model(x)):
        assert ((got - wanted).abs() < 0.05).all()


def test_parts_may_stay_as_they_are():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2), nn.GELU()).eval(), torch.rand(8, 4)
    mapping = get_default_qconfig_mapping("qnnpack").set_module_name("2", None)
    observed = prepare_fx(model, mapping, (x,))
    observed(x)
    made = convert_fx(observed)
    assert "quantized" in type(made.get_submodule("0")).__module__ and type(made.get_submodule("2")) is nn.Linear
    assert ((made(x) - model(x)).abs() < 0.05).all()
    dynamic = convert_fx(prepare_fx(model, QConfigMapping().set_global(default_dynamic_qconfig), (x,)))
    assert "dynamic" in type(dynamic.get_submodule("2")).__module__
    assert ((dynamic(x) - model(x)).abs() < 0.05).all()


def test_training_with_rounded_values():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).train()
    observed = prepare_qat_fx(model, get_default_qat_qconfig_mapping("qnnpack"), (X,))
    optimizer = torch.optim.SGD(observed.parameters(), 0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = observed(X).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    trained = observed.eval()(X)
    made = convert_fx(observed)
    assert kinds(made)["0"] == "ConvReLU2d" and "1" not in kinds(made)
    assert ((made(X) - trained).abs() < 0.1).all()


def test_what_is_not_there_is_refused():
    with pytest.raises(AssertionError, match="eval mode"):
        prepare_fx(nn.Sequential(nn.Linear(2, 2)), MAPPING, (torch.ones(1, 2),))
    with pytest.raises(AssertionError, match="train mode"):
        prepare_qat_fx(nn.Sequential(nn.Linear(2, 2)).eval(), MAPPING, (torch.ones(1, 2),))
    with pytest.raises(NotImplementedError, match="backend_config"):
        prepare_fx(nn.Sequential(nn.Linear(2, 2)).eval(), MAPPING, (torch.ones(1, 2),), backend_config={"a": 1})


def test_what_is_traced_already_is_fused():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval())
    assert [type(m) for m in quantize_fx._fuse_fx(traced, False).children()] == [torch.ao.nn.intrinsic.LinearReLU]


class Clipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.r, self.p, self.d, self.l = (
            nn.Conv2d(1, 2, 3),
            nn.ReLU6(),
            nn.MaxPool2d(2),
            nn.Dropout(0.1),
            nn.Linear(2, 3),
        )

    def forward(self, x):
        x = self.p(self.r(self.c(x))).mean((2, 3))
        return self.l(torch.relu(self.d(x)))


def test_what_keeps_a_scale_has_the_observer_of_its_input():
    prepared = prepare_qat_fx(Clipped().train(), get_default_qat_qconfig_mapping("qnnpack"), (torch.ones(1, 1, 8, 8),))
    names = [str(n.target) for n in prepared.graph.nodes if "post_process" in str(n.target)]
    assert names == [f"activation_post_process_{i}" for i in range(8)]
    found = [getattr(prepared, name) for name in names]
    # the input | conv, clipped, pooled, averaged | dropped, then without negative ones | the linear layer
    assert [found.index(o) for o in found] == [0, 1, 1, 1, 1, 5, 5, 7]
    x = torch.rand(4, 1, 8, 8)
    prepared(x)
    want = prepared.eval()(x)
    torch.testing.assert_close(convert_fx(prepared)(x), want, atol=0.1, rtol=0.1)


def test_quantized_numbers_are_clipped():
    x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.5, 7.0]), 0.5, 20, torch.quint8)
    made = nn.functional.relu6(x)
    assert made.q_scale() == 0.5 and made.dequantize().tolist() == [0.0, 0.5, 6.0]


def test_the_older_place():
    from flambeau.quantization import observer
    from flambeau.quantization import quantize_fx as older

    assert older.prepare_fx is prepare_fx and observer.MinMaxObserver is torch.ao.quantization.MinMaxObserver

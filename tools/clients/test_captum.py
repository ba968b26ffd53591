"""captum: attributions by gradients, perturbations and layers, their sums, and measures of how good they are."""

import pytest
import torch
from captum import attr
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.relu2 = nn.ReLU()
        self.first = nn.Linear(3 * 4 * 4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x):
        x = self.pool(self.relu(self.conv(x))).flatten(1)
        return self.second(self.relu2(self.first(x)))


@pytest.fixture
def setting():
    torch.manual_seed(0)
    return Net().eval(), torch.randn(2, 1, 8, 8)


WHOLE = {
    "saliency": lambda m: attr.Saliency(m), "input_x_gradient": lambda m: attr.InputXGradient(m),
    "deconvolution": lambda m: attr.Deconvolution(m), "guided": lambda m: attr.GuidedBackprop(m),
    "lrp": lambda m: attr.LRP(m),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_gradients(name, setting, record_property):
    model, x = setting
    made = WHOLE[name](model).attribute(x, target=1)
    record_property("attribution", made.flatten().tolist()[:40])
    assert made.shape == x.shape


@pytest.mark.parametrize("method", ["gausslegendre", "riemann_trapezoid", "riemann_left"])
def test_integrated_gradients(method, setting, record_property):
    model, x = setting
    made, delta = attr.IntegratedGradients(model).attribute(
        x, torch.zeros_like(x), target=torch.tensor([0, 2]), method=method, n_steps=20, return_convergence_delta=True
    )
    record_property("attribution", made.flatten().tolist()[:40])
    record_property("delta", delta.tolist())


def test_deep_lift_is_complete(setting, record_property):
    model, x = setting
    made, delta = attr.DeepLift(model).attribute(x, target=0, return_convergence_delta=True)
    record_property("attribution", made.flatten().tolist()[:40])
    assert delta.abs().max() < 1e-4


def test_shap(setting, record_property):
    model, x = setting
    base = torch.randn(4, 1, 8, 8)
    record_property(
        "gradient", attr.GradientShap(model).attribute(x, base, n_samples=4, target=0).flatten().tolist()[:40]
    )
    record_property("deep", attr.DeepLiftShap(model).attribute(x, base, target=0).flatten().tolist()[:40])


def test_perturbations(setting, record_property):
    model, x = setting
    groups = torch.arange(16).reshape(1, 1, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)
    record_property(
        "ablation", attr.FeatureAblation(model).attribute(x, target=0, feature_mask=groups).flatten().tolist()[:20]
    )
    record_property(
        "shapley",
        attr.ShapleyValueSampling(model)
        .attribute(x, target=0, feature_mask=groups, n_samples=3)
        .flatten()
        .tolist()[:20],
    )
    record_property(
        "occlusion",
        attr.Occlusion(model)
        .attribute(x, target=0, sliding_window_shapes=(1, 4, 4), strides=(1, 2, 2))
        .flatten()
        .tolist()[:20],
    )
    record_property(
        "permutation",
        attr.FeaturePermutation(model).attribute(x, target=0, feature_mask=groups).flatten().tolist()[:20],
    )


def test_layers(setting, record_property):
    model, x = setting
    record_property("activation", attr.LayerActivation(model, model.conv).attribute(x).flatten().tolist()[:20])
    record_property(
        "grad_x_act", attr.LayerGradientXActivation(model, model.first).attribute(x, target=0).flatten().tolist()
    )
    record_property(
        "conductance", attr.LayerConductance(model, model.first).attribute(x, target=0, n_steps=10).flatten().tolist()
    )
    cam = attr.LayerGradCam(model, model.conv).attribute(x, target=0)
    record_property("cam", attr.LayerAttribution.interpolate(cam, (16, 16)).flatten().tolist()[:20])
    record_property("guided_cam", attr.GuidedGradCam(model, model.conv).attribute(x, target=0).flatten().tolist()[:20])
    record_property(
        "internal", attr.InternalInfluence(model, model.first).attribute(x, target=0, n_steps=5).flatten().tolist()
    )
    record_property(
        "layer_ig",
        attr.LayerIntegratedGradients(model, model.first).attribute(x, target=0, n_steps=5).flatten().tolist(),
    )
    record_property("layer_lift", attr.LayerDeepLift(model, model.first).attribute(x, target=0).flatten().tolist())


def test_neurons(setting, record_property):
    model, x = setting
    record_property("gradient", attr.NeuronGradient(model, model.first).attribute(x, 2).flatten().tolist()[:20])
    record_property(
        "conductance",
        attr.NeuronConductance(model, model.first).attribute(x, 1, target=0, n_steps=5).flatten().tolist()[:20],
    )
    record_property("lift", attr.NeuronDeepLift(model, model.first).attribute(x, 3).flatten().tolist()[:20])


def test_noise_tunnel(setting, record_property):
    model, x = setting
    made = attr.NoiseTunnel(attr.Saliency(model)).attribute(
        x, nt_type="smoothgrad_sq", nt_samples=3, stdevs=0.1, target=0
    )
    record_property("smooth", made.flatten().tolist()[:20])


def test_several_inputs(record_property):
    torch.manual_seed(0)
    layer = nn.Bilinear(3, 4, 2)
    a, b = torch.randn(5, 3), torch.randn(5, 4)
    one, two = attr.IntegratedGradients(layer).attribute((a, b), target=1, n_steps=10)
    record_property("one", one.flatten().tolist())
    record_property("two", two.flatten().tolist())


def test_embeddings(record_property):
    torch.manual_seed(0)

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

        def forward(self, ids):
            return self.head(self.embedding(ids).mean(1).tanh())

    model, ids = Text(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    made = attr.LayerIntegratedGradients(model, model.embedding).attribute(
        ids, torch.zeros_like(ids), target=0, n_steps=10
    )
    record_property("tokens", made.sum(-1).flatten().tolist())


def test_lime(record_property):
    torch.manual_seed(0)
    model, x = nn.Linear(6, 1), torch.randn(1, 6)
    made = attr.KernelShap(model).attribute(x, n_samples=60)
    torch.testing.assert_close(made, model.weight * x, atol=1e-2, rtol=1e-2)


def test_concepts_and_metrics(setting, record_property):
    from captum.metrics import infidelity, sensitivity_max

    model, x = setting
    saliency = attr.Saliency(model)

    def noise(inputs):
        shift = torch.randn_like(inputs) * 0.01
        return shift, inputs - shift

    record_property("infidelity", infidelity(model, noise, x, saliency.attribute(x, target=0), target=0).tolist())
    record_property("sensitivity", sensitivity_max(saliency.attribute, x, target=0, n_perturb_samples=3).tolist())


def test_robustness(setting, record_property):
    from captum.robust import FGSM, PGD

    model, x = setting
    record_property("fgsm", FGSM(model).perturb(x, 0.1, torch.tensor([0, 1])).flatten().tolist()[:20])
    record_property("pgd", PGD(model).perturb(x, 0.2, 0.05, 3, torch.tensor([0, 1])).flatten().tolist()[:20])

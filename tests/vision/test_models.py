"""Models: architectures by their parameter counts and names, initial weights and outputs of a seed, weights from files."""

import pytest

import flambeau as torch
from flambeau.vision import models

# entries of the state dict, sum of all absolute values after manual_seed(0), and outputs for the next random images
KNOWN = [
    ("resnet18", 122, 240662.115, [0.65446, 0.80941, -0.5719]),
    ("squeezenet1_1", 52, 54056.9893, [0.17777, 0.13484, 0.16653]),
    ("mobilenet_v3_small", 244, 98446.5448, None),
    ("shufflenet_v2_x0_5", 338, 40239.6259, [0.02814, -0.01671, -0.00838]),
    ("efficientnet_b0", 360, 320276.4761, None),
    ("mnasnet0_5", 314, 119669.1664, None),
]


@pytest.mark.slow
def test_every_model_has_the_published_number_of_parameters():
    wrong = []
    with torch.device("meta"):
        for name in models.list_models():
            options = {}
            if name in ("googlenet", "inception_v3") or name.startswith("vgg"):
                options["init_weights"] = False
            if name == "googlenet":
                options["aux_logits"] = False  # they are not counted
            weights = next(iter(models.get_model_weights(name)))
            if name.startswith("vit"):
                options["image_size"] = weights.meta["min_size"][0]
            count = sum(p.numel() for p in models.get_model(name, **options).parameters())
            if count != weights.meta["num_params"]:
                wrong.append((name, count, weights.meta["num_params"]))
    assert not wrong
    assert len(models.list_models()) == 58


@pytest.mark.parametrize("name, entries, total, outputs", KNOWN)
def test_a_seed_gives_the_same_model(name, entries, total, outputs):
    torch.manual_seed(0)
    model = models.get_model(name)
    state = model.state_dict()
    assert len(state) == entries
    assert sum(float(t.double().abs().sum()) for t in state.values()) == pytest.approx(total, rel=1e-6)
    images = torch.randn(2, 3, 64, 64)
    out = model.eval()(images)
    assert out.shape == (2, 1000)
    if outputs:
        assert out[1, :3].tolist() == pytest.approx(outputs, abs=2e-4)


@pytest.mark.slow
def test_vision_transformer():
    torch.manual_seed(0)
    model = models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10, representation_size=16)
    torch.nn.init.normal_(model.heads.head.weight)
    out = model.eval()(torch.randn(2, 3, 32, 32))
    assert out[1, :4].tolist() == pytest.approx([2.28662, 4.37112, 5.36795, 2.65329], abs=1e-3)
    out.sum().backward()
    assert model.class_token.grad is not None
    with pytest.raises(AssertionError, match="height"):
        model(torch.zeros(1, 3, 16, 32))


def test_interpolated_embeddings():
    from flambeau.vision.models.vision_transformer import interpolate_embeddings

    small = models.VisionTransformer(16, 8, 1, 2, 8, 8, num_classes=2)
    large = models.VisionTransformer(32, 8, 1, 2, 8, 8, num_classes=2)
    large.load_state_dict(interpolate_embeddings(32, 8, small.state_dict()))
    assert torch.equal(large.encoder.pos_embedding[:, 0], small.encoder.pos_embedding[:, 0])


def test_small_densenet_and_its_checkpointing():
    torch.manual_seed(0)
    model = models.DenseNet(8, (2, 2), 16, num_classes=5)
    out = model.eval()(torch.randn(2, 3, 32, 32))
    assert out[0].tolist() == pytest.approx([-0.5586, -0.50683, 1.86571, 0.46143, 0.60669], abs=1e-4)
    frugal = models.DenseNet(8, (2, 2), 16, num_classes=5, memory_efficient=True)
    frugal.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 32, 32, requires_grad=True)
    gradients = [torch.autograd.grad(m.eval()(x).sum(), x)[0] for m in (model, frugal)]
    assert torch.allclose(*gradients, atol=1e-5)


def test_auxiliary_outputs_while_training():
    model = models.googlenet(num_classes=3, init_weights=False)
    out = model(torch.randn(2, 3, 32, 32))
    assert [t.shape for t in (out.logits, out.aux_logits1, out.aux_logits2)] == [(2, 3)] * 3
    assert model.eval()(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    with pytest.warns(FutureWarning, match="init_weights"), torch.device("meta"):
        models.googlenet()


def test_residual_options():
    zero = models.resnet18(zero_init_residual=True, num_classes=2)
    assert not zero.layer1[0].bn2.weight.any()
    with torch.device("meta"):
        dilated = models.resnet50(replace_stride_with_dilation=[False, True, True])
    assert dilated.layer4[2].conv2.dilation == (4, 4)
    with pytest.raises(ValueError, match="3-element"):
        models.resnet18(replace_stride_with_dilation=[True])
    with pytest.raises(NotImplementedError, match="Dilation"):
        models.resnet18(replace_stride_with_dilation=[True, False, False])


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def downloads(tmp_path):
    before = torch.hub.get_dir()
    torch.hub.set_dir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    yield tmp_path / "checkpoints"
    torch.hub.set_dir(before)


def test_weights_from_a_file(downloads):
    model = models.squeezenet1_1()
    torch.save(model.state_dict(), downloads / "squeezenet1_1-b8a52dc0.pth")
    for weights in ("DEFAULT", "IMAGENET1K_V1", models.SqueezeNet1_1_Weights.IMAGENET1K_V1):
        loaded = models.squeezenet1_1(weights=weights)
        assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values()))
    with pytest.warns(UserWarning, match="deprecated"):
        models.squeezenet1_1(pretrained=True)
    with pytest.raises(ValueError, match="num_classes"):
        models.squeezenet1_1(weights="DEFAULT", num_classes=5)


def test_old_names_in_densenet_files(downloads):
    from flambeau.vision.models.densenet import _renamed

    keys = ["features.denseblock1.denselayer2.norm.1.weight", "features.denseblock1.denselayer12.conv.2.weight"]
    assert list(_renamed(dict.fromkeys(keys))) == [
        "features.denseblock1.denselayer2.norm1.weight",
        "features.denseblock1.denselayer12.conv2.weight",
    ]
    assert list(_renamed({"features.norm5.weight": 0})) == ["features.norm5.weight"]


def test_a_hostile_file_is_not_executed(downloads):
    import pickle

    class Evil:
        def __reduce__(self):
            return exec, ("raise SystemExit",)

    (downloads / "squeezenet1_0-b66bff10.pth").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        models.squeezenet1_0(weights="DEFAULT")


def test_missing_weights_are_named(downloads, monkeypatch, capsys):
    from urllib.error import URLError

    import flambeau.hub

    def unreachable(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.setattr(flambeau.hub, "urlopen", unreachable)
    with pytest.raises(RuntimeError, match=r"ResNet18_Weights.IMAGENET1K_V1.*resnet18-f37072fd.pth.*put it there"):
        models.resnet18(weights="DEFAULT")


def test_weights_enums():
    weights = models.ResNet50_Weights
    assert weights.DEFAULT is weights.IMAGENET1K_V2
    assert weights.DEFAULT.url.endswith("/resnet50-11ad3fa6.pth")
    assert weights.DEFAULT.meta["categories"][207] == "golden retriever"
    assert len(set(weights.DEFAULT.meta["categories"])) >= 998
    assert weights.DEFAULT.transforms().resize_size == [232]
    assert models.get_weight("ResNet50_Weights.DEFAULT") is weights.DEFAULT
    assert models.get_model_weights("resnet50") is models.get_model_weights(models.resnet50) is weights
    assert weights.verify("ResNet50_Weights.IMAGENET1K_V1") is weights.IMAGENET1K_V1
    assert models.ViT_H_14_Weights.DEFAULT.name == "IMAGENET1K_SWAG_E2E_V1"
    with pytest.raises(TypeError, match="expected ResNet50_Weights"):
        models.resnet50(weights=models.ResNet18_Weights.DEFAULT)
    with pytest.raises(ValueError, match="retrieved"):
        models.get_weight("Nothing_Weights.DEFAULT")
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("resnet19")


def test_lists_of_models():
    assert models.list_models(include=["vgg*"], exclude="*_bn") == ["vgg11", "vgg13", "vgg16", "vgg19"]
    assert models.list_models(models) == models.list_models()


def test_preset():
    preset = models.ResNet18_Weights.DEFAULT.transforms()
    out = preset(torch.full((3, 300, 400), 128, dtype=torch.uint8))
    assert out.shape == (3, 224, 224)
    assert out[:, 0, 0].tolist() == pytest.approx(
        [(128 / 255 - m) / s for m, s in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))], abs=1e-5
    )


@pytest.mark.parametrize(
    "name", ["alexnet", "squeezenet1_0", "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "resnet18"]
)
def test_models_are_traced_by_fx(name):
    model = getattr(models, name)(num_classes=3).eval()
    traced, x = torch.fx.symbolic_trace(model), torch.ones(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(traced(x), model(x))


def test_shortcuts_come_last():
    """Hooks and fx graphs see a block's shortcut after its convolutions, as torchvision has them."""
    called = []
    block = models.resnet.BasicBlock(2, 3, 2, torch.nn.Conv2d(2, 3, 1, 2))
    for name, module in block.named_children():
        module.register_forward_hook(lambda *_, name=name: called.append(name))
    block(torch.zeros(1, 2, 4, 4))
    assert called == ["conv1", "bn1", "relu", "conv2", "bn2", "downsample", "relu"]


def test_layers_between_are_returned():
    from flambeau.vision.models._utils import IntermediateLayerGetter
    from flambeau.vision.models.shufflenetv2 import channel_shuffle

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1), torch.nn.Tanh())
    getter = IntermediateLayerGetter(model, {"2": "score", "0": "hidden"})
    assert list(getter.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"] and len(getter) == 3
    x = torch.ones(1, 2)
    out = getter(x)
    assert list(out) == ["hidden", "score"] and out["score"].equal(model[:3](x)) and out["hidden"].equal(model[0](x))
    with pytest.raises(ValueError, match="return_layers are not present in model"):
        IntermediateLayerGetter(model, {"9": "x"})
    assert channel_shuffle(torch.arange(4.0).reshape(1, 4, 1, 1), 2).flatten().tolist() == [0, 2, 1, 3]

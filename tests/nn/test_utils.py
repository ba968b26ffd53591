"""`nn.utils`: clipping, parametrizations, weight and spectral norm, pruning, fusion, vectors, formats."""

import copy
import math
import pickle

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import utils
from flambeau.nn.modules.utils import (
    _list_with_default,
    _ntuple,
    _pair,
    _reverse_repeat_tuple,
    consume_prefix_in_state_dict_if_present,
)
from flambeau.nn.utils import parametrizations, parametrize, prune


def parameters(*dtypes):
    made = []
    for i, dtype in enumerate(dtypes or (torch.float32,) * 3):
        p = nn.Parameter(torch.arange(1.0, 4 + i).to(dtype))
        p.grad = torch.arange(1.0, 4 + i).to(dtype) * (i + 1)
        made.append(p)
    return made


# -- clipping ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order, expected", [(2.0, math.sqrt(629)), (1, 71), (math.inf, 15), (0.5, 748.4066), (0, 3)])
def test_clip_grad_norm(order, expected):
    ps = parameters()
    before = torch.cat([p.grad for p in ps])
    total = utils.clip_grad_norm_(iter(ps), 1.0, order)
    assert total.item() == pytest.approx(expected, rel=1e-5)
    after = torch.cat([p.grad for p in ps])
    assert torch.allclose(after, before / (total + 1e-6), rtol=1e-5)


def test_clip_grad_norm_leaves_small_gradients():
    p = parameters()[0]
    before = p.grad.clone()
    assert utils.clip_grad_norm_(p, 100.0).item() == pytest.approx(math.sqrt(14), rel=1e-6)
    assert torch.equal(p.grad, before)
    assert (
        utils.clip_grad_norm_([], 1).item() == 0 and utils.clip_grad_norm_([nn.Parameter(torch.ones(1))], 1).item() == 0
    )


def test_clip_grad_norm_dtypes_and_extremes():
    ps = parameters(torch.float32, torch.float64, torch.bfloat16)
    assert utils.clip_grad_norm_(ps, 1.0).dtype is torch.float64
    assert [p.grad.dtype for p in ps] == [torch.float32, torch.float64, torch.bfloat16]
    assert utils.clip_grad_norm_(parameters(torch.bfloat16), 1.0).dtype is torch.bfloat16
    for value in (1e25, 1e-25):  # their squares do not fit
        assert utils.get_total_norm([torch.full((4,), value)]).item() == pytest.approx(2 * value, rel=1e-6)
    strided = torch.ones(4, 4)[:, ::2]
    assert utils.get_total_norm([strided, torch.ones(1, requires_grad=True)]).item() == 3


def test_clip_grad_norm_not_finite():
    p = parameters()[0]
    p.grad[0] = math.nan
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert math.isnan(utils.clip_grad_norm_(p, 1.0).item()) and p.grad.isnan().all()


def test_clip_by_value_and_given_norm():
    p = parameters()[0]
    utils.clip_grads_with_norm_(p, 1.0, torch.tensor(2.0))
    assert torch.allclose(p.grad, torch.tensor([0.5, 1.0, 1.5]))
    utils.clip_grad_value_([p], 0.75)
    assert p.grad.tolist() == pytest.approx([0.5, 0.75, 0.75])
    with pytest.warns(FutureWarning):
        utils.clip_grad_norm([p], 1.0)


def test_vectors():
    ps = parameters()
    vector = utils.parameters_to_vector(ps)
    assert vector.shape == (12,) and vector.requires_grad
    utils.vector_to_parameters(torch.arange(12.0), ps)
    assert ps[1].tolist() == [3, 4, 5, 6] and isinstance(ps[1], nn.Parameter)
    with pytest.raises(TypeError):
        utils.vector_to_parameters([1], ps)


# -- parametrizations --------------------------------------------------------------------------------------------


class Double(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Halves(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x / 2, x / 2


def test_parametrization():
    layer = nn.Linear(2, 3)
    weight = layer.weight.detach().clone()
    assert parametrize.register_parametrization(layer, "weight", Double()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer) and not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert torch.equal(layer.weight, weight) and "weight" not in layer._parameters
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[2, 2]] * 3
    layer.weight = torch.ones(3, 2)
    assert layer.parametrizations.weight.original.tolist() == [[0.5, 0.5]] * 3
    parametrize.register_parametrization(layer, "weight", Double())
    assert layer.weight.tolist() == [[2, 2]] * 3 and len(layer.parametrizations.weight) == 2
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == [[2, 2]] * 3
    assert list(layer.state_dict()) == ["bias", "weight"]


def test_parametrization_by_several_tensors():
    layer = parametrize.register_parametrization(nn.Linear(2, 3), "weight", Halves())
    assert [n for n, _ in layer.named_parameters()][1:] == [f"parametrizations.weight.original{i}" for i in range(2)]
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and torch.equal(layer.weight, value)


def test_parametrized_buffers_and_originals():
    m = nn.Module()
    m.register_buffer("b", torch.ones(2))
    parametrize.register_parametrization(m, "b", Double())
    assert [n for n, _ in m.named_buffers()] == ["parametrizations.b.original"]
    parametrize.remove_parametrizations(m, "b", leave_parametrized=False)
    assert m.b.tolist() == [0.5, 0.5] and "b" in m._buffers


def test_parametrization_cache_and_copies():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    twin = copy.deepcopy(layer)
    assert torch.equal(twin.weight, layer.weight) and twin.parametrizations is not layer.parametrizations
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        layer.weight = torch.ones(3, 3)
    other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(3, 3))
    assert torch.equal(other.weight, layer.weight)


def test_parametrization_errors():
    def broken(result, inverse=None):
        class Broken(nn.Module):
            def forward(self, x):
                return result(x)

        if inverse:
            Broken.right_inverse = lambda self, x: inverse(x)
        return Broken()

    for module, text in [
        (broken(lambda x: x.sum()), "may not change the shape"),
        (broken(lambda x: x.double()), "may not change the dtype"),
        (broken(lambda x: 3), "must return a tensor"),
    ]:
        for layer in (nn.Linear(2, 3), parametrize.register_parametrization(nn.Linear(2, 3), "weight", Double())):
            with pytest.raises(ValueError, match=text):
                parametrize.register_parametrization(layer, "weight", module)
    parametrize.register_parametrization(nn.Linear(2, 3), "weight", broken(lambda x: x.sum()), unsafe=True)
    with pytest.raises(ValueError, match="may not change the dtype"):
        inverse = broken(lambda x: x.float(), lambda x: x.double())
        parametrize.register_parametrization(nn.Linear(2, 3), "weight", inverse)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(nn.Linear(2, 3), "absent", Double())
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(nn.Linear(2, 3), "weight")


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_orthogonal(kind, shape):
    layer = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)

    def orthogonal(w):
        w = w if w.shape[0] >= w.shape[1] else w.mT
        return torch.allclose(w.mT @ w, torch.eye(w.shape[1]), atol=1e-5)

    assert orthogonal(layer.weight)
    layer.weight.sum().backward()
    original = layer.parametrizations.weight.original
    with torch.no_grad():
        original -= 0.1 * original.grad
    assert orthogonal(layer.weight) and original.grad.abs().sum() > 0
    target = nn.init.orthogonal_(torch.empty(layer.weight.shape))
    layer.weight = target
    assert orthogonal(layer.weight)
    if shape[0] == shape[1]:
        assert torch.allclose(layer.weight, target, atol=1e-5)


def test_orthogonal_errors():
    for action in (
        lambda: parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="other"),
        lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"),
        lambda: parametrizations.orthogonal(nn.Linear(2, 2), "absent"),
    ):
        with pytest.raises(ValueError):
            action()
    layer = parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError):
        layer.weight = torch.eye(2)


def test_weight_norm():
    plain = nn.Linear(4, 3)
    new = parametrizations.weight_norm(copy.deepcopy(plain))
    with pytest.warns(FutureWarning):
        old = utils.weight_norm(copy.deepcopy(plain))
    x = torch.randn(2, 4)
    assert torch.allclose(new(x), plain(x), atol=1e-6) and torch.allclose(old(x), plain(x), atol=1e-6)
    assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"] and old.weight_g.shape == (3, 1)
    with torch.no_grad():
        old.weight_g.mul_(2)
    assert torch.allclose(old(x) - old.bias, 2 * (plain(x) - plain.bias), atol=1e-5)
    new.load_state_dict(old.state_dict())  # the names of the older form
    assert torch.allclose(new(x), old(x), atol=1e-6)
    old(x).sum().backward()
    assert old.weight_v.grad is not None
    with pytest.raises(RuntimeError, match="two weight_norm hooks"), pytest.warns(FutureWarning):
        utils.weight_norm(old)
    utils.remove_weight_norm(old)
    assert list(old.state_dict()) == ["bias", "weight"] and torch.allclose(new(x), old(x), atol=1e-6)
    with pytest.raises(ValueError, match="not found"):
        utils.remove_weight_norm(old)


def test_spectral_norm():
    layer = parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=50)
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, rel=1e-4)
    old = utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=50)
    old(torch.ones(1, 4)).sum().backward()
    assert torch.linalg.matrix_norm(old.weight, 2).item() == pytest.approx(1, rel=1e-4)
    assert (
        list(old.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"] and old.weight_orig.grad is not None
    )
    assert old.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    old.load_state_dict(old.state_dict())
    value = old.eval()(torch.ones(1, 4))
    utils.remove_spectral_norm(old)
    assert list(old.state_dict()) == ["bias", "weight"] and torch.allclose(old(torch.ones(1, 4)), value, atol=1e-6)
    assert not old._state_dict_hooks and not old._load_state_dict_pre_hooks
    transposed = parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 3))
    assert transposed.parametrizations.weight[0]._u.shape == (3,)
    assert parametrizations.spectral_norm(nn.Linear(2, 3), "bias").bias.norm().item() == pytest.approx(1, rel=1e-5)
    with pytest.raises(ValueError, match="positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=5)


# -- pruning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, left",
    [
        (lambda m: prune.l1_unstructured(m, "weight", 0.5), 6),
        (lambda m: prune.l1_unstructured(m, "weight", 5), 7),
        (lambda m: prune.random_unstructured(m, "weight", 0.25), 9),
        (lambda m: prune.random_structured(m, "weight", 0.5, dim=1), 6),
        (lambda m: prune.ln_structured(m, "weight", 1, n=2, dim=0), 8),
        (lambda m: prune.custom_from_mask(m, "weight", torch.eye(3, 4)), 3),
        (lambda m: prune.identity(m, "weight"), 12),
    ],
)
def test_pruning(method, left):
    layer = nn.Linear(4, 3)
    original = layer.weight
    assert method(layer) is layer and prune.is_pruned(nn.Sequential(layer))
    assert int(layer.weight_mask.sum()) == left and list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert layer.weight_orig is original and torch.equal(layer.weight, original * layer.weight_mask)
    layer(torch.ones(1, 4)).sum().backward()
    assert torch.equal(layer.weight_orig.grad, layer.weight_mask)
    prune.l1_unstructured(layer, "weight", 2)  # of what is left
    assert int(layer.weight_mask.sum()) == left - 2 and len(layer._forward_pre_hooks) == 1
    prune.remove(layer, "weight")
    assert layer.weight is original and int((original != 0).sum()) == left - 2 and not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer, "weight")


def test_pruning_of_several_together():
    a, b = nn.Linear(4, 3), nn.Linear(3, 2)
    scores = {(a, "weight"): torch.arange(12.0).view(3, 4), (b, "weight"): torch.arange(12.0, 18.0).view(2, 3)}
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, importance_scores=scores, amount=13)
    assert a.weight_mask.sum() == 0 and b.weight_mask.tolist() == [[0, 1, 1], [1, 1, 1]]
    assert prune.L1Unstructured(2).prune(torch.tensor([1.0, -2.0, 3.0, -4.0])).tolist() == [0, 0, 3, -4]


@pytest.mark.parametrize(
    "action, error",
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError),
        (lambda m: prune.l1_unstructured(m, "weight", 100), ValueError),
        (lambda m: prune.l1_unstructured(m, "weight", "a"), TypeError),
        (lambda m: prune.random_structured(m, "weight", 1, dim=5), IndexError),
        (lambda m: prune.random_structured(m, "bias", 1, dim=0), ValueError),
        (lambda m: prune.l1_unstructured(m, "absent", 1), AttributeError),
    ],
)
def test_pruning_errors_leave_the_module_alone(action, error):
    layer = nn.Linear(4, 3)
    with pytest.raises(error):
        action(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"] and not layer._forward_pre_hooks


# -- the rest ----------------------------------------------------------------------------------------------------


def _normal(bn):
    with torch.no_grad():
        bn.running_mean.normal_()
        bn.running_var.uniform_(1, 2)
        bn.weight.normal_()
        bn.bias.normal_()
    return bn.eval()


@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_fusion(kind):
    if kind == "linear":
        layer, bn, x = nn.Linear(2, 3, bias=False).eval(), _normal(nn.BatchNorm1d(3)), torch.randn(4, 2)
        fused = utils.fuse_linear_bn_eval(layer, bn)
    else:
        made = nn.ConvTranspose2d if kind == "transposed" else nn.Conv2d
        layer, bn, x = made(2, 3, 3).eval(), _normal(nn.BatchNorm2d(3)), torch.randn(1, 2, 5, 5)
        fused = utils.fuse_conv_bn_eval(layer, bn, transpose=kind == "transposed")
    assert torch.allclose(fused(x), bn(layer(x)), atol=1e-5) and fused.weight is not layer.weight
    with pytest.raises(AssertionError, match="only for eval"):
        utils.fuse_conv_bn_eval(layer.train(), bn)


def test_formats_and_initialisation():
    m = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(2, 2))
    assert utils.convert_conv2d_weight_memory_format(m, torch.channels_last) is m
    assert m[0].weight.stride() == (18, 1, 6, 2)
    assert utils.skip_init(nn.Linear, 2, 3, dtype=torch.float64).weight.dtype is torch.float64
    with pytest.raises(RuntimeError, match="device"):
        utils.skip_init(nn.Identity)


def test_functional_call():
    layer = nn.Linear(2, 2)
    with pytest.warns(FutureWarning):
        out = utils.stateless.functional_call(layer, {"weight": torch.zeros(2, 2)}, torch.ones(1, 2))
    assert torch.equal(out[0], layer.bias)
    parametrized = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Double())
    out = torch.func.functional_call(
        parametrized, {"parametrizations.weight.original": torch.zeros(2, 2)}, torch.ones(1, 2)
    )
    assert torch.equal(out[0], parametrized.bias)


def test_block_with_other_parameters():
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight, values = m[0].weight, {"0.weight": torch.eye(2), "1.num_batches_tracked": torch.tensor(5)}
    with utils.stateless._reparametrize_module(m, values):
        assert m[0].weight is values["0.weight"]
        m(torch.ones(3, 2))
    assert values["1.num_batches_tracked"].item() == 6 and m[1].num_batches_tracked.item() == 0
    with pytest.raises(ZeroDivisionError), utils.stateless._reparametrize_module(m, values):
        raise ZeroDivisionError
    assert m[0].weight is weight


def test_helpers_of_layers():
    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _ntuple(3)("ab") == ("a", "b")
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert _list_with_default([None, 3], [5, 6, 7]) == [6, 3]
    with pytest.raises(ValueError):
        _list_with_default([None, 3], [5, 6])
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"] and list(state._metadata) == [""]


def test_functional_call_with_tied_weights():
    call = torch.func.functional_call
    m = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    m[1].weight = m[0].weight
    with torch.no_grad():
        m[0].weight.fill_(2.0)
    x, one = torch.ones(1, 2), torch.ones(2, 2)
    assert call(m, {"0.weight": one}, x).tolist() == call(m, {"1.weight": one}, x, strict=True).tolist() == [[4, 4]]
    assert call(m, {"0.weight": one}, x, tie_weights=False).tolist() == [[8, 8]]
    with pytest.raises(ValueError, match="tied"):
        call(m, {"0.weight": one, "1.weight": torch.zeros(2, 2)}, x)
    with pytest.raises(RuntimeError, match="reparametrizing"):
        call(m, {"unknown": one}, x, strict=True)
    assert m[0].weight is m[1].weight


def test_functional_call_gives_back_assigned_buffers():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self):
            self.count = self.count + 1

    m, values = Counter(), {"count": torch.zeros(1)}
    torch.func.functional_call(m, values)
    assert values["count"].item() == 1 and m.count.item() == 0


def test_gradients_of_convolutions():
    x, w = torch.randn(2, 4, 7, 7, requires_grad=True), torch.randn(6, 2, 3, 3, requires_grad=True)
    out = nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)
    g = torch.randn(out.shape)
    out.backward(g)
    grad = nn.grad
    assert torch.allclose(grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2), x.grad, atol=1e-5)
    assert torch.allclose(grad.conv2d_weight(x, w.shape, g, 2, 1, 1, 2), w.grad, atol=1e-5)
    (grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2) * 2).sum().backward(inputs=[w])
    assert grad.conv2d_input(x.shape, w.detach(), g, 2, 1, 1, 2).requires_grad is False
    assert w.grad.shape == w.shape, "the gradient by the input depends on the weight"


def test_factory_kwargs():
    made = nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.float64}})
    assert made == {"device": "cpu", "dtype": torch.float64} and nn.factory_kwargs(None) == {}
    for bad in ({"other": 1}, {"device": "cpu", "factory_kwargs": {"device": "cpu"}}):
        with pytest.raises(TypeError):
            nn.factory_kwargs(bad)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.full((2,), 3.0)
        self.inner = nn.Linear(2, 2)
        self.rate = 0.5

    def forward(self, x, *, shift=0.0):
        return self.inner(x) * self.factor + shift


def test_functional_call_replaces_what_is_no_parameter():
    m, x = Scaled(), torch.ones(1, 2)
    values = {"factor": torch.zeros(2), "inner.extra": nn.Parameter(torch.ones(1))}
    assert torch.func.functional_call(m, values, x, {"shift": 2.0}).tolist() == [[2.0, 2.0]]
    assert m.factor.tolist() == [3.0, 3.0] and not hasattr(m.inner, "extra")
    without = torch.func.functional_call(m, {"inner.bias": None, "inner.weight": torch.eye(2)}, x)
    assert without.tolist() == [[3.0, 3.0]] and m.inner.bias is not None
    seen = []
    m.register_forward_pre_hook(lambda module, args: seen.append(len(list(module.parameters()))))
    torch.func.functional_call(m, values, x)
    assert seen == [3]


def test_functional_call_says_what_it_cannot_replace():
    m, x = Scaled(), torch.ones(1, 2)
    before = dict(m.state_dict())
    with pytest.raises(TypeError, match=r"attribute `rate`: 0\.5 is not an instance of torch\.Tensor"):
        torch.func.functional_call(m, {"inner.weight": torch.eye(2), "rate": torch.ones(1)}, x)
    with pytest.raises(AttributeError, match="Scaled has no attribute `outer`"):
        torch.func.functional_call(m, {"inner.weight": torch.eye(2), "outer.bias": torch.ones(1)}, x)
    with pytest.raises(TypeError, match=r"5 is not an instance of torch\.Tensor"):
        torch.func.functional_call(m, {"inner.weight": 5}, x)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'factor'.\s+Missing key\(s\): 'inner.bias'"):
        torch.func.functional_call(m, {"inner.weight": torch.eye(2), "factor": torch.ones(2)}, x, strict=True)
    assert all(m.state_dict()[name] is not None and torch.equal(m.state_dict()[name], t) for name, t in before.items())


def test_functional_call_of_modules_that_hold_each_other():
    m, x = Scaled(), torch.ones(1, 2)
    m.inner.outer = m
    out = torch.func.functional_call(
        m, {"inner.outer.inner.weight": torch.eye(2), "inner.bias": torch.zeros(2)}, x, tie_weights=False
    )
    assert out.tolist() == [[3.0, 3.0]]


def test_spectral_norm_reads_states_of_its_first_version():
    kept = utils.spectral_norm(nn.Linear(3, 2))
    kept(torch.ones(1, 3))
    old = kept.state_dict()
    old._metadata = {"": {"version": 1}}
    old["weight"] = kept.weight.detach()
    del old["weight_v"]
    fresh = utils.spectral_norm(nn.Linear(3, 2))
    assert fresh.load_state_dict(old).missing_keys == []
    assert torch.equal(fresh.weight_u, kept.weight_u) and torch.equal(fresh.weight_orig, kept.weight_orig)
    stretch = (kept.weight_orig / kept.weight).mean()
    torch.testing.assert_close(fresh.weight_u @ fresh.weight_orig @ fresh.weight_v, stretch, rtol=1e-3, atol=1e-4)

    without = type(old)((key, value) for key, value in kept.state_dict().items() if key not in ("weight_u", "weight_v"))
    without["weight"] = kept.weight.detach()
    without._metadata = {"": {"version": 1}}
    found = utils.spectral_norm(nn.Linear(3, 2)).load_state_dict(without, strict=False)
    assert "weight_u" in found.missing_keys and found.unexpected_keys == ["weight"]

    plain = dict(kept.state_dict())  # no version is known, but all that is needed is there
    assert utils.spectral_norm(nn.Linear(3, 2)).load_state_dict(plain) == ([], [])
    again = utils.spectral_norm(nn.Linear(3, 2))
    again.load_state_dict({**plain, "weight_v": torch.zeros(3)})
    assert again.weight_v.tolist() == [0, 0, 0]  # taken as it is


@pytest.mark.parametrize(("reduction", "factor"), [("sum", 1), ("mean", 3)])
def test_gradients_of_every_sample(reduction, factor):
    from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads

    net = nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))
    x = torch.randn(3, 2, 4)
    out = call_for_per_sample_grads(net, loss_reduction=reduction)(x)
    torch.testing.assert_close(out, net(x))
    getattr(out.pow(2).sum(1), reduction)().backward()
    for i in range(3):
        wanted = torch.autograd.grad(net(x[i : i + 1]).pow(2).sum(), list(net.parameters()))
        torch.testing.assert_close([p.grad_sample[i] for p in net.parameters()], list(wanted))
    assert all(p.grad is None for p in net.parameters())
    with pytest.raises(RuntimeError, match="has per-sample gradients of an earlier call"):
        call_for_per_sample_grads(net)
    with pytest.raises(RuntimeError, match=r"must be nn\.Module"):
        call_for_per_sample_grads(3)
    pair = torch.nn.Bilinear(2, 2, 1)
    with pytest.raises(RuntimeError, match="found at least one input with batch size 4 and one with batch size 5"):
        call_for_per_sample_grads(pair)(torch.ones(4, 2), torch.ones(5, 2))
    with pytest.raises(RuntimeError, match="cannot compute the batch size"):
        call_for_per_sample_grads(pair)(1, 2)
    for size, text in ((6.4, "must be None or an integer"), (-64, "must be positive")):
        with pytest.raises(RuntimeError, match=text):
            call_for_per_sample_grads(pair, batch_size=size)

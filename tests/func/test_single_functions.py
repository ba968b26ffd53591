"""Functions that need their own answer inside `vmap`."""

import pytest

import flambeau as torch
from flambeau.func import functionalize, vmap


def test_samples_know_whether_they_are_contiguous():
    ask = lambda x: torch.tensor(float(x.is_contiguous()))
    assert vmap(vmap(ask))(torch.randn(3, 5, 2)).all() and vmap(vmap(ask), in_dims=1)(torch.randn(3, 5, 2)).all()
    assert not vmap(vmap(ask, in_dims=1))(torch.randn(3, 4, 5)).any() and not vmap(ask, 1)(torch.randn(2, 3, 7)).any()


def test_views_of_numbers_are_the_numbers():
    x = torch.rand(3)
    assert vmap(lambda x: x.transpose(0, -1))(x) is x


def test_squeezed_samples_are_views_of_the_batch():
    for shape, dims in (((1, 11, 1), 0), ((11, 1, 1), 2)):
        x = torch.rand(shape)
        made = vmap(vmap(torch.squeeze), in_dims=dims)(x)
        assert made.shape == (1, 11) and made._base is x
    x = torch.rand(1, 0, 1, 5, 1)
    assert vmap(torch.squeeze)(x).shape == (1, 0, 5) and vmap(torch.squeeze)(x)._base is x


def test_conjugates_stay_views():
    x = torch.tensor([1 + 1j, 2 + 1j])
    assert vmap(lambda x: x.conj())(x).is_conj() and vmap(lambda x: x.conj())(x).equal(x.conj())


def test_empty_vectors_join_anything():
    made = vmap(lambda *parts: torch.cat(parts, 0))(torch.rand(3, 0), torch.ones(3, 2, 2))
    assert made.equal(torch.ones(3, 2, 2))
    empty = torch.rand(3, 0, requires_grad=True)
    assert vmap(lambda x, y: torch.cat([x, y], 1), (None, 0))(torch.ones(2, 2), empty).requires_grad


def test_strides_of_new_samples():
    assert vmap(lambda x: x.new_empty_strided([2, 3], [0, 5]))(torch.rand(4)).stride() == (11, 0, 5)


@pytest.mark.parametrize(
    ("shape", "size", "stride", "offset"),
    [((5, 3), [3], [1], 1), ((5, 3, 5), [4, 4], [4, 1], 0), ((5, 0, 3), [3], [1], 0)],
)
def test_a_sample_cannot_reach_into_another(shape, size, stride, offset):
    with pytest.raises(RuntimeError, match="This is not supported inside of vmap"):
        vmap(lambda x: x.as_strided(size, stride, offset))(torch.rand(shape))


def test_refusals():
    x = torch.rand(3)
    with pytest.raises(RuntimeError, match="size and stride must have the same length"):
        vmap(lambda x: x.as_strided([1, 1], [1]))(torch.rand(3, 2))
    with pytest.raises(RuntimeError, match="Shape mismatch"):
        vmap(torch.mm)(torch.rand(3, 2), torch.rand(3, 2, 2))
    with pytest.raises(
        RuntimeError, match=r"not implemented for aten::abs\.out; the fallback path doesn't work on out="
    ):
        vmap(lambda x, y: torch.abs(x, out=y))(x, x.clone())
    with pytest.raises(RuntimeError, match=r"only supported with memory_format torch\.preserve_format"):
        vmap(lambda x: x.clone(memory_format=torch.channels_last))(x)
    with pytest.raises(RuntimeError, match="NYI: querying is_contiguous inside of vmap for memory_format"):
        vmap(lambda x: x.contiguous(memory_format=torch.channels_last))(x)
    with pytest.raises(RuntimeError, match="Attempted to vmap over aten::where"):
        vmap(lambda x: torch.where(x > 0))(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="Batching rule not implemented for aten::equal"):
        vmap(torch.equal)(x, x)
    with pytest.raises(RuntimeError, match="inplace"):
        vmap(torch.Tensor.copy_, in_dims=(None, 0))(x, torch.rand(2, 3))


def test_functionalized_writes_through_views_reach_the_input():
    def f(x):
        x.view(8).add_(1)
        return x

    x = torch.zeros(1, 4, 2)
    assert vmap(functionalize(f))(x).equal(torch.ones(1, 4, 2)) and x.equal(torch.ones(1, 4, 2))


def test_tensors_by_name_are_refused_by_functions_in_vmap():
    class Add(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, *, y):
            return x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        vmap(Add.apply)(torch.ones(3), y=torch.ones(3))


@pytest.mark.parametrize("use_tensor", [True, False])
def test_random_writes_by_probability(use_tensor):
    p = torch.tensor([[0.0, 1.0]] * 3)
    draw = lambda t, p, _: t.bernoulli_(p)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw, (None, 0, 0))(torch.rand(2), p, torch.ones(3))
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        vmap(draw, (None, 0, 0), randomness="same")(torch.rand(2), p, torch.ones(3))
    with pytest.raises(RuntimeError, match="more elements than `self`"):
        vmap(draw, (None, 0, 0), randomness="different")(torch.rand(2), p, torch.ones(3))
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(draw, (None, None, 0), randomness="different")(torch.rand(2), p[0] if use_tensor else 0.5, torch.ones(3))
    assert vmap(draw, randomness="different")(torch.rand(3, 2), p, torch.ones(3)).equal(p)
    assert vmap(draw, (0, None, 0), randomness="same")(torch.rand(3, 2), p[0], torch.ones(3)).equal(p)


def test_normal_numbers_of_batched_deviations():
    mean, std = torch.arange(3.0).unsqueeze(1).expand(3, 2), torch.zeros(3, 2)
    assert vmap(torch.normal, randomness="different")(mean, std).equal(mean)
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        vmap(torch.normal, randomness="same")(mean, std)
    for call in (torch.normal, vmap(torch.normal, randomness="different")):
        with pytest.raises(RuntimeError, match="all elements of std >= 0"):
            call(mean, std - 1)
    drawn = vmap(lambda x, _: torch.bernoulli(x, 0.5), (None, 0), randomness="different")(torch.ones(64), torch.ones(2))
    assert not drawn[0].equal(drawn[1])

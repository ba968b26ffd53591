"""Samples of different sizes."""

import copy
import io
import pickle
import pickletools
import zipfile

import pytest

import flambeau as torch
from flambeau import nested
from flambeau.nn import functional as F

a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_operations(layout):
    batch = nested.nested_tensor([a, b], layout=layout)
    assert batch.is_nested and batch.dim() == 3 and batch.size(0) == 2 and batch.size(2) == 3 and batch.layout is layout
    assert [tuple(t.shape) for t in batch.unbind()] == [(2, 3), (4, 3)] and batch[1].shape == (4, 3)
    assert torch.equal((batch + batch)[0], a + a) and torch.equal((batch * 2)[1], b * 2)
    assert torch.equal(torch.relu(batch - 3)[0], torch.relu(a - 3))
    assert torch.allclose(F.softmax(batch, -1)[0], F.softmax(a, -1)) and batch.transpose(1, 2)[0].shape == (3, 2)
    assert torch.equal(F.linear(batch, torch.ones(2, 3))[0], F.linear(a, torch.ones(2, 3)))
    padded = nested.to_padded_tensor(batch, -1.0)
    assert padded.shape == (2, 4, 3) and (padded[0, 2:] == -1).all() and torch.equal(padded[1], b)
    assert batch.to(torch.float64).dtype is torch.float64 and isinstance(batch, torch.Tensor)
    if layout is torch.jagged:
        assert batch.size(1) == "j1"  # a name for the size that differs
    else:
        with pytest.raises(RuntimeError, match="irregular"):
            batch.size(1)


def test_gradients():
    leaf = a.clone().requires_grad_()
    (nested.as_nested_tensor([leaf, b]) * 3).to_padded_tensor(0.0).sum().backward()
    assert torch.equal(leaf.grad, torch.full((2, 3), 3.0))
    batch = nested.nested_tensor([a, b], requires_grad=True)
    (batch * 2).to_padded_tensor(0.0).sum().backward()
    assert batch.requires_grad and torch.equal(batch.grad[1], torch.full((4, 3), 2.0))


def test_other_ways_to_make_one():
    jagged = nested.nested_tensor_from_jagged(torch.arange(10.0).view(5, 2), torch.tensor([0, 2, 5]))
    assert jagged[1].shape == (3, 2) and jagged.offsets().tolist() == [0, 2, 5] and jagged.values().shape == (5, 2)
    chosen = nested.masked_select(torch.arange(4.0).view(2, 2), torch.tensor([[True, False], [True, True]]))
    assert [t.tolist() for t in chosen.unbind()] == [[0], [2, 3]]
    parts = nested.narrow(torch.ones(2, 5), 1, torch.tensor([0, 1]), torch.tensor([2, 3]))
    assert [len(t) for t in parts.unbind()] == [2, 3]
    with pytest.raises(RuntimeError, match="same dimension"):
        nested.nested_tensor([a, torch.ones(1)])
    with pytest.raises(TypeError):
        nested.nested_tensor(3)


def _ragged(**options):
    parts = [torch.arange(6.0).reshape(2, 3), torch.arange(9.0).reshape(3, 3) + 1]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, **options)


@pytest.mark.parametrize(
    ("name", "dim", "expected"),
    [
        ("sum", None, 60.0), ("mean", None, 4.0), ("amax", None, 9.0), ("max", None, 9.0), ("prod", None, 0.0),
        ("all", None, False), ("argmax", None, 14), ("sum", 1, [[3, 5, 7], [12, 15, 18]]),
        ("mean", 1, [[1.5, 2.5, 3.5], [4, 5, 6]]), ("any", 1, [[True] * 3] * 2), ("sum", (0, 1), [15, 20, 25]),
        ("mean", (0, 1), [3, 4, 5]), ("amin", (0, 1), [0, 1, 2]), ("sum", (0, 1, 2), 60.0),
    ],
)  # fmt: skip
def test_reductions_over_the_ragged_dimension_are_plain(name, dim, expected):
    t = _ragged()
    made = getattr(t, name)() if dim is None else getattr(t, name)(dim)
    assert not made.is_nested and made.tolist() == expected


def test_reductions_of_samples():
    t = _ragged()
    assert [p.tolist() for p in t.sum(-1).unbind()] == [[3, 12], [6, 15, 24]]
    assert [p.tolist() for p in t.max(2).values.unbind()] == [[2, 5], [3, 6, 9]]
    assert t.max(1).values.tolist() == [[3, 4, 5], [7, 8, 9]]
    assert t.sum(1, keepdim=True).shape == (2, 1, 3)
    with pytest.raises(RuntimeError, match="batch dimension but not the ragged"):
        t.sum(0)
    with pytest.raises(RuntimeError, match="ragged and non-batch dimension"):
        t.sum((1, 2))


def test_gradient_of_the_sum_of_everything():
    t = _ragged(requires_grad=True)
    t.sum().backward()
    assert [p.tolist() for p in t.grad.unbind()] == [[[1.0] * 3] * 2, [[1.0] * 3] * 3]


def _rows():
    return torch.nested.nested_tensor(
        [torch.arange(6.0).reshape(3, 2), torch.arange(4.0).reshape(2, 2)], layout=torch.jagged
    )


def test_samples_one_after_another():
    assert [t.shape[0] for t in _rows()] == [3, 2]


def test_chunks_of_the_last_dimension_and_of_the_batch():
    first, second = _rows().chunk(2, -1)
    assert [t.tolist() for t in first] == [[[0.0], [2.0], [4.0]], [[0.0], [2.0]]]
    assert second.unbind()[1].tolist() == [[1.0], [3.0]]
    assert [part.size(0) for part in _rows().chunk(2)] == [1, 1]
    assert _rows().select(0, 1).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert [t.shape for t in _rows().split([1, 1], 2)[0]] == [(3, 1), (2, 1)]


def test_layer_norm_over_the_ragged_dimension():
    x = _rows()
    made = torch.nn.functional.layer_norm(x, x.shape[-2:])
    for part, sample in zip(made, x):
        assert torch.allclose(part, torch.nn.functional.layer_norm(sample, sample.shape))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_copies_and_files(layout):
    batch = nested.nested_tensor([a, b], layout=layout, requires_grad=True)
    file = io.BytesIO()
    torch.save({"batch": batch}, file)
    file.seek(0)
    for made in (
        torch.load(file, weights_only=layout is torch.strided)["batch"],
        copy.deepcopy(batch),
        pickle.loads(pickle.dumps(batch)),
    ):
        assert made.is_nested and made.layout is layout and made.requires_grad
        for ours, theirs in zip(made.unbind(), batch.unbind()):
            assert torch.equal(ours, theirs) and ours.data_ptr() != theirs.data_ptr()
    module = {"first": batch, "again": batch}
    copied = copy.deepcopy(module)
    assert copied["first"] is copied["again"] is not batch


def test_heads_of_jagged_samples():
    samples = [torch.arange(8.0).view(2, 4), torch.arange(12.0).view(3, 4)]
    batch = torch.nested.nested_tensor(samples, layout=torch.jagged, requires_grad=True)
    for heads in (batch.view(2, -1, 2, 2), batch.reshape((2, batch.size(1), 2, 2))):
        apart = heads.permute(0, 2, 1, 3)
        assert apart.shape == (2, 2, "j1", 2) and apart.offsets().tolist() == [0, 2, 5]
        assert torch.equal(apart.unbind()[1], samples[1].view(3, 2, 2).transpose(0, 1))
        assert apart.values().shape == (2, 5, 2)
    joined = torch.cat([batch, batch * 2], -1)
    assert joined.grad_fn is not None and torch.equal(joined.values()[:, 4:], 2 * torch.cat(samples))
    joined.sum().backward()
    assert torch.equal(batch.grad.unbind()[0], torch.full((2, 4), 3.0))
    with pytest.raises(RuntimeError, match="is invalid for input of size 8"):
        batch.view(2, -1, 8)
    with pytest.raises(RuntimeError, match="its batch, 2, got 3"):
        batch.view(3, -1, 4)
    with pytest.raises(RuntimeError, match="stays its first"):
        batch.permute(1, 0, 2)


def test_random_numbers_are_drawn_for_all_samples_at_once():
    batch = torch.nested.nested_tensor([torch.ones(5, 4), torch.ones(3, 4)], layout=torch.jagged)
    for draw in (torch.randn_like, torch.nn.Dropout(0.5), lambda t: torch.bernoulli(t / 2)):
        torch.manual_seed(0)
        nested = draw(batch)
        torch.manual_seed(0)
        assert torch.equal(nested.values(), draw(torch.ones(8, 4)))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_dimensions_count_the_batch_wherever_they_stand(layout):
    samples = [torch.arange(8.0).view(2, 4), -torch.arange(12.0).view(3, 4)]
    batch = torch.nested.nested_tensor(samples, layout=layout)
    ways = [
        (lambda t, d: t.norm(2, d), -1), (lambda t, d: torch.norm(t, dim=d), 2), (lambda t, d: t.topk(2, d).values, 2),
        (lambda t, d: t.sort(d).values, 2), (lambda t, d: t.roll(1, d), 2), (lambda t, d: t.flip([d]), 2),
        (lambda t, d: t.logsumexp(d), 2), (lambda t, d: t.diff(1, d), 2), (lambda t, d: t.unsqueeze(d), -3),
    ]  # fmt: skip
    for way, dim in ways:
        for found, sample in zip(way(batch, dim).unbind(), samples):
            assert torch.equal(found, way(sample, dim - (dim > 0)))
    assert all(
        torch.equal(a, b.tile(1, 2)) for a, b in zip(batch.tile(1, 2).unbind(), samples)
    )  # counts, no dimensions
    with pytest.raises(RuntimeError, match="batch"):
        batch.topk(1, 0)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_plain_tensors_with_a_batch_meet_samples_one_by_one(layout):
    samples = [torch.arange(8.0).view(2, 4), -torch.arange(12.0).view(3, 4)]
    batch = torch.nested.nested_tensor(samples, layout=layout)
    scale, weight, padded = torch.rand(2, 1, 4), torch.rand(2, 4, 5), torch.rand(2, 3, 4)
    ways = [
        (lambda t, s, w, p: t * s, False), (lambda t, s, w, p: s - t, False), (lambda t, s, w, p: t == s, False),
        (lambda t, s, w, p: torch.where(t > 0, t, s), False), (lambda t, s, w, p: t @ w, False), (lambda t, s, w, p: t + p, True),
        (lambda t, s, w, p: t.clone().mul_(s), False), (lambda t, s, w, p: t // s, False),
    ]  # fmt: skip
    for way, cut in ways:
        for i, (found, sample) in enumerate(zip(way(batch, scale, weight, padded).unbind(), samples)):
            beside = padded[i][: len(sample)] if cut else padded[i]
            assert torch.equal(found, way(sample, scale[i], weight[i], beside))
    assert torch.equal(torch.bmm(batch, weight).unbind()[1], samples[1] @ weight[1])
    assert torch.equal((batch * scale[:1]).unbind()[1], samples[1] * scale[0])
    for wrong in (torch.ones(3, 1, 4), torch.ones(1, 2, 1, 4)):
        with pytest.raises(RuntimeError, match="cannot be broadcast"):
            batch * wrong


def test_files_name_what_pytorch_calls(tmp_path):
    batch = nested.nested_tensor([a, b])
    torch.save(batch, tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        (pickled,) = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
    named = {arg for op, arg, _ in pickletools.genops(pickled) if op.name == "GLOBAL"}
    assert "torch._utils _rebuild_nested_tensor" in named and not any("make" in name for name in named)
    buffer, sizes, strides, offsets = batch.__reduce_ex__(2)[1]
    assert sizes.tolist() == [[2, 3], [4, 3]] and strides.tolist() == [[3, 1]] * 2 and offsets.tolist() == [0, 6]
    assert torch.equal(buffer, torch.cat([a.flatten(), b.flatten()]))


def test_dimensions_that_nobody_names_are_the_batch():
    samples = [torch.arange(4.0).view(2, 2), torch.arange(6.0).view(3, 2)]
    for layout in (torch.strided, torch.jagged):
        batch = torch.nested.nested_tensor(samples, layout=layout)
        for refused in (torch.stack, lambda pair: pair[0].flatten(), lambda pair: torch.tensor_split(pair[0], 2)):
            with pytest.raises(RuntimeError, match="not supported for NestedTensor on dim=0"):
                refused([batch, batch])
        for refused in (
            lambda t: t.norm(),
            lambda t: t.norm(2),
            lambda t: t.repeat_interleave(2),
            lambda t: t.std(),
            lambda t: t.unique(),
            lambda t: t.ravel(),
            lambda t: t.repeat(2, 1, 1),
        ):
            with pytest.raises(NotImplementedError, match="nested tensor"):
                refused(batch)
        for refused in (lambda t: t.view(-1), lambda t: t.reshape(-1)):
            with pytest.raises(RuntimeError, match="cannot change or infer the implicit batch dimension"):
                refused(batch)
        assert torch.equal(batch.norm(2, -1).unbind()[1], samples[1].norm(dim=-1))
        assert torch.equal(batch.mT.unbind()[1], samples[1].T) and torch.equal(
            batch.narrow(0, 1, 1).unbind()[0], samples[1]
        )
        assert torch.equal(batch.repeat(1, 1, 2).unbind()[1], samples[1].repeat(1, 2))
        for joined in (torch.cat([batch, batch], 1), torch.hstack([batch, batch])):
            assert torch.equal(joined.unbind()[1], torch.cat([samples[1]] * 2))


def test_batches_are_joined():
    first, second = (
        torch.nested.nested_tensor([torch.ones(2, 2), torch.zeros(3, 2)]),
        torch.nested.nested_tensor([torch.ones(1, 2)]),
    )
    for joined in (torch.cat([first, second]), torch.concat([first, second], -3), torch.vstack([first, second])):
        assert [len(t) for t in joined.unbind()] == [2, 3, 1]
    with pytest.raises(RuntimeError, match="Expected each tensor in given list to be nested"):
        torch.cat([first, torch.ones(1, 2, 2)])
    jagged = torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)
    with pytest.raises(RuntimeError, match="not supported for NestedTensor on dim=0"):
        torch.cat([jagged, jagged])
    nothing = torch.nested.nested_tensor([])
    assert repr(nothing) == "nested_tensor([\n\n])" and torch.nested.to_padded_tensor(nothing, 4).shape == (0,)


def test_one_walk_back_for_samples_that_share_a_graph():
    batch = nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], requires_grad=True)
    shared = torch.nn.functional.dropout(batch, 0.5)  # drawn for all samples at once
    shared.backward(torch.ones_like(shared))
    assert torch.equal(batch.grad[1], shared[1])
    shared = torch.nn.functional.dropout(batch, 0.5)
    (found,) = torch.autograd.grad(shared, batch, torch.ones_like(shared))
    assert torch.equal(found[0], shared[0])
    batch.grad = None
    one = nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    one[0].sum().backward()
    assert [g.tolist() for g in one.grad.unbind()] == [[1, 1], [0, 0, 0]]
    with pytest.raises(NotImplementedError, match="unbind"):
        torch.optim.SGD([one], lr=0.1)
    (found,) = torch.autograd.grad(one[1].sum(), one)
    assert [g.tolist() for g in found.unbind()] == [[0, 0], [1, 1, 1]]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_what_changes_nothing_is_the_same_tensor(layout):
    batch = nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    assert batch.to(torch.float32) is batch.contiguous() is batch.mul_(2) is batch
    assert torch.equal(batch, batch * 1) is True and torch.allclose(batch, batch + 1) is False
    assert batch.is_contiguous() and not batch.transpose(1, 2).is_contiguous() and not batch.is_pinned()
    assert [t.tolist() for t in batch[..., 0].unbind()] == [[2, 2], [2, 2, 2, 2]]
    assert batch._nested_tensor_size().tolist() == [[2, 3], [4, 3]]
    with pytest.raises(RuntimeError, match=r"shape '\[\]' is invalid"):
        batch.view(())
    assert len((nested.nested_tensor([], layout=layout) * 2).unbind()) == 0


def test_values_of_a_jagged_tensor_are_those_that_it_was_made_of():
    values = torch.arange(10.0).view(5, 2)
    batch = nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]))
    assert batch.values() is values and (batch._max_seqlen, batch._min_seqlen, batch._ragged_idx) == (3, 2, 1)
    batch.requires_grad_()
    (batch * 2).values().sum().backward()
    assert torch.equal(batch.grad[1], torch.full((3, 2), 2.0))
    chosen = nested.masked_select(torch.arange(8.0).view(2, 2, 2), torch.tensor([True, False]))
    assert chosen.offsets().tolist() == [0, 1, 2, 3, 4] and chosen.values().tolist() == [0, 2, 4, 6]

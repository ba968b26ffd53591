"""Behaviour that published client libraries rely on, without needing those libraries."""

import io
import sys

import pytest

import flambeau as torch
from flambeau import _utils
from flambeau._serialization.records import PyTorchFileReader, PyTorchFileWriter
from flambeau.utils import _pytree as pytree


def test_masked_write_of_values_with_history_into_a_plain_tensor():
    mask = torch.tensor([[True, False], [True, True]])
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    target = torch.zeros(2, 2)
    target[mask] = 2 * source[mask]
    assert target.tolist() == [[2.0, 0.0], [6.0, 8.0]]
    target.sum().backward()
    assert source.grad.tolist() == [[2.0, 0.0], [2.0, 2.0]]


def test_write_into_a_view_of_a_view_is_in_its_own_history():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    base = x * 1
    part = base.view(3, 2)[:, :1]
    part *= 2
    part.sum().backward()
    assert x.grad.tolist() == [[2.0, 0.0, 2.0], [0.0, 2.0, 0.0]]


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: x.max(1)[0],
        lambda x: x.sort(1)[0],
        lambda x: x.topk(2)[0],
        lambda x: x.median(1)[0],
        lambda x: x.cummax(1)[0],
        lambda x: torch.nn.functional.max_pool2d(x, 2),
    ],
)
def test_chosen_elements_may_be_changed_in_place(choose):
    x = torch.randn(3, 4, 4, requires_grad=True)
    out = choose(x)
    want = torch.autograd.grad((choose(x) * 2).sum(), x)[0]
    out *= 2
    assert torch.autograd.grad(out.sum(), x)[0].equal(want)


def test_arithmetic_of_two_numbers_gives_a_tensor():
    assert torch.div(7, 2, rounding_mode="trunc").equal(torch.tensor(3))
    assert torch.add(1, 2, alpha=3).equal(torch.tensor(7))
    assert torch.mul(2, 1.5).equal(torch.tensor(3.0))
    with pytest.raises(TypeError):
        torch.maximum(1, 2)


def test_trees_with_paths():
    tree = {"a": [1, (2, 3)], "b": {}}
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in pairs] == [
        ("['a'][0]", 1),
        ("['a'][1][0]", 2),
        ("['a'][1][1]", 3),
    ]
    assert pytree.tree_unflatten([leaf for _, leaf in pairs], spec) == tree
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(ValueError):
        pytree.tree_map(lambda x, y: x, [1, 2], [1])
    assert isinstance(pytree.tree_structure(3), pytree.LeafSpec)
    assert not isinstance(spec, pytree.LeafSpec)


def test_records_of_a_checkpoint():
    file = io.BytesIO()
    torch.save({"x": torch.arange(4.0)}, file)
    reader = PyTorchFileReader(file)
    assert reader.has_record("data.pkl") and reader.get_record("version") == b"3\n"
    storage = reader.get_storage_from_record("data/0", 4, torch.float32)._typed_storage()
    assert storage.tolist() == [0.0, 1.0, 2.0, 3.0]
    file = io.BytesIO()
    writer = PyTorchFileWriter(file)
    writer.write_record("note", b"text", 4)
    writer.write_end_of_file()
    assert PyTorchFileReader(file).get_record("note") == b"text"
    with pytest.raises(RuntimeError):
        PyTorchFileReader(file).get_record("other")


def test_buckets_of_tensors():
    tensors = [torch.ones(2), torch.zeros(2, 2)]
    flat = _utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [1, 1, 0, 0, 0, 0]
    assert [t.shape for t in _utils._unflatten_dense_tensors(flat, tensors)] == [(2,), (2, 2)]
    assert [len(group) for group in _utils._take_tensors([torch.ones(2)] * 5, 16)] == [2, 2, 1]
    assert _utils._get_device_index("cuda:1") == 1 and _utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError):
        _utils._get_device_index("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_graphs_of_gpu_work_need_a_gpu():
    with pytest.raises(RuntimeError, match="dummy base class CUDAGraph"):
        torch.cuda.CUDAGraph()


def test_random_states_of_gpus_have_two_names():
    assert torch.cuda.random.get_rng_state_all is torch.cuda.get_rng_state_all


def test_saving_flushes_the_file():
    class File(io.BytesIO):
        flushed = b""

        def flush(self):
            self.flushed = self.getvalue()

    for new in (True, False):
        file = File()
        torch.save(torch.ones(2), file, _use_new_zipfile_serialization=new)
        assert torch.load(io.BytesIO(file.flushed)).equal(torch.ones(2))


def test_hooks_of_leaves_run_in_the_order_of_the_backward_pass():
    first, second = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    order = []
    first.weight.register_hook(lambda g: order.append("first"))
    second.weight.register_post_accumulate_grad_hook(lambda p: order.append("second"))
    second(first(torch.ones(1, 2))).sum().backward()
    assert order == ["second", "first"]


def test_batch_samplers_of_their_own_kind_need_no_sampler():
    class Skipping(torch.utils.data.BatchSampler):
        def __init__(self, batches):
            self.batches = batches

        def __iter__(self):
            return iter(self.batches)

        def __len__(self):
            return len(self.batches)

    loader = torch.utils.data.DataLoader(range(6), batch_sampler=Skipping([[0, 1], [4]]))
    assert [batch.tolist() for batch in loader] == [[0, 1], [4]]


def test_overrides_get_the_function_that_was_called():
    class Like:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function

    for function in (torch.sum, torch.clamp, torch.cat, torch.mean, torch.softmax, torch.add, torch.bmm):
        assert function(Like(), Like()) is function


def test_functions_may_name_their_own_parts_as_they_like():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return Double._backward(g)

        @staticmethod
        def _backward(g):
            return g * 2

    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_typed_sparse_classes():
    i, v = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    t = torch.sparse.FloatTensor(i, v, torch.Size([2, 2]))
    assert t.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]] and t.type() == "torch.sparse.FloatTensor"
    assert isinstance(t, torch.sparse.FloatTensor) and not isinstance(t, torch.FloatTensor)
    assert t._values().equal(v) and t._indices().equal(i) and torch.sparse.DoubleTensor(2, 3).shape == (2, 3)


def test_sizes_are_plain_integers():
    size = torch.Size([torch.tensor(3), True, 2])
    assert size == (3, 1, 2) and all(type(n) is int for n in size)
    with pytest.raises(TypeError, match="item 1"):
        torch.Size([1, torch.tensor(2.0)])


def test_memory_of_storages_is_counted():
    for storage in (torch.zeros(1000).untyped_storage(), torch.zeros(1000).storage()):
        assert sys.getsizeof(storage) >= 4000


def test_tensors_without_memory_count_addresses_from_zero():
    x = torch.zeros(2, 2, device="meta")
    assert x.untyped_storage().data_ptr() == x.data_ptr() == 0 and x.untyped_storage().nbytes() == 16
    assert x[1].data_ptr() == 8


def test_sparse_tensor_of_a_size_alone():
    assert torch.sparse_coo_tensor(size=(2, 3)).to_dense().equal(torch.zeros(2, 3))
    with pytest.raises(TypeError):
        torch.sparse_coo_tensor()
    with pytest.raises(TypeError):
        torch.sparse_coo_tensor(torch.tensor([[0]]), size=(2,))


def test_detached_batches_stay_batches():
    x = torch.randn(3, 4, 5)
    assert torch.vmap(lambda c: c - c.amax((0, 1)).detach())(x.unsqueeze(3)).amax((1, 2)).equal(torch.zeros(3, 1))
    leaf = x.clone().requires_grad_()
    torch.vmap(torch.vmap(lambda c: (c * c.detach()).sum()))(leaf).sum().backward()
    assert leaf.grad.equal(x)
    with pytest.raises(RuntimeError, match="vmap"):
        torch.vmap(lambda c: c.data)(x)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
def test_choosing_between_single_numbers_of_a_batch(kind):
    condition, x, y = torch.tensor([True, False]), torch.tensor([1, 2], dtype=kind), torch.tensor([3.0, 4.0, 5.0])
    choose = torch.vmap(torch.vmap(torch.where, in_dims=(None, None, 0)), in_dims=(0, 0, None))
    made = choose(condition, x, y)
    assert made.dtype is torch.promote_types(kind, torch.float32)
    assert made.tolist() == [[1.0, 1.0, 1.0], [3.0, 4.0, 5.0]]


def test_variables_of_old_programs():
    t = torch.ones(2)
    v = torch.autograd.Variable(t, requires_grad=True)
    (v * v).sum().backward()
    assert type(v) is torch.Tensor and v.grad.tolist() == [2.0, 2.0] and v.data_ptr() == t.data_ptr()
    assert isinstance(t, torch.autograd.Variable) and not isinstance(1, torch.autograd.variable.Variable)
    assert not torch.autograd.Variable(v * 2).requires_grad and torch.autograd.Variable().shape == (0,)
    with pytest.raises(TypeError):
        torch.autograd.Variable([1.0])


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"])
def test_eight_bit_floats_are_compared(name):
    kind = getattr(torch, "float8_" + name)
    x = torch.tensor([1.0, 2.0, float("nan")], dtype=kind)
    assert (x == x).tolist() == [True, True, False] and (x != 1.0).tolist() == [False, True, True]
    assert x.isnan().tolist() == [False, False, True]
    with pytest.raises(NotImplementedError):
        x < x  # noqa: B015


def test_powers_of_two_have_no_sign_and_no_zero():
    kind = torch.float8_e8m0fnu
    for x in (torch.tensor([0.0, -1.0, 3.0], dtype=kind), torch.tensor([0.0, -1.0, 3.0]).to(kind)):
        assert x.view(torch.uint8).tolist() == [0, 127, 129]
    assert torch.full((1,), 0.0, dtype=kind).float().item() == 2.0**-127

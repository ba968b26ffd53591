"""How arguments are understood and what is said of wrong ones: sizes, types, formats, modes."""

import warnings

import numpy as np
import pytest

import flambeau as torch


def test_sizes_are_joined_with_tuples_only():
    size = torch.Size([1, 2])
    assert size + (3,) == torch.Size([1, 2, 3]) and (3,) + size == torch.Size([3, 1, 2])
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\) to torch.Size"):
        size + [3]
    with pytest.raises(TypeError, match="unsupported operand"):
        3 + size

    class Other:
        def __radd__(self, other):
            return 42

    assert size + Other() == 42


def test_results_of_python_functions_are_numbers():
    with pytest.raises(TypeError, match="must be real number, not str"):
        torch.arange(3).apply_(lambda k: "text")
    assert torch.arange(3).apply_(lambda k: k + 0.5).tolist() == [0, 1, 2]


def test_deterministic_switches_take_bools():
    with pytest.raises(TypeError, match=r"argument 'mode' \(position 1\) must be bool, not int"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match="argument 'warn_only' must be bool, not int"):
        torch.use_deterministic_algorithms(False, warn_only=1)
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        torch.utils.deterministic.fill_uninitialized_memory = 1
    torch.use_deterministic_algorithms(False, warn_only=True)
    try:
        assert torch.is_deterministic_algorithms_warn_only_enabled() and torch.get_deterministic_debug_mode() == 0
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch._C._get_deterministic_fill_uninitialized_memory()


def test_dim_order_that_is_not_unique():
    formats = [torch.contiguous_format, torch.channels_last]
    assert torch.empty(2, 3, 5, 7).dim_order(ambiguity_check=True) == (0, 1, 2, 3)
    assert torch.empty(2, 2, 1, 2).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    last = torch.empty(2, 2, 1, 2).to(memory_format=torch.channels_last)
    assert last.dim_order(ambiguity_check=formats) == (0, 2, 3, 1)
    for shape, check in (((2, 2, 1, 2), True), ((2, 2, 1, 1), formats)):
        with pytest.raises(RuntimeError, match="does not have unique dim order"):
            torch.empty(shape).dim_order(ambiguity_check=check)
    with pytest.raises(TypeError, match="ambiguity_check"):
        torch.empty(2).dim_order(ambiguity_check="no")
    with pytest.raises(AttributeError):
        torch.eye(2).to_sparse().dim_order()


def test_dtypes_say_what_they_are():
    assert torch.bits16.abbr == "b16x1" and torch.bits4x2.abbr == "b4x2" and torch.uint8.is_signed is False
    with pytest.raises(RuntimeError, match="not supported for quantized"):
        _ = torch.quint8.is_signed
    assert torch.quint8 not in torch._C._get_all_dtypes() and torch.bits8 in torch._C._get_all_dtypes()


def test_generators_of_other_devices():
    for kind in ("opengl", "meta"):
        with pytest.raises(RuntimeError, match="not an accelerator"):
            torch.Generator(kind)


def test_formats_of_another_rank_are_just_not_there():
    assert not torch.zeros(2, 3, 4, 4).is_contiguous(memory_format=torch.channels_last_3d)


def test_numpy_names_with_out():
    out = torch.zeros(2)
    torch.logcumsumexp(torch.zeros(2), axis=0, out=out)
    assert torch.allclose(out, torch.tensor([0.0, 0.6931]), atol=1e-3)


def test_zeros_and_ones_fit_every_dtype():
    out = torch.zeros(4, dtype=torch.bool)
    assert torch.bernoulli(torch.ones(4), out=out) is out and out.all()
    assert torch.zeros(3, dtype=torch.int8).bernoulli_(torch.ones(3, dtype=torch.float64)).tolist() == [1, 1, 1]


def test_typed_classes_are_no_bases():
    with pytest.raises(TypeError, match=r"type 'torch.FloatTensor' is not an acceptable base type"):

        class Wrong(torch.FloatTensor):
            pass

    assert torch.arange(2).type(torch.Tensor).dtype is torch.float32
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.LongTensor((6, 0), 1, 1, 0)
    with pytest.raises(TypeError, match='missing 1 required positional arguments: "data"'):
        torch.tensor()


def test_swapped_tensors():
    import weakref

    a, b = torch.zeros(1), torch.ones(2)
    keep = weakref.ref(a)
    with pytest.raises(RuntimeError, match="has weakref"):
        torch.utils.swap_tensors(a, b)
    del keep

    class Slotted(torch.Tensor):
        __slots__ = ("extra",)

    with pytest.raises(RuntimeError, match="different slots"):
        torch.utils.swap_tensors(a, Slotted(torch.ones(1)))
    first, second = Slotted(torch.zeros(1)), Slotted(torch.ones(2))
    first.extra = 3
    torch.utils.swap_tensors(first, second)
    assert second.extra == 3 and not hasattr(first, "extra") and first.tolist() == [1, 1]


def test_nested_tensors_of_the_same_sizes():
    a, b = (torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(n, 4)]) for n in (3, 2))
    assert a.is_same_size(a.clone()) and not a.is_same_size(b)
    with pytest.raises(RuntimeError, match="Expected both self and other to be nested"):
        a.is_same_size(torch.ones(2))


def test_rows_of_nothing():
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        torch.index_select(torch.zeros(0, 3), 0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds"):
        torch.index_select(torch.zeros(0, 3), 1, torch.tensor([0, 5]))


def test_numbers_without_history():
    x = torch.zeros(2)
    assert torch.isclose(x, x, torch.tensor(1)).all()
    with pytest.raises(TypeError, match="requires a gradient"):
        torch.isclose(x, x, torch.tensor(1.0, requires_grad=True))
    assert torch.linspace(torch.tensor(0.0, requires_grad=True), 1, 2).tolist() == [0, 1]


def test_texts_that_programs_look_for():
    for call, error, text in (
        (lambda: torch.broadcast_shapes((3,), (5,)), RuntimeError, "expected shape should be broadcastable to"),
        (lambda: torch.broadcast_shapes(1.5), RuntimeError, "should be of type ints, a tuple of ints"),
        (
            lambda: torch.empty(0).view(-1, 0),
            RuntimeError,
            "because the unspecified dimension size -1 can be any value",
        ),
        (lambda: torch.zeros(1).unflatten("A", (1, 1)), TypeError, r"argument 'dim' \(position 1\) must be int"),
        (lambda: torch.zeros(1).unflatten(0, (2, 2)), RuntimeError, r"Provided sizes \[2, 2\] don't multiply up"),
        (lambda: torch.cummax(torch.tensor(1.0), 100), IndexError, "Expected reduction dim -1 or 0 for scalar"),
        (lambda: torch.tensor_split(torch.zeros(4), torch.tensor(2.0)), RuntimeError, "dtype of long, but got Float"),
        (lambda: torch.zeros(2, 2, 2).to_sparse().t(), RuntimeError, "<= 2 sparse and 0 dense dimensions"),
        (lambda: torch.tensor([1j]).conj().imag.view(torch.int32), RuntimeError, "tensors with negative bit set"),
        (
            lambda: torch.empty_like(torch.eye(2).to_sparse(), memory_format=torch.preserve_format),
            RuntimeError,
            "strided",
        ),
        (
            lambda: torch.zeros(2).index_add(0, torch.tensor([0]), torch.zeros(1, 1)),
            RuntimeError,
            "must match self tensor",
        ),
    ):
        with pytest.raises(error, match=text):
            call()


def test_quantized_tensors_get_another_size():
    x = torch.quantize_per_tensor(torch.tensor([0.1, 0.2, 0.3]), 0.1, 10, torch.quint8)
    x.resize_(2)
    assert x.int_repr().tolist() == [11, 12] and x.q_zero_point() == 10
    assert x.resize_(4).shape == (4,)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="quantized_resize_cpu_ does not have a deterministic implementation"):
            x.resize_(5)
    finally:
        torch.use_deterministic_algorithms(False)


def test_byte_masks_warn_everywhere():
    mask, x = torch.tensor([1, 0], dtype=torch.uint8), torch.ones(2)
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        x.index_put_((mask,), torch.tensor([5.0]))
    assert x.tolist() == [5, 1]


def test_resizing_keeps_nothing_for_a_second_pass():
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    y = torch.nn.functional.interpolate(x, size=8, mode="bilinear")
    y.backward(torch.ones_like(y))
    first = x.grad.clone()
    y.backward(torch.ones_like(y))  # nothing of it was freed
    assert torch.equal(x.grad, 2 * first)


@pytest.mark.filterwarnings("default")
def test_old_factorisations_name_the_new_ones():
    eye = torch.eye(2)
    torch.set_warn_always(True)
    try:
        for call, name in (
            (lambda: torch.qr(eye), "linalg.qr"),
            (lambda: torch.cholesky(eye), "linalg.cholesky"),
            (lambda: torch.lu(eye), "linalg.lu_factor"),
            (lambda: torch.triangular_solve(torch.ones(2, 1), eye), "linalg.solve_triangular"),
            (lambda: torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(eye)), "linalg.lu_solve"),
            (lambda: torch.chain_matmul(eye, eye), "linalg.multi_dot"),
        ):
            with pytest.warns(UserWarning, match=f"is deprecated in favor of torch.{name}"):
                call()
    finally:
        torch.set_warn_always(False)


def test_functions_without_out():
    x = torch.ones(2)
    for function in (torch.isnan, torch.isinf, torch.isfinite, torch.isreal, torch.relu):
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            function(x, out=torch.empty(0))


def test_copies_and_overlap_by_private_names():
    x = torch.ones(2)
    y = x._lazy_clone()
    y.add_(1)
    assert x.tolist() == [1, 1] and y.tolist() == [2, 2]
    assert x._fix_weakref() is None and x.untyped_storage()._fix_weakref() is None
    expanded = torch.ones(1, 3).expand(4, 3)
    apart = torch.randn(2, 1, 10)[::2].as_strided((2, 1, 5), (10, 0, 2))
    assert [torch._debug_has_internal_overlap(t) for t in (x, x.view(1, 2).t(), expanded, apart)] == [0, 0, 1, 2]


def test_incomplete_gamma_at_its_limits():
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([inf, nan, nan, inf, 0.0, nan, 1.0, 0.0])
    x = torch.tensor([nan, 0.0, inf, inf, 1.0, 1.0, nan, nan])
    expected = torch.tensor([0.0, 0.0, 1.0, nan, 1.0, nan, nan, nan])
    assert torch.allclose(torch.igamma(a, x), expected, equal_nan=True)
    assert torch.allclose(torch.igammac(a, x), 1 - expected, equal_nan=True)


def test_lost_imaginary_parts_are_told():
    z, real = torch.tensor([1 + 2j, 3 - 1j]), torch.zeros(2)
    for cast in (z.float, z.int, lambda: z.to(torch.float64), lambda: z.type(torch.float16), lambda: real.copy_(z)):
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            assert cast().tolist() == [1, 3]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        real[0] = z[1]
    with warnings.catch_warnings():  # nothing is lost here
        warnings.simplefilter("error")
        z.bool(), z.to(torch.complex128), z.real.double()
        x = torch.ones(2, requires_grad=True)
        (x * z).abs().sum().backward()


def test_too_many_operands():
    for name in ("add", "sub", "add_", "sub_"):
        with pytest.raises(TypeError, match=rf"{name}\(\) takes 2 positional arguments but 4 were given"):
            getattr(torch.ones(1), name)(*[torch.ones(1)] * 3)


@pytest.mark.parametrize("foreign", [3.5, [1.0], "a", np.ones((2, 3), np.float32)])
def test_what_is_no_tensor_is_named(foreign):
    x = torch.ones(2, 3)
    for call, name, position in (
        (lambda: torch.sort(foreign), "input", 1),
        (lambda: torch.matmul(x, foreign), "other", 2),
        (lambda: torch.nn.functional.conv2d(x, weight=foreign), "weight", 2),
        (lambda: torch.take(x, foreign), "index", 2),
        (lambda: torch.masked_select(x, foreign), "mask", 2),
    ):
        with pytest.raises(
            TypeError, match=rf"argument '{name}' \(position {position}\) must be Tensor, not {type(foreign).__name__}"
        ):
            call()


def test_a_missing_tensor_that_may_be_missing_is_not_blamed():
    with pytest.raises(RuntimeError, match="expected input"):
        torch.nn.functional.conv2d(torch.ones(1, 2, 4, 4), torch.ones(1, 3, 1, 1), None)

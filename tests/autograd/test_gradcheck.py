"""`gradcheck`: what it accepts, what it finds, and sparse inputs of all layouts."""

import pytest

import flambeau as torch
from flambeau.autograd import GradcheckError, gradcheck, gradgradcheck


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("masked", [True, False])
def test_sparse_inputs(layout, masked):
    dense = torch.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0]], dtype=torch.float64)
    blocks = {"blocksize": (1, 2)} if "bs" in layout else {}
    x = dense.to_sparse(layout=getattr(torch, layout), **blocks).requires_grad_()
    assert gradcheck(lambda t: t.to_dense(masked_grad=masked), (x,), masked=masked)
    assert gradcheck(lambda t: t.to_dense(masked_grad=masked).square(), (x,), masked=masked)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3

    @staticmethod
    def jvp(ctx, t):
        return t * 4


def test_wrong_derivatives_are_found():
    x = numbers(3)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (x,))
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(Wrong.apply, (x,), check_forward_ad=True, check_backward_ad=False)
    assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False
    assert gradcheck(torch.sin, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(torch.sin, (x,), check_fwd_over_rev=True)


def test_complex_numbers():
    z = torch.randn(2, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda t: t * t.conj(), (z,), check_forward_ad=True)
    with pytest.raises(GradcheckError, match="While considering the imaginary part of complex outputs only"):
        gradcheck(lambda t: torch.complex(t.real, t.detach().imag), (z,))


def test_what_is_checked_of_the_inputs():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(torch.sin, (torch.zeros(2),))
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(torch.sin, (numbers(1).expand(3),))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(torch.sin, (torch.ones(2, requires_grad=True),), atol=1e-1)
    with pytest.raises(AssertionError, match="same shape when inputs are perturbed"):
        gradcheck(
            lambda t: torch.cat([t, t]) if bool((t >= 1).all()) else t,
            (torch.ones(1, dtype=torch.float64, requires_grad=True),),
        )
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda t: t.detach() * 2, (numbers(2),))
    with pytest.raises(AssertionError, match="at least one of check_forward_ad or check_backward_ad"):
        gradcheck(torch.sin, (numbers(2),), check_backward_ad=False)


def test_graphs_from_before_the_check_stay_usable():
    """Elements are moved and put back behind the counters of writes."""
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    before = (x * x).sum()
    assert torch.autograd.gradcheck(lambda x: x * x, (x,))
    before.backward()
    assert x.grad.tolist() == [2.0, 2.0] and x.tolist() == [1.0, 1.0]


def test_batched_gradients_of_inputs_that_are_results():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = x * 3
    assert gradcheck(lambda y: (y.sin(), y**2), (y,), check_batched_grad=True)
    assert y.grad.shape == (2,) and y.grad.isfinite().all()


def test_elements_of_complex_inputs_are_compared_as_numbers():
    class Off(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.real * 3 + z.imag * 4

        @staticmethod
        def backward(ctx, g):
            return g * (3.05 + 4j)  # wrong by 0.05, of 5

    z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
    assert gradcheck(Off.apply, (z,), atol=0, rtol=0.011)  # of the real part alone it would be 0.017
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Off.apply, (z,), atol=0, rtol=0.009)


def test_the_fast_check_calls_few_times_and_finds_what_is_wrong():
    class Halved(torch.autograd.Function):
        """A product whose derivative by one element is wrong."""

        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            calls.append(1)
            return x @ w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            by_x, by_w = g @ w.mT.conj(), x.mT.conj() @ g
            by_w[2, 1] *= wrong
            return by_x, by_w

    for dtype in (torch.float64, torch.complex128):
        x = torch.randn(30, 20, dtype=dtype, requires_grad=True)
        w = torch.randn(20, 10, dtype=dtype, requires_grad=True)
        calls, wrong, before = [], 1, w.tolist()
        assert gradcheck(Halved.apply, (x, w), fast_mode=True)
        assert len(calls) < 15 and w.tolist() == before
        assert gradgradcheck(torch.matmul, (x, w), fast_mode=True)
        wrong = 1.5
        small = [t[-3:, -3:].detach().requires_grad_() for t in (x, w)]
        with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 1"):
            gradcheck(Halved.apply, small, fast_mode=True)
        assert not gradcheck(Halved.apply, small, fast_mode=True, raise_exception=False)


def test_the_fast_check_of_other_kinds_of_functions():
    x = numbers(3)
    assert gradcheck(lambda x: (x.sin(), torch.complex(x, x * 2), x.sum()), (x,), fast_mode=True, check_forward_ad=True)
    assert gradcheck(lambda x: x.detach() * 0, (x,), fast_mode=True)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, (x,), fast_mode=True)
    scalar = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert gradcheck(torch.sin, (scalar,), fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(lambda s, x: s * x.sum(), (scalar, x), fast_mode=True)
    sparse = numbers(3, 3).detach().triu().to_sparse().requires_grad_()
    assert gradcheck(lambda s: s.to_dense(masked_grad=True) * 2, (sparse,), masked=True, fast_mode=True)

    class NoTangent(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    with pytest.raises(GradcheckError, match="computed with forward mode"):
        gradcheck(NoTangent.apply, (x,), fast_mode=True, check_forward_ad=True)


def test_a_projection_that_differs_by_cancellation_is_decided_by_the_matrices():
    class Rough(torch.autograd.Function):
        """Derivatives of two elements that cancel in a sum, each right to a thousandth."""

        @staticmethod
        def forward(ctx, x):
            return (x[0] - x[1]) * 1e6

        @staticmethod
        def backward(ctx, g):
            return torch.stack([g * 1e6 * (1 + 9e-4), -g * 1e6 * (1 - 9e-4)])

    x = torch.tensor([0.5, 0.5], dtype=torch.float64, requires_grad=True)
    assert gradcheck(Rough.apply, (x,), fast_mode=True, eps=1e-3)


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}, {"check_forward_ad": True}])
def test_outputs_without_history_are_not_checked_beside_others(options):
    x = numbers(3)
    assert gradcheck(lambda x: (x.detach() * 3, x * 2), (x,), **options)
    assert gradcheck(lambda x: (x * 2, x.detach() * 3), (x,), **options)
    with pytest.raises(GradcheckError, match="with respect to input 0"):
        gradcheck(lambda x: (x.detach() * 3, x * x.detach()), (x,), **options)

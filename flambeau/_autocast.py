"""Mixed precision: which operations take their tensors in a 16-bit type, in float32 or in the widest type among them.

Nothing here runs unless `autocast` is on in some thread. Functions ask before they run, records in the dispatcher;
both come to `Settings.run`, which calls them again, with the arguments that they should have had and autocast off.
"""

from __future__ import annotations

from typing import Any

from ._core.devices import device
from ._core.dtypes import FLOATING, bfloat16, dtype, float16, float32, float64, promote_types
from ._core.state import AUTOCAST, BATCHED, CUDA, GRAD, META, local, modes
from ._dispatch import handlers
from ._ops.registry import ops
from ._tensor import Tensor

LOWER, SINGLE, WIDEST = "lower", "single", "widest"

_BOTH = {
    LOWER: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm baddbmm addmm addbmm "
    "linear matmul prelu scaled_dot_product_attention rnn_tanh rnn_relu lstm gru rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell",
    SINGLE: "prod cdist mse_loss cosine_embedding_loss nll_loss hinge_embedding_loss poisson_nll_loss smooth_l1_loss "
    "cross_entropy l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "ctc_loss kl_div multilabel_margin_loss binary_cross_entropy_with_logits",
    WIDEST: "stack cat index_copy",
}
_ONLY = {
    "cpu": {
        LOWER: "linalg_vecdot",
        SINGLE: "avg_pool3d binary_cross_entropy grid_sample grid_sampler grid_sampler_2d grid_sampler_3d polar quantile "
        "nanquantile stft trace view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr "
        "pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d "
        "fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn "
        "fft_irfftn fft_hfft fft_ihfft linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals "
        "linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv linalg_tensorsolve "
        "linalg_qr linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh linalg_lstsq",
    },
    "cuda": {
        LOWER: "addmv addr chain_matmul linalg_multi_dot mv",
        SINGLE: "acos asin cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm layer_norm log log10 "
        "log_softmax log1p log2 norm pdist pow reciprocal rsqrt sinh softmax softmin softplus sum renorm tan",
        WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot",
    },
    # Devices that programs may name; no tensor is on them.
    **{kind: {} for kind in ("hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")},
}  # fmt: skip
POLICY = {
    kind: {name: policy for table in (_BOTH, own) for policy, names in table.items() for name in names.split()}
    for kind, own in _ONLY.items()
}
# Functions that take their tensors as they are, where they have no policy, and are made of nothing that has one.
_AS_THEY_ARE = (
    "dropout layer_norm group_norm batch_norm instance_norm rms_norm softmax log_softmax relu gelu silu embedding "
    "max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d interpolate"
)
_WHOLE = frozenset(_AS_THEY_ARE.split())
_CONCERNED = _WHOLE.union(*POLICY.values())


# Of these PyTorch computes the gates on CPUs in a 16-bit type, but changes the state in the state's own.
_WITH_STATE = frozenset(("gru", "gru_cell", "lstm", "lstm_cell"))


class Settings:
    """What autocast does in one thread."""

    def __init__(self) -> None:
        self.on = dict.fromkeys(POLICY, False)
        brief = ("cpu", "hpu", "maia", "xla")
        self.dtypes: dict[str, dtype] = {kind: bfloat16 if kind in brief else float16 for kind in POLICY}
        self.cached = True  # whether the 16-bit copy of a parameter is kept until the outermost block ends
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}
        self.nesting = 0

    def switch(self, kind: str, on: bool) -> None:
        self.on[kind] = on
        active = any(self.on.values())
        if active and local.autocast is None:
            local.autocast = self
            modes.enter(AUTOCAST)
        elif not active and local.autocast is not None:
            local.autocast = None
            modes.leave(AUTOCAST)

    def run(self, function: Any, args: Any, named: Any) -> Any:
        """The result of a call whose tensors have the types that it should have; NotImplemented if any will do."""
        name = getattr(function, "__name__", "")
        if name not in _CONCERNED:
            return NotImplemented
        first = next((a for a in _tensors((*args, *named.values()))), None)
        if first is None or first._k & META:
            return NotImplemented
        kind = "cuda" if first._k & CUDA else "cpu"
        policy = POLICY[kind].get(name) if self.on[kind] else None
        alone = (
            modes.overrides & ~BATCHED == AUTOCAST
        )  # otherwise a mode or a class will be asked, and may run anything
        if policy is None and not (alone and name in _WHOLE):
            return NotImplemented
        while alone and hasattr(function, "public"):  # it has a short path
            function = function.public
        if policy is None or (named and named.get("out") is not None):  # tensors are taken as they are
            return self.without(lambda: function(*args, **named))
        if policy is LOWER:
            target = self.dtypes[kind]
            if kind == "cpu" and name in _WITH_STATE:
                state = _wide_state(name, args, named)
                if state is not None:
                    return self.without(lambda: self.beside_state(function, args, named, state, target))
        elif policy is SINGLE:
            target = float32
        else:
            target = _widest((*args, *named.values()))
        changed = False

        def fit(value: Any) -> Any:
            nonlocal changed
            if isinstance(value, Tensor):
                d = value.dtype
                if d is target or d.category != FLOATING or d is float64:
                    return value
                changed = True
                return self.cast(value, target)
            if value.__class__ is list or value.__class__ is tuple:
                return value.__class__([fit(v) for v in value])
            return value

        def call() -> Any:
            given = [fit(a) for a in args]
            options = {key: fit(a) for key, a in named.items()} if named else named
            return function(*given, **options) if changed or alone else NotImplemented

        return self.without(call) if alone else call()

    def beside_state(self, function: Any, args: Any, named: Any, state: Any, target: dtype) -> Any:
        """The result of a recurrent function in float32, from inputs and weights that are rounded to 16 bits."""

        def fit(value: Any) -> Any:
            if value is state:
                return value
            if isinstance(value, Tensor):
                if value.dtype.category != FLOATING or value.dtype is float64:
                    return value
                return ops.to_dtype(value if value.dtype is target else self.cast(value, target), float32)
            if value.__class__ is list or value.__class__ is tuple:
                return value.__class__([fit(v) for v in value])
            return value

        made = function(*[fit(a) for a in args], **{key: fit(a) for key, a in named.items()})
        if _is_projected(state):
            return (*[ops.to_dtype(t, target) for t in made[:2]], made[2])
        return made

    def without(self, call: Any) -> Any:
        """The result of a call for which this thread's autocast is off: what runs inside it has its types."""
        local.autocast = None
        modes.leave(AUTOCAST)
        try:
            return call()
        finally:
            local.autocast = self
            modes.enter(AUTOCAST)

    def cast(self, x: Tensor, target: dtype) -> Tensor:
        """A tensor in another type; for parameters the copy is kept, so that a second use finds it."""
        keep = self.cached and target is not float32 and x._k & GRAD and x._edge is None
        if keep:
            found = self.copies.get(id(x))
            if found is not None and found[1].dtype is target and (found[1]._k & GRAD or not local.grad):
                return found[1]
        made = ops.to_dtype(x, target)
        if keep:
            self.copies[id(x)] = (x, made)
        return made  # type: ignore[no-any-return]


def _wide_state(name: str, args: Any, named: Any) -> Any:
    """The state among the arguments of a recurrent function, if it is in float32 and the result shall be."""
    packed = "batch_sizes" in named or (len(args) > 3 and args[3].__class__ in (list, tuple))
    state = named["hx"] if "hx" in named else args[2 if packed else 1] if len(args) > 1 + packed else None
    parts = state if state.__class__ in (list, tuple) else (state,)
    if not all(isinstance(t, Tensor) and t.dtype is float32 for t in parts):
        return None
    return state if name != "lstm" or packed or _is_projected(state) else None


def _is_projected(state: Any) -> bool:
    return len(state) == 2 and not isinstance(state, Tensor) and state[0]._array.shape[-1] != state[1]._array.shape[-1]


def _tensors(args: Any) -> Any:
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif a.__class__ is list or a.__class__ is tuple:
            yield from (b for b in a if isinstance(b, Tensor))


def _widest(args: Any) -> dtype:
    found = [t.dtype for t in _tensors(args) if t.dtype.category == FLOATING]
    target = found[0] if found else float32
    for d in found[1:]:
        target = promote_types(target, d)
    return target


def settings() -> Settings:
    """Those of this thread."""
    found = getattr(local, "autocast_settings", None)
    if found is None:
        found = local.autocast_settings = Settings()
    return found


def kind_of(device_type: Any) -> str:
    """The name of a device that autocast knows."""
    kind = device(device_type).type if not isinstance(device_type, str) or ":" in device_type else device_type
    if kind not in POLICY:
        raise RuntimeError(f"autocast is not available for device type {kind!r}; it is for {', '.join(POLICY)}")
    return kind


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """For records that are called directly."""
    settings = local.autocast
    if settings is None:
        return NotImplemented
    if op.name in POLICY["cuda" if k & CUDA else "cpu"]:
        return settings.run(op.call, args, {})
    if k & ~(GRAD | AUTOCAST):
        return NotImplemented
    return settings.without(lambda: op.call(*args))  # nothing else is special: the short way


handlers[AUTOCAST] = _handle

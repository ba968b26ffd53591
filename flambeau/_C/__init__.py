"""Names that programs import from PyTorch's compiled core, as far as they mean something here."""

from __future__ import annotations

import enum
import weakref
from typing import Any

from .. import cpu as _cpu
from .._autograd.engine import execution_order, will_run
from .._autograd.node import Node, gradient_function
from .._core.config import config
from .._core.devices import device, get_default_device
from .._core.dtypes import ALL, QUANTIZED, dtype, get_default_dtype
from .._core.layouts import layout, memory_format
from .._core.sizes import Size
from .._core.state import FUNCTION_MODE, local, modes
from .._core.submodules import submodule
from .._interception.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _DisableTorchDispatch
from .._interception.overrides import disabled_torch_function as _disabled_torch_function_impl
from .._library.operators import _BelowAutograd as _AutoDispatchBelowAutograd
from .._library.schema import Argument, FunctionSchema, Tag, parse_schema
from .._ops.linear.checks import LinAlgError as _LinAlgError
from .._ops.making.generator import Generator, default_generator
from .._serialization.records import PyTorchFileReader, PyTorchFileWriter
from .._tensor import Tensor
from .._tensor import storage as _storage
from ..futures import Future
from ..jit._errors import JITException
from ..jit._graph import Graph
from ..jit._graph import GraphValue as Value
from ..jit._machine import Function as ScriptMethod
from ..jit._script_module import ScriptModule
from ..jit._tracer import active as _active_tracer
from ..jit._tracer import is_tracing
from ..jit._units import ScriptFunction
from . import _nn
from ._convolutions import _ConvBackend, _select_conv_backend
from ._types import *  # noqa: F403 (names that programs take from here)

__all__ = [
    "AggregationType", "Argument", "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet",
    "FunctionSchema", "Future", "Generator", "Graph", "JITException", "Node", "PyTorchFileReader", "PyTorchFileWriter", "ScriptFunction",
    "ScriptMethod", "ScriptModule", "Size", "Tag", "TensorBase", "Value", "_DisableTorchDispatch", "default_generator", "device", "dtype", "layout", "memory_format", "parse_schema",
]  # fmt: skip

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
StorageBase = _storage.StorageBase
has_lapack = has_openmp = has_spectral = True
has_mkl = has_cuda = has_mps = has_xpu = _has_mkldnn = False
_GLIBCXX_USE_CXX11_ABI = True
_NodeBase = Node
_PRIVATE = (
    _AutoDispatchBelowAutograd,
    _ConvBackend,
    _cpu,
    _select_conv_backend,
    _LinAlgError,
    _disabled_torch_function_impl,
    _nn,
)


def _set_mkldnn_enabled(enabled: bool) -> None:
    """Sets the switch `torch.backends.mkldnn.enabled`."""
    from ..backends import mkldnn

    mkldnn.set_flags(enabled)


def _get_mkldnn_enabled() -> bool:
    """Reads the switch `torch.backends.mkldnn.enabled`."""
    from ..backends import mkldnn

    return bool(mkldnn.enabled)  # type: ignore[attr-defined]


class AggregationType(enum.Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1


# -- groups of implementations ---------------------------------------------------------------------------------------


class DispatchKey(enum.Enum):
    """Names for the groups of tensors and moments that an operator may be implemented for."""

    Undefined, CPU, CUDA, Meta, SparseCPU, SparseCUDA, AutogradCPU, AutogradCUDA = range(8)
    CompositeImplicitAutograd, CompositeExplicitAutograd, Autograd, ADInplaceOrView = range(8, 12)
    AutocastCPU, AutocastCUDA, AutocastXPU, Functionalize, FuncTorchBatched, Python, BackendSelect = range(12, 19)


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys: Any):
        self.keys = {k for key in keys for k in (key.keys if isinstance(key, DispatchKeySet) else (key,))}

    def has(self, key: DispatchKey) -> bool:
        """Whether a key is in the set."""
        return key in self.keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(frozenset(self.keys))

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self, other)


class _ExcludeDispatchKeyGuard:
    """A `with` block without some implementations. Autocast is the one that programs leave out; it is switched off."""

    def __init__(self, keys: DispatchKeySet):
        self.keys = keys

    def __enter__(self) -> None:
        from ..amp.autocast_mode import autocast

        names = {key.name for key in self.keys.keys}
        self._inner = [autocast(kind, enabled=False) for kind in ("cpu", "cuda") if f"Autocast{kind.upper()}" in names]
        for block in self._inner:
            block.__enter__()

    def __exit__(self, *error: Any) -> None:
        for block in reversed(self._inner):
            block.__exit__(*error)


# -- questions and switches ------------------------------------------------------------------------------------------


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _get_accelerator(check_available: bool = False) -> device:
    from .. import cuda

    return device("cuda" if cuda.is_available() else "cpu")


def _get_default_device() -> str:
    return str(get_default_device())


def _get_tracing_state() -> Any:
    """Something while `torch.jit.trace` runs, otherwise None."""
    return _active_tracer()


def _is_tracing() -> bool:
    return is_tracing()


_fallback_warnings = [False]


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Kept, without effect: samples that run one by one give no warning here."""
    _fallback_warnings[0] = bool(enabled)


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """What was kept by the function above."""
    return _fallback_warnings[0]


def _are_functorch_transforms_active() -> bool:
    """Whether a `vmap` is running."""
    return bool(local.batches)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a `TorchFunctionMode` is on."""
    return bool(modes.on & FUNCTION_MODE)


def _is_alias_of(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors share memory."""
    return first.untyped_storage()._cdata == second.untyped_storage()._cdata


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


def _cuda_isInBadFork() -> bool:
    return False


def _cuda_clearCublasWorkspaces() -> None:
    """There are none to clear."""


def _cuda_getDeviceCount() -> int:
    from .. import cuda

    return cuda.device_count()


def _get_cudnn_enabled() -> bool:
    from .. import backends

    return bool(backends.cudnn.enabled)


def _jit_switch(enabled: Any = True) -> bool:
    """A switch of TorchScript's compiler, which is not here; gives its last value."""
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_switch
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_override_can_fuse_on_cpu = _jit_switch
_jit_override_can_fuse_on_gpu = _jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _jit_switch
_get_default_dtype = get_default_dtype

SUM, AVG = AggregationType.SUM, AggregationType.AVG


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return local.grad


def _set_grad_enabled(enabled: bool) -> None:
    """Whether operations of this thread are recorded."""
    local.grad = bool(enabled)


def _current_graph_task_id() -> int:
    """The number of the backward pass that runs in this thread; -1 if none does."""
    return -1 if local.walk is None else local.walk.number


def _current_autograd_node() -> Node | None:
    """The node that the backward pass of this thread runs now; None outside of one."""
    node = getattr(local.walk, "node", None)
    return None if node is None else gradient_function(node)


def _is_grad_layout_enforcement_enabled() -> bool:
    return bool(local.grad_layout)


def _set_grad_layout_enforcement_enabled(enabled: bool) -> None:
    local.grad_layout = bool(enabled)


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the backward pass that runs now comes to a node."""
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    return will_run(node)


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes that the backward pass which runs now goes through, in order."""
    if local.walk is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    if getattr(local, "multithreading", True):
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with multithreading disabled: "
            "torch.autograd.set_multithreading_enabled(False)"
        )
    return execution_order()


class _WeakTensorRef:
    """Tells whether a tensor is still there, without keeping it."""

    def __init__(self, tensor: Tensor):
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Whether operations of this thread compute tangents."""
    local.forward_grad = bool(enabled)


def _is_fwd_grad_enabled() -> bool:
    return local.forward_grad


# -- objects of a thread ---------------------------------------------------------------------------------------------


def _stash_obj_in_tls(key: str, value: Any) -> None:
    """Keeps an object for this thread, under a name."""
    local.__dict__.setdefault("objects", {})[key] = value


def _is_key_in_tls(key: str) -> bool:
    return key in local.__dict__.get("objects", ())


def _get_obj_in_tls(key: str) -> Any:
    if not _is_key_in_tls(key):
        raise RuntimeError(f"nothing was kept for this thread under {key!r}; _stash_obj_in_tls does that")
    return local.__dict__["objects"][key]


def _remove_obj_from_tls(key: str) -> None:
    local.__dict__.get("objects", {}).pop(key, None)


def __getattr__(name: str) -> Any:
    """Loads the parts that stand on `autograd`, which needs this package first."""
    return submodule(__name__, name)


def _get_all_dtypes() -> list[dtype]:
    """All dtypes but the quantized ones and those of less than eight bits."""
    small = ("int1", "int2", "int3", "int4", "int5", "int6", "int7")
    return [d for d in ALL if d not in QUANTIZED and d.name.removeprefix("u") not in small]


def _get_deterministic_fill_uninitialized_memory() -> bool:
    return config.fill_uninitialized_memory


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    config.fill_uninitialized_memory = mode

"""flambeau: PyTorch's system in Python. `import flambeau as torch` runs PyTorch code."""

# ruff: noqa: F401 (names are here to be found)

import importlib as _importlib
import sys as _sys
from math import e, inf, nan, pi

from ._core import collector as _collector

with _collector.beginning():
    from . import _ops as _ops
    from ._autograd.modes import (
        enable_grad,
        inference_mode,
        is_grad_enabled,
        is_inference_mode_enabled,
        no_grad,
        set_grad_enabled,
    )  # fmt: skip
    from ._backend.threads import get_num_threads, set_num_threads
    from ._core import dtypes as _dtypes
    from ._core import layouts as _layouts
    from ._core.config import (
        AcceleratorError,
        OutOfMemoryError,
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        get_float32_matmul_precision,
        get_num_interop_threads,
        is_deterministic_algorithms_warn_only_enabled,
        is_warn_always_enabled,
        set_deterministic_debug_mode,
        set_float32_matmul_precision,
        set_flush_denormal,
        set_num_interop_threads,
        set_warn_always,
        sym_float,
        sym_int,
        sym_ite,
        sym_max,
        sym_min,
        sym_not,
        sym_sqrt,
        sym_sum,
        use_deterministic_algorithms,
    )  # fmt: skip
    from ._core.devices import device, get_default_device, set_default_device
    from ._core.dtypes import can_cast, dtype, get_default_dtype, promote_types, set_default_dtype
    from ._core.info import finfo, iinfo
    from ._core.layouts import layout, memory_format
    from ._core.printing import set_printoptions
    from ._core.quantizers import SCHEMES as _SCHEMES
    from ._core.quantizers import qscheme
    from ._core.sizes import Size, broadcast_shapes
    from ._errors import tracebacks as _tracebacks
    from ._interception import overrides as _overrides
    from ._interception.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
    from ._names.lazy import HOME as _HOME
    from ._ops.making.generator import Generator, default_generator
    from ._ops.registry import is_tensor
    from ._tensor import Tensor
    from ._tensor import constructors as _constructors
    from ._tensor import copying as _copying
    from ._tensor import methods as _methods
    from ._tensor import properties as _properties
    from ._tensor import protocol as _protocol
    from ._tensor import storage as _storage
    from ._tensor.constructors import set_default_tensor_type, typename
    from ._tensor.storage import UntypedStorage
    from ._tensor.typed_storage import TypedStorage, is_storage, legacy_classes
    from ._version import __version__

newaxis = None
for _class in (
    Tensor,
    Size,
    dtype,
    device,
    layout,
    memory_format,
    finfo,
    iinfo,
    Generator,
    TypedStorage,
    UntypedStorage,
):
    _class.__module__ = "flambeau"
for _part in (_properties, _protocol, _copying, _constructors, _methods):
    _part.attach()
_overrides.attach({**_properties.PROPERTIES, **_protocol.PROTOCOL, **_methods.quiet_methods()})
globals().update({name: d for d in _dtypes.ALL for name in (d.name, *d.aliases)})
globals().update({x.name: x for x in (*_layouts.FORMATS, *_layouts.LAYOUTS, *_SCHEMES)})
globals().update(_constructors.typed_classes(), **legacy_classes())
Storage = legacy_classes()["FloatStorage"]
legacy_contiguous_format = _layouts.contiguous_format  # the name it had before it was a choice
_find, _names = _methods.finder(globals())

from . import autograd  # noqa: E402  (gives tensors `backward`)
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402

_tracebacks.install()
torch = _sys.modules[__name__]  # PyTorch's namespace has itself as an attribute


def __getattr__(name: str) -> object:
    """Functions, and what `_lazy` lists, are found when they are first asked for."""
    home = _HOME.get(name)
    if home is None or name in _ops.registry.functions:
        return _methods.public_names(__dir__()) if name == "__all__" else _find(name)
    try:
        module = _importlib.import_module("." + home, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{home}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    found = module if name == home else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_names()})

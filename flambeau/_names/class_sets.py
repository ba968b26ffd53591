"""The old classes of tensors and storages, as sets that programs ask `type(x) in ...`."""

from __future__ import annotations

from .. import sparse
from .._tensor.constructors import typed_classes
from .._tensor.storage import UntypedStorage
from .._tensor.typed_storage import TypedStorage, legacy_classes

_storage_classes = {UntypedStorage, TypedStorage, *legacy_classes().values(), *legacy_classes("cuda").values()}
_tensor_classes = {
    made
    for classes in (typed_classes(), typed_classes("cuda"), sparse._typed_classes)
    for name, made in classes.items()
    if not name.startswith("Q")
}

"""The types of TorchScript, which programs name in annotations and compare."""

from __future__ import annotations

from typing import Any


class Type:
    """A type of TorchScript. Those without parts have one instance, which `get` gives.

    >>> TensorType.get(), ListType(IntType.get())
    (Tensor, List[int])
    """

    _name = ""

    @classmethod
    def get(cls) -> Any:
        """The one instance."""
        if "_one" not in cls.__dict__:
            cls._one = cls()  # type: ignore[attr-defined]
        return cls._one  # type: ignore[attr-defined]

    @property
    def annotation_str(self) -> str:
        """The type as it is written in annotations."""
        return self._name

    def str(self) -> str:
        """The type as text."""
        return self.annotation_str

    def kind(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def __repr__(self) -> str:
        return self.annotation_str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.annotation_str == other.annotation_str

    def __hash__(self) -> int:
        return hash(self.annotation_str)


class _Made(Type):
    """A type with parts."""

    def __init__(self, *parts: Any):
        self._parts = list(parts[0]) if len(parts) == 1 and isinstance(parts[0], (list, tuple)) else list(parts)

    @property
    def annotation_str(self) -> str:
        """The type as it is written in annotations."""
        return f"{self._name}[{', '.join(p.annotation_str for p in self._parts)}]"

    def getElementType(self) -> Any:
        """The type of what is inside."""
        return self._parts[0]

    def elements(self) -> list[Any]:
        """The types of the parts."""
        return self._parts

    containedTypes = elements

    def getKeyType(self) -> Any:
        """The type of a dictionary's keys."""
        return self._parts[0]

    def getValueType(self) -> Any:
        """The type of a dictionary's values."""
        return self._parts[1]


def _plain(name: str, written: str) -> Any:
    return type(name, (Type,), {"_name": written, "__doc__": f"The type {written}.", "__module__": __name__})


def _made(name: str, written: str) -> Any:
    return type(name, (_Made,), {"_name": written, "__doc__": f"A type {written}[…].", "__module__": __name__})


TensorType, AnyType, NoneType = _plain("TensorType", "Tensor"), _plain("AnyType", "Any"), _plain("NoneType", "NoneType")
IntType, FloatType, BoolType = _plain("IntType", "int"), _plain("FloatType", "float"), _plain("BoolType", "bool")
StringType, ComplexType = _plain("StringType", "str"), _plain("ComplexType", "complex")
NumberType, DeviceObjType = _plain("NumberType", "number"), _plain("DeviceObjType", "Device")
ListType, DictType, TupleType = _made("ListType", "List"), _made("DictType", "Dict"), _made("TupleType", "Tuple")
OptionalType, UnionType = _made("OptionalType", "Optional"), _made("UnionType", "Union")
FutureType = _made("FutureType", "Future")

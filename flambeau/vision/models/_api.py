"""How models are declared and found: weights enums, the functions that build models, and their registry."""

from __future__ import annotations

import fnmatch
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any
from urllib.error import URLError

from ... import nn
from ...hub import get_dir, load_state_dict_from_url
from ..transforms._presets import ImageClassification
from ..transforms.functional import InterpolationMode
from ._categories import IMAGENET

Builder = Callable[..., nn.Module]
_URL = "https://download.pytorch.org/models/"
_BUILDERS: dict[str, Builder] = {}
_WEIGHTS: dict[str, type[WeightsEnum]] = {}


@dataclass(eq=False)
class Weights:
    """A published set of weights: where it is, how its images are prepared, and what is known of it."""

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weights):
            return NotImplemented
        return (self.url, self.meta, _frozen(self.transforms)) == (other.url, other.meta, _frozen(other.transforms))

    __hash__ = object.__hash__


def _frozen(call: Any) -> Any:
    """What two partial calls have in common when they do the same."""
    return (call.func, call.args, call.keywords) if isinstance(call, partial) else call


class WeightsEnum(Enum):
    """Base of the enums of weights; `DEFAULT` names the best set.

    >>> from flambeau.vision.models import ResNet18_Weights
    >>> ResNet18_Weights.DEFAULT.meta["num_params"]
    11689512
    """

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """The member that `obj` is or names; None stays None."""
        if isinstance(obj, str):
            return cls[obj.replace(cls.__name__ + ".", "")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}."
            )
        return obj

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """The weights themselves, from the folder of downloads or from the network; arguments as of `torch.hub`'s loader."""
        kwargs.setdefault("weights_only", True)  # a file from elsewhere may hold anything
        try:
            return load_state_dict_from_url(self.url, *args, **kwargs)
        except URLError as error:
            name = self.url.rpartition("/")[2]
            raise RuntimeError(
                f"{self!r}: the weights are not in {get_dir()}/checkpoints and cannot be downloaded ({error.reason}); "
                f"get {name} from {self.url} and put it there"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @property
    def url(self) -> str:
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        return self.value.meta


def entry(
    file: str,
    parameters: int,
    top1: float,
    top5: float,
    smallest: int = 1,
    crop_size: int = 224,
    resize_size: int = 256,
    interpolation: str = "bilinear",
    categories: list[str] | None = IMAGENET,
    **preset: Any,
) -> Weights:
    """One set of weights trained on ImageNet: its file, size and accuracy, and how its images are prepared."""
    transforms = partial(
        ImageClassification,
        crop_size=crop_size,
        resize_size=resize_size,
        interpolation=InterpolationMode(interpolation),
        **preset,
    )
    meta = {
        "num_params": parameters,
        "min_size": (smallest, smallest),
        "categories": categories,
        "_metrics": {"ImageNet-1K": {"acc@1": top1, "acc@5": top5}},
    }
    if categories is None:
        del meta["categories"]
    return Weights(_URL + file, transforms, meta)


def weights_enum(name: str, *, default: str | None = None, **entries: Weights) -> Any:
    """Makes the enum `name`; its DEFAULT is the last entry unless said otherwise."""
    members = {**entries, "DEFAULT": entries[default or list(entries)[-1]]}
    return WeightsEnum(name, members, module=sys._getframe(1).f_globals["__name__"])


def builder(
    name: str,
    weights: Any,
    make: Builder,
    *,
    adapt: Callable[[Any, dict[str, Any]], Any] | None = None,
    rename: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    **fixed: Any,
) -> Builder:
    """Makes and registers the function `name(weights=None, progress=True, **kwargs)`.

    It builds `make(**fixed, **kwargs)` and fills it with the weights, if any are asked for. With weights, `adapt` may
    change the arguments and return what is to be done with the filled model; `rename` gives the file's keys new names.
    """

    def build(weights: Any = None, progress: bool = True, **kwargs: Any) -> nn.Module:
        chosen = build.weights.verify(_legacy(build.weights, weights, kwargs))  # type: ignore[attr-defined]
        if chosen is None:
            return make(**{**fixed, **kwargs})
        override(kwargs, "num_classes", len(chosen.meta.get("categories", IMAGENET)))
        finish = adapt(chosen, kwargs) if adapt else None
        model = make(**{**fixed, **kwargs})
        state = chosen.get_state_dict(progress=progress, check_hash=True)
        model.load_state_dict(rename(state))
        if finish:
            finish(model)
        return model

    frame = sys._getframe(1).f_globals
    build.__name__ = build.__qualname__ = name
    build.__module__ = frame["__name__"]
    build.__doc__ = f"The model {name}, with random weights or those of `{weights.__name__}`."
    build.weights = weights  # type: ignore[attr-defined]
    _BUILDERS[name] = build
    _WEIGHTS[weights.__name__] = weights
    return build


def _legacy(weights: Any, given: Any, kwargs: dict[str, Any]) -> Any:
    """The weights meant by `pretrained=True`, or by a bool in their place."""
    if "pretrained" in kwargs:
        given = bool(kwargs.pop("pretrained"))
    if not isinstance(given, bool):
        return given
    warnings.warn("'pretrained' is deprecated: name the weights, as in weights='DEFAULT'", stacklevel=4)
    return next(iter(weights)) if given else None


def override(kwargs: dict[str, Any], name: str, value: Any) -> None:
    """Sets an argument that the weights decide; the caller may only have said the same."""
    if kwargs.setdefault(name, value) != value:
        raise ValueError(f"The parameter '{name}' expected value {value} but got {kwargs[name]} instead.")


def get_model_builder(name: str) -> Builder:
    """The function that builds a model of this name."""
    try:
        return _BUILDERS[name.lower()]
    except KeyError:
        raise ValueError(f"Unknown model {name}") from None


def get_model(name: str, **config: Any) -> nn.Module:
    """The model of this name, built with `config`.

    >>> get_model("squeezenet1_1", num_classes=10).num_classes
    10
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: Builder | str) -> type[WeightsEnum]:
    """The enum of the weights of a model, given by name or by its function."""
    return (get_model_builder(name) if isinstance(name, str) else name).weights  # type: ignore[attr-defined]


def get_weight(name: str) -> Any:
    """The member of a weights enum by its full name.

    >>> get_weight("ResNet50_Weights.IMAGENET1K_V2")
    ResNet50_Weights.IMAGENET1K_V2
    """
    enum, dot, member = name.partition(".")
    if not dot or not member:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    if enum not in _WEIGHTS:
        raise ValueError(f"The weight enum '{enum}' for the specific method couldn't be retrieved")
    return _WEIGHTS[enum][member]


def list_models(
    module: Any = None, include: Iterable[str] | str | None = None, exclude: Iterable[str] | str | None = None
) -> list[str]:
    """The names of all models, of those in a module, or of those that match shell patterns.

    >>> list_models(include="resnet*", exclude="*1*")
    ['resnet34', 'resnet50']
    """
    names = {name for name, build in _BUILDERS.items() if module is None or _lives_in(build, module)}
    if include:
        names = {n for n in names if _matches(n, include)}
    if exclude:
        names = {n for n in names if not _matches(n, exclude)}
    return sorted(names)


def _lives_in(build: Builder, module: Any) -> bool:
    return build.__module__.rsplit(".", 1)[0] == module.__name__ or build.__module__ == module.__name__


def _matches(name: str, patterns: Iterable[str] | str) -> bool:
    return any(fnmatch.fnmatch(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

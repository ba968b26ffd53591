"""The options of classification scores: each is told once (type, default, check), and named by whoever takes it.

Signatures of the classes, and of functions that differ only in a score or a task, are made of these records.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, get_type_hints

from ...._tensor import Tensor
from ...utilities.checks import check_choice
from ._checks import (
    check_beta,
    check_bins,
    check_count,
    check_ignore_index,
    check_max_fpr,
    check_share,
    check_squared,
    check_threshold,
    check_thresholds,
    check_top_k,
    need_number,
    task_of,
)

Thresholds = int | list[float] | Tensor | None
REQUIRED = inspect.Parameter.empty
MULTIDIM = ("global", "samplewise")
NORMALIZE = ("true", "pred", "all", "none", None)
WEIGHTS = ("linear", "quadratic", "none", None)


class Option(NamedTuple):
    """An argument: its type, its default where a score names no other, and what its values must be."""

    type: Any
    default: Any = REQUIRED
    check: Callable[[Any], None] | None = None


OPTIONS = {
    "preds": Option(Tensor),
    "target": Option(Tensor),
    "task": Option(str),
    "num_classes": Option(int, REQUIRED, partial(check_count, "num_classes")),
    "num_labels": Option(int, REQUIRED, partial(check_count, "num_labels")),
    "threshold": Option(float, 0.5, check_threshold),
    "thresholds": Option(Thresholds, None, check_thresholds),
    "average": Option(str | None, "macro"),  # which averages there are depends on the score
    "multidim_average": Option(str, "global", partial(check_choice, "multidim_average", allowed=MULTIDIM)),
    "top_k": Option(int, 1, check_top_k),
    "ignore_index": Option(int | None, None, check_ignore_index),
    "validate_args": Option(bool, True),
    "zero_division": Option(float, 0),
    "beta": Option(float, REQUIRED, check_beta),
    "normalize": Option(str | None, None, partial(check_choice, "normalize", allowed=NORMALIZE)),
    "weights": Option(str | None, None, partial(check_choice, "weights", allowed=WEIGHTS)),
    "normalization": Option(str | None, "sigmoid"),
    "max_fpr": Option(float | None, None, check_max_fpr),
    **{
        name: Option(float, REQUIRED, partial(check_share, name))
        for name in ("min_precision", "min_recall", "min_specificity", "min_sensitivity")
    },
    "n_bins": Option(int, 15, check_bins),
    "norm": Option(str, "l1", partial(check_choice, "norm", allowed=("l1", "l2", "max"))),
    "squared": Option(bool, False, check_squared),
    "multiclass_mode": Option(
        str, "crammer-singer", partial(check_choice, "multiclass_mode", allowed=("crammer-singer", "one-vs-all"))
    ),
}


def check_options(**given: Any) -> None:
    """Raises for a value that its option cannot have."""
    for name, value in given.items():
        check = OPTIONS[name].check
        if check is not None:
            check(value)


def takes(names: str, **defaults: Any) -> inspect.Signature:
    """The signature with these options, in this order; `defaults` are those that differ from the usual ones.

    >>> takes("num_classes average", average="micro")
    <Signature (num_classes: int, average: str | None = 'micro')>
    """
    parameters = []
    for name in names.split():
        kind, usual, _ = OPTIONS[name]
        default = defaults.get(name, usual)
        kind = kind | None if default is None else kind
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        )
    return inspect.Signature(parameters)


def takes_task(names: str, **defaults: Any) -> inspect.Signature:
    """The same for what gets a `task` first: the numbers of classes and of labels need not be given."""
    return takes(f"task {names}", num_classes=None, num_labels=None, **defaults)


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, with defaults."""
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    return given.arguments


def described(function: Callable[..., Any], signature: inspect.Signature, name: str, doc: str) -> Callable[..., Any]:
    """The function of this signature under a name; the function inside gets the values in their order."""

    def named(*args: Any, **kwargs: Any) -> Any:
        return function(*bound(signature, args, kwargs).values())

    returns = get_type_hints(function)["return"]
    named.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
    named.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": returns}
    named.__name__ = named.__qualname__ = name
    named.__doc__, named.__module__ = doc, function.__module__
    return named


def options_for(taken: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given options that a task's function or class takes; the number of classes or labels is needed."""
    chosen = {name: given[name] for name in taken if name in given}
    for name in ("num_classes", "num_labels"):
        if name in chosen:
            need_number(name, chosen[name])
    return chosen


def by_task(what: str, names: str, *functions: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """The function that gets a `task` and hands over to `binary_…`, `multiclass_…` or `multilabel_…`, as far as given."""
    tasks = {function.__name__.partition("_")[0]: function for function in functions}
    taken = {function: tuple(inspect.signature(function).parameters) for function in functions}
    data = takes("preds target").parameters.values()
    signature = inspect.Signature([*data, *takes_task(names, **defaults).parameters.values()])

    def of_task(*values: Any) -> Any:
        given = dict(zip(signature.parameters, values))
        function = tasks[task_of(given["task"], tuple(tasks))]
        return function(**options_for(taken[function], given))

    of_task.__module__ = functions[0].__module__
    of_task.__annotations__["return"] = get_type_hints(functions[0])["return"]
    quoted = [f'"{task}"' for task in tasks]
    doc = f"{what}, for `task` {', '.join(quoted[:-1])} or {quoted[-1]}."
    return described(of_task, signature, functions[0].__name__.partition("_")[2], doc)

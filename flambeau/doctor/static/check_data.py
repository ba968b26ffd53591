"""Reads loaders, datasets, splits and seeds."""

from __future__ import annotations

import ast

from .loops import Loops
from .source import Source, constant, keyword

_EVALUATION = ("val", "test", "eval", "dev", "valid", "validation", "holdout")
# Functions that draw from a generator, by module.
_DRAWS = {
    "random": ["random", "randint", "uniform", "choice", "choices", "sample", "shuffle", "gauss", "normalvariate", "randrange", "betavariate", "triangular"],
    "numpy.random": ["rand", "randn", "randint", "random", "random_sample", "uniform", "normal", "choice", "shuffle", "permutation", "standard_normal", "binomial", "poisson", "beta", "gamma", "exponential"],
    "torch": ["rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like"],
}  # fmt: skip
_SEEDS = {
    "random": ("random.seed",),
    "numpy.random": ("numpy.random.seed",),
    "torch": ("torch.manual_seed", "torch.random.manual_seed", "torch.seed"),
}


def check(source: Source) -> None:
    loops = Loops(source)
    loaders = [c for c in source.calls if source.called(c) == "DataLoader"]
    _workers(source, loaders)
    _seeds(source)
    for call in loaders:
        _shuffle(source, loops, call)
    for call in source.calls:
        if source.called(call) == "random_split":
            _split(source, call)
    _subsets(source)
    _means(source, loops)
    _pinned(source, loaders)


def _positive(source: Source, node: ast.expr | None) -> bool:
    known = [constant(v) for v, i in source.origins(node)] if node is not None else []
    return any(isinstance(k, int) and k > 0 for k in known)


def _guard(source: Source, node: ast.AST) -> bool:
    return any(
        isinstance(a, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(a.test))
        for a in source.ancestors(node)
    )


def _runs_unguarded(source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether a node runs when the file is imported."""
    if _guard(source, node) or depth > 5:
        return False
    function = source.function(node)
    if function is source.tree:
        return True
    if not isinstance(function, ast.FunctionDef):
        return False
    owner = source.parents.get(function)
    names = {function.name, owner.name} if isinstance(owner, ast.ClassDef) else {function.name}
    for call in source.calls:
        func = call.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name in names and source.function(call) is not function and _runs_unguarded(source, call, depth + 1):
            return True
    return False


def _workers(source: Source, loaders: list[ast.Call]) -> None:
    parallel = [c for c in loaders if _positive(source, keyword(c, "num_workers", 5))]
    for call in parallel:
        if _runs_unguarded(source, call) and not source.path.endswith(".ipynb"):
            source.find(
                "unguarded-workers", call, 'A loader with workers runs outside of `if __name__ == "__main__":`.'
            )
    bare = [c for c in parallel if keyword(c, "worker_init_fn") is None]
    if not bare:
        return
    for owner in source.classes.values():
        methods = {f.name: f for f in owner.body if isinstance(f, ast.FunctionDef)}
        if "__getitem__" not in methods:
            continue
        for node in [*_reached(methods["__getitem__"], methods, source), *_given_to(source, owner)]:
            if isinstance(node, ast.Call):
                name = source.name(node.func)
                base, _, last = name.rpartition(".")
                own = isinstance(node.func, ast.Attribute) and source.kinds(node.func.value) & {
                    "numpy.random.default_rng",
                    "numpy.random.RandomState",
                }
                if own or (base == "numpy.random" and last in _DRAWS["numpy.random"]):
                    source.find(
                        "workers-share-numpy-seed",
                        node,
                        "All workers inherit the same state of NumPy's generator and draw the same numbers.",
                        0.85,
                    )


def _reached(function: ast.FunctionDef, methods: dict[str, ast.FunctionDef], source: Source) -> list[ast.AST]:
    """The nodes of a method, and of methods and functions of the file that it calls."""
    seen, todo, nodes = set(), [function], []
    while todo:
        current = todo.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        for node in ast.walk(current):
            nodes.append(node)
            if isinstance(node, ast.Call):
                func = node.func
                if (
                    isinstance(func, ast.Attribute)
                    and isinstance(func.value, ast.Name)
                    and func.value.id == "self"
                    and func.attr in methods
                ):
                    todo.append(methods[func.attr])
                elif isinstance(func, ast.Name) and func.id in source.functions:
                    todo.append(source.functions[func.id][-1])
    return nodes


def _given_to(source: Source, owner: ast.ClassDef) -> list[ast.AST]:
    """The nodes of functions and callable objects that the file gives to a dataset (transforms)."""
    nodes: list[ast.AST] = []
    for made in source.calls:
        if source.name(made.func) != owner.name:
            continue
        for argument in [*made.args, *(k.value for k in made.keywords)]:
            for value, _ in source.origins(argument):
                for n in ast.walk(value):
                    name = source.name(n) if isinstance(n, ast.Name) else ""
                    for function in source.functions.get(name, ()):
                        nodes += list(ast.walk(function))
                    if name in source.classes:
                        nodes += list(ast.walk(source.classes[name]))
                if isinstance(value, ast.Lambda):
                    nodes += list(ast.walk(value))
    return nodes


def _seeds(source: Source) -> None:
    """One generator is seeded, another one is drawn from."""
    seeded, drawn = set(), {}
    for call in source.calls:
        name = source.name(call.func)
        if name.rpartition(".")[2] in ("seed_everything", "set_seed", "seed_all") and not source.functions.get(name):
            return  # a library's function that seeds all
        for module, names in _SEEDS.items():
            if name in names or name in tuple(n.replace("torch", "flambeau") for n in names):
                seeded.add(module)
        base, _, last = name.rpartition(".")
        base = "torch" if base == "flambeau" else base
        if base in _DRAWS and last in _DRAWS[base] and keyword(call, "generator") is None:
            drawn.setdefault(base, call)
        if name == "numpy.random.default_rng" and not call.args and not call.keywords:
            drawn.setdefault("numpy.random", call)
        if base == "torch" or "torch.nn" in name:
            from .check_models import makes_layer  # the other way round only for this question

            if makes_layer(source, call):
                drawn.setdefault("torch", call)
    if not seeded:
        return
    titles = {"random": "Python's random", "numpy.random": "NumPy's generator", "torch": "torch's generator"}
    for module, call in drawn.items():
        if module not in seeded:
            source.find(
                "incomplete-seeding",
                call,
                f"{titles[module]} is used here but never seeded, though the program seeds {' and '.join(titles[s] for s in sorted(seeded))}.",
                0.85,
            )


def _variable(source: Source, call: ast.Call) -> str:
    parent = source.parents.get(call)
    if isinstance(parent, ast.Assign):
        target = parent.targets[0]
        return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    if isinstance(parent, (ast.Tuple, ast.Dict)) and isinstance(above := source.parents.get(parent), ast.Assign):
        target = above.targets[0]
        if isinstance(parent, ast.Tuple) and isinstance(target, ast.Tuple) and len(parent.elts) == len(target.elts):
            element = target.elts[parent.elts.index(call)]
            return element.id if isinstance(element, ast.Name) else ""
        if isinstance(parent, ast.Dict) and call in parent.values:
            return str(constant(parent.keys[parent.values.index(call)], ""))
    return ""


def is_evaluation_name(name: str) -> bool:
    parts = name.lower().replace("-", "_").split("_")
    return any(p in _EVALUATION or p.rstrip("0123456789") in _EVALUATION for p in parts) or name.lower() in (
        "valloader",
        "testloader",
        "evalloader",
    )


def _trains_sometimes(source: Source, loops: Loops, loop: ast.AST) -> bool:
    """Whether backward in a loop depends on a condition: one function for training and evaluation."""
    calls = [
        c
        for c in ast.walk(loop)
        if isinstance(c, ast.Call)
        and source.loops(c)[:1] == [loop]
        and (c in loops.backwards or loops.runs_backward(c))
    ]
    inside = set(ast.walk(loop))
    return all(any(isinstance(a, ast.If) and a in inside for a in source.ancestors(c)) for c in calls)


def _shuffle(source: Source, loops: Loops, call: ast.Call) -> None:
    if any(k.arg is None for k in call.keywords):
        return
    shuffled = keyword(call, "shuffle", 2)
    variable = _variable(source, call)
    own = any(keyword(call, name) is not None for name in ("sampler", "batch_sampler")) or len(call.args) > 3
    if is_evaluation_name(variable):
        if constant(shuffled) is True:
            source.find("shuffle", call, f"{variable} is for evaluation, but it is shuffled.", 0.8)
        return
    if own or (shuffled is not None and constant(shuffled) is not False):
        return
    if _iterable(source, keyword(call, "dataset", 0)):
        return
    for loop in _loops_over(source, call, variable):
        if loops.trains(loop):
            sure = 0.8 if shuffled is None or "train" in variable.lower() else 0.6
            if _trains_sometimes(source, loops, loop):
                sure = 0.45  # the run decides
            source.find("shuffle", call, "This loader is trained on, but it does not shuffle.", sure)
            return


def _iterable(source: Source, dataset: ast.expr | None) -> bool:
    for kind in source.kinds(dataset):
        owner = source.classes.get(kind)
        if owner is not None and any("Iterable" in ast.unparse(b) for b in owner.bases):
            return True
        if "Iterable" in kind:
            return True
    return False


def _loops_over(source: Source, call: ast.Call, variable: str) -> list[ast.For]:
    """Loops whose iterable is the loader that a call makes."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For):
            names = [n for n in ast.walk(node.iter) if isinstance(n, (ast.Name, ast.Attribute, ast.Call))]
            if any(n is call or any(v is call for v, i in source.origins(n)) for n in names):
                found.append(node)
    return found


_AUGMENT = ("Random", "ColorJitter", "AutoAugment", "TrivialAugment", "AugMix", "GaussianBlur", "RandAugment")


def _split(source: Source, call: ast.Call) -> None:
    dataset = keyword(call, "dataset", 0)
    for made, index in source.origins(dataset):
        if index is None and isinstance(made, ast.Call) and _augments(source, made):
            source.find(
                "shared-transform",
                call,
                "Both parts of this split share a dataset that augments at random: validation is augmented as well.",
                0.85,
            )
            return
    if keyword(call, "generator", 2) is None:
        source.find("shared-transform", call, "random_split without a generator: every run splits otherwise.", 0.7)


def _subsets(source: Source) -> None:
    """Subsets of one augmenting dataset; datasets for evaluation that augment."""
    parts: dict[int, list[ast.Call]] = {}
    for call in source.calls:
        if source.called(call) == "Subset" and call.args:
            for made, index in source.origins(call.args[0]):
                if index is None and isinstance(made, ast.Call) and _augments(source, made):
                    parts.setdefault(id(made), []).append(call)
        elif (
            is_evaluation_name(_variable(source, call))
            and not source.called(call)
            and source.name(call.func) in source.classes
        ):
            owner = source.classes[source.name(call.func)]
            if any(f.name == "__getitem__" for f in owner.body if isinstance(f, ast.FunctionDef)) and _random_arguments(
                source, call
            ):
                source.find("shared-transform", call, "This dataset is for evaluation, but it augments at random.", 0.8)
        elif (
            is_evaluation_name(_variable(source, call))
            and "datasets" in source.name(call.func)
            and _random_arguments(source, call)
        ):
            source.find("shared-transform", call, "This dataset is for evaluation, but it augments at random.", 0.8)
    for calls in parts.values():
        if len(calls) > 1:
            last = next((c for c in calls if is_evaluation_name(_variable(source, c))), calls[-1])
            source.find(
                "shared-transform",
                last,
                "Both subsets share a dataset that augments at random: validation is augmented as well.",
                0.85,
            )


def _augments(source: Source, made: ast.Call) -> bool:
    """Whether a dataset is made with random transforms, or draws random numbers itself."""
    if _random_arguments(source, made):
        return True
    owner = source.classes.get(source.name(made.func))
    if owner is None:
        return False
    methods = {f.name: f for f in owner.body if isinstance(f, ast.FunctionDef)}
    if "__getitem__" not in methods:
        return False
    switched = [k for k in made.keywords if constant(k.value) is False]
    return not switched and any(_draws(source, n) for n in _reached(methods["__getitem__"], methods, source))


def _random_arguments(source: Source, made: ast.Call) -> bool:
    """Whether something given to a constructor draws random numbers."""
    for argument in [*made.args, *(k.value for k in made.keywords)]:
        for value, _ in source.origins(argument):
            for node in ast.walk(value):
                if isinstance(node, (ast.Name, ast.Attribute)) and source.name(node).rpartition(".")[2].startswith(
                    _AUGMENT
                ):
                    return True
            if isinstance(value, ast.Call) and source.name(value.func) in source.classes:
                if any(_draws(source, n) for n in ast.walk(source.classes[source.name(value.func)])):
                    return True
            if isinstance(value, (ast.Name,)) and value.id in source.functions:
                if any(_draws(source, n) for f in source.functions[value.id] for n in ast.walk(f)):
                    return True
            if isinstance(value, ast.Lambda) and any(_draws(source, n) for n in ast.walk(value)):
                return True
    return False


def _draws(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    base, _, last = source.name(node.func).rpartition(".")
    return base in _DRAWS and last in _DRAWS[base]


def _means(source: Source, loops: Loops) -> None:
    """Sums of batch means divided by the number of batches; the run decides whether batches are unequal."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            total, count = node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            total, count = node.target, node.value
        elif (
            isinstance(node, ast.Call)
            and source.name(node.func) in ("numpy.mean", "statistics.mean", "statistics.fmean")
            and node.args
        ):
            total, count = node.args[0], None
        else:
            continue
        if (
            count is not None
            and isinstance(total, ast.Call)
            and isinstance(total.func, ast.Name)
            and total.func.id == "sum"
            and total.args
        ):
            total = total.args[0]
            if not (
                isinstance(count, ast.Call)
                and isinstance(count.func, ast.Name)
                and count.func.id == "len"
                and ast.unparse(count.args[0]) == ast.unparse(total)
            ):
                continue
            count = None
        name = ast.unparse(total)
        found = _summed(source, node, name, count)
        if found is not None:
            finding = source.find(
                "mean-of-batch-means", node, "Means of batches are averaged plainly; the last batch is smaller.", 0.4
            )
            finding.evidence.append(f"loop at line {found.lineno}")


def _summed(source: Source, division: ast.AST, name: str, count: ast.expr | None) -> ast.For | None:
    """The loop over batches in which losses are added to a name that is then divided by the number of batches."""
    function = source.function(division)
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and ast.unparse(node.target) == name:
            value = node.value
        elif (
            isinstance(node, ast.Call)
            and source.method(node) == "append"
            and node.args
            and count is None
            and ast.unparse(node.func.value) == name
        ):
            value = node.args[0]
        else:
            continue
        around = source.loops(node)
        if not around or not isinstance(around[0], ast.For) or division in list(ast.walk(around[0])):
            continue
        loop = around[0]
        if any(isinstance(n, (ast.BinOp,)) for n in ast.walk(value)):
            continue
        if not _loss_like(source, value) and not _is_batch_mean(source, value, loop):
            continue
        if count is not None and not _counts(source, count, loop):
            continue
        return loop
    return None


def _loss_like(source: Source, value: ast.expr) -> bool:
    """A loss (by name or by what made it), perhaps as a number."""
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("item", "detach", "cpu")
    ):
        return _loss_like(source, value.func.value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "float" and value.args:
        return _loss_like(source, value.args[0])
    if isinstance(value, ast.Call):
        made = " ".join([source.called(value), *source.kinds(value.func)])
        return "loss" in made.lower() or "cross_entropy" in made
    if isinstance(value, ast.Name):
        if "loss" in value.id.lower():
            return True
        return any(v is not value and _loss_like(source, v) for v, i in source.origins(value))
    return False


def _is_batch_mean(source: Source, value: ast.expr, loop: ast.For) -> bool:
    """The mean over everything of a batch (an accuracy, an error), perhaps as a number."""
    batch = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    for made, index in source.origins(value):
        for _ in range(3):
            if source.method(made) in ("item", "detach", "cpu"):
                made = next((v for v, i in source.origins(made.func.value) if i is None), made.func.value)
        if index is None and source.method(made) == "mean" and not made.args and not made.keywords:
            return any(isinstance(n, ast.Name) and n.id in batch for n in ast.walk(made.func.value))
    return False


def _counts(source: Source, count: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is the number of turns of a loop: len(loader), or a counter."""
    text = ast.unparse(loop.iter)
    if isinstance(count, ast.Call) and isinstance(count.func, ast.Name) and count.func.id == "len" and count.args:
        return ast.unparse(count.args[0]) in text
    if isinstance(count, ast.Name):
        for node in ast.walk(loop):
            if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == count.id and constant(node.value) == 1:
                return True
        return any(_counts(source, v, loop) for v, i in source.origins(count) if v is not count)
    return False


def _pinned(source: Source, loaders: list[ast.Call]) -> None:
    """Loaders that pin with copies that block, and the reverse."""
    pins = [
        c
        for c in loaders
        if keyword(c, "pin_memory") is not None and constant(keyword(c, "pin_memory"), True) is not False
    ]
    by_hand = any(source.method(c) == "pin_memory" for c in source.calls) or any(
        constant(keyword(c, "pin_memory")) is True for c in source.calls if c not in loaders
    )
    opaque = any(k.arg is None for c in loaders for k in c.keywords)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.For):
            continue
        sources = [
            c
            for c in loaders
            if any(c is v for n in ast.walk(node.iter) if isinstance(n, ast.expr) for v, i in source.origins(n))
        ]
        if not sources:
            continue
        batch = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        for call in [n for n in ast.walk(node) if isinstance(n, ast.Call)]:
            if source.method(call) not in ("to", "cuda") or not isinstance(call.func, ast.Attribute):
                continue
            names = {n.id for n in ast.walk(call.func.value) if isinstance(n, ast.Name)}
            if not names & batch or (source.method(call) == "to" and not _to_device(source, call)):
                continue
            waits = constant(keyword(call, "non_blocking", 1), False)
            if waits is False and keyword(call, "non_blocking") is None and any(s in pins for s in sources):
                source.find("pinned-but-blocking", call, "The loader pins its memory, but this copy blocks.", 0.8)
            elif waits is True and not any(s in pins for s in sources) and not by_hand and not opaque:
                source.find(
                    "pinned-but-blocking",
                    call,
                    "This copy is asked not to block, but the loader does not pin its memory.",
                    0.8,
                )


def _to_device(source: Source, call: ast.Call) -> bool:
    given = call.args[0] if call.args else keyword(call, "device")
    if given is None or constant(given) in ("mps", "cpu"):
        return False
    return not (source.torch(given).startswith(("float", "int", "long", "double", "half", "bfloat", "bool")))

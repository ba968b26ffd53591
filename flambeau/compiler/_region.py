"""A compiled function: programs for the states of the world in which it was called, and the way to another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any
from weakref import ref

from .._compile.arguments import Arguments, is_ordinary
from .._compile.breaks import Break, Changing, Otherwise, counters, log, logs, tells
from .._compile.capture import Capture
from .._compile.checks import Guards
from .._compile.chosen import Unchosen
from .._compile.followed import Followed
from .._compile.graph import COMPUTES, Graph
from .._compile.guards import Trail
from .._compile.holders import Effect, plain, same
from .._compile.names import catches
from .._compile.numbers import is_live, is_own, reader_in, wants_integers
from .._compile.numbers import plain as plain_number
from .._compile.pair import Pair
from .._compile.said import Said
from .._compile.said import again as tell_again
from .._compile.writes import changes
from .._core.collector import uncollected
from .._core.state import BATCHED, CAPTURE, DISPATCH, DUAL, GRAD, OVERRIDE, QUANTIZED, SPARSE, local, modes
from .._tensor import Tensor
from ..nn.modules.container import ModuleDict, ModuleList
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from ._forms import Forms, kinds_of, leaves_in, nothing, ordinary_in
from ._inside import Linked, copied_containers, given_back, has_more, inside_form, leads_to, settle, write_back
from ._marks import changing, check_limits
from ._pieces import Drawn, Pieces, is_tied, outline, runs_once
from ._places import INPUT, ITSELF, OUTPUT, Places, Sources, as_tensor, change, first, found, make


def forbidden(problem: Break) -> Exception:
    """The error for a break where `error_on_graph_break` forbids it."""
    from .._dynamo.exc import Unsupported  # which needs this module first

    return Unsupported(
        f"{problem}. error_on_graph_break(True) is in force: move this out of the function, or allow the break."
    )


def asked(backend: Callable[..., Any], module: Any, examples: Sequence[Tensor], **options: Any) -> Any:
    """What a backend that somebody wrote makes of a graph."""
    try:
        return backend(module, list(examples), **options)
    except Exception as error:
        from .._dynamo.exc import BackendCompilerFailed  # which need this module first
        from .._subclasses.fake_tensor import DynamicOutputShapeException

        if isinstance(error, DynamicOutputShapeException):  # it traces the graph anew, which we cannot do with draws
            raise
        raise BackendCompilerFailed(backend, error) from error


def _is_backends(error: Exception) -> bool:
    """Whether a backend has raised, and that is to be known."""
    from .._dynamo import config, exc

    return isinstance(error, exc.BackendCompilerFailed) and not config.suppress_errors


class Foreign:
    """A graph in the hands of a backend that somebody wrote: a function of inputs and constants."""

    nbytes = 0  # as far as we know

    def __init__(self, tape: Capture, outputs: Sequence[Tensor], backend: Callable[..., Any], **options: Any):
        from ._fx_form import graph_module  # fx is loaded by those who use it

        graph = tape.finish(outputs)
        self.constants = list(graph.constants.values())
        module = graph_module(graph)
        examples = [tape.tensor(v).requires_grad_(bool(v.k & GRAD)) for v in graph.inputs]
        self.call = asked(backend, module, [*examples, *self.constants], **options)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return list(self.call(*inputs, *self.constants))


class Entry:
    """One state of the world in which a function was recorded: guards, a program, and how its results are put together."""

    __slots__ = (
        "__weakref__",
        "carried",
        "containers",
        "effects",
        "form",
        "function",
        "guards",
        "only",
        "places",
        "program",
        "said",
    )

    def __init__(
        self, guards: Guards, program: Any, form: Any, places: list[tuple[int, Any]], effects: list[Any], carried: list[Any],
        said: list[tuple[list[Any], Any]], containers: list[Any],
    ):  # fmt: skip
        self.guards, self.program, self.form, self.places, self.effects = guards, program, form, places, effects
        self.carried = carried  # functions that get further inputs from where the last run left them
        self.containers = containers  # the same for containers that it returns or keeps elsewhere
        self.said = said  # statements that tell somebody something, each with what the run has changed before
        self.function: Any = None  # runs in the place of a program that is slower
        self.only = None if effects or said or form is not None else places[0]  # one object is all that there is

    def run(self, args: Any, named: Any) -> Any:
        if self.function is not None:
            return self.function(*args, **named)
        inputs, given = self.guards.find(args, named)
        if self.carried:
            inputs = [*inputs, *[get(given) for get in self.carried]]
        if self.containers:
            given = [*given, *[get(given) for get in self.containers]]
        outputs = self.program.run(inputs)
        if self.only is not None:
            kind, what = self.only
            if kind == OUTPUT:
                return outputs[what]
            return what if kind == ITSELF else found(self.only, (outputs, inputs, given, {}))
        for effects, say in self.said:
            sources: Sources = outputs, inputs, given, {}
            make(effects, sources)
            say(sources)
        return self.finish(outputs, inputs, given)

    def finish(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor],
        given: Sequence[Any],
        effects: Any = None,
        places: Any = None,
    ) -> Any:
        """What the function returns, after what it changes besides."""
        sources: Sources = outputs, inputs, given, {}
        parts = [found(place, sources) for place in places or self.places]
        make(self.effects if effects is None else effects, sources)
        return parts[0] if self.form is None else tree_unflatten(parts, self.form)


class Caught:
    """A program of a function that catches errors: if there is one, the function itself says what follows."""

    def __init__(self, program: Any):
        self.program = program

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        try:
            return self.program.run(inputs)
        except Exception:
            raise Otherwise() from None


# Tensors that other code than the records' takes over, or whose elements are not simply in memory: no program knows them.
_FOREIGN = OVERRIDE | DISPATCH | BATCHED | SPARSE | QUANTIZED | DUAL
_COMPILING = {"is_compiling", "is_dynamo_compiling"}  # names of functions that tell compiled functions from others
_ATTEMPTS = 4  # to record what may go better the next time
_PIECES = 16  # pieces of a function, for each time that it may be recorded
_HOPELESS = 16  # calls without a program in a row, after which only every so many look for one
_LITTLE = 8  # operations with gradients that may take longer as a program than eagerly
_FEW = 4  # programs that may be wrong more often than right


class Region:
    """A function whose calls are compiled.

    `limit()` says how many programs may be kept, `backend` what is called with a graph (None: it becomes a program of ours),
    `unsupported(problem)` gives the error for a function that must be recorded whole (None: it need not). With `exact` nothing is
    compiled whose gradients would be added up in another order than eagerly; with `tune` programs are tried in several forms,
    with `graphs` those on a GPU run as CUDA graphs.
    """

    exact = tune = graphs = False
    name: str | None = None  # what messages call it
    choice: Any = None  # says which guards stay

    def __init__(
        self, function: Callable[..., Any], limit: Callable[[], int] = lambda: 8, backend: Any = None,
        unsupported: Callable[[Break], Exception] | None = None, stance: Callable[[], str] = lambda: "default",
        dynamic: bool | None = None,
    ):  # fmt: skip
        self.function, self.limit, self.backend, self.unsupported = function, limit, backend, unsupported
        self.stance, self.tell = stance, log
        self.alike: set[type] = set()  # classes of arguments of which there are others in each call
        self.apart: set[type] = set()  # classes whose objects have to be known by who they are nevertheless
        # arguments that were known by who they are: class, functions that get them and the ordinary objects in them
        self.met: list[tuple[type, list[Callable[[], Any]]]] = []
        self.loose: set[str] = set()  # their attributes with numbers that change from call to call
        self.forms = Forms(dynamic, self.alike, self.loose)
        self.problem: Break | None = None
        self.failed: set[Any] = set()  # kinds of calls that could not be recorded
        own = getattr(function, "__self__", function)
        self.module = own if isinstance(own, Module) else None
        self.misses = 0  # calls for which none of as many programs as may be kept is right, since one was
        self.scattered = False  # whether elements gave so many answers that it is not recorded any more
        self.surprises = 0  # how often a branch went another way than a program expected
        self.hits = self.lost = 0  # calls since the first time that were right for another program, or for none
        self.latest: ref[Entry] | None = None  # the last of these
        self.attempts = 0  # to record it that failed
        self.plants: list[
            Any
        ] = []  # places of numbers that change from call to call, and those that matter nevertheless
        self.fixed: list[Any] = []
        self.followed: dict[int, Any] = {}  # code that runs in the backward passes of recorded runs
        self.pieces: dict[
            Any, tuple[Any, Graph]
        ] = {}  # what a backend has made of parts between breaks, by what these do
        self.parts: dict[Module, Region] = {}  # modules that are compiled by themselves, as the function cannot be

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if modes.on & CAPTURE and local.captures:  # a part of another region
            return self.function(*args, **named)
        forms, before = self.forms, self.surprises
        recent = forms.recent()
        # guards know the moment, too: what looks at single operations was not there when the entry was made
        if recent is not None and not before and forms.trial is None and self.stance() != "force_eager":
            if recent.guards.check(args, named):
                try:
                    return recent.run(args, named)
                except Otherwise:
                    self.surprises += 1
        return self._search(args, named, before)

    def _search(self, args: Any, named: Any, before: int) -> Any:
        """A call for which the entry that was right last is not; `before`: how many surprises there were before it."""
        if local.transforms or local.batches or local.duals is not None:  # these look at single operations
            return self.function(*args, **named)
        stance, forms = self.stance(), self.forms
        if stance == "force_eager" or (forms.slow and forms.of(args, named) in forms.slow):
            return self.function(*args, **named)
        if self.misses > _HOPELESS and self.misses % _HOPELESS and stance == "default":
            self.misses += 1
            return self.function(*args, **named)
        if self.failed and not forms.known and stance == "default" and not changing and self._fails(args, named):
            return self._in_parts(args, named)
        if forms.trial is not None and not self.misses:
            return forms.tried(self.function, self, args, named)
        entries = forms.fitting(args, named) if self.choice is None else self.entries
        for entry in entries:
            if entry.guards.check(args, named):
                try:
                    out = entry.run(args, named)
                except Otherwise:  # nothing has happened yet
                    self.surprises += 1
                else:
                    self.misses = 0
                    if self.surprises:
                        self._was_right(entry, entries)
                    else:
                        forms.was_right(entry)
                    return out
        if self.misses and stance == "default" and len(entries) >= self.limit() and self.surprises == before:
            self.misses += 1
            forms.recent = nothing
            return self.function(*args, **named)
        self.misses = 0
        if stance == "default" and not self.met and self.problem is None:
            form = forms.waiting(args, named)
            if form is not None:
                return forms.eagerly(self.function, args, named, form)
        self.lost += self.surprises > before
        return self._not_known(args, named, stance)

    def _was_right(self, entry: Entry, entries: list[Entry]) -> None:
        """A program stood for the right answers: if it did so twice, it is the first that is tried."""
        self.hits += 1
        if self.latest == ref(entry) and entry is not entries[0]:
            self.forms.prefer(entry)
        self.latest = ref(entry)

    def _shown(self) -> str:
        return self.name or _shown(self.function)

    @property
    def entries(self) -> list[Entry]:
        """All that is known, the newest first."""
        return self.forms.entries()

    def forget(self) -> None:
        """Drops all programs."""
        self.forms, self.problem, self.parts, self.latest = (
            Forms(self.forms.dynamic, self.alike, self.loose),
            None,
            {},
            None,
        )
        self.surprises = self.hits = self.lost = self.misses = 0
        self.scattered = False
        self.pieces.clear()
        self.failed.clear()

    def _not_known(self, args: Any, named: Any, stance: str) -> Any:
        if stance == "run_only":
            return self.function(*args, **named)
        if changing:
            check_limits(leaves_in((args, named), self.alike))
        if self._fails(args, named):
            return self._in_parts(args, named) if self.backend is None else self._recorded(args, named)
        self.problem = (
            None  # what must be recorded whole is tried again: other arguments may go another way, or it raises
        )
        self._learn(args, named)
        from .._dynamo import config as settings  # which need this module first
        from .._dynamo import exc

        if self.forms.recompiles(args, named, settings.automatic_dynamic_shapes):
            refused = stance == "fail_on_recompile" or settings.error_on_recompile
            if self.entries and (refused or tells("recompiles")):
                reasons = "; ".join([entry.guards.reason(args, named) for entry in self.entries[:3]])
                self.tell("recompiles", f"{self._shown()}: {reasons}")
                if refused:
                    raise exc.RecompileError(f"torch.compile must not recompile ('fail_on_recompile'), and {reasons}")
            if stance == "eager_on_recompile" and self.entries:
                return self.function(*args, **named)
            same = self.entries if self.forms.dynamic is False else self.forms.fitting(args, named)
            if max(len(same), self.forms.wasted) >= self.limit() or (len(same) >= _FEW and self.hits < self.lost):
                return self._too_many(args, named)
        elif stance != "default" or not self.forms.pays(self.forms.of(args, named)):
            return self.forms.eagerly(self.function, args, named, self.forms.of(args, named))
        start = perf_counter()
        try:
            return self._recorded(args, named)
        finally:
            self.forms.cost = 1.5 * (perf_counter() - start)  # what was recorded is lowered later

    def _fails(self, args: Any, named: Any) -> bool:
        """Whether a function that could not be recorded cannot be for these arguments either, as far as one knows."""
        if self.backend is not None:
            return self.problem is not None and (self.unsupported is None or self.scattered)
        few = len(self.failed) < self.limit()
        return self.scattered or (bool(self.failed) and not (few and self._kind(args, named) not in self.failed))

    def _kind(self, args: Any, named: Any) -> tuple[Any, ...]:
        """What kind of call it is: what is recorded for one may fail for another."""
        mode = None if self.module is None else self.module.__dict__.get("training")
        if named:
            return mode, local.grad, kinds_of(args), tuple(named), kinds_of(named.values())
        return mode, local.grad, kinds_of(args)

    def _learn(self, args: Any, named: Any) -> None:
        """Finds classes of which there is another object where one was: from now on these are known by what they hold."""
        objects = self._objects(args, named)
        found: set[type] = set()
        for (kind, before), now in zip(self.met, objects):
            if kind is type(now):
                old = [part for known in before if (part := known()) is not None]
                parts = [{id(part): part for part in group} for group in (old, ordinary_in(now))]
                own = [a for n, a in {**parts[0], **parts[1]}.items() if not all([n in group for group in parts])]
                found.update([type(part) for part in own if before[0]() is not now])
        self.met = [(type(a), [*map(_weak, ordinary_in(a))]) for a in objects]
        if found - self.apart:
            self._know(self.alike | (found - self.apart))

    def _objects(self, args: Any, named: Any) -> list[Any]:
        """The arguments that are known by who they are, and might not be."""
        return [a for a in leaves_in((args, named), self.alike) if is_ordinary(type(a)) and type(a) not in self.apart]

    def _know(self, alike: set[type]) -> None:
        """Objects of these classes are known by what they hold: programs that know them otherwise are of no use."""
        self.alike, self.met, cost = alike, [], self.forms.cost
        self.forms = Forms(self.forms.dynamic, alike, self.loose)
        self.forms.cost = cost

    def _too_many(self, args: Any, named: Any) -> Any:
        """The limit is reached: runs the function eagerly."""
        from .._dynamo import config, exc  # which need this module first

        text = f"{self._shown()}: limit of {self.limit()} programs reached, runs eagerly"
        self.tell("recompiles", text)
        if self.lost > self.hits or self.surprises >= self.limit():
            self.forget()
            self.problem = Break("a branch on elements goes another way in many calls")
            self.scattered = True
            self._find_parts(args)
            return self._in_parts(args, named)
        if self.unsupported is not None:
            raise self.unsupported(Break(f"{self._shown()} was compiled {self.limit()} times, the limit"))
        if config.fail_on_recompile_limit_hit:
            raise exc.FailOnRecompileLimitHit(text)
        self.misses = 1
        return self.function(*args, **named)

    def _recorded(self, args: Any, named: Any) -> Any:
        """Runs the function for real, and keeps what it does."""
        arguments, sizes = Arguments(self.function, args, named, self.alike), self.forms.of(args, named)
        inputs = [t for t, _ in arguments.inputs]
        if any([t._k & _FOREIGN for t in inputs]):
            return self.function(*args, **named)
        inside = [inside_form(t) for t in inputs]
        given, more, copied = args, named, list[Any]()
        leaves, form = tree_flatten((args, named), lambda a: type(a) in self.alike or has_more(a))
        others = {id(t): own for own, t in zip(inside, inputs) if own is not t}
        held = others.keys() - {id(a) for a in leaves}  # by objects, which are not copied
        if others.keys() - held:
            given, more = tree_unflatten([others.get(id(a), a) for a in leaves], form)
            copied = list(copied_containers((args, named), (given, more)))
        trail = Trail(self.function, arguments)
        external = lambda t: id(t._array) in trail.reach.tensors and not t._k & _FOREIGN
        tape = Capture(inside, external)
        if self.backend is not None and self.unsupported is None:
            tape = Pieces(inside, external, self._piece)
            trail.breaks = tape.stop
        tape.found = trail.reach.tensors
        tape.changed, tape.reached, tape.existed = trail.changed, trail.reached, trail.knows_object
        tape.exchanging = trail.exchanging
        tape.outside = lambda t: next((given for given, own in zip(inputs, inside) if own is t), t)
        from .._dynamo import config  # which needs this module first

        tape.choosing = tape.live.choosing = lambda: trail.choosing > 0 or config.capture_scalar_outputs
        tape.backward = Followed(trail, tape.live, self.followed).over
        trail.expect(self.followed.values())
        tape.sizes = self.backend is None
        tape.drawn = None if self.backend is None else Drawn()
        tape.branches, tape.detaches = self.unsupported is None and self.backend is None, self.backend is not None
        tape.gradients, tape.effects = trail.reach.gradients, trail.changes
        tape.until = Region._recorded.__code__ if self.backend is None else None
        trail.numbers = tape.live
        if self.backend is None:
            trail.said = tape.live.said = Said(tape.copied, trail.changed, tape.by_steps)
            trail.mark = lambda: len(tape.graph.nodes)
        tape.live.finding = arguments.finding
        places = [arguments.place_of(place) for place in self.plants if not _among(place, self.fixed)]
        tape.live.plant([place for place in places if place is not None])
        try:
            with uncollected(), Linked(inputs, inside), trail, tape:  # finalizers are no part of what is recorded
                if held and held - arguments.exchange(others):
                    trail.problem = trail.problem or Break("an argument holds a tensor with a history")
                try:
                    out = self.function(*given, **more)
                finally:
                    write_back(copied, inputs, inside)
                    if held:
                        arguments.exchange({id(own): t for t, own in zip(inputs, inside) if own is not t})
            if copied:
                own = {id(copy): a for a, copy in copied}
                parts, whole = tree_flatten(out, lambda a: id(a) in own or has_more(a))
                out = tree_unflatten([own.get(id(a), a) for a in parts], whole)
            tape.live.over = True
            return self._kept(trail, tape, out, inputs, inside, args, named, sizes)
        finally:
            self.fixed += map(arguments.name_of, tape.live.refused)
            self.loose -= {key for _, key, _ in tape.live.refused}
            tape.live.settle()
            arguments.forget()
            tape.forget()  # those who listened know each other: the tensors of the call are not to wait for the collector

    def _kept(
        self, trail: Trail, tape: Capture, out: Any, inputs: list[Tensor], inside: list[Tensor], args: Any, named: Any, sizes: Any
    ) -> Any:  # fmt: skip
        """Keeps what a run did, if it can be a program; gives what it gave."""
        written = settle(inputs, inside)
        if trail.problem is tape.problem is None and not trail.effects and not any(map(runs_once, tape.graph.nodes)):
            self.forms.check_marks(self.function, args, named)
        if isinstance(tape, Pieces) and (tape.cuts or tape.problem is not None):
            tape.cut()
            self._broken(tape.cuts)
            return given_back(out, inputs, inside, trail)
        try:
            if written:
                raise Break("an argument with a history is written to")
            there = [*zip(tape.graph.inputs, inside), *tape.graph.constants.items()]
            if any([t._k & ~v.k & GRAD and t._edge is not None for v, t in there]):
                raise Break("a tensor that was there before gets a history by what is written to it")
            return self._entry(trail, tape, out, inputs, inside, sizes)
        except Unchosen as error:
            raise error.__cause__ or error from None
        except Exception as error:  # the run itself went well, so that its result is good whatever is wrong here
            if self.backend is not None and _is_backends(error):
                raise
            problem = error if isinstance(error, Break) else Break(f"{type(error).__name__} in recording: {error}")
            if tape.live.refused:  # without these numbers it may be one
                return given_back(out, inputs, inside, trail)
            self.attempts += not isinstance(problem, Changing)
            if problem.passing and self.attempts < _ATTEMPTS:
                return given_back(out, inputs, inside, trail)
            known = {type(a) for a in trail.arguments.given} & self.alike
            late = problem.late or problem not in (trail.problem, tape.problem)
            if known or (late and self._objects(args, named)):  # it may go better if these are known otherwise
                self.apart |= known
                objects = [] if known else [part for a in self._objects(args, named) for part in ordinary_in(a)]
                self._know(self.alike - known | {type(a) for a in objects})
                return given_back(out, inputs, inside, trail)
            if isinstance(tape, Pieces) and not tape.given:
                tape.cut()
            self._broken([problem])
            if self.backend is None and (self.unsupported is None or self._is_ours(problem)):
                self.failed.add(self._kind(args, named))
            known_before = problem in (trail.problem, tape.problem)
            if self.unsupported is not None and not self._is_ours(problem) and (known_before or tape.graph.nodes):
                raise self.unsupported(problem) from None
            if self.backend is None:
                self._find_parts(args)
            return given_back(out, inputs, inside, trail)

    def _is_ours(self, problem: Break) -> bool:
        """Whether PyTorch would have no problem: then the function runs eagerly even if it must be one graph."""
        return problem.ours and self.backend is None

    def _broken(self, problems: Sequence[Break]) -> None:
        """Remembers why a function is not one program."""
        for problem in problems if self.problem is None else ():
            counters["graph_break"][str(problem)] += 1
            self.tell(
                "graph_breaks", f"{self._shown()} runs {'eagerly' if self.backend is None else 'in pieces'}: {problem}"
            )
        self.problem = problems[0]
        for problem in problems:
            if problem.forbidden and self.unsupported is None and not self._is_ours(problem):
                raise forbidden(problem) from None

    def _piece(self, graph: Graph, tensors: Sequence[Tensor]) -> Callable[..., Any] | None:
        """What the backend has made of a graph; it is asked once."""
        key = outline(graph)
        if key not in self.pieces:
            same = [
                1 for _, known in self.pieces.values() if [n.op for n in known.nodes] == [n.op for n in graph.nodes]
            ]
            if len(same) >= self.limit() or len(self.pieces) >= _PIECES * self.limit():
                return None  # numbers or sizes that are others in each call
            from ._fx_form import graph_module  # fx is loaded by those who use it

            try:
                made = asked(self.backend, graph_module(graph), tensors)
            except Exception as error:
                if _is_backends(error):
                    raise
                made = None
            self.pieces[key] = made, graph
            counters["stats"].update(unique_graphs=1, calls_captured=len(graph.nodes))
        return self.pieces[key][0]

    def _find_parts(self, args: Any) -> None:
        for module in _modules_of(self.function, args):
            if module in self.parts:
                continue
            part = Region(module._call_impl, self.limit, self.backend, None, self.stance, self.forms.dynamic)
            self.parts[module] = part
            part.exact, part.tune, part.graphs, part.choice = self.exact, self.tune, self.graphs, self.choice

    def _in_parts(self, args: Any, named: Any) -> Any:
        """Runs the function eagerly, and modules that it calls as programs."""
        if not self.parts:
            return self.function(*args, **named)
        able = [(m.__dict__, part) for m, part in self.parts.items() if not part.forms.are_lost]
        mine = [(own, part) for own, part in able if "_compiled_call_impl" not in own]
        for own, part in mine:
            own["_compiled_call_impl"] = part
        try:
            return self.function(*args, **named)
        finally:
            for own, _ in mine:
                own.pop("_compiled_call_impl", None)

    def _entry(
        self, trail: Trail, tape: Capture, out: Any, inputs: list[Tensor], inside: list[Tensor], sizes: Any
    ) -> Any:
        if trail.problem is not None:  # from there on the tape did not know what it was given
            raise trail.problem
        if trail.said is not None:
            trail.said.confirmed()
        if tape.problem is not None:
            raise tape.problem
        if trail.arguments.holders and tape.keeps([holder.owner for holder in trail.arguments.holders]):
            raise Break("an argument is given to what is a step of its own in the program")
        others = [entry.guards for entry in self.entries[:_FEW]]
        guards = trail.guards(
            lambda t: tape.known(t) in tape.graph.constants, tape.value, tape.by_steps, others, self.choice
        )
        for planted, _, _ in tape.live.planted:
            tape.tensor_of(planted)
        found_again = trail.carried.tensors
        for t, _ in found_again:
            value = tape.value(t)
            del tape.graph.constants[value]
            tape.graph.inputs.append(value)
        carried = [*[(t, as_tensor(trail.arguments.finding(place))) for place, t in tape.held], *found_again]
        inputs, inside = [[*own, *[t for t, _ in carried]] for own in (inputs, inside)]
        if not tape.graph.nodes and self.backend is not None:  # there is nothing to show it
            return given_back(out, inputs, inside, trail)
        where = Places(tape, trail, inside)
        read = {id(one) for one in (*[one.value for one in tape.numbers], *[e.new for e in guards.effects])}
        leaves, form = tree_flatten(out, lambda a: id(a) in read or has_more(a) or trail.knows_object(a))
        places = [where.read(a, alone=len(leaves) == 1) or where.of(a) for a in leaves]
        changed = []
        for effect in guards.effects:
            key = id(effect.holder), effect.key
            if key not in tape.by_steps:
                changed += [effect] * (effect.kind != "grad")
            elif is_live(effect.new) or (plain(effect.new) and not same(tape.by_steps[key], effect.new)):
                raise Break(f"the run changes {effect.path}, which a step of it has changed before")
        self._plant(changed, trail)
        kept = where.kept(changed)
        trail.check_origins([effect for effect in changed if id(effect.new) not in kept])
        made_again = trail.carried.made
        is_new = lambda e: trail.arguments.knows(e.holder) or (id(e.holder), e.key) in made_again
        of = lambda e: where.of if is_new(e) else where.itself
        to = lambda e: (change(e, trail), kept.get(id(e.new)) or where.counted(e) or of(e)(e.new))
        said, done = [], set[Any]()  # what was appended to lists, which is appended once
        for event in trail.said.events if trail.said is not None else ():
            so_far = [e for e in event.effects if (id(e.holder), e.key) not in {*trail.counted, *tape.by_steps, *done}]
            part = lambda a: where.of(a, {})
            said.append(([to(e) for e in so_far], tell_again(event, part, found, tape.changed_since)))
            done |= {(id(e.holder), e.key) for e in so_far if e.kind == "append"}
        effects = [to(e) for e in changed]
        where.settle()
        if leads_to(where.outputs, [own for own, v in zip(inside, tape.graph.inputs) if (own._k ^ v.k) & GRAD]):
            raise Break("an argument begins or ceases to require gradients, and results have its history")
        places = [*map(where.settled, places)]
        guards.effects.clear()  # they hold the tensors of this run
        if self.backend is not None:
            if is_tied(where.outputs):
                raise Break("hooks in the history of results, of which no graph tells")
            if isinstance(tape, Pieces):
                tape.given = True
            program: Any = Foreign(tape, where.outputs, self.backend)
        else:
            program = Pair(tape, where.outputs, inside, self.exact, self.tune, self.graphs)
            if "graph" in logs:
                log("graph", str(program.forward_program.graph))
        lasting = [made for made, e in zip(effects, changed) if (id(e.holder), e.key) not in done]
        for i, (own, before) in enumerate(zip(inside, [v.k for v in tape.graph.inputs])):
            if (own._k ^ before) & GRAD:
                lasting.append((lambda t, _, on=bool(own._k & GRAD): t.requires_grad_(on), (INPUT, i)))
        nodes = program.forward_program.graph.nodes if self.backend is None else tape.graph.nodes
        again = not any([changes(node) or node.opaque == COMPUTES for node in nodes])
        entry = Entry(
            guards,
            Caught(program) if again and any([catches(code) for code, *_ in trail.reach.codes]) else program,
            None if len(leaves) == 1 and leaves[0] is out else form,
            places,
            lasting,
            [get for _, get in carried],
            said,
            [get for _, get in trail.carried.containers] if where.asks_containers else [],
        )
        there = [t for t in tape.graph.constants.values() if id(t._array) in trail.reach.tensors]
        self.forms.add(sizes, entry, next((t for t in there if t._k & GRAD), there[0] if there else None))
        # What computes nothing in one state of the world (dropout in evaluation) may compute much in another with the same sizes.
        goes_back = self.backend is None and program.backward_program is not None
        if self.backend is None and not _COMPILING & trail.reach.names:
            if tape.graph.nodes and not goes_back:
                self.forms.compare(sizes)
            elif len(tape.graph.nodes) <= _LITTLE:
                self.forms.compare(sizes, entry)
        counters["stats"].update(unique_graphs=bool(tape.graph.nodes), calls_captured=len(tape.graph.nodes))
        once = carried or any([changes(node) or runs_once(node) for node in tape.graph.nodes])
        if tape.drawn is not None and (once or tape.drawn.more()):  # it would find what this run has left
            return given_back(out, inputs, inside, trail)
        made = program.run(inputs) if self.backend is not None else program.with_history(program.first, inputs)
        if self.backend is None:
            program.first = None
        # The run itself has made the changes: only the tensors in them are others now.
        again = [(change(e, trail, made=True), first(e.new, to)) for e, (_, to) in zip(changed, effects)]
        results = [first(a, to) for a, to in zip(leaves, places)]
        given = [*trail.arguments.given, *[one for one, _ in trail.carried.containers]]
        trail.arguments.forget()
        return entry.finish(made, inputs, given, again, results)

    def _plant(self, changed: list[Effect], trail: Trail) -> None:
        """Numbers that the run found and left other ones for are others in the next run: then they are looked after from the beginning."""
        places, counted = [], trail.counted
        loose = {e.key for e in changed if (id(e.holder), e.key) in counted and trail.arguments.knows(e.holder)}
        codes = trail.reach.codes
        exact = any([wants_integers(names) for _, names, _ in codes])
        readers = [names for code, names, spaces in codes if reader_in(code, spaces) is not None]
        for e in changed:
            kinds = [type(plain_number(value)) for value in (e.old, e.new)]
            place = trail.arguments.name_of((e.holder, e.key, e.kind))
            if (
                (kinds == [float, float] or (kinds == [int, int] and not exact))
                and (id(e.holder), e.key) not in counted
                and (
                    e.kind == "cell"
                    or (e.kind == "attribute" and is_own(e.holder, e.key))
                    or type(e.holder) in (dict, list)
                )
                and not _among(place, (*self.plants, *self.fixed))
                and not any([e.key in (*names.attributes, *names.globals, *names.cells) for names in readers])
            ):
                places.append(place)
                loose |= {e.key} if trail.arguments.knows(e.holder) else set()
        loose -= {*self.loose, *[key for _, key, _ in self.fixed]}
        if places or loose:
            self.plants += places
            self.loose |= loose
            raise Changing()


def _modules_of(function: Any, args: Any) -> list[Module]:
    """The modules that a function calls, as far as one can see: parts of a module, or what a function knows."""
    own = getattr(function, "__self__", function)
    if isinstance(own, Module):
        found: list[Any] = list(own.children())
    else:
        cells = [c.cell_contents for c in getattr(function, "__closure__", None) or () if _is_filled(c)]
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        known = [function.__globals__[n] for n in names if n in function.__globals__]
        found = [a for a in (*args, *cells, *known, *(vars(own).values() if hasattr(own, "__dict__") else ()))]
    modules: dict[Module, None] = {}
    for m in found:
        if isinstance(m, (ModuleList, ModuleDict)):  # they are not called themselves
            modules.update(dict.fromkeys(m.children()))
        elif isinstance(m, Module):
            modules[m] = None
    return list(modules)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _shown(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _weak(a: Any) -> Callable[[], Any]:
    """Gives an object as long as it is there, if one can tell."""
    try:
        return ref(a)
    except TypeError:
        return lambda: a


def _among(place: Any, places: Sequence[Any]) -> bool:
    same_owner = lambda a, b: a is b or (isinstance(a, str) and a == b)
    return any([same_owner(place[0], owner) and place[1] == key for owner, key, _ in places])

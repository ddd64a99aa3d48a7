"""The workflow under check: its world before anything happened, its samples, its invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected, UnknownName
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.twin import twin
from tallystick.kernel.world import World
from tallystick.model.abi import Content, Context, Halted, Ran, Runner, TickInput
from tallystick.model.bundle import make_bundle
from tallystick.model.bundle_python import LANE
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import CellId
from tallystick.model.manifest_sources import canonical_sources
from tallystick.model.records import EventAdmitted
from tallystick.modules.lane import LOAD_FUEL, Compiled, Space
from tallystick.modules.runners import Library
from tallystick.testing.laws import Reading
from tallystick.testing.moves import ENTROPY, OWN, Player, Sampled, Samples, Send
from tallystick.testing.sources import Built, files_of, sources_of
from tallystick.testing.world import KEY, START_NS, TestWorld
from tallystick.values import canon
from tallystick.values.schema.smallest import smallest
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle, WorkflowSpec, name_of_workflow
from tallystick.workflow.codec import codec_of
from tallystick.workflow.ctx import plain_of
from tallystick.workflow.shape import shape_of

_MARK: Final = canon.put_key("entropy") + canon.head(2, 64)


class Subject(NamedTuple):
    """One workflow, ready to be checked."""

    app: Bundle
    spec: WorkflowSpec
    world: World
    now_ns: int
    ident: CellId
    samples: Samples
    reading: Reading
    refuel: Callable[[], None]

    def player(self, *, any_timer: bool = False) -> Player:
        """Whoever plays moves on its worlds."""
        return Player(self.samples, self.ident, any_timer=any_timer)

    @property
    def effects(self) -> dict[str, Any]:
        """The classes of the effects that the workflow and its children ask for, by name."""
        found: dict[str, Any] = {}
        for each in _family(self.app, self.spec):
            found.update(shape_of(each).effects)
        return found

    def broken(self, invariant: Any, cell: Any, trace: Any) -> str | None:
        """In which words an invariant does not hold, or None.

        It holds when it returns True or nothing; an assertion says why it does not.
        """
        self.refuel()
        try:
            said = invariant(cell, trace)
        except AssertionError as why:
            return str(why) or f"{invariant.__name__} does not hold"
        return None if said is None or said else f"{invariant.__name__} does not hold"


def subject_of(app: Any, workflow: Any) -> Subject:
    """Make a workflow of an app ready: a bundle, source text, a path, or files by path."""
    files = sources_of(app) if isinstance(app, Bundle) else files_of(app)
    space = Space(Compiled(files, LANE))
    (loaded,) = space.bundles()
    known = app if isinstance(app, Bundle) else loaded
    spec = _spec(known, workflow)
    family = _family(known, spec)
    bundle = _only(build(loaded, files), [each.name for each in family])
    made = TestWorld(Built(known, bundle, Library(), Catalogues()), twice=False)
    world = made.driver.world
    world.runner = Fixed(world.runner)
    samples = _samples(known, spec, family, world.active.catalogue)
    ident = _begun(world, samples, spec)
    refuel = (lambda: None) if known is app else (lambda: space.start(LOAD_FUEL))
    return Subject(known, spec, world, START_NS, ident, samples, Reading(spec, known), refuel)


def subject_in(world: TestWorld, workflow: Any, key: Any) -> Subject:
    """A workflow as it stands in a world now; what is tried from here on leaves the world alone."""
    app, ident = world.app, world.ident(workflow, key)
    spec = app.workflows[ident.workflow]
    there = twin(world.driver.world)
    there.runner = Fixed(there.runner)
    samples = _samples(app, spec, _family(app, spec), there.active.catalogue)
    named = samples._replace(mark="more ")
    now_ns = max(world.clock.now_ns, there.logical_ns)
    return Subject(app, spec, there, now_ns, ident, named, Reading(spec, app), lambda: None)


def _spec(app: Bundle, workflow: Any) -> WorkflowSpec:
    wanted = workflow if isinstance(workflow, str) else name_of_workflow(workflow)
    for name, spec in app.workflows.items():
        if wanted in (name, spec.code.__name__):
            return spec
    hint = f"it defines {', '.join(sorted(app.workflows))}"
    raise UnknownName(f"{app.namespace} has no workflow {wanted}", code="ref.workflow", hint=hint)


def _family(app: Bundle, spec: WorkflowSpec) -> list[WorkflowSpec]:
    """The workflow and every child that it may start, whose ends are answers to it."""
    found = {spec.name: spec}
    todo = [spec]
    while todo:
        for child in todo.pop().options.children:
            name = name_of_workflow(child)
            if name in app.workflows and name not in found:
                found[name] = app.workflows[name]
                todo.append(found[name])
    return list(found.values())


def _only(bundle: Any, workflows: Sequence[str]) -> Any:
    """The same bundle in which events reach these workflows alone."""
    manifest = dict(bundle.manifest)
    routing = dict(manifest["routing"])
    routing["subscriptions"] = [
        each for each in routing["subscriptions"] if each["workflow"] in workflows
    ]
    manifest["routing"] = routing
    sources = canonical_sources([*bundle.definitions(), manifest])
    artifacts = {hash_: held.data for hash_, held in bundle.artifacts.items()}
    return make_bundle(*sources, artifacts)


def _samples(
    app: Bundle, spec: WorkflowSpec, family: Sequence[WorkflowSpec], catalogue: Catalogue
) -> Samples:
    said: Mapping[str, Any] = app.samples.get(spec.name, {})
    events = said.get("events")
    if events is None:
        arms = shape_of(spec).arms.values()
        events = [_least(cls, catalogue.schemas[app.name_of(cls)]) for cls in arms]
    sent = tuple(Sampled(app.name_of(type(each)), plain_of(each), each) for each in events)
    given = {app.name_of(cls): values for cls, values in said.get("values", {}).items()}
    answers: dict[str, tuple[Sampled, ...]] = {}
    for each in family:
        for name, cls in shape_of(each).effects.items():
            if name not in OWN:
                answers[name] = _answers(name, cls, given.get(name), catalogue)
    return Samples(sent, answers, KEY.key_id)


def _answers(
    name: str, cls: Any, given: Sequence[Any] | None, catalogue: Catalogue
) -> tuple[Sampled, ...]:
    schema = catalogue.effects[name].receipt
    if given is None:
        given = [cls.tally_receipt.value(smallest(schema.node))]
    # The bytes are the receipt; the value is for people.
    return tuple(
        Sampled(schema.name, schema.admit(_plain(cls, value)).bytes, value) for value in given
    )


def _plain(cls: Any, value: Any) -> Any:
    return cls.tally_receipt.plain(value) if type(value) is not dict else plain_of(value)


def _least(cls: Any, schema: Any) -> Any:
    return codec_of(cls).value(smallest(schema.node))


def _begun(world: World, samples: Samples, spec: WorkflowSpec) -> CellId:
    """The cell that the samples begin."""
    player = Player(samples, CellId(spec.name, b""))
    for number in range(len(samples.events)):
        played = player.play(twin(world), START_NS, Send(number, 0))
        for frame in () if played is None else played[0]:
            for ident in cells_of(frame.records, spec):
                return ident
    message = f"no sample begins a cell of {spec.name}"
    hint = f"say which events do: app.check({spec.code.__name__}, events=[...])"
    raise Rejected(message, code="check.no_start", hint=hint)


def cells_of(records: Iterable[Any], spec: WorkflowSpec) -> Iterator[CellId]:
    """The cells of a workflow that events among these records went to."""
    for record in records:
        if isinstance(record, EventAdmitted):
            for target in record.to:
                if target.workflow == spec.name:
                    yield CellId(target.workflow, target.key)


class Fixed:
    """A runner whose ticks all draw the same chance, so that equal situations are equal."""

    def __init__(self, inner: Runner) -> None:
        self._inner = inner

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery."""
        return self._inner.tick(catalogue, workflow, _fixed(tick), content)

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """The first state of a cell."""
        return self._inner.init(catalogue, workflow, _fixed(tick))

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Call a pure function."""
        return self._inner.pure(catalogue, module, entrypoint, data, ctx)


def _fixed(tick: TickInput) -> TickInput:
    return tick if tick.ctx is None else tick._replace(ctx=_Still(tick.ctx))


class _Still:
    """The context of a tick with the one chance that all have."""

    def __init__(self, given: Context) -> None:
        self._given = given
        self.now_ns = given.now_ns
        self.world = given.world

    def entropy(self) -> bytes:
        return ENTROPY

    def lot(self) -> int:
        return self._given.lot()

    def document(self) -> bytes:
        whole = self._given.document()
        at = whole.index(_MARK) + len(_MARK)
        return whole[:at] + ENTROPY + whole[at + 64 :]

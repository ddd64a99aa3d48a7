"""The runner that a node hands to the kernel: it finds the lane of each module by its artifact.

Code is what the bundle holds, by hash, and never what the process happens to have imported.
Compiled code is shared by the worlds of a node; namespaces belong to one runner, because each has
its own meter.

`checked` workflows are sampled: one tick in 64, chosen by its input, runs a second time in another
namespace, where sets are turned round, and must give the same bytes for the same fuel.
"""

# tidy: from an artifact to a running entry, in every lane, is one story.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from tallystick.errors import BlobLost, JournalCorrupt, TallyError
from tallystick.model.abi import Content, Halted, Ran, Runner, TickInput
from tallystick.model.bundle_python import read_python_bundle
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.modules.flows import CACHE, AsyncFlow
from tallystick.modules.lane import Compiled, Space
from tallystick.modules.lane_rules import rules_of
from tallystick.modules.pure import PureFunction
from tallystick.modules.rebuild import Rebuilt, Recorded, rebuild
from tallystick.modules.reducers import Reducer
from tallystick.modules.wasm_door import open_wasm
from tallystick.values import canon
from tallystick.workflow.bundle import spec_of

SAMPLE: Final = 4  # of 256: one tick in 64
TWIN_USES: Final = 64  # samples before the second namespace is made anew, once it has settled
_KERNEL: Final = "kernel"
WASM: Final = "wasm"


class Blobs(Protocol):
    """Where artifacts are read from: the blob store of the world."""

    def get(self, digest: bytes, /) -> bytes | None:
        """The bytes of that digest, or None."""
        ...


class Library:
    """Compiled artifacts by root hash; shared by the worlds of a node.

    `kept` is where compiled WASM may lie between two starts, `elsewhere` runs what this process
    should not.
    """

    def __init__(self, kept: Any = None, elsewhere: Any = None) -> None:
        self._compiled: dict[str, Compiled] = {}
        self.wasm: dict[str, Any] = {}
        self.kept = kept
        self.elsewhere = elsewhere

    def compiled(self, root: str, blobs: Blobs) -> Compiled:
        """The code of an artifact; refuses one that is not in the store or leaves the lane."""
        known = self._compiled.get(root)
        if known is None:
            known = self._compiled[root] = _compile(root, blobs)
        return known


class Loaded(NamedTuple):
    """An artifact in use: the namespace that ticks run in, and the one that samples run in.

    `uses` says how many samples the second one still serves, and how many it was made for.
    """

    code: Compiled
    main: dict[str, Any]
    twin: dict[str, Any]
    uses: list[int]


class Runners:
    """Runs every module of a world's catalogue in its lane.

    `lanes` has a runner for each other kind of module; the one for `wasm` is made when the first
    such module is met, and raises `wasm.not_installed` where the engine is missing.
    With `check_all` every tick of a `checked` workflow is run twice.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        library: Library | None = None,
        lanes: Mapping[str, Runner] | None = None,
        check_all: bool = False,
        async_cache: int = CACHE,
    ) -> None:
        self._blobs = blobs
        self._library = library or Library()
        self._lanes = dict(lanes or {})
        self._cache = async_cache
        self._sample = 256 if check_all else SAMPLE
        self._loaded: dict[str, Loaded] = {}
        self._entries: dict[tuple[bytes, bytes], Any] = {}

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery in the lane of its module."""
        if workflow.module_runtime != "python":
            lane = self._lane(workflow.module_runtime)
            if lane is None:
                return _no_lane(workflow.module_runtime)
            return lane.tick(catalogue, workflow, tick, content)
        # A workflow names its module, so its own hash is the same under changed code.
        known = self._entries.get((workflow.hash, workflow.module_hash))
        entry = known or self._opened(catalogue, workflow)
        if isinstance(entry, Halted):
            return entry
        ran: Ran | Halted
        if tick.successor is None:
            ran = entry.tick(catalogue, workflow, tick)
        else:
            ran = entry.tick(catalogue, workflow, tick, self._flow(*tick.successor))
            if isinstance(ran, Ran) and ran.moved:
                return ran  # two spaces gave it, and neither alone could give it again
        if (
            workflow.determinism == "checked"
            and sampled(tick, self._sample)
            and _is_short(entry, tick)
        ):
            return self._again(catalogue, workflow, tick, ran)
        return ran

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """The first state of a new cell by the module's own init; None when it has none."""
        if workflow.module_runtime != "python":
            lane = self._lane(workflow.module_runtime)
            return None if lane is None else lane.init(catalogue, workflow, tick)
        known = self._entries.get((workflow.hash, workflow.module_hash))
        entry = known or self._opened(catalogue, workflow)
        if isinstance(entry, Halted):
            return entry
        made: bytes | Halted | None = entry.init(catalogue, workflow, tick)
        return made

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Call a pure function of a module in its lane."""
        known = catalogue.modules[module]
        if known.runtime != "python":
            lane = self._lane(known.runtime)
            if lane is None:
                return _no_lane(known.runtime)
            return lane.pure(catalogue, module, entrypoint, data, ctx)
        try:
            loaded = self._load(str(known.artifact))
            made = loaded.main.get(entrypoint)
            if made is None:
                namespace = loaded.main[_SPACE]
                made = PureFunction(namespace, entrypoint, loaded.code.rules.engine)
                loaded.main[entrypoint] = made
        except JournalCorrupt:
            raise  # lost bytes say nothing about the tick
        except TallyError as why:
            return Halted("exception", why.message, 0, _KERNEL)
        answer: bytes | Halted = made(catalogue, data)
        return answer

    def load(self, catalogue: Catalogue, workflow: Workflow) -> None:
        """Load the code of a workflow; raises what is wrong with it."""
        if workflow.module_runtime == "python":
            self._entry(catalogue, workflow)
        else:
            self._lane(workflow.module_runtime)

    def prepare(self, catalogue: Catalogue) -> None:
        """Have a worker at hand if a module of the catalogue runs in one."""
        elsewhere = self._library.elsewhere
        if elsewhere is not None:
            found = {str(m.artifact): None for m in catalogue.modules.values() if m.runtime == WASM}
            if any(elsewhere.place(artifact, self._blobs) is not None for artifact in found):
                elsewhere.warm()

    def rebuilt(
        self, catalogue: Catalogue, history: Recorded, upto: int | None = None
    ) -> Rebuilt | None:
        """Run a flow over its recorded history; None for a workflow that has none of its own."""
        entry = self._flow(catalogue, catalogue.workflows[history.workflow])
        return None if entry is None else rebuild(entry, catalogue, history, upto)

    # ---- loading ----------------------------------------------------------------------------

    def _flow(self, catalogue: Catalogue, workflow: Workflow) -> AsyncFlow | None:
        """The flow of an async workflow; None when it is something else or cannot be loaded."""
        if workflow.module_runtime != "python":
            return None
        known = self._entries.get((workflow.hash, workflow.module_hash))
        entry = known or self._opened(catalogue, workflow)  # what is wrong its first tick says
        return entry if isinstance(entry, AsyncFlow) else None

    def _lane(self, kind: str) -> Runner | None:
        lane = self._lanes.get(kind)
        if lane is None and kind == WASM:
            shared = self._library
            lane = open_wasm(self._blobs, shared.wasm, shared.kept, shared.elsewhere)
            self._lanes[kind] = lane
        return lane

    def _load(self, root: str) -> Loaded:
        known = self._loaded.get(root)
        if known is None:
            code = self._library.compiled(root, self._blobs)
            known = Loaded(code, {_SPACE: Space(code)}, {}, [0, 0])
            self._loaded[root] = known
        return known

    def _opened(self, catalogue: Catalogue, workflow: Workflow) -> Any:
        """The entry of a workflow, or why it has none; lost bytes say nothing about it."""
        try:
            return self._entry(catalogue, workflow)
        except JournalCorrupt:
            raise
        except TallyError as why:
            return Halted("exception", why.message, 0, _KERNEL)

    def _entry(self, catalogue: Catalogue, workflow: Workflow) -> Any:
        root = str(catalogue.modules[workflow.module].artifact)
        loaded = self._load(root)
        entry = self._found(loaded.main, workflow, loaded.code.rules.engine, self._cache)
        self._entries[workflow.hash, workflow.module_hash] = entry
        return entry

    def _found(self, held: dict[str, Any], workflow: Workflow, engine: str, cache: int) -> Any:
        namespace: Space = held[_SPACE]
        spec = spec_of(namespace.find(workflow.entrypoint))
        if not spec.is_async:
            return Reducer(namespace, spec, engine)
        return AsyncFlow(namespace, spec, engine, self._blobs.get, cache)

    # ---- sampling ---------------------------------------------------------------------------

    def _again(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, ran: Ran | Halted
    ) -> Ran | Halted:
        """The same tick in another namespace; a difference is a fault of the tick."""
        loaded = self._load(str(catalogue.modules[workflow.module].artifact))
        twin, (left, span) = loaded.twin, loaded.uses
        if left == 0:
            # Made anew after 1, 2, 4 ... samples: it must not gather the same history as the first.
            twin.clear()
            twin[_SPACE] = Space(loaded.code, turned=True)
            left = span = min(max(1, span * 2), TWIN_USES)
        loaded.uses[:] = [left - 1, span]
        entry = twin.get(workflow.entrypoint)
        if entry is None:
            entry = self._found(twin, workflow, loaded.code.rules.engine, 0)
            twin[workflow.entrypoint] = entry
        again: Ran | Halted = entry.tick(catalogue, workflow, tick)
        if equal(ran, again):
            return ran
        message = f"{workflow.name} gave two answers for one input"
        # Which of the two ran first is chance, so neither may be seen in the record.
        return Halted("nondeterministic", message, 0, loaded.code.rules.engine)


_SPACE: Final = "namespace"  # no entrypoint is called so: those have a colon


def sampled(tick: TickInput, of_256: int) -> bool:
    """True for the ticks that run twice: chosen by their input, so equal at replay."""
    return of_256 == 256 or (tick.ctx is not None and tick.ctx.lot() < of_256)


def _is_short(entry: Any, tick: TickInput) -> bool:
    """False for a flow whose rebuild would cost more than the tick it checks."""
    return not isinstance(entry, AsyncFlow) or tick.state is None or entry.is_short(tick.state)


def equal(one: Ran | Halted, other: Ran | Halted) -> bool:
    """True when two runs of a tick gave the same bytes for the same fuel."""
    if isinstance(one, Ran) and isinstance(other, Ran):
        return one.envelope == other.envelope and one.fuel == other.fuel
    return one == other


def _compile(root: str, blobs: Blobs) -> Compiled:
    listing = read_python_bundle(_blob(blobs, root))
    files = {path: _blob(blobs, hash_) for path, hash_ in listing["files"]}
    rules_of(listing["lane"])
    return Compiled(files, listing["lane"])


def _blob(blobs: Blobs, hash_text: str) -> bytes:
    data = blobs.get(canon.raw_of(hash_text))
    if data is None:
        # A bundle without it is refused, so it was here once.
        raise BlobLost(f"the artifact {hash_text} is not in the store", where={"blob": hash_text})
    return data


def _no_lane(kind: str) -> Halted:
    return Halted("exception", f"this node runs no {kind} modules", 0, _KERNEL)

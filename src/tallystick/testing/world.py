"""`TestWorld`: the shipped kernel, codec and admission over a memory journal and a virtual clock.

Nothing sleeps and nothing is replaced: receipts are sealed, timers are settled by the kernel, and
the code that runs is the source in the lane, as on a node.
"""

# tidy: everything a test says to a world stands on one page.
from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from tallystick.errors import NotQuiescent
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import (
    Activate,
    Clock,
    Operate,
    Progress,
    Receipt,
    Sample,
    Settle,
    Submit,
)
from tallystick.kernel.parts import TIMER
from tallystick.kernel.roots import root
from tallystick.kernel.settle import next_due_ns, statement_of
from tallystick.kernel.world import Settings
from tallystick.model.cells import CellId
from tallystick.model.frames import open_frame
from tallystick.model.records import EventAdmitted, Ticked
from tallystick.modules.runners import Runners
from tallystick.node.driver import Driver, Ports, Publisher
from tallystick.node.jobs import Published
from tallystick.node.points import Points
from tallystick.node.worlds import NewWorld, create_world, open_driver
from tallystick.testing.answers import Crash, Said
from tallystick.testing.moves import by_kernel, due_of, open_requests
from tallystick.testing.replays import assert_replays
from tallystick.testing.sources import built
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tallystick.workflow.bundle import name_of_workflow
from tallystick.workflow.codec import codec_of, span_ns
from tallystick.workflow.ctx import plain_of
from tallystick.workflow.shape import shape_of

WORLD = "00000000-0000-4000-8000-000000000001"
START_NS = 1_700_000_000_000_000_000
KEY = KeyPair(sha256(b"a key for tests").digest())


# Where the pytest plugin collects the worlds of a test, to replay them when it is over.
MADE: ContextVar[list[TestWorld] | None] = ContextVar("MADE", default=None)


class VirtualClock:
    """Time that a test moves, and entropy counted from a seed."""

    def __init__(self, seed: int) -> None:
        self.now_ns = START_NS
        self._seed = seed
        self.count = 0

    def sample(self) -> Sample:
        """The present moment of the test."""
        self.count += 1
        first = sha256(b"%d %d" % (self._seed, self.count)).digest()
        return Sample(self.now_ns, first + sha256(first).digest())


class _Late:
    """The blob store of a world that is about to be made."""

    blobs: Any = None

    def get(self, digest: bytes) -> bytes | None:
        found: bytes | None = self.blobs.get(digest)
        return found


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as a test looks at it."""

    state: Any
    status: str
    mail: int
    open: int


class TestWorld:
    """One world of an app, driven by hand.

    `app` is a `Bundle`, source text, files by path, or what `built` made of one of these.
    `denied` lists effects that policy refuses; `cache` is how many async flows stay live.
    Every tick runs twice and must give the same bytes, unless `twice` is False.
    Answering what is not open is an error of the test, unless `strict` is False: then it is left
    out, as on the way of a counter-example whose cause is mended.
    """

    __test__ = False  # not a test, whatever its name looks like to a collector

    # tidy: every port of a node, named once.
    def __init__(
        self,
        app: Any,
        *,
        seed: int = 0,
        denied: Any = (),
        cache: int = 4096,
        twice: bool = True,
        strict: bool = True,
    ) -> None:
        self.app, self.bundle, self.library, catalogues = built(app, denied)
        self.settings = Settings(catalogues=catalogues)
        self.journal = MemoryJournal()
        self.clock = VirtualClock(seed)
        self.points = Points()
        self.published: list[Published] = []
        self.crashes = 0
        self._sent = 0
        self._cache = cache
        self._scripts: dict[str, list[Said]] = {}
        self._id = WORLD
        self._twice = twice
        self._strict = strict
        self.replayed_seq = 0  # up to where `assert_replays` has looked
        late = _Late()
        new = NewWorld(
            WORLD,
            self.bundle.root_digest,
            self.bundle.manifest_digest,
            self.bundle.blobs(),
            KEY.public,
        )
        self.runner = self._runner(late)
        self.driver: Driver = create_world(self._ports(), new, self.runner, self.settings)
        late.blobs = self.driver.blobs
        made = MADE.get()
        if made is not None:
            made.append(self)

    def _runner(self, blobs: Any) -> Runners:
        return Runners(blobs, library=self.library, check_all=self._twice, async_cache=self._cache)

    def _ports(self) -> Ports:
        return Ports(self.journal, self.clock, Publisher(self.published.append), self.points)

    # ---- doing ------------------------------------------------------------------------------

    def send(self, event: Any, *, idem: str | None = None, tags: tuple[str, ...] = ()) -> Self:
        """Submit an event and run until nothing is ready; raises the refusal.

        Like a careful caller it has a key, so that it can send again after a crash.
        """
        self._sent += 1
        given = self.submit_of(event, idem=idem or f"send {self._sent}", tags=tags)
        self._certain(lambda: given)
        return self.run()

    def submit_of(
        self, event: Any, *, idem: str | None = None, tags: tuple[str, ...] = ()
    ) -> Submit:
        """The input that an event is."""
        name = self.app.name_of(type(event))
        raw = None if idem is None else idem.encode()
        sample = self.clock.sample()
        return Submit(sample, name, plain_of(event), "native", tags=tags, idem_key=raw)

    def do(self, given: Any) -> Any:
        """Hand in one input, make it durable, give its answer or raise its refusal."""
        ticket = self.driver.offer(given)
        self.driver.step()
        self.driver.flush()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def run(self) -> Self:
        """Run until nothing is ready, answering what is scripted."""
        while True:
            try:
                self.driver.run_until_idle()
                if not self._play():
                    return self
            except Crash:
                self.crash()

    def _certain(self, make: Callable[[], Any]) -> Any:
        """Hand in an input until it is durable; `make` gives None when none is wanted any more."""
        while True:
            try:
                given = make()
                return None if given is None else self.do(given)
            except Crash:
                self.crash()

    def advance(self, span: int | str) -> Self:
        """Let time pass; every timer and timeout on the way is settled at its own time."""
        until = self.clock.now_ns + span_ns(span)
        while True:
            due = next_due_ns(self.driver.world)
            if due is None or due > until:
                break
            self.tick_clock(due)
            self.run()
        self.clock.now_ns = max(self.clock.now_ns, until)
        return self

    def settle(
        self, effect: Any, said: Said, *, key: Any = None, corr: str | None = None, nth: int = 0
    ) -> Self:
        """Answer the oldest open request for an effect; an error of the test if there is none."""
        found = self._fitting(effect, key, corr)
        if nth < len(found) or self._strict:
            said.settle(self, self.open_one(effect, key=key, corr=corr, nth=nth))
        return self.run()

    def fire(self, corr: str, *, key: Any = None, nth: int = 0) -> Self:
        """Let one timer come due; the clock moves to its time, other waits stay as they are."""
        raw = None if key is None else canon.encode(plain_of(key))
        fits = [
            asked.intent
            for asked in open_requests(self.driver.world)
            if (asked.effect, asked.corr) == (TIMER, corr) and raw in (None, asked.cell.key)
        ]
        if nth >= len(fits) and not self._strict:
            return self
        assert nth < len(fits), f"no timer {corr} is set"
        self.clock.now_ns = max(self.clock.now_ns, due_of(fits[nth]))
        self.end_by_kernel(fits[nth].record.intent, "fired")
        return self.run()

    def withdraw(self, intent: bytes) -> None:
        """An operator cancels one open request."""
        sample = self.clock.sample()
        given = Operate(sample, "cancel", "tester", "test", intent=intent)
        self._certain(lambda: given if self.driver.world.intents.get(intent) else None)

    def end_by_kernel(self, intent: bytes, status: str, rule: str = "testing") -> None:
        """What only the kernel can say of an open intent: `fired`, `timeout` or `denied`."""
        while True:
            held = self.driver.world.intents.get(intent)
            if held is None:
                return
            try:
                sample = self.clock.sample()
                self.driver.stage(by_kernel(self.driver.world, sample, held, status, rule))
                self.driver.flush()
            except Crash:
                self.crash()

    def script(self, effect: Any, answers: list[Said]) -> Self:
        """Answers for the coming requests of an effect, in order."""
        self._scripts.setdefault(self.app.name_of(effect), []).extend(answers)
        return self.run()

    def progress(self, effect: Any, seq: int, kind: str, payload: Any) -> Self:
        """A progress frame of the oldest open request."""
        job = self.open_one(effect)
        data = canon.encode(plain_of(payload))
        sample = self.clock.sample()
        given = Progress(sample, job.world, job.intent, job.attempt, seq, kind, data)
        self._certain(lambda: given)
        return self.run()

    def cancel(self, workflow: Any, key: Any = None, *, force: bool = False) -> Self:
        """An operator asks a cell to stop."""
        return self.operate("cancel", workflow, key, force=force)

    def operate(self, verb: str, workflow: Any, key: Any = None, **more: Any) -> Self:
        """An operator's verb on a cell."""
        ident = self.ident(workflow, key)
        sample = self.clock.sample()
        given = Operate(sample, verb, "tester", "test", ident.workflow, ident.key, **more)
        self._certain(lambda: given)
        return self.run()

    def tick_clock(self, due_ns: int) -> None:
        """Move the clock to a time and tell the world."""
        self.clock.now_ns = max(self.clock.now_ns, due_ns)
        sample = self.clock.sample()
        self._certain(lambda: Clock(sample))

    def apply(self, app: Any) -> Self:
        """Make another bundle active; raises `NotQuiescent` with what is open."""
        made = built(app)
        bundle = made.bundle
        given = Activate(
            self.clock.sample(),
            bundle.root_digest,
            bundle.manifest_digest,
            self.driver.world.manifest,
            bundle.blobs(),
            "tester",
        )
        answer = self._certain(lambda: given)
        if answer.kind == "refused":
            found = answer.detail["blockers"]
            kinds = ", ".join(sorted({kind for kind, _ in found}))
            raise NotQuiescent(f"work is open: {kinds}", where={"blockers": found})
        self.app, self.bundle = made.app, bundle
        return self.run()

    def drain(self) -> Self:
        """Let everything that is under way come to its end, as before an upgrade.

        Time passes until no timer and no deadline is left; an error of the test names what waits
        for an answer that nobody has scripted.
        """
        self.run()
        while (due := next_due_ns(self.driver.world)) is not None:
            self.tick_clock(due)
            self.run()
        waiting = sorted(asked.effect for asked in open_requests(self.driver.world))
        assert not waiting, f"nobody answers {', '.join(waiting)}"
        return self

    def receipt(self, job: Published, payload: bytes, status: str) -> None:
        """Hand in a sealed receipt; after a crash it comes again for the new attempt."""
        sample = self.clock.sample()
        crashes = self.crashes

        def make() -> Settle | None:
            held = self.driver.world.intents.get(job.intent)
            if self.crashes > crashes and held is None:
                return None  # it was durable before the crash
            attempt = job.attempt if self.crashes == crashes or held is None else held.attempt
            made = Receipt(
                world=job.world,
                intent=job.intent,
                effect=job.effect,
                status=status,
                payload=payload,
                executor=job.executor,
                attempt=attempt,
                started_ns=START_NS,
                ended_ns=START_NS,
                usage=None,
                seal={},
            )
            return Settle(sample, made._replace(seal=KEY.sign(statement_of(made))))

        self._certain(make)

    def crash(self) -> Self:
        """Throw the live world away and open it from what the journal holds."""
        self.crashes += 1
        count = self.clock.count
        late = _Late()
        self.runner = self._runner(late)
        self.driver = open_driver(self._ports(), self._id, self.runner, self.settings)
        late.blobs = self.driver.blobs
        self.driver.resume()
        self.clock.count = count  # so that a crash does not change the chance of what follows
        return self.run()

    # ---- looking ----------------------------------------------------------------------------

    def ident(self, workflow: Any, key: Any = None) -> CellId:
        """The identity of a cell."""
        raw = b"" if key is None else canon.encode(plain_of(key))
        return CellId(name_of_workflow(workflow), raw)

    def cell(self, workflow: Any, key: Any = None) -> CellView | None:
        """A cell with its state as a value; None when there is none."""
        cell = self.driver.world.cell(self.ident(workflow, key))
        return None if cell is None else self._view(cell)

    def _view(self, cell: Any) -> CellView:
        data = self.driver.world.state_of(cell)
        spec = self.app.workflows[cell.id.workflow]
        plain = None if data is None else canon.decode(data)
        state = plain
        if plain is not None and not spec.is_async:
            state = shape_of(spec).state_codec.value(plain)
        status = cell.shown_status(spec.options.lifecycle)
        return CellView(state, status, len(cell.mailbox), len(cell.inflight))

    def cells(self) -> dict[tuple[str, bytes], tuple[Any, str]]:
        """State and status of every cell, by workflow and key.

        The history of an async cell holds times; what counts of it is its result.
        """
        found: dict[tuple[str, bytes], tuple[Any, str]] = {}
        for name, store in self.driver.world.cells.items():
            for _, cell in store.entries():
                view = self._view(cell)
                state = view.state
                if self.app.workflows[name].is_async:
                    state = self._result(cell.id)
                found[name, cell.id.key] = (state, view.status)
        return found

    def _result(self, ident: CellId) -> Any:
        """What the newest tick of a cell was completed or failed with."""
        ticks = [r for r in self.records(Ticked) if (r.workflow, r.key) == ident]
        return (ticks[-1].result, ticks[-1].reason) if ticks else None

    def open(self, effect: Any) -> list[Published]:
        """The open requests for an effect, oldest first."""
        name = self.app.name_of(effect)
        held = self.driver.world.intents
        seen: dict[bytes, Published] = {}
        for job in self.published:
            if job.effect == name and held.get(job.intent) is not None:
                seen[job.intent] = job
        return list(seen.values())

    def open_one(
        self, effect: Any, *, key: Any = None, corr: str | None = None, nth: int = 0
    ) -> Published:
        """The oldest open request for an effect, of that cell and correlation if they are given."""
        found = self._fitting(effect, key, corr)
        assert nth < len(found), f"{self.app.name_of(effect)} is not open"
        return found[nth]

    def _fitting(self, effect: Any, key: Any, corr: str | None) -> list[Published]:
        raw = None if key is None else canon.encode(plain_of(key))
        found: list[Published] = []
        for job in self.open(effect):
            held = self.driver.world.intents.get(job.intent)
            fits = corr is None or (held is not None and held.record.issuer_ref == corr)
            if fits and (raw is None or job.key == raw):
                found.append(job)
        return found

    def params(self, effect: Any) -> list[Any]:
        """The parameters of every request for an effect so far, as values."""
        name = self.app.name_of(effect)
        codec = codec_of(effect)
        asked = {job.intent: job for job in self.published if job.effect == name}
        return [codec.value(canon.decode(job.params)) for job in asked.values()]

    def events(self, cls: Any) -> list[Any]:
        """Every admitted event of a class, in order."""
        name, codec = self.app.name_of(cls), codec_of(cls)
        found = [r for r in self.records(EventAdmitted) if r.schema == name]
        return [codec.value(canon.decode(r.value)) for r in found]

    def records(self, kind: type | None = None) -> list[Any]:
        """The journal's records, of one kind if it is given."""
        found: list[Any] = []
        for frame in self.journal.read(self._id):
            found += open_frame(frame.body)[3]
        return found if kind is None else [r for r in found if isinstance(r, kind)]

    def root(self) -> bytes:
        """The root of the live world."""
        return root(self.driver.world)

    # ---- proving ----------------------------------------------------------------------------

    def assert_replays(self) -> Self:
        """Live world, genesis fold, snapshot with its tail, and re-run of every tick: one root."""
        self.driver.run_until_idle()
        assert_replays(self)
        self.replayed_seq = self.driver.world.seq
        return self

    # ---- inner ------------------------------------------------------------------------------

    def _play(self) -> bool:
        """Give the next scripted answer whose request is open; False when there is none."""
        for name, answers in self._scripts.items():
            held = self.driver.world.intents
            for job in self.published:
                if answers and job.effect == name and held.get(job.intent) is not None:
                    answers.pop(0).settle(self, job)
                    return True
        return False

"""A rig for kernel tests: a world over the memory journal, with time and chance under control.

Values in, values out: nothing here replaces a part of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from tallystick.errors import TallyError
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import Clock, Operate, Receipt, Sample, Settle, Submit
from tallystick.kernel.replay import Verified, open_world, verify
from tallystick.kernel.roots import root, state_root
from tallystick.kernel.settle import statement_of
from tallystick.kernel.world import Settings
from tallystick.model.cells import CellId
from tallystick.model.frames import open_frame
from tallystick.model.manifest import manifest_hash
from tallystick.model.manifest_sources import canonical_sources
from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.modules.python import PythonRunner
from tallystick.node.driver import Driver, Ports, Publisher, Ticket
from tallystick.node.jobs import Published
from tallystick.node.points import Points
from tallystick.node.worlds import NewWorld, create_world, open_driver
from tallystick.values import canon
from tallystick.values.seal import KeyPair

WORLD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
START_NS = 1_700_000_000_000_000_000
NODE = KeyPair(sha256(b"node").digest())
OUTSIDER = KeyPair(sha256(b"outsider").digest())


class ManualClock:
    """Time that a test moves; entropy counted, never random."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.now_ns = now_ns
        self.count = 0

    def sample(self) -> Sample:
        self.count += 1
        seed = sha256(b"entropy %d" % self.count).digest()
        return Sample(self.now_ns, seed + sha256(seed).digest())


class Jobs:
    """An outbox that only remembers."""

    def __init__(self) -> None:
        self.all: list[Published] = []

    def publish(self, job: Published) -> None:
        self.all.append(job)

    def of(self, effect: str) -> list[Published]:
        return [job for job in self.all if job.effect == effect]


def bundle_of(documents: Iterable[Any]) -> tuple[bytes, dict[bytes, bytes]]:
    """Manifest digest and blobs of a set of documents."""
    definitions, manifest = canonical_sources(list(documents))
    blobs = {}
    for node in [*definitions, manifest]:
        data = canon.encode(node)
        blobs[canon.digest_of(data)] = data
    return canon.raw_of(manifest_hash(manifest)), blobs


class Rig:
    """One world, driven by hand."""

    def __init__(
        self,
        documents: Iterable[Any],
        functions: Mapping[tuple[str, str], Callable[..., Any]],
        *,
        settings: Settings | None = None,
        journal: MemoryJournal | None = None,
    ) -> None:
        self.manifest, blobs = bundle_of(documents)
        self.journal = journal or MemoryJournal()
        self.runner = PythonRunner(functions)
        self.clock = ManualClock()
        self.jobs = Jobs()
        self.settings = settings
        new = NewWorld(WORLD, self.manifest, self.manifest, blobs, NODE.public)
        self.driver: Driver = create_world(self.ports(), new, self.runner, settings)

    def ports(self) -> Ports:
        return Ports(self.journal, self.clock, Publisher(self.jobs.publish), Points())

    @property
    def world(self):
        return self.driver.world

    # ---- inputs -----------------------------------------------------------------------------

    def offer(self, given: Any) -> Ticket:
        ticket = self.driver.offer(given)
        self.driver.step()
        return ticket

    def do(self, given: Any) -> Any:
        """Hand in one input, make it durable, give its answer or raise its refusal."""
        ticket = self.driver.offer(given)
        self.driver.step()
        self.driver.flush()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def send(self, schema: str, value: Any, *, run: bool = True, **more: Any) -> Any:
        answer = self.do(Submit(self.clock.sample(), schema, value, **more))
        if run:
            self.run()
        return answer

    def run(self) -> None:
        self.driver.run_until_idle()

    def receipt(
        self,
        job: Published,
        payload: Any,
        status: str = "ok",
        *,
        pair: KeyPair = NODE,
        **changed: Any,
    ) -> Receipt:
        data = payload if isinstance(payload, bytes) else canon.encode(payload)
        made = Receipt(
            world=job.world,
            intent=job.intent,
            effect=job.effect,
            status=status,
            payload=data,
            executor=job.executor,
            attempt=job.attempt,
            started_ns=1,
            ended_ns=2,
            usage=None,
            seal={},
        )._replace(**changed)
        return made._replace(seal=pair.sign(statement_of(made)))

    def settle(
        self, job: Published, payload: Any, status: str = "ok", *, run: bool = True, **kw: Any
    ):
        receipt = self.receipt(job, payload, status, **kw)
        answer = self.do(Settle(self.clock.sample(), receipt))
        if run:
            self.run()
        return answer

    def pass_time(self, ns: int) -> Any:
        self.clock.now_ns += ns
        answer = self.do(Clock(self.clock.sample()))
        self.run()
        return answer

    def operate(self, verb: str, workflow: str, key: Any = None, **more: Any) -> Any:
        raw = b"" if key is None else canon.encode(key)
        sample = self.clock.sample()
        given = Operate(sample, verb, "alice", "because", workflow=workflow, key=raw, **more)
        answer = self.do(given)
        self.run()
        return answer

    # ---- looking ----------------------------------------------------------------------------

    def cell(self, workflow: str, key: Any = None):
        raw = b"" if key is None else canon.encode(key)
        return self.world.cell(CellId(workflow, raw))

    def state(self, workflow: str, key: Any = None) -> Any:
        cell = self.cell(workflow, key)
        data = None if cell is None else self.world.state_of(cell)
        return None if data is None else canon.decode(data)

    def records(self, kind: type | None = None) -> list[Any]:
        found = []
        for frame in self.journal.read(self.world.id):
            found += open_frame(frame.body)[3]
        return found if kind is None else [r for r in found if isinstance(r, kind)]

    def root(self) -> bytes:
        return root(self.world)

    def state_root(self) -> bytes:
        return state_root(self.world)

    # ---- going over it again ----------------------------------------------------------------

    def reopened(self, settings: Settings | None = None) -> Rig:
        """The same journal, opened anew."""
        other = object.__new__(Rig)
        other.__dict__.update(self.__dict__)
        other.jobs = Jobs()
        other.driver = open_driver(
            other.ports(), self.world.id, self.runner, settings or self.settings
        )
        return other

    def folded(self, runner: Any = None):
        """The world folded from genesis."""
        return open_world(
            self.world.id,
            self.journal.read(self.world.id),
            self.driver.blobs,
            runner or self.runner,
        )

    def verify(self, runner: Any = None) -> Verified:
        """Run everything again from genesis."""
        world = open_world(self.world.id, [], self.driver.blobs, runner or self.runner)
        return verify(world, self.journal.read(self.world.id))


# ---- what holds after every test -------------------------------------------------------------


def check(rig: Rig) -> None:
    """I2 and I3: one root three ways, a clean verification, at most one receipt per intent."""
    rig.run()
    live = rig.root()
    assert root(rig.folded()) == live
    assert rig.verify().first is None
    assert root(rig.reopened().world) == live
    opened = [record.intent for record in rig.records(IntentOpened)]
    denied = [record.intent for record in rig.records(IntentDenied)]
    settled = [record.intent for record in rig.records(ReceiptSettled)]
    assert len(set(opened)) == len(opened)
    still_open = {path for path, _ in rig.world.intents.entries()}
    for intent in opened:
        said = settled.count(intent) - denied.count(intent)
        assert said == (intent not in still_open), intent.hex()
    assert set(settled) <= {*opened, *denied}


def refused(rig: Rig, given: Any) -> TallyError:
    """The refusal of an input; it left the root as it was and says where and what to do."""
    before = rig.root()
    ticket = rig.offer(given)
    rig.driver.flush()
    why = ticket.error
    assert isinstance(why, TallyError), "the input was taken"
    assert rig.root() == before
    assert why.code
    assert why.where, f"{why.code} does not say where"
    assert why.hint, f"{why.code} does not say what to do"
    return why

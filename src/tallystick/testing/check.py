"""The checkers: invariants of the reliability design, looked at from outside the kernel.

They read durable frames, answers and published jobs, and the roots that a world gives.
A checker that finds its invariant broken raises Violation; none of them mends anything.
"""

# tidy: one checker after the other, by the number of its invariant.
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from tallystick.journal.base import Append, History
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import fold_frames, open_world, verify
from tallystick.kernel.roots import root, root_of, state_root
from tallystick.kernel.world import Settings, World
from tallystick.model.abi import Runner
from tallystick.model.frames import GENESIS, Sealed, verify_chain
from tallystick.model.records import (
    BundleActivate,
    EffectAttempted,
    IntentDenied,
    IntentOpened,
    KeyRevoked,
    KeyTrusted,
    ProgressNoted,
    ReceiptSettled,
)
from tallystick.node.jobs import Published
from tallystick.testing.check_records import Judgements, Progresses, check_I13
from tallystick.testing.violation import Violation, must
from tallystick.values import canon, seal

__all__ = ["Ack", "Trail", "Violation", "must"]


class Ack(NamedTuple):
    """An answer that a caller was given."""

    kind: str
    seq: int
    event_hash: bytes | None
    idem: str | None


class Trail:
    """What is durable of one world, frame by frame, with what must hold of it."""

    def __init__(
        self,
        world: str,
        judged: Callable[[int, Sequence[Any]], None],
        effects: Mapping[str, tuple[str, str, str]],
        settings: Settings | None = None,
    ) -> None:
        self.world = world
        self.settings = settings
        self.effects = effects
        self._judged = judged
        self._logical_ns = 0
        self.frames: list[Sealed] = []
        self.records: list[Any] = []
        self.opened: dict[bytes, IntentOpened] = {}
        self.settled: dict[bytes, int] = {}
        self.keys: dict[str, bytes] = {}
        self.manifest = GENESIS
        self.judgements = Judgements()
        self._activations: list[int] = []
        self.progress = Progresses()
        self.acks: list[Ack] = []
        self._folded: World | None = None
        self._clean: dict[str, bytes] = {}

    @property
    def seq(self) -> int:
        """The last durable sequence."""
        return self.frames[-1].last if self.frames else 0

    # ---- each commit ------------------------------------------------------------------------

    def commit(self, batch: Append, epoch: int) -> None:
        """Look at a commit that the disk has taken."""
        self.check_I11(batch, epoch)
        for frame in batch.frames:
            self.check_I10(frame)
            first, records = frame.seq, check_I13(frame, batch.blobs)
            self.check_I25(records[0])
            self._judged(first, records)
            self.frames.append(frame)
            for i, record in enumerate(records):
                self._note(first + i, record)

    def check_I25(self, first: Any) -> None:  # noqa: N802
        """Logical time is the next at least, whatever the wall clock says."""
        stamp = getattr(first, "stamp", None)
        wanted = self._logical_ns + 1
        if stamp is not None:
            wanted = max(wanted, stamp.now_ns)
            must(stamp.logical_ns == wanted, "I25", "logical time is not the next one")
        self._logical_ns = wanted

    def _note(self, seq: int, record: Any) -> None:
        self.records.append(record)
        if isinstance(record, IntentOpened | IntentDenied):
            self.judgements.check_I26(record, self.manifest, self._logical_ns)
            self.judgements.check_I27(record)
        if isinstance(record, IntentOpened):
            self.check_I12(record)
            must(record.intent not in self.opened, "I3", f"opened twice, again at {seq}")
            self.opened[record.intent] = record
        elif isinstance(record, ReceiptSettled):
            self.check_I3(seq, record)
            if record.source == "executor":
                self.check_I22(seq, record)
        elif isinstance(record, ProgressNoted | EffectAttempted):
            is_open = record.intent in self.opened and record.intent not in self.settled
            must(is_open, "I24", f"{type(record).__name__} of what is not open")
            self.progress.check_I24(record)
        elif isinstance(record, BundleActivate):
            self.manifest = record.to
            self._activations.append(seq)
        elif isinstance(record, KeyTrusted):
            self.keys[record.key] = record.public_key
        elif isinstance(record, KeyRevoked):
            self.keys.pop(record.key, None)

    def check_I3(self, seq: int, record: ReceiptSettled) -> None:  # noqa: N802
        """One terminal receipt per intent."""
        if record.status == "denied" and record.error is None:
            return
        known = record.intent in self.opened
        must(known, "I3", f"seq {seq} settles an intent that was never opened")
        before = self.settled.get(record.intent)
        must(before is None, "I3", f"settled at {before} and again at {seq}")
        self.settled[record.intent] = seq

    def check_I10(self, frame: Sealed) -> None:  # noqa: N802
        """Append-only, gap-free, hash-chained."""
        last = self.frames[-1] if self.frames else None
        prev = GENESIS if last is None else last.hash
        must(frame.seq == self.seq + 1, "I10", f"{frame.seq} follows {self.seq}")
        must(frame.prev == prev, "I10", f"the frame at {frame.seq} is not chained")
        must(sha256(frame.body).digest() == frame.hash, "I10", f"false hash at {frame.seq}")

    def check_I11(self, batch: Append, epoch: int) -> None:  # noqa: N802
        """A deposed writer's append fails at the store."""
        must(batch.expect.epoch == epoch, "I11", f"epoch {batch.expect.epoch} wrote in {epoch}")

    def check_I12(self, record: IntentOpened) -> None:  # noqa: N802
        """The id binds what the published rule says, computed here by another way."""
        # tidy: two published preimages, field by field.
        origin = record.origin
        if record.idempotency_key is not None:
            body = {
                "$type": "intent_key@1",
                "origin_workflow": origin.workflow,
                "origin_instance_key": origin.key,
                "origin_born_seq": self.records[origin.tick_seq - 1].born_seq,
                "effect": record.effect,
                "idempotency_key": record.idempotency_key,
            }
            good = canon.digest(body) == record.intent
            must(good, "I12", "the id of a keyed intent binds something else")
            return
        module, module_hash, entrypoint = self.effects[record.effect]
        position = {
            "origin_workflow": origin.workflow,
            "origin_workflow_hash": canon.text_of(origin.workflow_hash),
            "origin_instance_key": origin.key,
            "effect": record.effect,
            "effect_hash": canon.text_of(record.effect_hash),
            "requested_idempotency_key": b"",
            "effect_index": origin.index,
            "emitted_at_seq": origin.tick_seq,
        }
        if record.params is not None:
            body = {
                "effect": record.effect,
                "effect_hash": canon.text_of(record.effect_hash),
                "executor_module": module,
                "executor_module_hash": module_hash,
                "executor_entrypoint": entrypoint,
                "params": record.params,
                "idempotency_key": canon.digest(position),
            }
            must(canon.digest(body) == record.intent, "I12", "the id binds another position")

    def check_I22(self, seq: int, record: ReceiptSettled) -> None:  # noqa: N802
        """Sealed over this world, intent and attempt by a key that was trusted then."""
        opened = self.opened[record.intent]
        public = self.keys.get(record.key_id or "")
        must(public is not None, "I22", f"seq {seq}: the key was not trusted")
        if record.payload is None or public is None:
            return
        statement = seal.receipt_statement(
            world=self.world,
            intent=canon.text_of(record.intent),
            effect=opened.effect,
            status=record.status if record.status != "rejected" else "ok",
            payload_hash=canon.hash_of(record.payload),
            executor=record.executor,
            attempt=record.attempt,
            started_ns=record.started_ns,
            ended_ns=record.ended_ns,
            usage=record.usage,
        )
        good = seal.verify(public, statement, record.seal)
        must(good or record.status == "rejected", "I22", f"seq {seq}: the seal is not good")

    def check_I21(self, journal: History) -> None:  # noqa: N802
        """A collection leaves what open intents and the newest snapshot need."""
        for intent, record in self.opened.items():
            if intent not in self.settled and record.params is None:
                there = journal.blob(self.world, record.params_hash or b"")
                must(there is not None, "I21", f"the parameters of {intent.hex()[:8]} are gone")
        for row in journal.snapshots(self.world)[-1:]:
            there = journal.blob(self.world, row.document)
            must(there is not None, "I21", f"the snapshot at {row.seq} is gone")

    # ---- answers and jobs -------------------------------------------------------------------

    def check_I5_answer(self, ack: Ack) -> None:  # noqa: N802
        """No answer before its frame is synced."""
        must(ack.seq <= self.seq, "I5", f"answered {ack.seq} while {self.seq} was durable")
        self.acks.append(ack)
        self.check_I1(ack)

    def check_I5_job(self, job: Published) -> None:  # noqa: N802
        """No intent reaches an executor before its frame is synced."""
        must(job.intent in self.opened, "I5", "an intent was published before it was durable")

    def check_I1(self, ack: Ack) -> None:  # noqa: N802
        """What was answered is in the journal, as it was answered."""
        if ack.kind not in ("accepted", "unrouted", "seen"):
            return
        must(0 < ack.seq <= len(self.records), "I1", f"answered {ack.seq} is not there")
        record = self.records[ack.seq - 1]
        there = getattr(record, "event_hash", None) == ack.event_hash
        must(there, "I1", f"another record stands at {ack.seq}")
        if ack.idem is not None:
            same = record.idem_key is not None and record.idem_key.key == ack.idem.encode()
            must(same, "I9", f"the answer names seq {ack.seq}, which has another key")

    # ---- restarts and the end ---------------------------------------------------------------

    def check_restart(self, journal: History) -> None:
        """After any restart: all that was committed is there, and nothing else (I1, I10)."""
        there = [frame.hash for frame in journal.read(self.world)]
        mine = [frame.hash for frame in self.frames]
        must(there == mine, "I1", f"{len(mine)} frames were committed, {len(there)} are there")
        for ack in self.acks:
            self.check_I1(ack)

    def check_I2(self, world: World, journal: History, runner: Runner) -> None:  # noqa: N802
        """root(this world) = root(fold from genesis)."""
        folded = self._folded_on(journal, runner)
        must(folded.seq == world.seq, "I2", f"stands at {world.seq}, folds to {folded.seq}")
        mine, theirs = state_root(folded), state_root(world)
        must(mine == theirs, "I2", "state roots differ")
        must(root_of(folded, mine) == root_of(world, theirs), "I2", "roots differ")

    def _folded_on(self, journal: History, runner: Runner) -> World:
        """What the frames fold to from genesis: one fold, carried on with what came since."""
        if self._folded is None:
            blobs = StagedBlobs(journal, self.world)
            self._folded = open_world(self.world, [], blobs, runner, settings=self.settings)
        fold_frames(self._folded, journal.read(self.world, after=self._folded.seq))
        return self._folded

    def check_I2_snapshots(  # noqa: N802
        self, world: World, journal: History, runner: Runner, keep: int
    ) -> None:
        """root(any snapshot + tail) is the same root."""
        wanted = root(world)
        rows = journal.snapshots(self.world)[-keep:]
        # Many snapshots share most of their tail: the ends and one between are opened.
        for row in rows if len(rows) <= 3 else (rows[0], rows[len(rows) // 2], rows[-1]):
            frames = journal.read(self.world, after=row.seq)
            blobs = StagedBlobs(journal, self.world)
            opened = open_world(
                self.world, frames, blobs, runner, pinned=row.document, settings=self.settings
            )
            must(root(opened) == wanted, "I2", f"another root from the snapshot at {row.seq}")

    def check_I15(self, journal: History, runner: Runner) -> None:  # noqa: N802
        """Running everything again gives the same records (I15, I16, I28), and the chain holds."""
        damage = verify_chain(journal.read(self.world), world=self.world)
        must(damage is None, "I10", f"verify names {damage}")
        blobs = StagedBlobs(journal, self.world)
        world = open_world(self.world, [], blobs, runner, settings=self.settings)
        found = verify(world, journal.read(self.world)).first
        # What ran before the last change of definitions runs under those recorded then.
        old = found is not None and found.seq < self._activations[-1]
        must(found is None or old, "I15", f"run again: {found}")
        if len(self._activations) > 1:
            must(not old, "I28", f"run again: {found}")

    def check_I20(self, world: World, journal: History) -> None:  # noqa: N802
        """A delta is cleared only after its snapshot is durable: clean roots are on disk."""
        for name, store in world.stores().items():
            if self._clean.get(name) == store.top:
                continue  # it was there when it became so, and a collection is looked at apart
            self._clean[name] = store.top
            there = store.top == bytes(32) or journal.blob(self.world, store.top) is not None
            must(there, "I20", f"the clean root of {name} is not durable")

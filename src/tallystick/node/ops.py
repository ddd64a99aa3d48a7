"""Operations on a whole world or node that take their time: replay, and what the journal offers.

They read over connections of their own, in worker threads, beside the node's work.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tallystick.errors import DiskFull, Rejected, UnknownName
from tallystick.journal.base import Reader
from tallystick.journal.lineage import floor_of
from tallystick.journal.staged import StagedBlobs
from tallystick.journal.verify import verify as journal_verify
from tallystick.kernel.replay import Found, open_world, verify
from tallystick.kernel.roots import root
from tallystick.kernel.world import World
from tallystick.node.node import Node
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tallystick.views.shown import key_json


class Span(NamedTuple):
    """Which part of a history is run again: between two sequences, of one workflow or of all."""

    from_seq: int | None = None
    to_seq: int | None = None
    workflow: str | None = None


class Ops:
    """What operators ask for."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def verify(self, world: str, level: str = "full") -> dict[str, Any]:
        """Check hashes, seals, blobs, snapshots and checkpoints; `replay` runs ticks again too."""
        depth = "quick" if level == "quick" else "full"
        keys = {self._node.key.pair.key_id: self._node.key.pair.public}
        found = await self._node.read(
            lambda reader: journal_verify(reader, world, depth, keys=keys).shape()
        )
        if level == "replay":
            again = await self.replay(world)
            found["level"] = level
            found["ok"] = found["ok"] and again["ok"]
            found["first_bad"] = found["first_bad"] or _bad(again)
        if found["ok"] and level != "quick":
            await self.note("verify_ns")
        return found

    async def note(self, what: str) -> None:
        """Remember when something was done, so that `tally doctor` can say how long ago."""
        now_ns = self._node.clock.now_ns()
        try:
            await self._node.write(lambda journal: journal.set_meta(**{what: now_ns}))
        except DiskFull:
            return  # what was done is done; only its age is not known

    async def replay(self, world: str, span: Span | None = None) -> dict[str, Any]:
        """Run every tick again and compare bytes; the first difference is named (D2)."""
        with self._node.reruns.stands(world):
            return await self._node.read(lambda reader: self._replay(reader, world, span or Span()))

    # tidy: where it begins, what it gives and how that is told.
    def _replay(self, reader: Reader, world: str, span: Span) -> dict[str, Any]:
        from_seq, to_seq, workflow = span
        upto = reader.head(world).seq if to_seq is None else to_seq
        begun = time.perf_counter()
        blobs = StagedBlobs(reader, world)
        # Its own runner: the one of the live world belongs to the kernel's thread.
        runner = self._node.modules(blobs)
        # What stands below a floor is in an archive: there a replay begins behind it.
        behind = from_seq or floor_of(reader.lineage(world)).seq
        if behind:
            start = world_at(reader, world, runner, seq=behind)
            start.read_only = start.frozen  # a past is only looked at; this one takes what came
        else:
            start = open_world(reader.lineage(world)[-1].world, [], blobs, runner)
        begin = start.seq
        if begin > upto:
            raise Rejected(f"{upto} is before {begin}", code="replay.bad_range")
        _check_known(world_at(reader, world, runner, seq=upto), workflow)
        found = verify(start, reader.read(world, begin, upto), workflow)
        seconds = max(time.perf_counter() - begun, 1e-9)
        expected = root(world_at(reader, world, runner, seq=upto))
        return {
            "world": world,
            "from": begin,
            "to": start.seq,
            "ticks": found.ticks,
            "ok": found.first is None and found.root == expected,
            "root": canon.text_of(found.root),
            "expected_root": canon.text_of(expected),
            "ticks_per_s": round(found.ticks / seconds, 1),
            "first_divergence": None if found.first is None else _shown(found.first),
        }


def _check_known(end: World, workflow: str | None) -> None:
    """Refuse a name that would make every history equal, because nothing of it is run."""
    if workflow is not None and workflow not in end.active.catalogue.workflows:
        raise UnknownName(
            f"no workflow {workflow} in the manifest at {end.seq}",
            code="workflow.unknown",
            where={"workflow": workflow},
        )


def _shown(found: Found) -> dict[str, Any]:
    return {
        "seq": found.seq,
        "workflow": found.workflow,
        "key": None if found.key is None else key_json(found.key),
        "field": found.field,
        "expected": found.expected,
        "got": found.got,
    }


def _bad(again: dict[str, Any]) -> dict[str, Any] | None:
    """A difference found by running again, as a finding of a verification."""
    first = again["first_divergence"]
    if first is not None:
        return {"seq": first["seq"], "where": first["field"], "what": "differs when run again"}
    return None if again["ok"] else {"seq": again["to"], "where": "root", "what": "differs"}

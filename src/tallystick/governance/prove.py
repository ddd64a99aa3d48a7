"""Proof: a verdict per live cell by running its recorded tail on the candidate (06 section 9).

`identical` cells go on, `diverges` names the first tick and the field that differ, and
`needs_migration` says whether a declared path was found and tried.
Reducers run again on their recorded states and events; a flow keeps its history in its state, so it
is rebuilt from there and no journal is read.
"""

# tidy: the verdict of one cell is one story.
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import SchemaMismatch
from tallystick.governance.closure import closure_of
from tallystick.governance.compare import changes, key_shown, plain
from tallystick.kernel.evolve import migrated
from tallystick.kernel.machine import fold_frame
from tallystick.kernel.parts import Cell
from tallystick.kernel.pins import catalogue_of, known_workflow
from tallystick.kernel.tick import ASYNC_STATE, rehearse
from tallystick.kernel.world import World
from tallystick.model.abi import Halted, Ran, TickOutput
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import Record, Ticked, WorkflowFaulted
from tallystick.modules.rebuild import Rebuilt, Recorded
from tallystick.values import canon
from tallystick.values.schema import Admitted

IDENTICAL: Final = "identical"
DIVERGES: Final = "diverges"
NEEDS_MIGRATION: Final = "needs_migration"
TAIL: Final = 256
FORM: Final = "tally/prove@1"

Rebuild = Callable[[Catalogue, Recorded, int | None], Rebuilt | None]


class Verdict(NamedTuple):
    """What a candidate means for one cell; `seq` is the cell's last one when it was asked.

    `ok` is False where only a pin or a refusal is left.
    """

    cell: CellId
    seq: int
    verdict: str
    ok: bool
    ticks: int = 0
    detail: dict[str, Any] | None = None

    def row(self) -> dict[str, Any]:
        """The verdict as it stands in a report."""
        return {
            "workflow": self.cell.workflow,
            "key": key_shown(self.cell.key),
            "cell": self.cell.key.hex(),
            "seq": self.seq,
            "verdict": self.verdict,
            "ok": self.ok,
            "ticks": self.ticks,
            "detail": self.detail,
        }


@dataclass
class Ticks:
    """What a stretch of history says of one cell: how many ticks ran, and which of them differ.

    A difference stands with its place among them.
    """

    cell: CellId
    found: deque[tuple[int, dict[str, Any]]]
    count: int = 0


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a row."""
    cell = CellId(row["workflow"], bytes.fromhex(row["cell"]))
    found = (row["seq"], row["verdict"], row["ok"], row["ticks"], row["detail"])
    return Verdict(cell, *found)


# ---- what needs no run ------------------------------------------------------------------------


class Prover:
    """Verdicts of one candidate on the cells of one world."""

    def __init__(self, candidate: Catalogue, rebuild: Rebuild | None = None) -> None:
        self._new = candidate
        self._rebuild = rebuild
        self._closures: dict[tuple[bytes, str], bytes] = {}
        self._shapes: dict[tuple[bytes, str], bool] = {}

    def at_rest(self, world: World, cell: Cell) -> Verdict | None:
        """The verdict on a cell as it stands; None when its recorded ticks have to be run."""
        ident = cell.id
        old, new = known_workflow(world, cell), self._new.workflows.get(ident.workflow)
        if old is None or new is None:
            detail = {"field": "workflow", "message": "the candidate does not hold the workflow"}
            return Verdict(ident, cell.last_seq, DIVERGES, ok=False, detail=detail)
        if self._is_same(catalogue_of(world, cell), ident.workflow):
            return Verdict(ident, cell.last_seq, IDENTICAL, ok=True)
        moved = self._moved(world, cell, new)
        if moved is not None:
            return moved
        if old.state.name == new.state.name == ASYNC_STATE and self._rebuild is not None:
            return self._rebuilt(self._rebuild, world, cell)
        return None

    def _is_same(self, old: Catalogue, workflow: str) -> bool:
        return self._closure(old, workflow) == self._closure(self._new, workflow)

    def _closure(self, catalogue: Catalogue, workflow: str) -> bytes:
        place = (catalogue.hash, workflow)
        if place not in self._closures:
            self._closures[place] = closure_of(catalogue, workflow)
        return self._closures[place]

    def _moved(self, world: World, cell: Cell, new: Workflow) -> Verdict | None:
        """`needs_migration` for a state that the candidate does not read as it is."""
        state = world.state_of(cell)
        if state is None:
            return None
        if cell.state_version != new.state_version:
            if cell.state_version in new.accepts_state_versions:
                return None
            return self._migrated(world, cell, new, state)
        try:
            new.state.admit_older(state)
        except SchemaMismatch as why:
            message = f"the state does not fit {new.state.name}: {why.message}"
            detail = {"from": cell.state_version, "to": new.state_version, "message": message}
            return Verdict(cell.id, cell.last_seq, NEEDS_MIGRATION, ok=False, detail=detail)
        return None

    def _migrated(self, world: World, cell: Cell, new: Workflow, state: bytes) -> Verdict:
        """The declared path, tried on the very state."""
        made = migrated(world, self._new, cell, state)
        detail: dict[str, Any] = {"from": cell.state_version, "to": new.state_version}
        if isinstance(made, Halted):
            detail["message"] = made.message
            return Verdict(cell.id, cell.last_seq, NEEDS_MIGRATION, ok=False, detail=detail)
        detail["after"] = canon.text_of(made.evidence.after)
        return Verdict(cell.id, cell.last_seq, NEEDS_MIGRATION, ok=True, detail=detail)

    def _rebuilt(self, rebuild: Rebuild, world: World, cell: Cell) -> Verdict | None:
        """A flow's history is its proof: it asks for the same after every item, or diverges."""
        state = world.state_of(cell)
        if state is None:
            return Verdict(cell.id, cell.last_seq, IDENTICAL, ok=True)
        history = Recorded(*cell.id, world.id, state)
        made = rebuild(self._new, history, None)
        if made is None:
            return None
        if made.item is None:
            return Verdict(cell.id, cell.last_seq, IDENTICAL, ok=True, ticks=made.items)
        before = rebuild(catalogue_of(world, cell), history, made.item)
        detail = {
            "item": made.item,
            "on": made.on,
            "field": "effects",
            "live": [] if before is None else list(before.asked),
            "shadow": list(made.asked),
        }
        return Verdict(cell.id, cell.last_seq, DIVERGES, ok=False, ticks=made.items, detail=detail)

    # ---- reducers -----------------------------------------------------------------------------

    def run(
        self,
        world: World,
        frames: Iterable[Sealed],
        cells: Mapping[CellId, int],
        tail: int | None = None,
    ) -> Iterator[Ticks]:
        """What the frames say of cells; `cells` has the first tick of each that counts.

        With `tail` only the last so many of them will count.
        The world stands before the frames and is folded over them.
        """
        seen: dict[CellId, Ticks] = {}
        for frame in frames:
            records = open_frame(frame.body)[3]
            if isinstance(records[0], Ticked | WorkflowFaulted):
                ident = world.ring[0]
                since = cells.get(ident)
                if since is not None and frame.seq >= since:
                    mine = seen.get(ident)
                    if mine is None:
                        mine = seen[ident] = Ticks(ident, deque(maxlen=tail or 1))
                    self._look(world, (frame.seq, records[0]), mine, tail)
            fold_frame(world, records, frame.hash)
        yield from seen.values()

    def _look(
        self, world: World, recorded: tuple[int, Record], mine: Ticks, tail: int | None
    ) -> None:
        """Run one tick and note it; without a tail the first difference is the verdict."""
        if tail is None and mine.found:
            return
        mine.count += 1
        found = self._compared(world, recorded[1], mine.cell)
        if found is not None:
            mine.found.append((mine.count, {"seq": recorded[0], **found}))

    def _compared(self, world: World, recorded: Record, ident: CellId) -> dict[str, Any] | None:
        """The first field in which a tick differs from its record; None when it does not."""
        cell = world.cell(ident)
        assert cell is not None, "what ticks is there"
        old, new = catalogue_of(world, cell), self._new
        made = rehearse(world, new, fit=not self._fits(old, ident.workflow))
        if _is_equal(recorded, made):
            return None
        before = rehearse(world, old, fit=False)
        return _field(before, made, new.workflows[ident.workflow])

    def _fits(self, old: Catalogue, workflow: str) -> bool:
        """True when states and events mean the same before and after."""
        place = (old.hash, workflow)
        known = self._shapes.get(place)
        if known is None:
            one, other = old.workflows[workflow], self._new.workflows[workflow]
            known = self._shapes[place] = _shapes(one) == _shapes(other)
        return known


def verdict_on(place: tuple[CellId, int], parts: Iterable[Ticks], tail: int | None) -> Verdict:
    """The verdict on a cell that stands at a sequence, from what its stretches say, in order."""
    ident, seq = place
    parts = list(parts)
    ran = sum(part.count for part in parts)
    counted = ran if tail is None else min(ran, tail)
    before = 0
    for part in parts:
        for number, detail in part.found:
            at = before + number
            if tail is None:
                return Verdict(ident, seq, DIVERGES, ok=False, ticks=at, detail=detail)
            if at > ran - counted:
                return Verdict(ident, seq, DIVERGES, ok=False, ticks=counted, detail=detail)
        before += part.count
    return Verdict(ident, seq, IDENTICAL, ok=True, ticks=counted)


def _shapes(workflow: Workflow) -> tuple[Any, ...]:
    state, event = workflow.state.shape_hash, workflow.event.shape_hash
    return state, event, workflow.event_name, dict(workflow.arms), workflow.state_version


def _is_equal(recorded: Record, made: Ran | Halted) -> bool:
    if isinstance(recorded, Ticked):
        return isinstance(made, Ran) and sha256(made.envelope).digest() == recorded.output
    assert isinstance(recorded, WorkflowFaulted), "a tick begins with its outcome"
    return isinstance(made, Halted) and made.code == recorded.code


# ---- naming the field -------------------------------------------------------------------------


def _field(before: Ran | Halted, made: Ran | Halted, new: Workflow) -> dict[str, Any] | None:
    """The first field of two outcomes that differs: fault, state, events, effects or status."""
    if isinstance(before, Halted) or isinstance(made, Halted):
        codes = [each.code if isinstance(each, Halted) else None for each in (before, made)]
        if codes[0] == codes[1]:
            return None
        said = made.message if isinstance(made, Halted) else None
        return {"field": "fault", "live": codes[0], "shadow": codes[1], "message": said}
    old, out = before.output, made.output
    states = (_newer(old.state, new), _raw(out.state))
    if states[0] != states[1]:
        diff = changes(*(None if s is None else canon.decode(s) for s in states))
        return {"field": "state", "diff": diff}
    for name, look in (("events", _events), ("effects", _effects), ("status", _status)):
        left, right = look(old), look(out)
        if left != right:
            return {"field": name, "live": plain(left), "shadow": plain(right)}
    return None


def _raw(value: bytes | Admitted | None) -> bytes | None:
    return value.bytes if isinstance(value, Admitted) else value


def _newer(value: bytes | Admitted | None, new: Workflow) -> bytes | None:
    """A recorded state under the shape of the candidate: what was added is null."""
    raw = _raw(value)
    if raw is None:
        return None
    try:
        return new.state.admit_older(raw).bytes
    except SchemaMismatch:
        return raw


def _events(output: TickOutput) -> list[Any]:
    return [[e.schema, canon.decode(_raw(e.value) or b""), list(e.tags)] for e in output.events]


def _effects(output: TickOutput) -> list[Any]:
    return [
        [e.effect, canon.decode(_raw(e.params) or b""), e.issuer_ref, e.idempotency_key, e.cap_slot]
        for e in output.effects
    ]


def _status(output: TickOutput) -> list[Any]:
    reason = None if output.reason is None else dict(output.reason)
    return [output.status, output.result, reason]

"""Shadow: a candidate bundle tried on the live state and the recorded tail (06 section 7, K-21).

The report says what was covered and that nothing else is predicted.
The same call gives the same report, and so the same hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tallystick.governance import standing
from tallystick.governance.compare import (
    Live,
    by_cell,
    changes,
    differences,
    key_shown,
    plain,
)
from tallystick.governance.recorded import Step, steps
from tallystick.governance.rerun import EXHAUSTED, Effect, Order, Rerun, Trail
from tallystick.kernel.inputs import Assume
from tallystick.kernel.parts import Cell
from tallystick.kernel.pins import known_workflow
from tallystick.kernel.plans import try_on
from tallystick.kernel.quiescence import lifecycle_of
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import IntentDenied
from tallystick.values import canon

FORM: Final = "tally/shadow@1"
INLINE_MAX: Final = 1000
TAIL: Final = 1000
LISTS: Final = (
    "observed_effects", "missing_effects", "unused_receipts", "pending", "instances",
    "allowlists", "state_deltas", "divergences",
)  # fmt: skip


class Candidate(NamedTuple):
    """The bundle that is tried, by its digests; `proposal` names what asked for it."""

    bundle: bytes
    manifest: bytes
    proposal: str | None = None


class Shadowing(NamedTuple):
    """A finished shadow: the report with its lists cut, the whole document, and its hash."""

    report: dict[str, Any]
    document: bytes
    report_hash: bytes
    complete: bool

    @property
    def diverges(self) -> bool:
        """True when anything ran otherwise than recorded."""
        return bool(self.report["divergences"])


# tidy: one report, all of its fields.
def shadow(
    start: World,
    live: World,
    tail: Iterable[Sealed],
    candidate: Candidate,
    order: Order | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> Shadowing:
    """Run the recorded tail on a candidate and compare.

    `start` stands before the tail and is used up; its blobs hold the candidate and take what the
    run writes, its runner reads code there.
    `live` stands behind the tail and is only read.
    Stopped by `stop` the report is not complete: it would not repeat.
    """
    order = order or Order()
    frames = list(tail)
    from_seq = start.seq
    recorded = Live(start, frames)
    todo = list(steps(start, frames))
    base = start.active.catalogue
    try_on(start, candidate.manifest)
    run = Rerun(start, order, stop=stop)
    trail = run.run(todo, recorded)
    told = _Told(live, start, recorded, trail, run)
    report: dict[str, Any] = {
        "report": FORM,
        "proposal": candidate.proposal,
        "base": base.hash_text,
        "bundle": canon.text_of(candidate.bundle),
        "seed": canon.text_of(order.seed),
        "horizon": _horizon(from_seq, live.seq, trail),
        **told.lists(),
        "allowlists": standing.allowlists(base, start.active.catalogue),
        "authority": standing.authority(base, start.active.catalogue),
        "totals": told.totals(),
        "statement": statement(trail.inputs + trail.seeds, len(trail.ticks), live.seq),
    }
    document = canon.encode(report)
    complete = report["horizon"]["complete"]
    return Shadowing(cut(report), document, canon.digest_of(document), complete)


def statement(inputs: int, ticks: int, seq: int) -> str:
    """What a shadow covers, and what it does not say (K-21)."""
    covered = f"Covers {inputs} inputs and {ticks} ticks up to seq {seq}."
    return f"{covered} Branches that did not run within this horizon are not predicted."


def cut(report: dict[str, Any]) -> dict[str, Any]:
    """The report with lists of at most a thousand entries, and what they were cut to."""
    more = {name: len(report[name]) for name in LISTS if len(report[name]) > INLINE_MAX}
    short = {**report, **{name: report[name][:INLINE_MAX] for name in more}}
    return {**short, "cut": more} if more else short


def _horizon(from_seq: int, to_seq: int, trail: Trail) -> dict[str, Any]:
    return {
        "from_seq": from_seq,
        "to_seq": to_seq,
        "inputs": trail.inputs,
        "seed_events": trail.seeds,
        "ticks": len(trail.ticks),
        "ended": trail.ended,
        # The bound on ticks is part of the call, so a run that it ends repeats; a clock does not.
        "complete": trail.ended != "stopped",
    }


class _Told:
    """What a run and the record say about each other."""

    def __init__(self, live: World, mine: World, recorded: Live, trail: Trail, run: Rerun) -> None:
        self._live = live
        self._mine = mine
        self._recorded = recorded
        self._trail = trail
        self._run = run
        self._ticks = (by_cell(recorded.ticks), by_cell(trail.ticks))
        self._cells = sorted({**self._ticks[0], **self._ticks[1]})
        self._known = {asked: None for _, asked, _ in recorded.effects}
        self._near = {asked.place[:3]: None for asked in self._known}
        self._diverging = list(self._divergences())

    def lists(self) -> dict[str, list[Any]]:
        """Every list of the report but the allow lists."""
        return {
            "observed_effects": [self._effect(each) for each in self._trail.effects],
            "missing_effects": list(self._missing()),
            "unused_receipts": [_unused(step) for step in self._trail.unused],
            "pending": list(self._pending()),
            "instances": [self._instance(ident) for ident in self._cells],
            "state_deltas": [d for ident in self._cells if (d := self._delta(ident))],
            "divergences": self._diverging,
        }

    def totals(self) -> dict[str, int]:
        """How many cells ran, and how many of them otherwise than recorded."""
        changed = {(d["workflow"], canon.encode(d["key"])) for d in self._diverging}
        faults = sum(
            t.records[0].__class__.__name__ == "WorkflowFaulted" for t in self._trail.ticks
        )
        denials = sum(isinstance(e.opened, IntentDenied) for e in self._trail.effects)
        ran = {(i.workflow, canon.encode(key_shown(i.key))) for i in self._cells}
        return {
            "cells": len(self._cells),
            "same": len(ran - changed),
            "changed": len(ran & changed),
            "faults": faults,
            "denials": denials,
        }

    # ---- effects ------------------------------------------------------------------------------

    def _effect(self, effect: Effect) -> dict[str, Any]:
        opened, place = effect.opened, effect.asked.place
        code = opened.code if isinstance(opened, IntentDenied) else None
        return {
            **_about(place.workflow, place.key, place.effect),
            "intent": canon.text_of(opened.intent),
            "params_hash": canon.text_of(place.params),
            "status": effect.status,
            "answer": effect.answer,
            "versus_live": self._versus(effect),
            "code": code,
        }

    def _versus(self, effect: Effect) -> str:
        asked = effect.asked
        if asked in self._known or self._recorded.requests.intent(asked) is not None:
            return "same"
        return "changed" if asked.place[:3] in self._near else "new"

    def _missing(self) -> Any:
        seen = {effect.asked: None for effect in self._trail.effects}
        for seq, asked, opened in self._recorded.effects:
            if asked not in seen:
                place = asked.place
                yield {
                    **_about(place.workflow, place.key, place.effect),
                    "params_hash": canon.text_of(place.params),
                    "seq": seq,
                    "status": self._recorded.statuses.get(opened.intent),
                }

    def _pending(self) -> Any:
        for path, intent in self._mine.intents.entries():
            origin = intent.record.origin
            yield {
                **_about(origin.workflow, origin.key, intent.record.effect),
                "intent": canon.text_of(path),
                "emitted_seq": intent.seq,
                "hold": None if intent.hold is None else intent.hold["kind"],
            }

    # ---- cells --------------------------------------------------------------------------------

    def _instance(self, ident: CellId) -> dict[str, Any]:
        live, mine = self._live.cell(ident), self._mine.cell(ident)
        return {
            "workflow": ident.workflow,
            "key": key_shown(ident.key),
            "live": _status(self._live, live),
            "shadow": _status(self._mine, mine),
            "inflight": 0 if mine is None else len(mine.inflight),
        }

    def _delta(self, ident: CellId) -> dict[str, Any] | None:
        states = [self._state(world, ident) for world in (self._live, self._mine)]
        hashes = [None if s is None else canon.hash_of(s) for s in states]
        if hashes[0] == hashes[1]:
            return None
        live, mine = (None if s is None else canon.decode(s) for s in states)
        return {
            "workflow": ident.workflow,
            "key": key_shown(ident.key),
            "live": hashes[0],
            "shadow": hashes[1],
            "diff": changes(live, mine),
        }

    def _state(self, world: World, ident: CellId) -> bytes | None:
        cell = world.cell(ident)
        return None if cell is None else world.state_of(cell)

    def _divergences(self) -> Any:
        for refusal in self._trail.refusals:
            none = {"seq": refusal.seq, "workflow": None, "key": None}
            yield {**none, "kind": "event", "live": "taken", "shadow": refusal.error.code}
        for ident in self._cells:
            live, mine = (ticks.get(ident, []) for ticks in self._ticks)
            where: dict[str, Any] = {"workflow": ident.workflow, "key": key_shown(ident.key)}
            for one, other in zip(live, mine, strict=False):
                found = list(differences(one, other))
                for each in found:
                    yield {"seq": one.seq, **where, **plain(each._asdict())}
                if found:
                    break
            else:
                # What ran more often has more answers than the record; what ran less was cut off.
                if len(mine) < len(live) and self._trail.ended == EXHAUSTED:
                    seq = live[len(mine)].seq
                    yield {"seq": seq, **where, "kind": "status", "live": "ran", "shadow": "idle"}


def _about(workflow: str, key: bytes, effect: str) -> dict[str, Any]:
    return {"effect": effect, "workflow": workflow, "key": key_shown(key)}


def _status(world: World, cell: Cell | None) -> str | None:
    if cell is None:
        return None
    return cell.shown_status(lifecycle_of(known_workflow(world, cell)))


def _unused(step: Step) -> dict[str, Any]:
    assert step.about is not None, "a receipt is about a request"
    assert isinstance(step.given, Assume), "and it is an answer"
    place = step.about.place
    return {
        **_about(place.workflow, place.key, place.effect),
        "params_hash": canon.text_of(place.params),
        "seq": step.seq,
        "status": step.given.status,
    }

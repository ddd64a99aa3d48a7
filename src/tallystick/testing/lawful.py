"""`assert_law`: what `tally check` found broken, asked of a world that a test has led there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick.kernel.world import World
from tallystick.model.frames import open_frame
from tallystick.model.records import EventAdmitted, IntentDenied, IntentOpened
from tallystick.testing import laws
from tallystick.testing.search import DEPTH, Search
from tallystick.testing.subject import Subject, subject_in
from tallystick.testing.world import TestWorld


def assert_law(world: TestWorld, workflow: Any, key: Any, law: str) -> None:
    """The cell of that key has kept a law so far, and keeps it from here; see `laws`."""
    subject = subject_in(world, workflow, key)
    frames = [open_frame(frame.body)[3] for frame in world.journal.read(world.driver.world.id)]
    for detail in _broken(subject, frames, law):
        raise AssertionError(f"{law}: {detail}")


def _broken(subject: Subject, frames: list[Any], law: str) -> Iterator[str]:
    records = [record for frame in frames for record in frame]
    found: list[str | None] = []
    if law == "fault":
        found.append(laws.faulted(records))
    elif law == "left_open":
        names = _effects(records)
        found += [laws.left_open(frame, subject.ident, names.__getitem__) for frame in frames]
    elif law == "doubled":
        found += _doubled(subject, records)
    elif law in ("stuck", "ends"):
        found += _ahead(subject, law)
    else:
        found.append(_invariant(subject, subject.world, records, law))
    yield from (detail for detail in found if detail is not None)


def _effects(records: list[Any]) -> dict[bytes, str]:
    asked = (IntentOpened, IntentDenied)
    return {record.intent: record.effect for record in records if isinstance(record, asked)}


def _doubled(subject: Subject, records: list[Any]) -> Iterator[str | None]:
    """Judge what each repeated event set off, up to the next input from outside."""
    before: laws.Doubles = frozenset()
    seen: dict[bytes, None] = {}
    for first, span in _spans(records):
        if isinstance(first, EventAdmitted):
            if first.event_hash in seen:
                yield laws.doubled(span, subject.ident, before)
            seen[first.event_hash] = None
        before |= frozenset(laws.unkeyed(span, subject.ident))


def _spans(records: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    span: list[Any] = []
    for record in records:
        if getattr(record, "stamp", None) is not None and span:
            yield span[0], span
            span = []
        span.append(record)
    if span:
        yield span[0], span


def _ahead(subject: Subject, law: str) -> Iterator[str | None]:
    """What a search from here says of this very situation."""
    report = Search(subject).run(DEPTH if law == "ends" else 0)
    yield from (each.detail for each in report.examples if each.law == law and not each.moves)


def _invariant(subject: Subject, world: World, records: list[Any], law: str) -> str | None:
    known = {each.__name__: each for each in subject.app.invariants.get(subject.spec.name, ())}
    invariant = known.get(law.removeprefix(laws.INVARIANT))
    assert invariant is not None, f"{law} is no law of {subject.spec.name}"
    reading = subject.reading
    cell = reading.cell(world, subject.ident)
    return subject.broken(invariant, cell, reading.trace(records))

"""What two worlds of one origin asked for since they parted (06 section 11).

Requests are matched by place and number, because their ids depend on where they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tallystick.governance.compare import Live, key_shown
from tallystick.governance.recorded import Asked
from tallystick.kernel.world import World
from tallystick.model.frames import Sealed
from tallystick.values import canon

FRAMES_MAX: Final = 20_000
EFFECTS_MAX: Final = 1_000
OPEN: Final = "open"


class Stood(NamedTuple):
    """A world, and the sequence up to which it is looked at."""

    world: str
    seq: int


def ancestor(left: Sequence[Stood], right: Sequence[Stood]) -> Stood | None:
    """The last point that two lines have in common, each given from its own end upwards."""
    bounds = {each.world: each.seq for each in right}
    for each in left:
        if each.world in bounds:
            return Stood(each.world, min(each.seq, bounds[each.world]))
    return None


def effects_apart(
    start: World, left: Iterable[Sealed], right: Iterable[Sealed]
) -> list[dict[str, Any]]:
    """The effects that only one of two histories has, or that ended otherwise in the other.

    Both begin where `start` stands, which is only read.
    """
    sides = [_told(start, Live(start, frames)) for frames in (left, right)]
    places = sorted({**sides[0], **sides[1]})
    rows = (_row(place, *(side.get(place) for side in sides)) for place in places)
    return [row for row in rows if row is not None][:EFFECTS_MAX]


def _told(start: World, live: Live) -> dict[Asked, str]:
    """How each effect ended: those open at the start, and those asked for since."""
    intents = {path: live.requests.asked(path) for path, _ in start.intents.entries()}
    intents |= {opened.intent: asked for _, asked, opened in live.effects}
    statuses = live.statuses
    return {asked: statuses.get(i, OPEN) for i, asked in intents.items() if asked is not None}


def _row(asked: Asked, left: str | None, right: str | None) -> dict[str, Any] | None:
    if left == right:
        return None
    place = asked.place
    change = "only_there" if left is None else "only_here" if right is None else "outcome"
    return {
        "effect": place.effect,
        "workflow": place.workflow,
        "key": key_shown(place.key),
        "params_hash": canon.text_of(place.params),
        "number": asked.number,
        "change": change,
        "status": [left, right],
    }

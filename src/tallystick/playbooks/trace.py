"""What a tick of a net tells, as its annotation (07 section 10).

That an iteration ended well and the next one began is told a thousand times: `[run, i, j]` for
both, and `[run, i]` where none began.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.values import canon

DONE: Final = "loop.iteration.done"
SCHEDULED: Final = "loop.iteration.scheduled"
_HEAD: Final = canon.PREFIX + canon.head(5, 1) + canon.put_key("events") + canon.head(4, 1)
_TURNS: Final = ([DONE], [DONE, SCHEDULED])

Event = dict[str, Any]


def put_trace(events: list[Event]) -> bytes:
    """The annotation of a tick that tells these events."""
    if [each["event"] for each in events] in _TURNS:
        runs = {each["run"]: None for each in events}
        if len(runs) == 1:
            return put_turn(*runs, *[each["iteration"] for each in events])
    return canon.encode({"events": events})


def put_turn(run: str, *iterations: int) -> bytes:
    """The annotation of a tick in which a loop only went on."""
    count = canon.head(4, 1 + len(iterations))
    return b"".join((_HEAD, count, canon.put_key(run), *map(canon.put_int, iterations)))


def events_of(annotation: bytes) -> list[Event]:
    """The events that an annotation tells of, each as a map."""
    found: list[Event] = []
    for each in canon.decode(annotation)["events"]:
        if type(each) is list:
            run, *iterations = each
            pairs = zip((DONE, SCHEDULED), iterations, strict=False)
            found += [{"event": word, "run": run, "iteration": i} for word, i in pairs]
        else:
            found.append(each)
    return found

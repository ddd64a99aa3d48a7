"""Hot readers: the four record types that opening a world meets nearly always (ADR 0010).

Theory of operation.
A record of a known type has its keys in one order, so it is a pattern: literal keys, and items of
one kind between them.
The engine of regular expressions matches it at the speed of C, in segments: a segment ends at a
byte string that may be long, whose length is stepped over.
Short strings are matched by their length, and those up to a bound are searched for their end and
then compared with it, so no content can mislead or slow the reading.
A record with a rare field, and anything that does not match, is left to the general reader; a test
proves both equal on every record, and that they refuse the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.model.hot_items import (
    DIGEST,
    MEMORY_MAX,
    NAT,
    NUMBERS,
    SIZES,
    TEXT,
    TEXTS,
    bare,
    digest,
    get,
    key,
    may,
    nat,
    octets,
    pattern,
    size,
    text,
    whole,
)
from tallystick.model.hot_read_effects import STAMP, Taken, opened, settled, stamp_of
from tallystick.model.records import (
    EventAdmitted,
    IdemKey,
    IntentOpened,
    Record,
    Source,
    Target,
    Ticked,
    load_record,
    load_source,
    placed,
)
from tallystick.model.tuples import make
from tallystick.values import canon

_RECORD_DEPTH: Final = 2  # a record lies in the list of a frame's body

# ---- ticks ----------------------------------------------------------------------------------

_TICKED_STATE: Final = pattern(
    get(rb"[\xac-\xb4]"),
    octets("key"),
    nat("fuel"),
    nat("size"),
    may(digest("after")),
    may(size("state")),
)
_TICKED_REST: Final = pattern(
    may(digest("before")),
    text("engine"),
    may(nat("events")),
    digest("output"),
    key("record", "Ticked"),
    may(octets("result")),
    may(text("status")),
    nat("effects"),
    nat("born_seq"),
    text("workflow"),
    nat("input_seq"),
    # What recurs in every tick of a workflow is taken as a whole, and read once.
    rb"(",
    may(key("input_index") + NAT),
    key("module_hash") + rb"\x58\x20" + DIGEST,
    may(key("state_version") + NAT),
    key("workflow_hash") + rb"\x58\x20" + DIGEST,
    rb")",
)
_TICKED_CODE: Final = pattern(
    may(nat("input_index")),
    digest("module_hash"),
    may(nat("state_version")),
    digest("workflow_hash"),
)
_Code = tuple[int, bytes, int, bytes, int]


class _Codes(dict[bytes, _Code]):
    """The end of a tick: input index, module, version of the state, workflow; and what it says."""

    def __missing__(self, raw: bytes) -> _Code:
        found = _TICKED_CODE.match(raw)
        assert found is not None, "it was matched as a part of the record"
        index, module_hash, version, workflow_hash = found.groups()
        made = (
            0 if index is None else NUMBERS[index],
            module_hash,
            1 if version is None else NUMBERS[version],
            workflow_hash,
            (index is not None) + (version is not None),
        )
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


_CODES: Final[dict[bytes, _Code]] = _Codes()


def _ticked(body: bytes, at: int) -> Taken:
    found = _TICKED_STATE.match(body, at)
    if found is None:
        return None
    head, ident, fuel, length, after, long = found.groups()
    begin = at = found.end()
    state = None
    if long is not None:
        at += SIZES[long]
        state = body[begin:at]
    found = _TICKED_REST.match(body, at)
    if found is None:
        return None
    before, engine, events, output, result, status, effects, born, workflow, seq, code = (
        found.groups()
    )
    index, module_hash, version, workflow_hash, said = _CODES[code]
    # Asked one by one: to count None in a tuple compares it with whatever is there.
    absent = (after is None) + (state is None) + (before is None)
    absent += (result is None) + (events is None) + (status is None)
    if head[0] != 0xB2 + said - absent:
        return None
    fields = (
        TEXTS[workflow], bare(ident), workflow_hash, module_hash, NUMBERS[seq], index,
        NUMBERS[born], NUMBERS[length], version, "running" if status is None else TEXTS[status],
        output, 0 if events is None else NUMBERS[events], NUMBERS[effects], NUMBERS[fuel],
        TEXTS[engine], before, after, state, None, None if result is None else bare(result), None,
        None, None, None,
    )  # fmt: skip
    return make(Ticked, fields), found.end()


# ---- events ---------------------------------------------------------------------------------

_EVENT_VALUE: Final = pattern(
    get(rb"[\xa7-\xa9]"),
    key("to"),
    rb"(?:\x80|\x81([\xa3-\xa5])",
    may(text("arm")),
    octets("key"),
    may(digest("caller")),
    key("create"),
    get(rb"[\xf4\xf5]"),
    text("workflow"),
    rb")",
    nat("hops"),
    STAMP,
    size("value"),
)
_EVENT_REST: Final = pattern(
    key("origin"),
    rb"(?:(\xa1",
    key("kind") + TEXT,
    rb"|\xa2",
    key("kind") + TEXT,
    key("principal") + TEXT,
    rb")|\xa4",
    octets("key"),
    key("kind", "workflow"),
    nat("tick_seq"),
    text("workflow"),
    rb")",
    key("record", "EventAdmitted"),
    text("schema"),
    may(key("idem_key"), rb"\xa2", octets("key"), digest("digest")),
    digest("event_hash"),
)


class _Sources(dict[bytes, Source]):
    """Who sends from outside: kind and principal recur."""

    def __missing__(self, raw: bytes) -> Source:
        made = load_source(whole(raw))
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


_SOURCES: Final[dict[bytes, Source]] = _Sources()


_Place = tuple[bytes | None, bytes, bytes | None, bytes, bytes]


def _target(head: bytes, place: _Place) -> Target | None:
    """The one delivery of an event; None when its map counts otherwise."""
    arm, ident, caller, create, workflow = place
    if head[0] != 0xA3 + (arm is not None) + (caller is not None):
        return None
    named, new = None if arm is None else TEXTS[arm], create == b"\xf5"
    fields = (TEXTS[workflow], bare(ident), new, named, None, None, None, None, caller)
    return make(Target, fields)


# tidy: the table of one record, written out.
def _event(body: bytes, at: int) -> Taken:
    found = _EVENT_VALUE.match(body, at)
    if found is None:
        return None
    (
        head, inner, arm, ident, caller, create, workflow, hops, _, now, entropy, logical, long,
    ) = found.groups()  # fmt: skip
    begin = found.end()
    at = begin + SIZES[long]
    to: tuple[Target, ...] = ()
    if inner is not None:
        target = _target(inner, (arm, ident, caller, create, workflow))
        if target is None:
            return None
        to = (target,)
    found = _EVENT_REST.match(body, at)
    if found is None:
        return None
    outside, ident, seq, workflow, schema, given, digest_, event_hash = found.groups()
    stamp = None if now is None else stamp_of(now, entropy, logical)
    if head[0] != 0xA7 + (stamp is not None) + (given is not None):
        return None
    if outside is not None:
        came = _SOURCES[outside]
    else:
        place = ("workflow", None, TEXTS[workflow], bare(ident), NUMBERS[seq])
        came = make(Source, place)
    idem = None if given is None else make(IdemKey, (bare(given), digest_))
    fields = (
        TEXTS[schema], event_hash, came, NUMBERS[hops], to, body[begin:at], None, None, None,
        idem, stamp,
    )  # fmt: skip
    return make(EventAdmitted, fields), found.end()


# ---- any record -----------------------------------------------------------------------------


Read = Callable[[bytes, int], Taken]


def _delivered(body: bytes, at: int) -> Taken:
    """An event or a receipt: both begin with where they went."""
    if body.startswith(b"\x81\xa2", at + 4):
        return settled(body, at)
    return _event(body, at) or settled(body, at)


def _begins(first: int, last: int, start: bytes, read: Read) -> dict[bytes, Read]:
    """A reader for maps of so many fields whose first key begins so."""
    return {bytes((head,)) + start: read for head in range(first, last + 1)}


# By the first bytes: a receipt has more fields than an event.
_READERS: Final[dict[bytes, Read]] = {
    **_begins(0xA7, 0xAF, b"\x62to", _delivered),
    **_begins(0xAC, 0xB4, b"\x63ke", _ticked),
    **_begins(0xA7, 0xAB, b"\x66ef", opened),
}


def read_records(body: bytes, at: int, count: int, seq: int) -> tuple[list[Record], int]:
    """So many records from a place of a frame's body on, and the place behind them.

    `seq` is the number of the first.

    Raises NotCanonical, JournalCorrupt or ValueError when there is something wrong with them.
    """
    found: list[Record] = []
    record: Any  # an intent lacks its origin until it is placed
    for _ in range(count):
        read = _READERS.get(body[at : at + 4])
        taken = None if read is None else read(body, at)
        if taken is None:
            reader = canon.Reader(body, at)
            taken = (load_record(reader.item(_RECORD_DEPTH)), reader.pos)
        record, at = taken
        kind = type(record)
        if kind is IntentOpened and record[4] is None:
            record = placed(record, found, seq)
        found.append(record)
    return found, at

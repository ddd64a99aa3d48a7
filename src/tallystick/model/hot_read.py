"""Hot readers: the four record types that opening a world meets nearly always (ADR 0011).

Theory of operation.
A record of a known type has its keys in one order, so it is a pattern: literal keys, and items of
one kind between them.
The engine of regular expressions matches it at the speed of C, in segments: a segment ends at a
byte string, whose length is stepped over, because its content is a stranger's and must not be
searched.
A record with a rare field, and anything that does not match, is left to the general reader; a test
proves both equal on every record, and that they refuse the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tallystick.model.hot_items import (
    DIGEST,
    MEMORY_MAX,
    NAT,
    NUMBERS,
    SIZES,
    TEXTS,
    before,
    digest,
    get,
    key,
    may,
    nat,
    pattern,
    size,
    text,
    whole,
)
from tallystick.model.hot_read_effects import STAMP, Taken, opened, settled, stamp_of
from tallystick.model.records import (
    EventAdmitted,
    IdemKey,
    Record,
    Source,
    Target,
    Ticked,
    load_record,
    load_source,
)
from tallystick.model.tuples import make
from tallystick.values import canon

_RECORD_DEPTH: Final = 2  # a record lies in the list of a frame's body

# ---- ticks ----------------------------------------------------------------------------------

_TICKED_KEY: Final = pattern(get(rb"[\xb0-\xb4]"), size("key"))
_TICKED_STATE: Final = pattern(nat("fuel"), nat("size"), may(digest("after")), may(size("state")))
_TICKED_RESULT: Final = pattern(
    may(digest("before")),
    text("engine"),
    nat("events"),
    digest("output"),
    key("record", "Ticked"),
    may(size("result")),
)
_TICKED_REST: Final = pattern(
    text("status"),
    nat("effects"),
    nat("born_seq"),
    text("workflow"),
    nat("input_seq"),
    # What recurs in every tick of a workflow is taken as a whole, and read once.
    rb"(",
    key("input_index") + NAT,
    key("module_hash") + rb"\x58\x20" + DIGEST,
    key("state_version") + NAT,
    key("workflow_hash") + rb"\x58\x20" + DIGEST,
    rb")",
)
_TICKED_CODE: Final = pattern(
    nat("input_index"), digest("module_hash"), nat("state_version"), digest("workflow_hash")
)


class _Codes(dict[bytes, tuple[int, bytes, int, bytes]]):
    """The end of a tick: input index, module, version of the state, workflow."""

    def __missing__(self, raw: bytes) -> tuple[int, bytes, int, bytes]:
        found = _TICKED_CODE.match(raw)
        assert found is not None, "it was matched as a part of the record"
        index, module_hash, version, workflow_hash = found.groups()
        made = (NUMBERS[index], module_hash, NUMBERS[version], workflow_hash)
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


_CODES: Final[dict[bytes, tuple[int, bytes, int, bytes]]] = _Codes()


# tidy: the table of one record, written out.
def _ticked(body: bytes, at: int) -> Taken:
    found = _TICKED_KEY.match(body, at)
    if found is None:
        return None
    head, long = found.groups()
    begin = found.end()
    at = begin + SIZES[long]
    ident = body[begin:at]
    found = _TICKED_STATE.match(body, at)
    if found is None:
        return None
    fuel, length, after, long = found.groups()
    begin = at = found.end()
    state = result = None
    if long is not None:
        at += SIZES[long]
        state = body[begin:at]
    found = _TICKED_RESULT.match(body, at)
    if found is None:
        return None
    before, engine, events, output, long = found.groups()
    begin = at = found.end()
    if long is not None:
        at += SIZES[long]
        result = body[begin:at]
    found = _TICKED_REST.match(body, at)
    if found is None:
        return None
    status, effects, born, workflow, input_seq, code = found.groups()
    n = 16 + (after is not None) + (state is not None) + (before is not None)
    if head[0] != 0xA0 + n + (result is not None):
        return None
    index, module_hash, version, workflow_hash = _CODES[code]
    fields = (
        TEXTS[workflow], ident, workflow_hash, module_hash, NUMBERS[input_seq], index,
        NUMBERS[born], NUMBERS[length], version, TEXTS[status], output, NUMBERS[events],
        NUMBERS[effects], NUMBERS[fuel], TEXTS[engine], before, after, state, None, result,
        None, None, None, None,
    )  # fmt: skip
    return make(Ticked, fields), found.end()


# ---- events ---------------------------------------------------------------------------------

_EVENT_KEY: Final = pattern(
    get(rb"[\xa7-\xa9]"),
    key("to"),
    rb"(?:\x80|\x81([\xa3\xa4])",
    may(text("arm")),
    size("key"),
    rb")",
)
_EVENT_TARGET: Final = pattern(key("create"), get(rb"[\xf4\xf5]"), text("workflow"), before("hops"))
_EVENT_VALUE: Final = pattern(nat("hops"), STAMP, size("value"))
_EVENT_FROM: Final = pattern(key("origin"), rb"\xa4", size("key"))
_EVENT_TICK: Final = pattern(
    key("kind", "workflow"), nat("tick_seq"), text("workflow"), before("record")
)
_EVENT_REST: Final = pattern(
    may(key("origin"), get(rb"[\xa1\xa2].{0,191}?")),
    key("record", "EventAdmitted"),
    text("schema"),
    before("idem_key", "event_hash"),
    may(key("idem_key"), rb"\xa2", size("key")),
)
_EVENT_IDEM: Final = pattern(digest("digest"))
_EVENT_HASH: Final = pattern(digest("event_hash"))


class _Sources(dict[bytes, Source]):
    """Who sends from outside: kind and principal recur."""

    def __missing__(self, raw: bytes) -> Source:
        made = load_source(whole(raw))
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


_SOURCES: Final[dict[bytes, Source]] = _Sources()


def _target(body: bytes, at: int, place: tuple[bytes, bytes | None, bytes]) -> tuple[Target, int]:
    """The one delivery of an event, from the content of its key on; 0 when it is another form."""
    head, arm, long = place
    stop = at + SIZES[long]
    found = _EVENT_TARGET.match(body, stop)
    if found is None or head[0] != (0xA3 if arm is None else 0xA4):
        return _NOWHERE, 0
    create, workflow = found.groups()
    named = None if arm is None else TEXTS[arm]
    fields = (TEXTS[workflow], body[at:stop], create == b"\xf5", named)
    return make(Target, (*fields, None, None, None, None, None)), found.end()


_NOWHERE: Final = Target("", b"", create=False)


def _source(body: bytes, at: int) -> tuple[Source, int] | None:
    """The tick that emitted an event; None when it came from outside."""
    found = _EVENT_FROM.match(body, at)
    if found is None:
        return None
    begin = found.end()
    stop = begin + SIZES[found[1]]
    found = _EVENT_TICK.match(body, stop)
    if found is None:
        return None
    seq, workflow = found.groups()
    fields = ("workflow", None, TEXTS[workflow], body[begin:stop], NUMBERS[seq])
    return make(Source, fields), found.end()


# tidy: the table of one record, written out.
def _event(body: bytes, at: int) -> Taken:
    found = _EVENT_KEY.match(body, at)
    if found is None:
        return None
    head, inner, arm, long = found.groups()
    at = found.end()
    to: tuple[Target, ...] = ()
    if inner is not None:
        target, at = _target(body, at, (inner, arm, long))
        to = (target,)
    found = _EVENT_VALUE.match(body, at)
    if found is None or not at:
        return None
    hops, now, entropy, logical, long = found.groups()
    begin = found.end()
    at = begin + SIZES[long]
    value = body[begin:at]
    source, at = _source(body, at) or (None, at)
    found = _EVENT_REST.match(body, at)
    if found is None:
        return None
    outside, schema, long = found.groups()
    if (outside is None) is (source is None):
        return None
    at = found.end()
    idem = None
    if long is not None:
        begin = at
        at += SIZES[long]
        found = _EVENT_IDEM.match(body, at)
        if found is None:
            return None
        idem = make(IdemKey, (body[begin:at], found[1]))
        at = found.end()
    found = _EVENT_HASH.match(body, at)
    stamp = None if now is None else stamp_of(now, entropy, logical)
    if found is None or head[0] != 0xA7 + (stamp is not None) + (idem is not None):
        return None
    came = _SOURCES[outside] if source is None else source
    fields = (TEXTS[schema], found[1], came, NUMBERS[hops], to, value, None, None, None, idem)
    return make(EventAdmitted, (*fields, stamp)), found.end()


# ---- any record -----------------------------------------------------------------------------


def _to_somewhere(body: bytes, at: int) -> Taken:
    """A record that begins with its deliveries: an event or a receipt."""
    return _event(body, at) or settled(body, at)


# By the bytes behind the head of the map: nearly every record begins with one of these keys.
_READERS: Final[dict[bytes, Callable[[bytes, int], Taken]]] = {
    b"\x62to": _to_somewhere,
    b"\x63ke": _ticked,
    b"\x66ef": opened,
}


def read_records(body: bytes, at: int, count: int) -> tuple[list[Record], int]:
    """So many records from a place of a frame's body on, and the place behind them.

    Raises NotCanonical, JournalCorrupt or ValueError when there is something wrong with them.
    """
    found: list[Record] = []
    for _ in range(count):
        read = _READERS.get(body[at + 1 : at + 4])
        taken = None if read is None else read(body, at)
        if taken is None:
            reader = canon.Reader(body, at)
            taken = (load_record(reader.item(_RECORD_DEPTH)), reader.pos)
        record, at = taken
        found.append(record)
    return found, at

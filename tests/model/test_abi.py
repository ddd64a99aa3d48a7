"""The module ABI: envelopes round-trip, and an answer that is not an output is `bad_output`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.errors import TickFault
from tallystick.model.abi import (
    LEVELS,
    EffectRequest,
    EmittedEvent,
    TickInput,
    TickOutput,
    read_output,
    write_output,
)
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests import worlds
from tests.rig import Rig

BLOB = b"content"

EFFECT = {
    "effect": "t/ask@1",
    "params": b"p",
    "issuer_ref": "ref",
    "idempotency_key": b"once",
    "cap_slot": "main",
    "timeout_ns": 5,
}
EVENT = {"schema": "t/Go@1", "value": b"v", "key": b"k", "tags": ["eu"]}
LOG = {"level": "info", "message": "m", "fields": {"n": 1}}
REASON = {"code": "c", "message": "m"}

# Every field of an output; `result` and `reason` stand with their own status.
WHOLE: dict[str, Any] = {
    "state": b"s",
    "status": "completed",
    "result": b"r",
    "domain_events": [EVENT],
    "effects": [EFFECT],
    "ann": b"a",
    "logs": [LOG],
    "metrics": {"n": -1},
    "blobs": {canon.hash_of(BLOB): BLOB},
}
FAILED: dict[str, Any] = {"state": None, "status": "failed", "reason": REASON}


def nested(where: str, part: dict[str, Any]) -> dict[str, Any]:
    """An output with one part of a list, or the reason, replaced."""
    if where == "output":
        return part
    if where == "reason":
        return {**FAILED, "reason": part}
    return {**WHOLE, where: [part]}


PARTS = {"output": WHOLE, "domain_events": EVENT, "effects": EFFECT, "logs": LOG, "reason": REASON}
OPTIONAL = {
    "output": ("status", "result", "domain_events", "effects", "ann", "logs", "metrics", "blobs"),
    "domain_events": ("key", "tags"),
    "effects": ("issuer_ref", "idempotency_key", "cap_slot", "timeout_ns"),
    "logs": ("fields",),
    "reason": (),
}
EACH_FIELD = [(where, field) for where, part in PARTS.items() for field in part]


def refused(raw: Any) -> str:
    """The code with which an answer is refused."""
    with pytest.raises(TickFault) as caught:
        read_output(raw)
    return caught.value.code


# ---- input ----------------------------------------------------------------------------------


class Told:
    """A delivery and its surroundings as a lane is given them."""

    def value(self) -> bytes:
        return b"v"

    def document(self) -> bytes:
        return b"c"


@pytest.mark.clause("K-34", "K-28")
@pytest.mark.parametrize("key", [None, b"k"])
@pytest.mark.parametrize("ctx", [None, Told()])
@pytest.mark.parametrize("state", [None, b"s"])
def test_tick_input(key: bytes | None, ctx: Told | None, state: bytes | None) -> None:
    """MO-08: `{version, state, event{schema, value, key?}, ctx?}`: optional means absent."""
    given = TickInput(state, "t/Event@1", Told(), key, ctx)  # type: ignore[arg-type]
    raw = canon.decode(given.envelope())
    event = {"schema": "t/Event@1", "value": b"v", **({} if key is None else {"key": key})}
    expected = {"version": 1, "state": state, "event": event}
    assert raw == (expected if ctx is None else {**expected, "ctx": b"c"})


# ---- output ---------------------------------------------------------------------------------


@pytest.mark.clause("K-34")
@pytest.mark.parametrize("raw", [WHOLE, FAILED, {"state": None}, {"state": b"s"}])
def test_output_round_trip(raw: dict[str, Any]) -> None:
    """MO-08: reading and writing an envelope gives its canonical bytes again."""
    output = read_output(raw)
    assert write_output(output) == canon.encode(raw)
    assert read_output(canon.decode(write_output(output))) == output


def test_output_fields() -> None:
    """MO-08: every field of an envelope reaches the output."""
    assert read_output(WHOLE) == TickOutput(
        state=b"s",
        status="completed",
        result=b"r",
        events=(EmittedEvent("t/Go@1", b"v", b"k", ("eu",)),),
        effects=(EffectRequest("t/ask@1", b"p", "ref", b"once", "main", 5),),
        ann=b"a",
        logs=(LOG,),
        metrics={"n": -1},
        blobs={canon.hash_of(BLOB): BLOB},
    )
    assert read_output(FAILED).reason == REASON


OUTPUTS = st.builds(
    TickOutput,
    status=st.just("running"),
    result=st.none(),
    reason=st.none(),
    blobs=st.none(),
    state=st.none() | st.binary(max_size=8),
    events=st.lists(
        st.tuples(st.text(), st.binary(), st.none() | st.binary(), st.lists(st.text())).map(
            lambda each: EmittedEvent(each[0], each[1], each[2], tuple(each[3]))
        ),
        max_size=3,
    ).map(tuple),
    effects=st.lists(
        st.tuples(
            st.text(),
            st.binary(),
            st.none() | st.text(),
            st.none() | st.binary(min_size=1, max_size=128),
            st.none() | st.text(),
            st.none() | st.integers(0, 2**63),
        ).map(lambda each: EffectRequest(*each)),
        max_size=3,
    ).map(tuple),
    ann=st.none() | st.binary(max_size=8),
    logs=st.lists(
        st.fixed_dictionaries({"level": st.sampled_from(sorted(LEVELS)), "message": st.text()}),
        max_size=2,
    ).map(tuple),
    metrics=st.none() | st.dictionaries(st.text(), st.integers(-5, 5), min_size=1, max_size=3),
)


@pytest.mark.clause("K-34")
@given(OUTPUTS)
def test_any_output_round_trips(output: TickOutput) -> None:
    """MO-08: what is written in joined pieces is canonical, and is read back as it was."""
    data = write_output(output)
    raw = canon.decode(data)
    assert read_output(raw) == output
    assert canon.encode(raw) == data


@pytest.mark.clause("K-34")
@pytest.mark.parametrize(("where", "field"), EACH_FIELD)
def test_null_is_not_absent(where: str, field: str) -> None:
    """MO-08: null in any field but `state` is `bad_output`; leaving an optional one out is not."""
    part = PARTS[where]
    if (where, field) != ("output", "state"):
        assert refused(nested(where, {**part, field: None})) == "bad_output"
    without = nested(where, {name: value for name, value in part.items() if name != field})
    if field == "status":  # the result of the sample stands with its status
        without.pop("result")
    if field in OPTIONAL[where]:
        read_output(without)
    else:
        assert refused(without) == "bad_output"


STRANGERS = (True, 7, "text", b"bytes", [1], [[]], {"x": []}, 1.5)
RIGHT = {
    ("output", "state"): bytes,
    ("output", "result"): bytes,
    ("output", "ann"): bytes,
    ("domain_events", "schema"): str,
    ("domain_events", "value"): bytes,
    ("domain_events", "key"): bytes,
    ("effects", "effect"): str,
    ("effects", "params"): bytes,
    ("effects", "issuer_ref"): str,
    ("effects", "idempotency_key"): bytes,
    ("effects", "cap_slot"): str,
    ("effects", "timeout_ns"): int,
    ("logs", "message"): str,
    ("logs", "fields"): dict,
    ("reason", "code"): str,
    ("reason", "message"): str,
}


@pytest.mark.clause("K-34")
@pytest.mark.parametrize(("where", "field"), EACH_FIELD)
def test_a_wrong_type_is_bad_output(where: str, field: str) -> None:
    """MO-08: in every field every value of another type is `bad_output`, never a crash."""
    right = RIGHT.get((where, field))
    for stranger in STRANGERS:
        if type(stranger) is not right:
            raw = nested(where, {**PARTS[where], field: stranger})
            assert refused(raw) == "bad_output", stranger


@pytest.mark.clause("K-34")
@pytest.mark.parametrize("where", list(PARTS))
@pytest.mark.parametrize("name", ["newer", 1])
def test_an_unknown_field_is_bad_output(where: str, name: str | int) -> None:
    """MO-08: a field that 02 does not list is refused at every level."""
    assert refused(nested(where, {**PARTS[where], name: 1})) == "bad_output"  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        b"",
        {},
        {"state": None, "status": "waiting"},
        {"state": None, "status": "suspended"},
        {"state": None, "result": b"r"},
        {"state": None, "status": "failed"},
        {"state": None, "status": "failed", "reason": REASON, "result": b"r"},
        {"state": None, "status": "completed", "reason": REASON},
        {"state": None, "effects": [{**EFFECT, "idempotency_key": b""}]},
        {"state": None, "effects": [{**EFFECT, "idempotency_key": bytes(129)}]},
        {"state": None, "effects": [{**EFFECT, "timeout_ns": -1}]},
        {"state": None, "logs": [{**LOG, "level": "loud"}]},
        {"state": None, "metrics": {1: 1}},
        {"state": None, "metrics": {"n": True}},
        {"state": None, "blobs": {canon.hash_of(BLOB): b"other"}},
        {"state": None, "domain_events": [{**EVENT, "tags": ["a", 1]}]},
        {"state": None, "domain_events": [None]},
    ],
    ids=repr,
)
@pytest.mark.clause("K-34")
def test_what_is_not_an_output(raw: object) -> None:
    """MO-08: illegal status, result or reason out of place, bad keys, logs, metrics, blobs."""
    assert refused(raw) == "bad_output"


# ---- in a world -----------------------------------------------------------------------------


@pytest.mark.clause("K-34", "K-08")
@pytest.mark.parametrize(
    "answer",
    [
        Outcome({"id": "a", "log": "not a list"}),
        Outcome({"id": "a", "log": []}, status="waiting"),
        Outcome({"id": "a", "log": []}, status="failed"),
        Outcome({"id": "a", "log": []}, result=1),
        Outcome({"id": "a", "log": []}, ann={"undeclared": 1}),
        Outcome({"id": "a", "log": []}, logs=[{"level": [], "message": "m"}]),
        Outcome({"id": "a", "log": []}, metrics={"n": "many"}),  # type: ignore[dict-item]
        Outcome({"id": "a", "log": []}, effects=[worlds.ask(newer=1)]),
        Outcome({"id": "a", "log": []}, effects=[worlds.ask(issuer_ref=None)]),
        Outcome({"id": "a", "log": []}, events=[{"schema": "t/None@1", "value": {}}]),
        Outcome({"id": "a", "log": []}, events=[{"schema": worlds.GO, "value": {"id": 1}}]),
    ],
    ids=range(11),
)
def test_bad_output_is_a_fault_of_its_tick(answer: Outcome) -> None:
    """MO-08: in a world the tick faults with `bad_output` and leaves nothing else of itself."""
    functions = {("t/code@1", "lab"): worlds.lab_function(bad=lambda *_: answer)}
    rig = Rig(worlds.lab_documents(), functions)
    rig.send(worlds.GO, worlds.go("a", "bad"))
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == "bad_output"
    assert rig.records(Ticked) == []
    assert rig.jobs.all == []
    assert rig.verify().first is None

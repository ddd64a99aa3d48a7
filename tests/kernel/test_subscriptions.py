"""Subscriptions: filters, keys, first states and missing cells take effect as the manifest says."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.model.records import Dropped, EventAdmitted
from tallystick.modules.python import Outcome
from tests import worlds
from tests.rig import Rig

IN = "t/In@1"
OUT = "t/Out@1"
SUM = "t/sum@1"
RELAY = "t/relay@1"


def rig_with(*subscriptions: dict[str, Any]) -> Rig:  # tidy: a table of definitions
    """A summing workflow per key under given subscriptions, and a relay that emits events."""
    documents = [
        worlds.schema("t/Key@1", worlds.TEXT),
        worlds.schema(IN, worlds.record(key=worlds.TEXT, n=worlds.NAT)),
        worlds.schema(OUT, worlds.record(key=worlds.TEXT, n=worlds.NAT)),
        worlds.schema("t/Sum@1", worlds.record(sum=worlds.NAT)),
        worlds.schema("t/None@1", worlds.record()),
        worlds.schema("t/Either@1", worlds.arms(In=IN, Out=OUT)),
        worlds.module(),
        worlds.module(
            "t/pure@1",
            pure={
                "first": {"input": IN, "output": "t/Key@1"},
                "start": {"input": IN, "output": "t/Sum@1"},
            },
        ),
        worlds.workflow(SUM, "t/Sum@1", "t/Either@1", key_schema="t/Key@1"),
        worlds.workflow(RELAY, "t/None@1", IN, lifecycle="entity"),
        worlds.manifest([*subscriptions, {"event": IN, "workflow": RELAY}]),
    ]

    def add(state: Any, event: Any, ctx: Any) -> Any:
        return {"sum": (0 if state is None else state["sum"]) + event["$value"]["n"]}

    def relay(state: Any, event: Any, ctx: Any) -> Any:
        return Outcome({}, events=[{"schema": OUT, "value": event, "tags": ["eu"]}])

    functions = {
        ("t/code@1", "sum"): add,
        ("t/code@1", "relay"): relay,
        ("t/pure@1", "first"): lambda given: {"output": given["input"]["key"][:1]},
        ("t/pure@1", "start"): lambda given: {"output": {"sum": 100 * given["input"]["n"]}},
    }
    return Rig(documents, functions)  # type: ignore[arg-type]


def way(event: str = IN, **more: Any) -> dict[str, Any]:
    keyed = {} if "key_fn" in more else {"key_field": "key"}
    return {"event": event, "workflow": SUM, **keyed, **more}


def sent(rig: Rig, key: str = "ab", n: int = 1, **more: Any) -> Any:
    return rig.send(IN, {"key": key, "n": n}, **more)


def to_sum(rig: Rig) -> list[Any]:
    """Every delivery to the summing workflow."""
    found = [t for r in rig.records(EventAdmitted) for t in r.to]
    return [target for target in found if target.workflow == SUM]


PURE_KEY = {"key_fn": {"module": "t/pure@1", "entrypoint": "first"}}


@pytest.mark.clause("X-01", "K-30")
@pytest.mark.parametrize(
    ("origin", "event", "reached"),
    [
        (["external"], IN, True),
        (["system"], IN, False),
        (["governance", "external"], IN, True),
        (["external"], OUT, False),
        ([f"workflow:{RELAY}"], OUT, True),
        (["workflow:t/re*"], OUT, True),
        (["workflow:t/other*"], OUT, False),
        (["workflow:t/rela"], OUT, False),
    ],
)
def test_filter_origin(origin: list[str], event: str, *, reached: bool) -> None:
    """MO-16: an event passes when its origin is any of those listed, by name or by prefix."""
    rig = rig_with(way(event, filter={"origin": origin}))
    sent(rig)
    assert bool(to_sum(rig)) is reached
    assert (rig.state(SUM, "ab") is not None) is reached


@pytest.mark.clause("X-01")
@pytest.mark.parametrize(
    ("wanted", "given", "reached"),
    [
        (["eu"], ("eu",), True),
        (["eu"], ("us",), False),
        (["eu"], (), False),
        (["eu", "big"], ("big", "eu", "x"), True),
        (["eu", "big"], ("eu",), False),
    ],
)
def test_filter_tags(wanted: list[str], given: tuple[str, ...], *, reached: bool) -> None:
    """MO-16: all wanted tags must be on the event."""
    rig = rig_with(way(filter={"tags": wanted}))
    sent(rig, tags=given)
    assert bool(to_sum(rig)) is reached


@pytest.mark.clause("X-01")
def test_tags_of_an_emitted_event_count() -> None:
    """MO-16: an event that a tick emits carries its own tags to the filters."""
    rig = rig_with(way(OUT, filter={"tags": ["eu"], "origin": ["workflow:t/*"]}))
    sent(rig, n=5)
    assert rig.state(SUM, "ab") == {"sum": 5}


@pytest.mark.clause("X-01", "K-33")
def test_key_fn() -> None:
    """MO-16: a pure function gives the key; events that share it share a cell."""
    rig = rig_with(way(**PURE_KEY))  # type: ignore[arg-type]
    for key in ("ab", "ac", "xy"):
        sent(rig, key, 2)
    assert rig.state(SUM, "a") == {"sum": 4}
    assert rig.state(SUM, "x") == {"sum": 2}
    assert rig.state(SUM, "ab") is None


@pytest.mark.clause("X-01")
@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({}, 3),
        ({"init_state": {"sum": 40}}, 43),
        ({"init_fn": {"module": "t/pure@1", "entrypoint": "start"}}, 303),
    ],
)
def test_first_state(more: dict[str, Any], first: int) -> None:
    """MO-16: a new cell starts from null, from `init_state` or from `init_fn`, and only once."""
    rig = rig_with(way(**more))
    sent(rig, n=3)
    assert rig.state(SUM, "ab") == {"sum": first}
    sent(rig, n=3)
    assert rig.state(SUM, "ab") == {"sum": first + 3}
    assert rig.verify().first is None


@pytest.mark.clause("X-01")
def test_create_if_missing_false() -> None:
    """MO-16: without a cell the event is ignored for it, with a record; with one it is taken."""
    rig = rig_with(way(create_if_missing=False), way(OUT, filter={"tags": ["never"]}))
    sent(rig)
    assert rig.state(SUM, "ab") is None
    (dropped,) = rig.records(Dropped)
    assert (dropped.what, dropped.reason, dropped.workflow) == ("event", "no_instance", SUM)
    other = rig_with(way(create_if_missing=False), way(OUT))
    sent(other, n=1)
    sent(other, n=1)
    assert other.state(SUM, "ab") == {"sum": 3}, "the relayed event made the cell"


@pytest.mark.clause("K-30")
def test_subscriptions_keep_their_order() -> None:
    """MO-16, K-30: deliveries stand in the order of the manifest, two to one cell included."""
    rig = rig_with(way(**PURE_KEY), way(), way(**PURE_KEY))  # type: ignore[arg-type]
    sent(rig, "ab", 1)
    first = next(r for r in rig.records(EventAdmitted) if r.schema == IN)
    assert [(t.workflow, t.create) for t in first.to] == [
        (SUM, True),
        (SUM, True),
        (SUM, False),
        (RELAY, True),
    ]
    assert rig.state(SUM, "a") == {"sum": 2}
    assert rig.verify().first is None


@pytest.mark.clause("K-30", "X-01")
def test_a_later_subscription_sees_the_cell_of_an_earlier_one() -> None:
    """MO-16: of one event, what the first subscription creates is not missing for the second."""
    rig = rig_with(way(), way(create_if_missing=False))
    sent(rig, n=1)
    assert rig.state(SUM, "ab") == {"sum": 2}
    assert rig.records(Dropped) == []

"""The execution graph and the trace of an event, rebuilt from frames alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallystick.errors import UnknownName
from tallystick.kernel.inputs import Operate
from tallystick.model.cells import CellId
from tallystick.model.records import ReceiptSettled
from tallystick.values import canon
from tallystick.views.causes import Asked, linked
from tallystick.views.graph import Focus, dot, graph, mermaid
from tallystick.views.trace import picture, trace
from tests.rig import Rig
from tests.views.worlds import KID, frames, lab
from tests.worlds import ASK, CALL, GO, LAB, SPAWN, WATCH, go


def kinds(found: dict[str, Any]) -> dict[int, str]:
    return {node["seq"]: node["kind"] for node in found["nodes"]}


def edges(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Edges as (kind, how, kind), in order."""
    of = kinds(found)
    return [(of[e["from"]], e["how"], of[e["to"]]) for e in found["edges"]]


def asked_and_answered() -> Rig:
    rig = lab()
    rig.send(GO, go("other", "ask", 1))
    rig.send(GO, go("a", "ask", 1))
    rig.settle(rig.jobs.of(ASK)[1], {"a": "yes"})
    return rig


def first_event(rig: Rig, key: str) -> int:
    """Where the first event for a cell stands."""
    for one in linked(frames(rig)):
        to = getattr(one.entry.record, "to", ())
        if isinstance(to, tuple) and to and to[0].key == canon.encode(key):
            return one.entry.seq
    raise AssertionError(key)


@pytest.mark.clause("X-23")
def test_the_graph_of_one_effect() -> None:
    """X-23: event, tick, effect, receipt, tick; the neighbour with equal params is not in it."""
    rig = asked_and_answered()
    seq = first_event(rig, "a")
    found = graph(frames(rig), Focus(seq=seq))
    assert edges(found) == [
        ("event", "delivers", "tick"),
        ("tick", "asks", "intent"),
        ("intent", "settles", "receipt"),
        ("receipt", "continues", "tick"),
    ]
    assert {node["key"] for node in found["nodes"]} == {"a"}
    assert found["more"] == 0
    assert json.loads(json.dumps(found)) == found


def test_every_focus_gives_the_same_chain() -> None:
    """The graph around any record of a chain is the chain: what led to it and what came of it."""
    rig = asked_and_answered()
    whole = graph(frames(rig), Focus(seq=first_event(rig, "a")))
    for node in whole["nodes"]:
        assert graph(frames(rig), Focus(seq=node["seq"])) == whole
    intent = rig.jobs.of(ASK)[1].intent
    assert graph(frames(rig), Focus(intent=intent)) == whole
    assert graph(frames(rig), Focus(cell=CellId(LAB, canon.encode("a")))) == whole
    assert graph(frames(rig))["nodes"] != whole["nodes"]


@pytest.mark.clause("X-23")
@pytest.mark.parametrize(("do", "effect"), [("spawn", SPAWN), ("call", CALL)])
def test_spawn_edges(do: str, effect: str) -> None:
    """X-23: a child hangs on the intent that started it; a call's receipt on the child's end."""
    rig = lab()
    rig.send(GO, go("a", do))
    found = graph(frames(rig), Focus(seq=first_event(rig, "a")))
    of = {node["seq"]: node for node in found["nodes"]}
    (spawned,) = [e for e in found["edges"] if e["how"] == "spawns"]
    assert of[spawned["from"]]["label"] == effect
    assert (of[spawned["to"]]["workflow"], of[spawned["to"]]["key"]) == (KID, "a-kid")
    joins = [e for e in found["edges"] if e["how"] == "joins"]
    assert [of[e["from"]]["workflow"] for e in joins] == ([KID] if effect == CALL else [])
    told = [n for n in found["nodes"] if n["kind"] == "tick" and n["workflow"] == WATCH]
    assert len(told) == 1  # the watch heard of the kid's end


def test_ends_denials_and_drops_have_causes() -> None:
    """A cancelled effect hangs on the tick that ended its cell, a late receipt on its intent."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    job = rig.jobs.of(ASK)[0]
    rig.do(Operate(rig.clock.sample(), "attempt", "node", "retry", intent=job.intent))
    rig.send(GO, go("a", "end"))
    rig.settle(job, {"a": "late"})
    rig.send(GO, go("d", "undeclared"))
    rig.send(GO, go("s", "spoil"))
    found = edges(graph(frames(rig)))
    assert ("tick", "cancels", "receipt") in found
    assert ("intent", "follows", "dropped") in found
    assert ("intent", "follows", "intent") in found
    assert ("tick", "asks", "denied") in found
    assert ("denied", "settles", "receipt") in found
    assert ("event", "delivers", "fault") in found
    assert ("fault", "emits", "event") in found


def test_a_slice_knows_older_intents() -> None:
    """Frames from the middle link a receipt to an intent before them when told where that was."""
    rig = asked_and_answered()
    (receipt,) = [
        one for one in linked(frames(rig)) if isinstance(one.entry.record, ReceiptSettled)
    ]
    start = receipt.entry.seq - 1
    assert next(linked(frames(rig, start))).links == ()
    intent = rig.jobs.of(ASK)[1].intent
    known = {intent: Asked(receipt.links[0].cause, ASK)}
    assert next(linked(frames(rig, start), known)).links == receipt.links


def test_a_graph_is_bounded() -> None:
    """Beyond its bound a graph says how many nodes it leaves out, and draws no loose edge."""
    rig = lab()
    for i in range(30):
        rig.send(GO, go("a", "note", i))
    whole = graph(frames(rig))
    part = graph(frames(rig), most=10)
    assert len(part["nodes"]) == 10
    assert part["more"] == len(whole["nodes"]) - 10
    places = {node["seq"] for node in part["nodes"]}
    assert all({e["from"], e["to"]} <= places for e in part["edges"])
    assert f"{part['more']} more" in mermaid(part)
    assert f"{part['more']} more" in dot(part)


@pytest.mark.clause("X-23")
def test_texts_hold_the_same_graph() -> None:
    """X-23: Mermaid and DOT have every node and edge of the JSON, and no label breaks out."""
    rig = asked_and_answered()
    rig.send(GO, go('q"]\n; x --> y', "note"))
    found = graph(frames(rig))
    for text, arrow in ((mermaid(found), "-->"), (dot(found), "->")):
        lines = text.splitlines()
        assert sum(f" {arrow} " in line for line in lines) == len(found["edges"])
        for node in found["nodes"]:
            assert sum(f"  n{node['seq']}" in line.split('"')[0] for line in lines) >= 1
    drawn = [line for line in mermaid(found).splitlines() if '"' in line]
    assert all(line.count('"') == 2 for line in drawn)


# ---- traces ---------------------------------------------------------------------------------


@pytest.mark.clause("K-25", "X-22")
def test_a_trace_shows_the_walk() -> None:
    """K-25, X-22: the trace of one event shows the steps in their order, with hashes and ids."""
    rig = asked_and_answered()
    seq = first_event(rig, "a")
    found = trace(frames(rig, seq - 1), seq)
    steps = [row["step"] for row in found["rows"]]
    assert steps == ["admitted", "ticked", "asked", "settled", "continued"]
    event, tick, ask, receipt, end = found["rows"]
    assert event["to"] == [{"workflow": LAB, "key": "a"}]
    assert tick["before"] is None
    assert end["before"] == tick["after"]
    assert ask["intent"] == receipt["intent"]
    assert ask["issuer_ref"] == "q0"
    assert [row["depth"] for row in found["rows"]] == [0, 1, 2, 3, 4]
    assert [row["cause"] for row in found["rows"]] == [
        None,
        *[r["seq"] for r in found["rows"][:-1]],
    ]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.clause("K-23")
def test_a_summary_goes_by_workflow() -> None:
    """K-23: by workflow and cell what ran, what settled and how, and what still waits."""
    rig = lab()
    rig.send(GO, go("a", "ask", 2))
    seq = first_event(rig, "a")
    rig.settle(rig.jobs.of(ASK)[0], {"a": "yes"})
    found = trace(frames(rig, seq - 1), seq)["summary"]
    assert found["settled"] is False
    assert [each["issuer_ref"] for each in found["waiting"]] == ["q1"]
    (cell,) = found["cells"]
    assert cell == {
        "workflow": LAB,
        "key": "a",
        "ticks": 2,
        "faults": 0,
        "asked": 2,
        "denied": 0,
        "settled": {"ok": 1},
        "status": "running",
    }
    rig.settle(rig.jobs.of(ASK)[1], {"a": "yes"})
    assert trace(frames(rig, seq - 1), seq)["summary"]["settled"] is True


def test_a_picture_has_both_halves() -> None:
    """A terminal shows an effect as an upper and a lower half, faults and denials by their sign."""
    rig = lab()
    rig.send(GO, go("a", "ask", 2))
    seq = first_event(rig, "a")
    rig.settle(rig.jobs.of(ASK)[0], {"a": "yes"})
    lines = picture(trace(frames(rig, seq - 1), seq), width=90)
    assert sum("▔▔▔" in line for line in lines) == 2
    assert sum("▁▁▁" in line for line in lines) == 1
    assert "waits: t/ask@1 of t/lab@1 a" in lines[-1]
    assert all(len(line) <= 90 for line in lines)
    for do, sign in (("spoil", "✕"), ("undeclared", "⊘")):
        rig.send(GO, go(do, do))
        seq = first_event(rig, do)
        found = trace(frames(rig, seq - 1), seq)
        assert any(sign in line for line in picture(found))
        (cell,) = [c for c in found["summary"]["cells"] if c["workflow"] == LAB]
        assert cell["faults" if do == "spoil" else "denied"] == 1


def test_a_trace_is_bounded_and_refuses_what_is_not_there() -> None:
    """More rows than wanted are counted, not shown; an unknown seq is refused by its code."""
    rig = asked_and_answered()
    seq = first_event(rig, "a")
    part = trace(frames(rig, seq - 1), seq, most=2)
    assert (len(part["rows"]), part["more"]) == (2, 3)
    assert "3 more" in picture(part)[2]
    with pytest.raises(UnknownName) as why:
        trace(frames(rig), 10_000)
    assert why.value.code == "journal.unknown_seq"

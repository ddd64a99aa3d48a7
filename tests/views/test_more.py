"""Views at their edges: holds, attached keys, odd keys and values, definitions that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import SchemaMismatch
from tallystick.kernel.inputs import Operate, Progress
from tallystick.model.cells import CellId
from tallystick.model.frames import seal_frame
from tallystick.model.records import IntentOpened, Stamp, WorldRestored
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tallystick.views import shown, waiting
from tallystick.views.cells import cell_id, cell_show
from tallystick.views.effects import EffectFilter, Settlements, effect_list
from tallystick.views.graph import graph
from tallystick.views.timeline import timeline
from tallystick.views.trace import trace
from tallystick.views.waiting import ASK as HUMAN
from tallystick.views.waiting import Serving
from tests.kernel.test_fork import child_rig
from tests.rig import Rig
from tests.views.test_graph import edges, first_event
from tests.views.test_timeline import progress_rig
from tests.views.worlds import frames, lab
from tests.worlds import ASK, GO, LAB, NAT, ask, go, lab_documents, lab_function, record, schema


def test_a_fork_holds_what_is_pending() -> None:
    """06: a fork's open effects are held, in the live list and from history, until released."""
    rig = lab()
    rig.send(GO, go("a", "ask", 2))
    child = child_rig(rig, 1, None)
    live = effect_list(child.world, wanted=EffectFilter(held=True))["items"]
    assert [row["why"] for row in live] == ["held", "held"]
    past = list(Settlements().read(frames(child)).rows())
    held = [{**row, "why": None} for row in live]
    assert sorted(past, key=_intent) == sorted(held, key=_intent)
    intent = canon.raw_of(live[0]["intent"])
    child.do(Operate(child.clock.sample(), "release", "alice", "now", intent=intent))
    holds = [row["hold"] is None for row in Settlements().read(frames(child)).rows()]
    assert holds.count(True) == 1


def _intent(row: dict[str, Any]) -> str:
    return str(row["intent"])


def test_an_attached_key_is_linked_to_its_intent() -> None:
    """D8: asked again under its key, one intent has two askings in the graph."""

    def key(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask(idempotency_key=b"k")])

    rig = Rig(lab_documents(), {("t/code@1", "lab"): lab_function(key=key)})
    rig.send(GO, go("a", "key"))
    rig.send(GO, go("a", "key"))
    found = edges(graph(frames(rig)))
    assert found.count(("tick", "asks", "intent")) == 2
    assert ("intent", "follows", "intent") in found
    seq = first_event(rig, "a")
    assert trace(frames(rig), seq)["summary"]["cells"][0]["asked"] == 1


def test_progress_in_graph_and_trace() -> None:
    """K-27: progress follows its intent, and the tick that it causes continues from it."""
    rig = progress_rig()
    rig.send(GO, go("a", "ask", 1))
    job = rig.jobs.of(ASK)[0]
    sample = rig.clock.sample()
    rig.do(Progress(sample, job.world, job.intent, 1, 1, "note", canon.encode({"n": 1})))
    rig.run()
    found = graph(frames(rig))
    assert ("intent", "follows", "progress") in edges(found)
    assert ("progress", "continues", "tick") in edges(found)
    assert [n["label"] for n in found["nodes"] if n["kind"] == "progress"] == ["note 1"]
    seq = first_event(rig, "a")
    assert "reported" in [row["step"] for row in trace(frames(rig), seq)["rows"]]


def test_a_timeline_from_the_middle() -> None:
    """Frames that begin behind the asking show the receipt's tick, and the rest as marks."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    start = rig.world.seq
    job = rig.jobs.of(ASK)[0]
    rig.operate("suspend", LAB, "a")
    rig.operate("resume", LAB, "a")
    rig.settle(job, {"a": "yes"})
    found = timeline(frames(rig, start), CellId(LAB, canon.encode("a")))
    assert found["effects"] == []
    assert found["ticks"][0]["input"]["intent"] == canon.text_of(job.intent)
    assert len(found["marks"]) == 2
    part = timeline(frames(rig, start), CellId(LAB, canon.encode("a")), most=1)
    assert (len(part["marks"]), part["more"]) == (1, 1)


# ---- odd keys and values ----------------------------------------------------------------------


def numbered() -> Rig:
    """A lab whose key is a record of numbers."""
    documents = lab_documents()
    kept = [d for d in documents if d.get("name") not in ("t/Id@1", GO)]
    key = schema("t/Id@1", record(n=NAT))
    event = schema(GO, record(id=record(n=NAT)))
    return Rig([key, event, *kept], {})


def test_a_key_that_is_no_text() -> None:
    """A key of numbers is JSON text in a path, reads back to the same bytes, or is refused."""
    world = numbered().world
    ident = cell_id(world, LAB, '{"n":7}')
    assert ident.key == canon.encode({"n": 7})
    assert shown.key_text(ident.key) == '{"n":7}'
    for wrong in ("7", "{", '{"n":-1}'):
        with pytest.raises(SchemaMismatch):
            cell_id(world, LAB, wrong)


def test_a_value_of_an_older_shape_is_shown_without_its_schema() -> None:
    """What the active schema cannot read is shown as it stands."""
    world = lab().world
    data = canon.encode({"other": 1})
    assert shown.document(data, world.active.catalogue.schemas[GO]) == {"other": 1}


def test_bytes_that_a_module_chose() -> None:
    """An explicit key is shown as text where it is text, else as base64."""
    opened = _opened()
    for key, wanted in ((b"order-7", "order-7"), (b"\xff" * 32, "/" * 42 + "8=")):
        made = shown.record_json(opened._replace(idempotency_key=key))
        assert made["idempotency_key"] == wanted


def _opened() -> IntentOpened:
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    (opened,) = rig.records(IntentOpened)
    assert isinstance(opened, IntentOpened)
    return opened


def test_a_cell_whose_workflow_is_gone() -> None:
    """A cell outlives its definition: it is shown, without what only that knew."""
    rig = lab()
    rig.send(GO, go("a"))
    active = rig.world.active.catalogue
    kept = {name: w for name, w in active.workflows.items() if name != LAB}
    object.__setattr__(active, "workflows", kept)
    found = cell_show(rig.world, CellId(LAB, canon.encode("a")))
    assert (found["about"], found["state"]) == (None, {"id": "a", "log": ["note"]})


def test_a_question_to_a_person() -> None:
    """`human.ask` in hand is not running: it waits for a person."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    ((path, intent),) = rig.world.intents.entries()
    intent.record = intent.record._replace(effect=HUMAN)
    assert waiting.why(intent, Serving(lambda _e, _x: True, {path: 1})).code == "person"


def test_a_call_with_large_params_still_says_why() -> None:
    """The child of a call whose params stand by digest is not guessed."""
    opened = _opened()._replace(params=None, params_hash=bytes(32))
    assert waiting._child(opened) == ("child", "waits for the cell it called to end", {})


def test_restored_is_a_record_of_history() -> None:
    """04 section 13: a `WorldRestored` in the frames holds what is open before it."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    stamp = Stamp(1, rig.world.logical_ns + 1, bytes(64))
    restored = WorldRestored("b", rig.world.head, "alice", stamp)
    sealed = seal_frame(rig.world.id, rig.world.seq + 1, rig.world.head, [restored])
    (row,) = Settlements().read([*frames(rig), sealed]).rows()
    assert row["hold"]["kind"] == "restore"


def test_a_timer_fires_without_a_tick_before_it() -> None:
    """A receipt that time brings hangs on its intent alone; a settled effect is not held."""
    rig = lab()
    rig.send(GO, go("t", "time", 1))
    rig.send(GO, go("a", "ask", 1))
    rig.pass_time(2_000_000_000)
    found = graph(frames(rig))
    (receipt,) = [node["seq"] for node in found["nodes"] if node["kind"] == "receipt"]
    assert [edge["how"] for edge in found["edges"] if edge["to"] == receipt] == ["settles"]
    child = child_rig(rig, 2, None)
    held = [row["hold"] is not None for row in Settlements().read(frames(child)).rows()]
    assert held == [False, True]
    only = EffectFilter(status="ok")
    assert len(list(Settlements().read(frames(child)).rows(only))) == 1


def test_a_cell_that_has_not_run_yet() -> None:
    """A cell that begins with mail has no state, and says so with null."""
    rig = lab()
    rig.send(GO, go("a"), run=False)
    found = cell_show(rig.world, CellId(LAB, canon.encode("a")))
    assert (found["state"], found["state_hash"], found["mailbox"]) == (None, None, 1)


def test_a_timeline_of_a_bounded_cell_keeps_what_was_asked_before() -> None:
    """Progress and asks beyond the bound are counted or marked, never lost unseen."""
    rig = progress_rig()
    rig.send(GO, go("a", "ask", 1))
    start = rig.world.seq
    job = rig.jobs.of(ASK)[0]
    sample = rig.clock.sample()
    rig.do(Progress(sample, job.world, job.intent, 1, 1, "note", canon.encode({"n": 1})))
    rig.run()
    ident = CellId(LAB, canon.encode("a"))
    middle = timeline(frames(rig, start), ident)
    assert middle["ticks"][0]["input"]["seq"] == start + 1
    later = timeline(frames(rig, start - 1), ident)
    assert [effect["issuer_ref"] for effect in later["effects"]] == ["q0"]


def test_an_end_behind_an_ask_is_emitted_by_the_tick() -> None:
    """An event behind an intent that starts no child hangs on the tick, not on the intent."""

    def last(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, status="completed", effects=[ask()])

    rig = Rig(lab_documents(), {("t/code@1", "lab"): lab_function(last=last)})
    rig.send(GO, go("a", "last"))
    found = edges(graph(frames(rig)))
    assert ("tick", "emits", "event") in found
    assert ("intent", "spawns", "event") not in found


def test_mail_that_an_end_drops_is_a_mark() -> None:
    """What waited when a cell ended stands on its timeline; a bounded one counts the rest."""
    rig = lab()
    rig.send(GO, go("a", "end"), run=False)
    rig.send(GO, go("a", "note"))
    ident = CellId(LAB, canon.encode("a"))
    (mark,) = timeline(frames(rig), ident)["marks"]
    assert (mark["kind"], mark["record"]["reason"]) == ("dropped", "terminal")
    other = lab()
    for _ in range(2):
        other.send(GO, go("b", "ask", 1))
    part = timeline(frames(other), CellId(LAB, canon.encode("b")), most=1)
    assert (len(part["ticks"]), part["effects"], part["more"]) == (1, [], 3)

"""A world that does a bit of everything: the workload of the stateful and golden tests."""

from __future__ import annotations

from typing import Any

from tallystick.kernel.inputs import Progress
from tallystick.kernel.world import Settings
from tallystick.modules.python import Outcome
from tallystick.node.jobs import Published
from tallystick.values import canon
from tests import worlds
from tests.rig import START_NS, Rig

COUNT = "t/count@1"
TOLD = "t/Told@1"
HOUR_NS = 3_600_000_000_000


def _ask(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, effects=[worlds.ask(f"q{value['n']}", issuer_ref=f"r{value['n']}")])


def _keyed(state: Any, value: Any, ctx: Any) -> Outcome:
    key = b"key %d" % (value["n"] % 2)
    return Outcome(state, effects=[worlds.ask("keyed", idempotency_key=key)])


def _clash(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, effects=[worlds.ask(f"other {value['n']}", idempotency_key=b"key 0")])


def _hurry(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, effects=[worlds.ask("soon", timeout_ns=value["n"] * HOUR_NS + 1)])


def _timer(state: Any, value: Any, ctx: Any) -> Outcome:
    due = START_NS + value["n"] * HOUR_NS
    params = {"deliver_at_ns": due, "key": str(value["n"])}
    wanted = {"effect": worlds.TIMER, "params": params, "cap_slot": "time"}
    return Outcome(state, effects=[wanted])


def _child(state: Any, value: Any, effect: str, do: str) -> Outcome:
    ident = f"{state['id']}/{value['n']}"
    event = {"schema": worlds.GO, "value": canon.encode(worlds.go(ident, do))}
    params = {
        "workflow": worlds.LAB,
        "key": canon.encode(ident),
        "payload": event,
        "caps": None,
    }
    return Outcome(state, effects=[{"effect": effect, "params": params, "cap_slot": "flow"}])


def _spawn(state: Any, value: Any, ctx: Any) -> Outcome:
    return _child(state, value, worlds.SPAWN, "note")


def _call(state: Any, value: Any, ctx: Any) -> Outcome:
    return _child(state, value, worlds.CALL, "done")


def _read(state: Any, value: Any, ctx: Any) -> Outcome:
    params = {"workflow": worlds.LAB, "key": canon.encode(f"c{value['n']}")}
    return Outcome(state, effects=[{"effect": worlds.READ, "params": params, "cap_slot": "main"}])


def _undo(state: Any, value: Any, ctx: Any) -> Outcome:
    params = {"intent": None, "issuer_ref": f"r{value['n']}"}
    return Outcome(state, effects=[{"effect": worlds.UNDO, "params": params, "cap_slot": "main"}])


def _refused(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, effects=[{**worlds.ask("no"), "cap_slot": "none"}])


def _tell(state: Any, value: Any, ctx: Any) -> Outcome:
    told = {"n": value["n"], "from": state["id"]}
    return Outcome(state, events=[{"schema": TOLD, "value": told}])


def _done(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, status="completed", result={"n": value["n"]})


def _fail(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(state, status="failed", reason={"code": "lab.fail", "message": "as asked"})


def _raise(state: Any, value: Any, ctx: Any) -> Outcome:
    raise ValueError("as asked")


def _gone(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome(None)


def _large(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome({**state, "log": [*state["log"], "x" * (5_000 + value["n"])]})


def _same(state: Any, value: Any, ctx: Any) -> Outcome:
    return Outcome({**state, "log": state["log"][:-1]})


DEEDS = {
    "ask": _ask,
    "keyed": _keyed,
    "clash": _clash,
    "hurry": _hurry,
    "timer": _timer,
    "spawn": _spawn,
    "call": _call,
    "read": _read,
    "undo": _undo,
    "refused": _refused,
    "tell": _tell,
    "done": _done,
    "fail": _fail,
    "raise": _raise,
    "gone": _gone,
    "large": _large,
    "same": _same,
}


def _count(state: Any, event: Any, ctx: Any) -> Any:
    return {"total": (0 if state is None else state["total"]) + event["n"]}


FUNCTIONS = {
    ("t/code@1", "lab"): worlds.lab_function(**DEEDS),
    ("t/code@1", "count"): _count,
}


def documents(**flow: Any) -> list[dict[str, Any]]:
    """The lab, a counter that hears what labs tell, and both kinds of determinism of faults."""
    lab_arms = {**worlds.LAB_ARMS, "Progress": worlds.PROGRESS}
    return worlds.lab_documents(
        worlds.schema(TOLD, worlds.record(**{"n": worlds.NAT, "from": worlds.TEXT})),
        worlds.schema("t/Total@1", worlds.record(total=worlds.NAT)),
        worlds.workflow(COUNT, "t/Total@1", TOLD, lifecycle="entity"),
        lab_arms=lab_arms,
        subscriptions=[
            {"event": worlds.GO, "workflow": worlds.LAB, "key_field": "id"},
            {"event": TOLD, "workflow": COUNT},
        ],
        flow={"context": "sys/WorkflowContext@1", **flow},
    )


def mixed_rig(settings: Settings | None = None, **flow: Any) -> Rig:
    """A rig over the mixed world."""
    return Rig(documents(**flow), FUNCTIONS, settings=settings)


def progress(rig: Rig, job: Published, seq: int) -> Any:
    """Hand in a progress frame of a job."""
    given = Progress(
        rig.clock.sample(), job.world, job.intent, job.attempt, seq, "token", canon.encode(seq)
    )
    answer = rig.do(given)
    rig.run()
    return answer


def play(rig: Rig) -> None:
    """A fixed history that makes a record of nearly every type."""
    for n, do in enumerate(DEEDS):
        rig.send(worlds.GO, worlds.go(f"c{n}", do, n % 4), idem_key=b"send %d" % n)
    jobs = rig.jobs.of(worlds.ASK)
    progress(rig, jobs[0], 1)
    progress(rig, jobs[0], 3)
    rig.settle(jobs[0], {"a": "yes"})
    rig.settle(jobs[0], {"a": "again"})
    rig.settle(jobs[1], {"not": "readable"})
    rig.driver.snapshot()
    rig.send(worlds.GO, worlds.go("c1", "keyed", 1))
    rig.send(worlds.GO, worlds.go("c1", "clash", 1))
    rig.operate("suspend", worlds.LAB, "c4")
    rig.send(worlds.GO, worlds.go("c4", "ask"))
    rig.operate("skip", worlds.LAB, "c4")
    rig.send(worlds.GO, worlds.go("c4", "note"))
    rig.operate("resume", worlds.LAB, "c4")
    rig.operate("cancel", worlds.LAB, "c5")
    rig.operate("cancel", worlds.LAB, "c6", force=True)
    rig.pass_time(5 * HOUR_NS)
    rig.send(worlds.GO, worlds.go("c12", "note"))

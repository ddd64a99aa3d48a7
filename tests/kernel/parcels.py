"""A small world that changes its code, its states and its events: parcels that are sent and asked
about.

Every version of the code is a function of its own; a bundle says by its entrypoint which one runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tallystick.kernel.inputs import Activate, Planned
from tallystick.kernel.quiescence import open_cells
from tallystick.modules.python import Outcome
from tests.rig import Rig, bundle_of
from tests.worlds import (
    ALLOW,
    CANCEL,
    NAT,
    RECEIPT,
    REJECTED,
    TEXT,
    allow_all,
    arms,
    effect,
    manifest,
    module,
    outside,
    record,
    schema,
    workflow,
)

PARCEL = "t/parcel@1"
SENT = "t/Sent@1"
SENT2 = "t/Sent@2"
MOVED = "t/Moved@1"
LOOK = "t/look@1"
CODE = "t/code@1"
PURE = "t/pure@1"
LOG = {"list": TEXT}


class Release(NamedTuple):
    """What one bundle of the parcel world is made of."""

    entry: str = "one"
    state_version: int = 1
    event: str = SENT
    upcast: bool = False
    migration: str | None = None
    lifecycle: str = "process"
    on_fault: str = "fail"
    accepts: tuple[int, ...] = ()
    look_answer: str = "t/Answer@1"
    emits: bool = True


FIRST = Release()


# tidy: one world is one literal.
def documents(release: Release = FIRST) -> list[dict[str, Any]]:
    """The definitions of a release."""
    state = f"t/Parcel@{release.state_version}"
    taken = {"Sent": release.event, "Receipt": RECEIPT, "Rejected": REJECTED, "Cancel": CANCEL}
    pure: dict[str, Any] = {}
    more: list[dict[str, Any]] = []
    if release.upcast:
        pure["sent_1_2"] = {"input": SENT, "output": SENT2}
        impl = {"module": PURE, "entrypoint": "sent_1_2"}
        up = {"$kind": "defupcast", "name": "t/sent-1-2@1", "from": SENT, "to": SENT2, "impl": impl}
        more.append(up)
    if release.migration is not None:
        pure[release.migration] = {"input": "sys/MigrateState@1", "output": "sys/MigratedState@1"}
        impl = {"module": PURE, "entrypoint": release.migration}
        name = "t/parcel-1-2@1"
        made = {"$kind": "defmigration", "name": name, "workflow": PARCEL, "from": 1, "to": 2}
        more.append({**made, "impl": impl})
    if pure:
        more.append(module(PURE, pure=pure))
    accepts = {"accepts_state_versions": list(release.accepts)} if release.accepts else {}
    return [
        schema("t/Id@1", TEXT),
        schema(SENT, record(id=TEXT, kg=NAT)),
        schema(SENT2, record(id=TEXT, grams=NAT)),
        schema(MOVED, record(id=TEXT, n=NAT)),
        schema("t/Event@1", arms(**taken)),
        schema("t/Parcel@1", record(id=TEXT, log=LOG)),
        schema("t/Parcel@2", record(id=TEXT, log=LOG, n=NAT)),
        schema("t/Look@1", record(q=TEXT)),
        schema("t/Answer@1", record(a=TEXT)),
        schema("t/Answer@2", record(b=TEXT)),
        module(CODE),
        outside(),
        effect(LOOK, "t/Look@1", release.look_answer),
        workflow(
            PARCEL,
            state,
            "t/Event@1",
            key_schema="t/Id@1",
            context="sys/WorkflowContext@1",
            effects_emitted=[LOOK],
            cap_slots={"main": "effect"},
            lifecycle=release.lifecycle,
            on_fault=release.on_fault,
            state_version=release.state_version,
            impl={"module": CODE, "entrypoint": release.entry},
            **accepts,
        ),
        *more,
        ALLOW,
        manifest(
            [{"event": release.event, "workflow": PARCEL, "key_field": "id"}],
            **allow_all("sys/effect@1", bindings={PARCEL: {"main": "effect"}}),
        ),
    ]


# ---- the code, version by version -----------------------------------------------------------


def _code(name: str, *, ask: str = "where?", ends: bool = False, counts: bool = False) -> Any:
    """A version of the workflow: it writes its name into the log and asks once."""

    def run(state: Any, event: Any, _ctx: Any) -> Outcome:
        tag, value = event["$tag"], event["$value"]
        held = state or {"id": value.get("id", "?"), "log": []}
        what = tag if tag == "Receipt" else f"{tag}:{value.get('kg', value.get('grams'))}"
        after = {**held, "log": [*held["log"], f"{name} {what}"]}
        if counts:
            after["n"] = held.get("n", 0) + 1
        if tag == "Receipt":
            return Outcome(after, status="completed") if ends else Outcome(after)
        if state is None:
            return Outcome(after, effects=[{"effect": LOOK, "params": {"q": ask}}])
        return Outcome(after)

    return run


def _broken(_state: Any, _event: Any, _ctx: Any) -> Any:
    raise RuntimeError("this version does not work")


def _sent_1_2(given: Any) -> Any:
    value = given["input"]
    return {"output": {"id": value["id"], "grams": value["kg"] * 1000}}


def _counted(given: Any) -> Any:
    from tallystick.values import canon

    old = canon.decode(given["input"]["state"])
    return {"output": {"state": canon.encode({**old, "n": len(old["log"])})}}


def _fails(given: Any) -> Any:
    from tallystick.values import canon

    if canon.decode(given["input"]["state"])["id"] == "bad":
        raise ValueError("no")
    return _counted(given)


FUNCTIONS: dict[tuple[str, str], Any] = {
    (CODE, "one"): _code("one", ends=True),
    (CODE, "same"): _code("one", ends=True),
    (CODE, "two"): _code("two", ends=True),
    (CODE, "asks"): _code("one", ends=True, ask="whither?"),
    (CODE, "counts"): _code("counts", ends=True, counts=True),
    (CODE, "rests"): _code("rests"),
    (CODE, "broken"): _broken,
    (PURE, "sent_1_2"): _sent_1_2,
    (PURE, "counted"): _counted,
    (PURE, "fails"): _fails,
}


def parcel_rig(release: Release = FIRST, **more: Any) -> Rig:
    """A world of a release."""
    return Rig(documents(release), FUNCTIONS, **more)


def planned(rig: Rig, action: str = "continue", **by_id: str) -> dict[tuple[str, bytes], Planned]:
    """A plan for every open cell; some by their id."""
    from tallystick.values import canon

    plan = {}
    for each in open_cells(rig.world):
        key = bytes.fromhex(each.detail["key"])
        chosen = by_id.get(canon.decode(key), action)
        plan[each.detail["workflow"], key] = Planned(each.detail["since_seq"], chosen)
    return plan


def upgrade(rig: Rig, release: Release, plan: Any = None) -> Any:
    """Activate a release; the answer."""
    made, blobs = bundle_of(documents(release))
    sample = rig.clock.sample()
    now = rig.world.manifest
    return rig.do(Activate(sample, made, made, now, blobs, "alice", plan))

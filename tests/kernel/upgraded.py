"""A world that was upgraded ten times while cells were open: what a golden journal is made of."""

from __future__ import annotations

from tallystick.kernel.inputs import TakeSnapshot
from tests.kernel.parcels import (
    LOOK,
    PARCEL,
    SENT,
    SENT2,
    Release,
    parcel_rig,
    planned,
    upgrade,
)
from tests.rig import Rig

COUNTS = Release("counts", state_version=2, migration="counted")
NEWER = COUNTS._replace(event=SENT2, upcast=True)

# Each bundle, and what becomes of single cells; all others go on.
UPGRADES: tuple[tuple[Release, dict[str, str]], ...] = (
    (Release("two"), {}),
    (Release("same"), {"a": "pin"}),
    (COUNTS, {"a": "pin"}),
    (NEWER, {"a": "pin"}),
    (NEWER._replace(migration="fails"), {"a": "pin"}),
    (NEWER._replace(look_answer="t/Answer@2"), {"a": "pin", "b": "pin"}),
    (NEWER._replace(on_fault="suspend"), {"b": "pin"}),
    (NEWER._replace(entry="broken"), {"b": "pin"}),
    (NEWER, {"b": "pin"}),
    (NEWER._replace(accepts=(1,)), {}),
)


def upgraded_rig() -> Rig:
    return parcel_rig()


def play(rig: Rig) -> None:
    """Ten upgrades, with events before, between and waiting across them."""
    for name in "abc":
        _sent(rig, name)
    for number, (release, chosen) in enumerate(UPGRADES):
        if number == 3:
            rig.operate("suspend", PARCEL, "c")
            _sent(rig, "c")
        answer = upgrade(rig, release, planned(rig, **chosen))
        assert answer.kind == "activated", (number, answer)
        if number == 3:
            rig.operate("resume", PARCEL, "c")
        if number == 5:
            rig.settle(rig.jobs.of(LOOK)[0], {"a": "home"})  # of the first, on its first code
            rig.do(TakeSnapshot(rig.clock.sample()))
        if number == 8:
            rig.operate("resume", PARCEL, "c")
        if number == 7:
            _sent(rig, "c")  # faults under the broken code, and waits
            continue
        for name in ("b", "c"):
            _sent(rig, name)
        _sent(rig, f"n{number}")


def _sent(rig: Rig, name: str) -> None:
    rig.send(SENT, {"id": name, "kg": 1})

"""Run a small world and print every frame and root; run elsewhere, the print must not change.

`print` runs it, `keep` also writes the journal as JSON, `verify` reads such a journal and runs
it again; a last word `sets` plants a reducer that lets the order of a set out.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.kernel import plain_ed25519

plain_ed25519.offer()  # before the product looks for a signing library

from tallystick.kernel.index import NOWHERE  # noqa: E402 - after the line above
from tallystick.kernel.replay import open_world, verify  # noqa: E402 - after the line above
from tallystick.model.frames import Sealed  # noqa: E402 - after the line above
from tallystick.modules.python import Outcome, PythonRunner  # noqa: E402 - after the line above
from tallystick.values import canon  # noqa: E402 - after the line above
from tests.rig import WORLD, Rig  # noqa: E402 - after the line above
from tests.worlds import (  # noqa: E402 - after the line above
    ASK,
    GO,
    LAB,
    LAB_SLOTS,
    READ,
    SPAWN,
    WATCHING,
    ask,
    go,
    lab_documents,
    lab_function,
    watch_documents,
    watch_function,
)

WORDS = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn")


def much(following: Any, value: Any, ctx: Any) -> Outcome:
    """Events, effects of every kind, notes: whatever a frame can hold."""
    key = canon.encode("b")
    child = {
        "workflow": LAB,
        "key": key,
        "payload": {"schema": GO, "value": canon.encode(go("b"))},
        "caps": None,
    }
    wishes = [
        ask(ctx["entropy"].hex(), issuer_ref="é"),
        ask("k", idempotency_key=b"k"),
        {**ask(), "cap_slot": "none"},
        {"effect": SPAWN, "params": child},
        {"effect": READ, "params": {"workflow": LAB, "key": key}},
    ]
    return Outcome(
        following,
        events=[{"schema": GO, "value": go(word)} for word in WORDS],
        effects=wishes,
        logs=[{"level": "info", "message": "ok", "fields": {"b": 1, "a": 2}}],
        metrics={"ticks": value["n"], "a": 1},
    )


def careless(following: Any, _value: Any, _ctx: Any) -> Outcome:
    """The planted defect: the order of a set follows the hash seed."""
    following["log"].extend({*WORDS})
    return Outcome(following)


def careful(following: Any, _value: Any, _ctx: Any) -> Outcome:
    following["log"].extend(sorted({*WORDS}))
    return Outcome(following)


def functions(*, planted: bool) -> dict[Any, Any]:
    deeds = {
        "much": much,
        "sets": careless if planted else careful,
        "end": lambda f, *_: Outcome(f, status="completed", result={"z": 1, "a": 2}),
        "bad": lambda *_: 1 // 0,
    }
    return {
        ("t/code@1", "lab"): lab_function(**deeds),
        ("t/code@1", "watch"): watch_function,
    }


def story(*, planted: bool) -> Rig:
    """A world with a bit of everything."""
    way = {"event": GO, "workflow": LAB, "key_field": "id"}
    documents = lab_documents(
        *watch_documents(),
        subscriptions=[way, *WATCHING],
        flow={"context": "sys/WorkflowContext@1", "cap_slots": LAB_SLOTS},
    )
    rig = Rig(documents, functions(planted=planted))
    for name in ("a", "ä", "日本", "a"):
        rig.send(GO, go(name, "much", 7), idem_key=name.encode())
    for job in rig.jobs.of(ASK)[:2]:
        rig.settle(job, {"a": "x"})
    rig.send(GO, go("s", "sets"))
    rig.send(GO, go("e", "end"))
    rig.send(GO, go("f", "bad"))
    rig.operate("suspend", LAB, "a")
    rig.pass_time(10**9)
    rig.driver.snapshot()
    rig.send(GO, go("after"))
    return rig


def kept(rig: Rig) -> dict[str, Any]:
    """Frames and blobs as JSON."""
    frames = [[f.seq, f.last, f.prev.hex(), f.hash.hex(), f.body.hex()] for f in frames_of(rig)]
    blobs = {d.hex(): b.hex() for d, b in rig.journal._book(WORLD).blobs.items()}
    return {"frames": frames, "blobs": blobs}


def frames_of(rig: Rig) -> list[Sealed]:
    return list(rig.journal.read(WORLD))


def main(mode: str, *, planted: bool) -> None:
    if mode == "verify":
        data = json.load(sys.stdin)
        frames = [
            Sealed(
                WORLD, seq, last, bytes.fromhex(prev), bytes.fromhex(digest), bytes.fromhex(body)
            )
            for seq, last, prev, digest, body in data["frames"]
        ]
        blobs = {bytes.fromhex(d): bytes.fromhex(b) for d, b in data["blobs"].items()}
        world = open_world(WORLD, [], Kept(blobs), PythonRunner(functions(planted=planted)))
        found = verify(world, frames).first
        print(json.dumps(None if found is None else [found.seq, found.workflow, found.field]))
        return
    rig = story(planted=planted)
    if mode == "keep":
        print(json.dumps(kept(rig)))
        return
    for frame in frames_of(rig):
        print(frame.seq, frame.hash.hex())
    print(rig.state_root().hex(), rig.root().hex())


class Kept:
    """Blobs that were read from a file."""

    def __init__(self, blobs: dict[bytes, bytes]) -> None:
        self.blobs = blobs

    def get(self, digest: bytes) -> bytes | None:
        return self.blobs.get(digest)

    def put(self, digest: bytes, data: bytes) -> None:
        self.blobs[digest] = data

    def place(self) -> bytes:
        return NOWHERE


if __name__ == "__main__":
    main(sys.argv[1], planted="sets" in sys.argv[2:])

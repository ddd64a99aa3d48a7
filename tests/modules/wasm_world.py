"""A world whose one workflow is a WASM module, and small modules to put into it."""

from __future__ import annotations

from typing import Any

from wasmtime import wat2wasm

from tallystick.journal.memory import MemoryJournal
from tallystick.model.abi import Halted, Ran, TickInput
from tallystick.modules.runners import Runners
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_run import GuestSettings
from tallystick.node.worlds import NewWorld, create_world
from tallystick.values import canon
from tests.rig import NODE, WORLD, Jobs, ManualClock, Rig, bundle_of
from tests.worlds import NAT, TEXT, record, schema, workflow

STEP = "t/Step@1"
COUNT = "t/Count@1"
FLOW = "t/flow@1"


def documents(artifact: str, **limits: int) -> list[dict[str, Any]]:
    """A keyed counter whose code is that artifact; `limits` are the manifest's."""
    runtime = {"kind": "wasm", "artifact": {"kind": "wasm_module", "hash": artifact}}
    return [
        schema(STEP, record(name=TEXT, n=NAT)),
        schema(COUNT, record(total=NAT)),
        schema("t/Name@1", TEXT),
        {"$kind": "defmodule", "name": "t/code@1", "runtime": runtime},
        workflow(FLOW, COUNT, STEP, key_schema="t/Name@1", lifecycle="entity"),
        {
            "$kind": "manifest",
            "air_version": "2",
            "limits": limits,
            "routing": {"subscriptions": [{"event": STEP, "workflow": FLOW, "key_field": "name"}]},
        },
    ]


class Late:
    """The blob store of a world that is about to be made."""

    blobs: Any = None

    def get(self, digest: bytes) -> bytes | None:
        return self.blobs.get(digest)


class WasmRig(Rig):
    """A rig over the runner that a node uses; the lane finds the code in the bundle."""

    def __init__(self, code: bytes, **limits: int) -> None:
        self.manifest, blobs = bundle_of(documents(canon.hash_of(code), **limits))
        blobs[canon.digest_of(code)] = code
        self.journal = MemoryJournal()
        late = Late()
        self.runner = Runners(late)  # type: ignore[assignment]
        self.clock, self.jobs, self.settings = ManualClock(), Jobs(), None
        new = NewWorld(WORLD, self.manifest, self.manifest, blobs, NODE.public)
        self.driver = create_world(self.ports(), new, self.runner, None)
        late.blobs = self.driver.blobs

    def lane(self, *, pooled: bool) -> WasmLane:
        return WasmLane(self.driver.blobs, GuestSettings(pooled=pooled))

    def tick(self, lane: WasmLane, total: int | None, n: int) -> Ran | Halted:
        """One tick on a lane of its own, outside the world."""
        catalogue = self.world.active.catalogue
        state = None if total is None else canon.encode({"total": total})
        given = TickInput(state, STEP, Given(n), canon.encode("a"), None)
        return lane.tick(catalogue, catalogue.workflows[FLOW], given, None)


class Given:
    """A delivered event."""

    def __init__(self, n: int) -> None:
        self._value = {"n": n, "name": "a"}

    def value(self) -> bytes:
        return canon.encode(self._value)

    def plain(self) -> Any:
        return dict(self._value)

    def receipt(self) -> None:
        return None


def wat(body: str, *, pages: int = 1) -> bytes:
    """A module with memory, a bump `alloc` at 4096, and what the test adds."""
    return bytes(
        wat2wasm(
            f'(module (memory (export "memory") {pages})'
            ' (func (export "alloc") (param i32) (result i32) i32.const 4096)'
            f" {body})"
        )
    )


def says(answer: bytes, before: str = "", *, name: str = "flow") -> str:
    """A function that always gives these bytes, after some other code."""
    text = "".join(f"\\{byte:02x}" for byte in answer)
    return (
        f'(data (i32.const 16) "{text}")'
        f' (func (export "{name}") (param i32 i32) (result i64) {before}'
        f" i64.const {16 << 32 | len(answer)})"
    )


def output(total: int = 1, **more: Any) -> bytes:
    """A tick's answer with that state."""
    return canon.encode({"state": canon.encode({"total": total}), **more})

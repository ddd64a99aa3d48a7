"""AT-23 wasm-limits (RL-08, RL-19): a hostile module faults in time, alike at replay."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from tallystick.model.bundle import make_bundle
from tallystick.model.manifest_sources import read_sources
from tallystick.values import canon
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place


def hostile() -> dict[str, bytes]:
    """Six modules, each with what it does."""
    from wasmtime import wat2wasm

    from tests.modules.test_wasm import DEEP, ENTRY, GROW, IMPORT
    from tests.modules.wasm_world import output, says, wat

    nan = "(f64.div (f64.const 0) (f64.const 0))"
    bits = f"(i64.reinterpret_f64 {nan})"
    return {
        "loop": wat(ENTRY.format("(loop br 0) i64.const 0")),
        "recursion": wat(DEEP),
        "grow": wat(ENTRY.format(GROW)),
        "giant": wat(ENTRY.format("i64.const -1")),
        "import": bytes(wat2wasm(f"(module {IMPORT})")),
        "nan": wat(says(output(), f"(drop {bits})") + f'(func (export "x") (result i64) {bits})'),
    }


def bundle(code: bytes) -> bytes:
    """A bundle whose one workflow is that module."""
    from tests.modules.wasm_world import documents

    made = documents(canon.hash_of(code), fuel=200_000, memory_bytes=1 << 16)
    sources = read_sources(made)
    assert sources.manifest is not None, sources.findings
    return make_bundle(sources.definitions, sources.manifest, {canon.hash_of(code): code}).to_zip()


def run(bench: Bench) -> dict[str, Any]:
    """One world for each module: an event, its fault, a neighbour, and a replay."""
    outcomes = {}
    for name, code in hostile().items():
        with Place(bench.fresh(name), planted=bench.planted, world=bundle(code)) as place:
            place.start()
            began = time.monotonic()
            for key in ("a", "b"):
                body = {"schema": "t/Step@1", "value": {"name": key, "n": 1}}
                status, said = place.ask("POST", "/v1/worlds/main/events", body)
                assert status == 202, said
            kinds = [row["record"]["code"] for row in place.rows("fault")]
            took = time.monotonic() - began
            place.stop()
            again = place.tally("--json", "replay", "--from", "genesis", "--verify")
        outcomes[name] = {
            "faults": kinds,
            "ms": round(took * 1000, 1),
            "replay_exit": again.returncode,
        }
    return {"outcomes": outcomes}


EXPECTED = {
    "loop": ["fuel", "fuel"],
    "recursion": ["trap", "trap"],
    "grow": ["trap", "trap"],
    "giant": ["bad_output", "bad_output"],
    "import": ["exception", "exception"],
    "nan": [],
}


def faults(found: dict[str, Any]) -> list[str]:
    """A module that did not fault as it should, or not alike at replay."""
    wrong = []
    for name, outcome in found["outcomes"].items():
        if outcome["faults"] != EXPECTED[name]:
            wrong.append(f"{name}: {outcome['faults']}")
        if outcome["replay_exit"]:
            wrong.append(f"{name}: the replay ended with {outcome['replay_exit']}")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """Two faults within 400 ms, with the requests that led to them."""
    slow = {name: each["ms"] for name, each in found["outcomes"].items() if each["ms"] > 400}
    return [f"slow: {slow}"] if slow else []


def _possible() -> bool:
    return importlib.util.find_spec("wasmtime") is not None


CASE = Case(
    number="at-23",
    name="wasm-limits",
    rows="RL-08 RL-19 I16",
    run=run,
    faults=faults,
    floors=floors,
    possible=_possible,
    suite="none",
    planted="fuel_by_chance",
    small={},
    full={},
)

"""Wishes: what a test wants from the outside, asked for as events of the world of tools."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.kit.cells import cell
from tests.acceptance.kit.place import Place

WORKFLOWS = {"Fetch": "tools/fetcher@1", "Keep": "tools/keeper@1", "Run": "tools/runner@1"}


def wish(place: Place, kind: str, name: str, world: str = "main", **value: Any) -> None:
    """Ask for one thing."""
    body = {"schema": f"tools/{kind}@1", "value": {"id": name, **value}}
    status, said = place.ask("POST", f"/v1/worlds/{world}/events", body)
    assert status == 202, said


def granted(place: Place, kind: str, name: str, wait_s: float = 60.0) -> dict[str, Any]:
    """What became of it, once it has."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        state: dict[str, Any] = cell(place, WORKFLOWS[kind], name)["state"]
        if state["status"] != "asked":
            return state
        time.sleep(0.05)
    raise AssertionError(f"{kind} {name} was not answered in {wait_s} s")

"""Cells of a world, read page by page as any caller would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tests.acceptance.kit.place import Place


def cells(place: Place, workflow: str, world: str = "main") -> Iterator[dict[str, Any]]:
    """Every cell of a workflow, in brief."""
    after = ""
    while True:
        path = f"/v1/worlds/{world}/cells?workflow={quote(workflow)}&limit=1000{after}"
        status, page = place.ask("GET", path)
        assert status == 200, page
        yield from page["items"]
        if page["next"] is None:
            return
        after = f"&after={quote(str(page['next']))}"


def cell(place: Place, workflow: str, key: str, world: str = "main") -> dict[str, Any]:
    """One cell whole."""
    status, found = place.ask(
        "GET", f"/v1/worlds/{world}/cells/{quote(workflow, '')}/{quote(key, '')}"
    )
    assert status == 200, found
    shown: dict[str, Any] = found
    return shown


def states(place: Place, workflow: str, world: str = "main") -> dict[str, dict[str, Any]]:
    """The state of every cell of a workflow, by its key."""
    keys = [row["key"] for row in cells(place, workflow, world)]
    return {key: cell(place, workflow, key, world)["state"] for key in keys}

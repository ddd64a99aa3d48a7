"""`tally world export --site`: a world as plain files that any file server shows (09 section 7).

The files are the very answers of the API; `data/index.json` says which request each one answers.
So a reader of the site has the same shapes as a reader of the node, and needs no second decoder.
The UI's own files are copied beside them when this release has them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from tallystick.cli.cell import at_cell, key_word
from tallystick.cli.request import Request
from tallystick.cli.verb import W, filled
from tallystick.errors import Conflict, Rejected

RECORDS_MAX: Final = 20_000
PAGE: Final = 1_000
DATA: Final = "data"
INDEX: Final = "index.json"
# Answers that are about the world as a whole.
_WHOLE: Final = ("", "/root", "/stats", "/explain", "/snapshots", "/graph")


class Site:
    """Writes answers into a folder and remembers which request each one answers."""

    def __init__(self, call: Any, folder: Path) -> None:
        self._call = call
        self._folder = folder
        self.files: dict[str, str] = {}

    def keep(self, path: str, **query: Any) -> Any:
        """One answer, asked for and kept."""
        found = self._call.ask(Request("GET", path, query))
        name = f"{DATA}/{len(self.files):06}.json"
        self.files[f"{path}?{urlencode(query)}" if query else path] = name
        (self._folder / name).write_text(json.dumps(found, ensure_ascii=False), "utf-8")
        return found

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        """All pages of a list, each kept; gives their items."""
        after: dict[str, Any] = {}
        while True:
            page = self.keep(path, **query, limit=PAGE, **after)
            yield from page["items"]
            if page["next"] is None:
                return
            after = {"after": page["next"]}


def export_site(call: Any, folder: Path, span: tuple[int, int | None], cell: Any) -> dict[str, Any]:
    """Write the site of a world; refuses a folder that is there and a world that is too large."""
    base = filled(W, call, {})
    head = call.ask(Request("GET", f"{base}/journal/head"))
    first, last = span[0], span[1] or head["seq"]
    _check(folder, 0 if cell else last - first + 1)
    (folder / DATA).mkdir(parents=True)
    site = Site(call, folder)
    for part in _WHOLE:
        site.keep(base + part)
    records = _journal(site, base, (first, last), cell)
    cells = [cell] if cell else [(row["workflow"], row["key"]) for row in _cells(site, base)]
    for workflow, key in cells:
        _cell(site, call, workflow, key_word(key))
    effects = [row["intent"] for row in site.pages(f"{base}/effects", status="all")]
    for intent in effects if not cell else ():
        site.keep(f"{base}/effects/{intent}")
    index = {"tally": "site", "format": 1, "world": head["world"], "seq": head["seq"]}
    index |= {"head": head["head"], "from": first, "to": last, "files": site.files}
    (folder / DATA / INDEX).write_text(json.dumps(index, ensure_ascii=False), "utf-8")
    _ui(folder)
    counts = {"records": records, "cells": len(cells), "effects": len(effects)}
    return {"world": head["world"], "path": str(folder), "files": len(site.files), **counts}


def _check(folder: Path, records: int) -> None:
    if records > RECORDS_MAX:
        raise Rejected(
            f"{records} records are too many for a site",
            code="export.too_large",
            where={"records": records, "max": RECORDS_MAX},
            hint="choose one cell by --cell, or a part by --from and --to",
        )
    if folder.exists():
        raise Conflict(f"{folder} exists", code="export.exists", hint="name a new folder")


def _journal(site: Site, base: str, span: tuple[int, int], cell: Any) -> int:
    """The pages of the journal, of all or of one cell."""
    first, last = span
    only = {"workflow": cell[0], "key": cell[1]} if cell else {}
    count, query = 0, {"from": first, **only}
    for row in site.pages(f"{base}/journal", **query):
        if row["seq"] > last:
            break
        count += 1
    return count


def _cells(site: Site, base: str) -> list[Any]:
    return list(site.pages(f"{base}/cells"))


def _cell(site: Site, call: Any, workflow: str, key: str) -> None:
    """One cell whole, and its timeline."""
    path, named = at_cell(call, {"workflow": workflow, "key": key})
    site.keep(path, **named)
    site.keep(f"{filled(W, call, {})}/trace", workflow=workflow, key=key)


def _ui(folder: Path) -> None:
    """The pages that show the answers, when this release has them."""
    held = files("tallystick").joinpath("ui")
    if held.is_dir():
        with as_file(held) as path:
            shutil.copytree(path, folder / "ui")
            shutil.copy(path / "index.html", folder / "index.html")

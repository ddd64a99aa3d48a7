"""Plans: what an activation does with each open cell (06 section 9).

A plan names every open cell at the very seq it was proved at, with one action: go on under the new
definitions (`continue`, `migrate`) or finish under the old ones (`pin`).
It stands in the blob store, in pages, and its digest in the record of the activation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from tallystick.kernel.index import Blobs
from tallystick.kernel.inputs import Planned
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.pins import pin, unpin
from tallystick.kernel.quiescence import NAMED_MAX, Blocker, open_cells
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue
from tallystick.model.cells import CellId
from tallystick.values import canon

PIN: Final = "pin"
CONTINUE: Final = "continue"
MIGRATE: Final = "migrate"
ACTIONS: Final = (CONTINUE, PIN, MIGRATE)
PAGE: Final = 4096

Plan = Mapping[tuple[str, bytes], Planned]


class Row(NamedTuple):
    """One cell of a plan."""

    cell: CellId
    seq: int
    action: str


def written(plan: Plan) -> tuple[bytes, dict[bytes, bytes]]:
    """The digest of a plan, and the documents it stands in."""
    rows = [[*cell, *planned] for cell, planned in sorted(plan.items())]
    blobs: dict[bytes, bytes] = {}
    pages: list[str] = []
    for first in range(0, len(rows), PAGE):
        page = canon.encode({"$kind": "plan_page", "rows": rows[first : first + PAGE]})
        pages.append(canon.hash_of(page))
        blobs[canon.digest_of(page)] = page
    document = canon.encode({"$kind": "plan", "cells": len(rows), "pages": pages})
    blobs[canon.digest_of(document)] = document
    return canon.digest_of(document), blobs


def rows(digest: bytes, blobs: Blobs) -> Iterator[Row]:
    """The rows of a plan that is in the store."""
    for page in canon.decode(read_blob(blobs, digest))["pages"]:
        for workflow, key, seq, action in _page(blobs, page):
            yield Row(CellId(workflow, key), seq, action)


def _page(blobs: Blobs, hash_text: str) -> list[Any]:
    found: list[Any] = canon.decode(read_blob(blobs, canon.raw_of(hash_text)))["rows"]
    return found


def outdated(world: World, plan: Plan, catalogue: Catalogue) -> tuple[list[Blocker], int]:
    """The open cells that a plan does not cover as they stand now: some of them, and how many."""
    found = (each for each in open_cells(world) if not _covered(each, plan, catalogue))
    first = list(islice(found, NAMED_MAX))
    return first, len(first) + sum(1 for _ in found)


def _covered(blocker: Blocker, plan: Plan, catalogue: Catalogue) -> bool:
    detail = blocker.detail
    planned = plan.get((detail["workflow"], bytes.fromhex(detail["key"])))
    if planned is None or planned.seq != detail["since_seq"] or planned.action not in ACTIONS:
        return False
    # An open cell whose workflow the bundle does not hold can only finish under the old one.
    return planned.action == PIN or detail["workflow"] in catalogue.workflows


def try_on(world: World, manifest: bytes) -> None:
    """Put a world that nobody drives under another manifest, without a record.

    It becomes synthetic; cells whose workflow the manifest does not hold are pinned.
    Positions stay as they are, so that what is run again can be compared number by number.
    """
    before = world.manifest
    world.synthetic, world.read_only = True, False
    world.activate(manifest)
    world.upgraded_seq = world.seq + 1
    for each in list(open_cells(world)):
        workflow, key = each.detail["workflow"], bytes.fromhex(each.detail["key"])
        cell = world.edit_cell(workflow, key)
        if cell is not None and workflow not in world.active.catalogue.workflows:
            pin(world, cell, before)


def follow(world: World, digest: bytes, before: bytes) -> None:
    """Fold a plan: who is pinned stays under the manifest before, who goes on loses a pin."""
    for ident, _, action in rows(digest, world.blobs):
        cell = world.edit_cell(*ident)
        if cell is None:
            continue
        if action == PIN:
            pin(world, cell, before)
        else:
            unpin(world, cell)

"""Worlds over HTTP: make, list, show, remove, fork, snapshot, name."""

from __future__ import annotations

from typing import Any, Final

from tallystick.api.models import AliasBody, NewFork, NewSnapshot, NewWorld
from tallystick.api.reads import live
from tallystick.api.request import Request, Response
from tallystick.api.who import world_of
from tallystick.errors import Conflict, Rejected
from tallystick.governance.whatif import read_edits
from tallystick.journal.base import Reader, SnapshotRow, WorldRow
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle, build_bundle, from_zip
from tallystick.node import rollback
from tallystick.node.worlds import ForkOrder
from tallystick.values import canon
from tallystick.values.names import is_reserved

PENDING: Final = ("suspend", "cancel", "reissue")
_PATIENCE_S: Final = 5.0  # for cells that are ready, when somebody asks for a snapshot


async def list_worlds(request: Request) -> Response:
    """GET /v1/worlds: those that the token is for."""
    items = await request.node.read(_rows)
    if not request.who.everywhere:
        allowed = frozenset(request.who.worlds)
        items = [row for row in items if allowed & {row["world"], *row["aliases"]}]
    return Response(value={"items": items, "next": None, "as_of": None})


def _rows(reader: Reader) -> list[dict[str, Any]]:
    named: dict[str, list[str]] = {}
    for name, world in reader.aliases().items():
        named.setdefault(world, []).append(name)
    return [_row(row, named.get(row.world, [])) for row in reader.worlds()]


def _row(row: WorldRow, aliases: list[str]) -> dict[str, Any]:
    return {
        "world": row.world,
        "name": aliases[0] if aliases else None,
        "aliases": aliases,
        "seq": row.head.seq,
        "head": canon.text_of(row.head.hash),
        "epoch": row.head.epoch,
        "parent": row.parent,
        "fork_seq": row.fork_seq,
        "state": row.state,
    }


async def create(request: Request) -> Response:
    """POST /v1/worlds: a world with a bundle, or with an empty one."""
    body = request.read(NewWorld)
    bundle: Bundle = build_bundle([]) if body.bundle is None else from_zip(body.bundle)
    try:
        world = await request.node.create(body.name, bundle)
    except Conflict:
        # Begun before with the same key and cut by a crash: the name is what it asked for.
        if not request.again:
            raise
        world = request.node.resolve(body.name)
    return Response(201, await _shown(request, world))


async def show(request: Request) -> Response:
    """GET W: where a world stands."""
    return Response(value=await _shown(request, request.world))


async def _shown(request: Request, world: str) -> dict[str, Any]:
    rows = await request.node.read(_rows)
    row: dict[str, Any] = next(each for each in rows if each["world"] == world)
    if request.world:
        seen = await live(request, _standing)
    else:
        seen = await request.node.look(world, _standing)
    return {**row, **seen}


def _standing(world: World) -> dict[str, Any]:
    workflows = world.active.catalogue.workflows
    return {
        "seq": world.seq,
        "manifest": canon.text_of(world.manifest),
        "logical_now_ns": world.logical_ns,
        "cells": world.cell_count,
        # Ours are in every world; what a reader wants to see is what this one was made for.
        "workflows": sorted(name for name in workflows if not is_reserved(name)),
        "read_only": world.read_only,
        "as_of": world.seq,
    }


async def remove(request: Request) -> Response:
    """DELETE W: the world and all it owns; refused while forks read from it."""
    await request.node.remove(request.world)
    return Response(200, {"world": request.world, "removed": True})


# ---- forks and names ------------------------------------------------------------------------


async def fork(request: Request) -> Response:
    """POST W/forks: a new world that begins where this one stood."""
    body = request.read(NewFork)
    odd = [word for word in (body.pending, *body.pending_for.values()) if word not in PENDING]
    if odd:
        raise Rejected(
            f"pending is one of {', '.join(PENDING)}",
            code="request.bad_value",
            where={"path": "/pending"},
        )
    try:
        order = ForkOrder(
            parent=request.world,
            child="",
            seq=body.at,
            pending=body.pending,
            pending_for=body.pending_for or None,
            principal=request.who.principal,
            edits=() if body.edits is None else read_edits(body.edits),
        )
        world = await request.node.fork(order, body.name)
    except Conflict:
        if not request.again:
            raise
        world = request.node.resolve(body.name)
    rows = await request.node.read(_rows)
    return Response(201, next(each for each in rows if each["world"] == world))


# tidy: three refusals, the preview and the move.
async def put_alias(request: Request) -> Response:
    """PUT /v1/aliases/{alias}: let a name mean another world."""
    body = request.read(AliasBody)
    alias = request.named["alias"]
    world = world_of(request.who, body.world, request.node)
    if await request.node.look(world, lambda live: live.synthetic):
        raise Conflict(
            "a what-if has no outside, so no name may lead callers to it",
            code="world.synthetic",
            where={"alias": alias, "world": world},
            hint="fork the world without edits",
        )
    now = await request.node.read(lambda reader: reader.aliases().get(alias))
    if now is not None:
        world_of(request.who, now, request.node)  # a name is not taken from a world of others
    if body.expect is not None and body.expect != now:
        raise Conflict(
            f"{alias} means another world now",
            code="world.alias_moved",
            where={"alias": alias, "world": now},
            hint="look again and say what it must mean",
        )
    since: list[Any] = []
    if now is not None and now != world:
        old = now
        since = await request.node.read(lambda reader: rollback.settled_since(reader, old, world))
    if not body.preview:
        order = rollback.Order(alias, world, request.who.principal, request.sample())
        await rollback.move_alias(request.node, order)
    found = {"alias": alias, "world": world, "before": now, "settled_since": since}
    return Response(200, {**found, "moved": not body.preview})


# ---- snapshots ------------------------------------------------------------------------------


async def list_snapshots(request: Request) -> Response:
    """GET W/snapshots: the pinned roots that opening may begin from."""
    rows = await request.node.read(lambda reader: reader.snapshots(request.world))
    return Response(value={"items": [_snapshot(row) for row in rows], "next": None, "as_of": None})


def _snapshot(row: SnapshotRow) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "root": canon.text_of(row.root),
        "document": canon.text_of(row.document),
        "pinned": row.pinned,
        "at_ns": row.at_ns,
    }


async def take_snapshot(request: Request) -> Response:
    """POST W/snapshots: pin the roots of now."""
    body = request.read(NewSnapshot)
    await request.node.snapshot(request.world, pin=body.pin, wait_s=_PATIENCE_S)
    rows = await request.node.read(lambda reader: reader.snapshots(request.world))
    return Response(201, _snapshot(rows[-1]))

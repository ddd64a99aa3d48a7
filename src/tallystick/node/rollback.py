"""Rollback: a name that meant one world means another, in one transaction (06 section 11).

Nothing is rewritten: the old world is frozen where it stands, its epoch is fenced, and both
journals say so; whichever of the two has the name is the one that works.
What the old world settled since the fork has happened outside and is not undone: it is told first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tallystick.errors import Conflict, DiskFull, TallyError, Unavailable
from tallystick.journal.base import Reader, WorldRow
from tallystick.journal.lineage import floor_of
from tallystick.kernel.inputs import MoveAlias, Sample
from tallystick.kernel.parts import KERNEL
from tallystick.kernel.world import World
from tallystick.model.frames import open_frame
from tallystick.model.records import IntentOpened, ReceiptSettled
from tallystick.node.driver import Ticket
from tallystick.node.node import Node
from tallystick.values import canon

SHOWN_MAX: Final = 1000
_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.002


class Order(NamedTuple):
    """Which name goes to which world, and who wants it so."""

    alias: str
    to: str
    principal: str
    sample: Sample


async def move_alias(node: Node, order: Order) -> str | None:
    """Let a name mean a world from now on; the world it meant before, which is frozen."""
    await _check(node, order)
    now = node.names.get(order.alias)
    if now is None or now == order.to:
        await node.alias(order.alias, order.to)
        return now
    thawed = await node.look(order.to, _is_frozen)
    node.dispatch.shut.add(now)
    node.dispatch.lost(now)
    node.work.rest(now)
    node.asks.lost(now)
    try:
        await _switch(node, order, now)
    except BaseException:
        # Who asked may be gone, and what was queued for them happens all the same.
        if await _is_moved(node, now):
            _follow(node, order, thawed=thawed)
        else:
            node.dispatch.shut.discard(now)
            node.resume.begin(now, node.feed.head(now))
        raise
    _follow(node, order, thawed=thawed)
    return now


async def _is_moved(node: Node, now: str) -> bool:
    """True when the world that had the name has lost it; asked behind all that was queued."""
    try:
        return await node.look(now, _is_frozen)
    except TallyError:
        return False  # it is gone, or the node stops: the next start reads the journal


def _follow(node: Node, order: Order, *, thawed: bool) -> None:
    """The journal has moved a name; so does the node."""
    node.names[order.alias] = order.to
    node.dispatch.shut.discard(order.to)
    if thawed:
        node.resume.begin(order.to, node.feed.head(order.to))


async def _check(node: Node, order: Order) -> None:
    node.check_alias(order.alias)
    if await node.look(order.to, lambda world: world.synthetic):
        raise Conflict(
            "a what-if never takes a name",
            code="world.synthetic",
            where={"alias": order.alias, "world": order.to},
            hint="fork the world itself",
        )


async def _switch(node: Node, order: Order, now: str) -> None:
    """Both journals and the name in one commit, on the kernel's thread between two others."""
    until = node.loop.time() + _PATIENCE_S
    while not await node.on_kernel(lambda: _moved(node, order, now)):
        if node.loop.time() > until:
            raise Unavailable("the writer never came to rest", code="node.busy")
        await asyncio.sleep(_PAUSE_S)


def _moved(node: Node, order: Order, now: str) -> bool:
    engine = node.engine
    if not engine.together([], lambda _: []):
        return False  # a commit is on its way: nothing may be staged for this one yet
    worlds = [node.hosted(now, look=True), node.hosted(order.to, look=True)]
    for hosted in worlds:
        given = MoveAlias(order.sample, order.alias, order.to, order.principal, now)
        hosted.driver.handle(Ticket(given))
    done = engine.together(
        worlds,
        lambda batch: node.writer.alone(
            lambda journal: journal.move_alias(order.alias, order.to, batch)
        ),
    )
    assert done, "nothing flew a moment ago, and only this thread starts a commit"
    left = engine.worlds.get(now)
    if left is None or not left.driver.world.frozen:
        raise DiskFull("the name was not moved: nothing of it could be written")
    return True


def _is_frozen(world: World) -> bool:
    return world.frozen


# ---- what is not rolled back ----------------------------------------------------------------


def settled_since(reader: Reader, old: str, new: str) -> list[dict[str, Any]]:
    """What executors settled in a world after another one was forked from it."""
    fork = next((each for each in reader.worlds() if each.world == new), None)
    if fork is None or fork.parent is None:
        return []
    line = reader.lineage(old)
    since = _forked_from(line, fork)
    if since is None:
        return []
    head = line[0].head.seq
    effects: dict[bytes, str] = {}
    found: list[dict[str, Any]] = []
    for frame in reader.read(old, floor_of(line).seq, head):
        for offset, record in enumerate(open_frame(frame.body)[3]):
            if isinstance(record, IntentOpened):
                effects[record.intent] = record.effect
            elif isinstance(record, ReceiptSettled) and record.source != KERNEL:
                found.append(_shown(record, frame.seq + offset, effects))
    return [each for each in found if each["seq"] > since][:SHOWN_MAX]


def _forked_from(line: Sequence[WorldRow], fork: WorldRow) -> int | None:
    """Where a world was forked from a history, be it from the part that was inherited."""
    end = line[0].head.seq
    for row in line:
        if row.world == fork.parent and fork.fork_seq is not None:
            return fork.fork_seq if fork.fork_seq <= end else None
        end = end if row.fork_seq is None else min(end, row.fork_seq)
    return None


def _shown(record: ReceiptSettled, seq: int, effects: dict[bytes, str]) -> dict[str, Any]:
    return {
        "seq": seq,
        "intent": canon.text_of(record.intent),
        "effect": effects.get(record.intent),
        "status": record.status,
    }

"""A request with an Idempotency-Key happens once, also across restarts (K-09).

Events have the fence of their world; this is for all the others.
The first answer is kept; the same key with the same body is told it again, with another body it
is refused.
A request that was cut by a crash is found again by the entropy of its input (see `answers`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from tallystick.api import found_again, wire
from tallystick.api.answers import Answers, Kept
from tallystick.api.found_again import Found
from tallystick.api.request import Request, Response
from tallystick.errors import Conflict, DiskFull, Rejected
from tallystick.journal.base import Reader
from tallystick.model.frames import open_frame
from tallystick.values import canon

T = TypeVar("T")

WINDOW_NS: Final = 86_400 * 1_000_000_000
REPLAYED: Final = (b"idempotent-replayed", b"true")


class Keys:
    """The Idempotency-Keys of a node; one thread keeps them, one request at a time uses a key."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._own_thread = ThreadPoolExecutor(1, "tally-answers")
        self._busy: dict[tuple[str, str], asyncio.Lock] = {}

    async def ask(self, act: Callable[[Answers], T]) -> T:
        """Do something with the kept answers, durably."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._own_thread, act, self._answers)

    def alone(self, world: str, key: str) -> asyncio.Lock:
        """The lock that lets one request at a time use a key."""
        if len(self._busy) > 1024:
            self._busy = {at: lock for at, lock in self._busy.items() if lock.locked()}
        return self._busy.setdefault((world, key), asyncio.Lock())

    def close(self) -> None:
        """Let go of the thread and the file."""
        self._own_thread.submit(self._answers.close)
        self._own_thread.shutdown()


async def answer(request: Request, keys: Keys) -> Response:
    """Carry out a request whose key was not seen, or tell again what was answered."""
    if request.route.once == "never":
        raise Rejected(
            "this route takes no Idempotency-Key: its answer is shown once and not kept",
            code="request.no_idempotency",
        )
    key = wire.idem_key_of(request.headers[b"idempotency-key"])
    async with keys.alone(request.world, key):
        kept = await _kept(request, keys, key)
        if kept.status:
            return _again(kept)
        if request.again and request.world:
            kept = await _recovered(request, kept)
            if kept.status:
                await keys.ask(lambda answers: answers.put(request.world, key, kept))
                return _again(kept)
        return await _perform(request, keys, key, kept)


async def _kept(request: Request, keys: Keys, key: str) -> Kept:
    """What is known of the key, or a fresh reservation of it."""
    world = request.world
    now_ns = time.time_ns()
    window_ns = await _window_ns(request)
    known = await keys.ask(lambda answers: answers.get(world, key))
    digest = _digest(request)
    if known is not None and known.at_ns + window_ns > now_ns:
        if known.digest != digest:
            raise Conflict("this Idempotency-Key was used with another request")
        request.again = True
        request.entropy = known.entropy
        return known
    after = await request.node.look(world, _seq) if world else 0
    fresh = Kept(digest, os.urandom(64), after, now_ns)

    def reserve(answers: Answers) -> None:
        answers.expire(now_ns - max(WINDOW_NS, window_ns))
        answers.put(world, key, fresh)

    await keys.ask(reserve)
    request.entropy = fresh.entropy
    return fresh


async def _perform(request: Request, keys: Keys, key: str, kept: Kept) -> Response:
    try:
        response = await request.route.handler(request)
    except Rejected:
        # Refused: nothing was written, so the key is free again.
        await keys.ask(lambda answers: answers.drop(request.world, key))
        raise
    body, _ = wire.encoded(response.value, cbor=False)
    filled = kept._replace(status=response.status, body=body)
    # What was done is answered also where no room is left to keep that: whoever asks again is
    # answered from the journal then, as after a crash.
    with suppress(DiskFull):
        await keys.ask(lambda answers: answers.put(request.world, key, filled))
    return response


async def _recovered(request: Request, kept: Kept) -> Kept:
    """The row of a request that a crash cut: filled when its record is in the journal."""
    world, after, entropy = request.world, kept.after_seq, kept.entropy
    found = await request.node.read(lambda reader: found_of(reader, world, after, entropy))
    if found is None:
        return kept
    response = await (request.route.found_again or found_again.accepted)(request, found)
    if response is None:
        return kept
    body, _ = wire.encoded(response.value, cbor=False)
    return kept._replace(status=response.status, body=body)


def found_of(reader: Reader, world: str, after: int, entropy: bytes) -> Found | None:
    """The record that carries an input's entropy, behind a sequence."""
    for frame in reader.read(world, after):
        for offset, record in enumerate(open_frame(frame.body)[3]):
            stamp = getattr(record, "stamp", None)
            if stamp is not None and stamp.entropy == entropy:
                return Found(int(frame.seq) + offset, record)
    return None


def _again(kept: Kept) -> Response:
    return Response(kept.status, msgspec.json.decode(kept.body), (REPLAYED,))


def _digest(request: Request) -> bytes:
    """What makes two requests the same: route, named segments and canonical body."""
    route = request.route
    asked = [route.method, route.path, dict(request.named), request.query, request.document()]
    return sha256(canon.encode(asked)).digest()


async def _window_ns(request: Request) -> int:
    if not request.world:
        return WINDOW_NS
    return int(await request.node.look(request.world, _window))


def _window(world: Any) -> int:
    return int(world.active.catalogue.limits.idempotency_window)


def _seq(world: Any) -> int:
    return int(world.seq)

"""What a node keeps about its callers is bounded, and what must stay stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.api.answers import Answers, Kept
from tallystick.api.once import Keys
from tallystick.api.refusals import NoIdentity, WrongHost
from tallystick.api.request import Request, Response
from tallystick.api.routes import Route
from tallystick.api.sessions import Sessions
from tallystick.api.who import Door, Identity
from tallystick.errors import DiskFull

MANY = 1_100
ALICE = Identity("a", "alice", frozenset({"read"}), ("*",))


def test_of_many_codes_the_newest_count() -> None:
    """09 section 2: links that nobody opens do not fill the node; the oldest stop working."""
    sessions = Sessions(10**18, lambda: 0)
    codes = [sessions.code(ALICE)[0] for _ in range(MANY)]
    assert sessions.begin(codes[-1]).identity.principal == "alice"
    with pytest.raises(NoIdentity) as refused:
        sessions.begin(codes[0])
    assert refused.value.code == "auth.code_spent"


def test_of_many_sessions_the_newest_are_open() -> None:
    """09 section 2: whoever opens one session after the other loses the oldest ones."""
    sessions = Sessions(10**18, lambda: 0)
    sessions.cookie = b"tally_1"
    opened = [sessions.begin(sessions.code(ALICE)[0]) for _ in range(MANY)]
    newest, oldest = opened[-1], opened[0]
    known = sessions.identify(b"tally_1=" + newest.cookie.encode(), newest.half.encode())
    assert known == newest.identity
    with pytest.raises(NoIdentity) as refused:
        sessions.identify(b"tally_1=" + oldest.cookie.encode(), oldest.half.encode())
    assert refused.value.code == "auth.no_session"


def test_a_door_judges_alike_after_many_hosts() -> None:
    """ND-20: what is remembered of good hosts is bounded, and decides nothing."""
    door = Door()
    for port in range(1, 200):
        door.check(b"localhost:%d" % port, None, None)
    with pytest.raises(WrongHost):
        door.check(b"evil.example:199", None, None)
    with pytest.raises(WrongHost):
        door.check(b"evil.example:1", None, None)


def test_a_key_in_use_stays_taken_while_others_come_and_go(tmp_path: Path) -> None:
    """ND-11: locks of keys that nobody uses are let go; one that is held is still the same."""

    async def main() -> None:
        keys = Keys(Answers(tmp_path))
        try:
            held = keys.alone("w", "mine")
            idle = keys.alone("w", "0")
            async with held:
                for n in range(MANY):
                    keys.alone("w", str(n))
                assert keys.alone("w", "mine") is held
            assert keys.alone("w", "0") is not idle
        finally:
            keys.close()

    asyncio.run(main())


def test_an_answer_that_finds_no_room_is_told_as_such(tmp_path: Path) -> None:
    """BUGS 98: a full disk is `node.disk_full` here too, and what was kept before is there."""
    answers = Answers(tmp_path)
    answers.put("w", "first", Kept(b"d", b"e", 1, 2))
    answers._db.execute("PRAGMA max_page_count=1")  # as little as it has
    with pytest.raises(DiskFull) as refused:
        answers.put("w", "large", Kept(b"d", b"e", 1, 2, 202, bytes(100_000)))
    assert refused.value.code == "node.disk_full"
    assert answers.get("w", "first") == Kept(b"d", b"e", 1, 2)
    answers.close()


@pytest.mark.parametrize(("method", "path"), [("BREW", "/pot"), ("GET", "pot")])
def test_a_route_that_nobody_could_call_cannot_be_made(method: str, path: str) -> None:
    """ND-28: a word that is no method, or a path without its slash, fails when it is written."""

    async def pot(request: Request) -> Response:
        raise AssertionError(request)

    with pytest.raises(ValueError, match="no route is"):
        Route(method, path, "read", pot, "")

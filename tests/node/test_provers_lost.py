"""Proving processes that do not come so far: what is told of each, and nobody waits for it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable

import pytest

from tallystick.errors import Unavailable
from tallystick.node.provers import Hand

READY = "import sys; sys.stdout.write('.'); sys.stdout.flush(); "


def asked(source: str, main: Callable[[Hand], Awaitable[object]]) -> Unavailable:
    """What is raised about a process that runs this."""

    async def run() -> Unavailable:
        words = (sys.executable, "-c", source)
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        hand = Hand(process)
        try:
            with pytest.raises(Unavailable) as caught:
                await main(hand)
        finally:
            await hand.close()
        assert process.returncode is not None
        return caught.value

    why = asyncio.run(asyncio.wait_for(run(), 60))
    assert (why.code, why.hint) == ("gov.proof_failed", "nothing was changed: try again")
    return why


def test_a_process_that_cannot_load_says_its_last_words() -> None:
    """AG-26: what a process wrote last is the reason; of one that wrote nothing, how it ended."""
    source = "import sys; sys.exit('first\\nno such module')"
    assert "no such module" in asked(source, lambda hand: hand.ready()).message
    assert "exit 3" in asked("import sys; sys.exit(3)", lambda hand: hand.ready()).message


def test_a_process_that_ends_before_it_was_told_all_is_found_out() -> None:
    """AG-26: orders that nobody reads any more are no proof that goes on."""

    async def order(hand: Hand) -> None:
        await hand.ready()
        await hand.open(bytes(1 << 24))  # what fills the pipe may be told here, or by the answer
        await hand.ask(b"")

    assert "gone early" in asked(READY + "sys.exit('gone early')", order).message


def test_a_process_that_ends_in_the_middle_of_an_answer_is_found_out() -> None:
    """AG-26: half of a page of verdicts is none."""

    async def ask(hand: Hand) -> None:
        await hand.ready()
        await hand.ask(b"")

    half = READY + "sys.stdout.write('\\0\\0\\0\\x09half'); sys.exit('torn')"
    assert "torn" in asked(half, ask).message

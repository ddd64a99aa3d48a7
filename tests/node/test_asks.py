"""Questions to people: who may answer what, and what becomes of those that nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tallystick.errors import (
    Conflict,
    Forbidden,
    JournalCorrupt,
    Rejected,
    SchemaMismatch,
    TallyError,
)
from tallystick.kernel.inputs import Submit
from tallystick.model.cells import CellId
from tallystick.node.asks import Reply
from tallystick.node.node import Node
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.node.test_rehearsal import running

SOURCE = """
from tallystick import Bundle, Ctx, Human, Json, Record
app = Bundle("t")
class Wonder(Record):
    key: str
    form: Json
    default: Json
    to: list[str] | None = None
    expires_at_ns: int | None = None
class Answered(Record):
    said: str = ""

@app.workflow(key="key", effects=[Human])
def wonders(state: Answered | None, event: Wonder | Human.Settled, ctx: Ctx) -> Answered:
    match event:
        case Wonder(form=form, default=default, to=to, expires_at_ns=end):
            choices = ["yes", "no"] if form is None else None
            ask = Human(title="?", body="", choices=choices, form=form, to=to, default=default,
                        expires_at_ns=end)
            ctx.effect(ask, corr="ask")
            return Answered()
        case Human.Ok(value=found):
            return Answered(said=f"{found.by}: {found.choice}")
        case Human.Failed(code=code):
            return Answered(said=f"failed: {code}")
"""
BUNDLE = built(SOURCE).bundle
FORM = {"record": {"cents": {"nat": {}}}}


class Desk(NamedTuple):
    """A node with one world, and those who wonder in it."""

    node: Node
    world: str

    async def wonder(self, key: str, **more: Any) -> None:
        """Ask, and wait until the question is open."""
        value = {"key": key, "form": None, "default": None, **more}
        await self.node.one(self.world, Submit(self.node.clock.sample(), "t/Wonder@1", value))
        assert await self.node.quiet(self.world, 60_000)

    async def asked(self, key: str, **more: Any) -> bytes:
        """Ask; the intent of the question, which nobody answers meanwhile."""
        known = list(self.node.asks.open)
        await self.wonder(key, **more)
        ((_, intent),) = [each for each in self.node.asks.open if each not in known]
        return intent

    async def said(self, key: str) -> str:
        """What came of it, once something did."""
        cell = CellId("t/wonders@1", canon.encode(key))

        def ask(world: Any) -> str:
            found: str = canon.decode(world.state_of(world.cell(cell)))["said"]
            return found

        while not (found := await self.node.look(self.world, ask)):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        return found

    async def refused(self, intent: bytes, reply: Reply) -> TallyError:
        with pytest.raises(TallyError) as caught:
            await self.node.asks.answer(self.world, intent, reply)
        return caught.value


def at_desk(tmp_path: Path, main: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(tmp_path) as node:
            await main(Desk(node, await node.create("main", BUNDLE)))

    asyncio.run(asyncio.wait_for(run(), 60))


def test_only_who_was_asked_answers_and_only_what_was_offered(tmp_path: Path) -> None:
    """04 section 6: a stranger and a choice of one's own are refused; the ask stays open."""

    async def main(desk: Desk) -> None:
        intent = await desk.asked("a", to=["eva"])
        stranger = await desk.refused(intent, Reply("bob", "yes"))
        assert isinstance(stranger, Forbidden)
        assert (stranger.code, stranger.where) == ("ask.not_yours", {"to": ["eva"]})
        other = await desk.refused(intent, Reply("eva", "maybe"))
        assert isinstance(other, Rejected)
        assert (other.code, other.where["choices"]) == ("ask.bad_choice", ["yes", "no"])
        assert await desk.node.asks.answer(desk.world, intent, Reply("eva", "yes")) > 0
        assert await desk.said("a") == "eva: yes"

    at_desk(tmp_path, main)


def test_an_ask_that_nobody_took_up_yet_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 9: what the list shows can be answered, also while a node is just starting.

    The same is refused as always, and what has expired meanwhile is over.
    """

    async def main(desk: Desk) -> None:
        intent = await desk.asked("a", to=["eva"])
        end_ns = desk.node.clock.now_ns() + 3_600_000_000_000
        late = await desk.asked("b", expires_at_ns=end_ns)
        desk.node.asks.open.clear()
        assert (await desk.refused(intent, Reply("bob", "yes"))).code == "ask.not_yours"
        assert await desk.node.asks.answer(desk.world, intent, Reply("eva", "yes")) > 0
        assert await desk.said("a") == "eva: yes"
        with monkeypatch.context() as patch:
            patch.setattr(type(desk.node.clock), "now_ns", lambda _clock: end_ns)
            assert (await desk.refused(late, Reply("eva", "yes"))).code == "ask.not_open"

    at_desk(tmp_path, main)


def test_an_answer_fits_the_form(tmp_path: Path) -> None:
    """04 section 6: an answer that does not fit names the place; one that fits is taken."""

    async def main(desk: Desk) -> None:
        intent = await desk.asked("a", form=FORM)
        why = await desk.refused(intent, Reply("eva", answer={"cents": "many"}))
        assert isinstance(why, SchemaMismatch)
        assert "cents" in str(why.where)
        await desk.node.asks.answer(desk.world, intent, Reply("eva", answer={"cents": 5}))
        assert await desk.said("a") == "eva: None"

    at_desk(tmp_path, main)


NEVER: tuple[dict[str, Any], ...] = (
    {"form": {"recrod": {}}},
    {"form": {"ref": "t/Elsewhere@1"}},
    {"to": []},
)


@pytest.mark.parametrize("more", NEVER, ids=["misspelled", "named", "nobody"])
def test_a_question_that_nobody_can_answer_is_an_error_of_who_asks(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """04 section 6: it stood in the list for ever, and every answer was refused (422, 403)."""

    async def main(desk: Desk) -> None:
        default = {"choice": "no", "answer": None}
        await desk.wonder("a", default=default, **more)
        assert await desk.said("a") == "failed: ask.unanswerable"
        assert desk.node.asks.open == {}

    at_desk(tmp_path, main)


def test_an_ask_is_answered_once(tmp_path: Path) -> None:
    """K-27: of two answers one settles; who comes later, or to no ask, is told that it is over."""

    async def main(desk: Desk) -> None:
        intent = await desk.asked("a")
        answer = desk.node.asks.answer
        both = [answer(desk.world, intent, Reply(who, "yes")) for who in ("eva", "bob")]
        found = await asyncio.gather(*both, return_exceptions=True)
        (late,) = [each for each in found if isinstance(each, Conflict)]
        assert late.code == "ask.not_open"
        assert await desk.said("a") in ("eva: yes", "bob: yes")
        assert (await desk.refused(bytes(32), Reply("eva", "yes"))).code == "ask.not_open"

    at_desk(tmp_path, main)


def test_what_nobody_answers_expires(tmp_path: Path) -> None:
    """04 section 6: with its default if it has one, else as a timeout; one without end stays."""

    async def main(desk: Desk) -> None:
        now = desk.node.clock.now_ns()
        await desk.wonder("stays")
        end = now + 300_000_000
        await desk.wonder("late", expires_at_ns=end)
        await desk.wonder("chosen", expires_at_ns=end, default={"choice": "no", "answer": None})
        assert await desk.said("late") == "failed: ask.expired"
        assert await desk.said("chosen") == "default: no"
        assert len(desk.node.asks.open) == 1

    at_desk(tmp_path, main)


def test_an_ask_that_was_answered_does_not_expire(tmp_path: Path) -> None:
    """K-27: the end of an ask that is over settles nothing; the next ask still has its own."""

    async def main(desk: Desk) -> None:
        node = desk.node
        end = node.clock.now_ns() + 1_500_000_000
        intent = await desk.asked("a", expires_at_ns=end)
        await node.asks.answer(desk.world, intent, Reply("eva", "yes"))
        await desk.wonder("b", expires_at_ns=end + 1)
        assert await desk.said("b") == "failed: ask.expired"
        assert await desk.said("a") == "eva: yes"

    at_desk(tmp_path, main)


def test_the_end_of_an_ask_whose_world_is_gone_is_survived(tmp_path: Path) -> None:
    """04 section 6: a world is removed with an ask in it; those of other worlds still expire."""

    async def main(desk: Desk) -> None:
        node = desk.node
        other = Desk(node, await node.create("other", BUNDLE))
        end = node.clock.now_ns() + 400_000_000
        await other.wonder("gone", expires_at_ns=end)
        await node.remove("other")
        await desk.wonder("b", expires_at_ns=end + 1)
        assert await desk.said("b") == "failed: ask.expired"

    at_desk(tmp_path, main)


def test_a_world_that_is_removed_asks_nobody(tmp_path: Path) -> None:
    """BUGS 86: its open questions go with it; those of another world stay."""

    async def main(desk: Desk) -> None:
        kept = await desk.asked("a")
        other = desk._replace(world=await desk.node.create("other", BUNDLE))
        await other.asked("b")
        await desk.node.remove("other")
        assert list(desk.node.asks.open) == [(desk.world, kept)]

    at_desk(tmp_path, main)


def test_an_ask_that_ends_while_its_world_stands_still_ends_later(tmp_path: Path) -> None:
    """04 section 6: its end cannot be written just then; it is as soon as the world goes on."""

    async def main(desk: Desk) -> None:
        node = desk.node
        driver = node.engine.worlds[desk.world].driver
        await desk.wonder("a", expires_at_ns=node.clock.now_ns() + 300_000_000)
        await node.on_kernel(lambda: driver.stop(JournalCorrupt("lost", where={"row": 1})))
        await asyncio.sleep(0.6)
        await node.on_kernel(lambda: setattr(driver, "stopped", None))
        assert await asyncio.wait_for(desk.said("a"), 20) == "failed: ask.expired"

    at_desk(tmp_path, main)


def test_an_answer_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    """04 section 6: a number of a hundred bits is no answer; the ask waits for a better one."""

    async def main(desk: Desk) -> None:
        intent = await desk.asked("a")
        why = await desk.refused(intent, Reply("eva", "yes", answer={"n": 10**30}))
        assert isinstance(why, SchemaMismatch)
        assert await desk.node.asks.answer(desk.world, intent, Reply("eva", "yes")) > 0
        assert await desk.said("a") == "eva: yes"

    at_desk(tmp_path, main)

"""Provenance over HTTP: why a file is as it is, documents for others, and a damaged store."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.api.reacting import PAGER, Reacting, reacting


@asynccontextmanager
async def written(base: Path) -> AsyncIterator[Reacting]:
    """A workspace in which a reaction has written one page."""
    async with reacting(base, pager=PAGER) as here:
        here.write("in/a.txt", "two")
        await here.scan()
        assert (here.folder / "out/page.md").read_text() == "of two"
        yield here


@pytest.mark.clause("F-06")
def test_why_names_the_run_behind_a_file(tmp_path: Path) -> None:
    """S52: a page leads to its reaction, an input to nobody of ours; without a path 400."""

    async def main() -> None:
        async with written(tmp_path) as here:
            page = await here.get("/provenance/why?path=out/page.md")
            assert (page["state"], page["reaction"]) == ("generated", "pager")
            source = await here.get("/provenance/why?path=in/a.txt")
            assert source["state"] == "external"
            assert await here.code("GET", "/provenance/why") == (400, "request.bad_query")

    asyncio.run(main())


@pytest.mark.clause("F-19")
def test_each_form_of_export_tells_of_the_page(tmp_path: Path) -> None:
    """V4: four forms, each names the written bytes; a form that nobody reads is refused."""

    async def main() -> None:
        async with written(tmp_path) as here:
            (stamp,) = (await here.get("/stamps"))["items"]
            digest = stamp["post_id"].removeprefix("sha256:")
            (whole,) = (await here.get("/provenance/export?path=out/page.md"))["documents"]
            assert whole["subject"][0]["digest"]["sha256"] == digest
            for form in ("openlineage", "prov", "dot"):
                told = await here.get(f"/provenance/export?format={form}")
                assert "out/page.md" in json.dumps(told["documents"]), form
            none = await here.get(f"/provenance/export?since={10**9}")
            assert none["documents"] == []
            status, said = await here.ask("GET", "/provenance/export?format=pdf")
            assert (status, said["code"]) == (400, "provenance.format")
            assert "in-toto" in said["hint"]

    asyncio.run(main())


@pytest.mark.clause("F-19")
def test_a_signed_export_holds_under_the_node_s_key(tmp_path: Path) -> None:
    """V4: a DSSE envelope whose signature fits its payload, and no other payload."""

    async def main() -> None:
        async with written(tmp_path) as here:
            (envelope,) = (await here.get("/provenance/export?sign=true"))["documents"]
            (signature,) = envelope["signatures"]
            pair = here.node.key.pair
            assert signature["keyid"] == pair.key_id
            payload = base64.b64decode(envelope["payload"])
            kind = envelope["payloadType"].encode()
            signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
            assert pair.signature(signed) == base64.b64decode(signature["sig"])
            plain = (await here.get("/provenance/export"))["documents"]
            assert [json.loads(payload)] == plain

    asyncio.run(main())


def _flip(here: Reacting, ident: int) -> None:
    """Change one bit of a frame of the journal, behind the back of the node."""
    with sqlite3.connect(here.node.config.data / "tally.db") as held:
        (body,) = held.execute("SELECT body FROM frame WHERE id = ?", (ident,)).fetchone()
        flipped = body[:-1] + bytes((body[-1] ^ 1,))
        held.execute("UPDATE frame SET body = ? WHERE id = ?", (flipped, ident))
    held.close()


@pytest.mark.clause("F-19")
def test_a_broken_record_is_named_and_nothing_is_exported(tmp_path: Path) -> None:
    """S49: one flipped byte of a frame: verify says which record, export is refused with it."""

    async def main() -> None:
        async with written(tmp_path) as here:
            whole = (await here.ask("POST", "/provenance/verify", {}))[1]
            assert whole["ok"] is True
            _flip(here, 4)
            told = (await here.ask("POST", "/provenance/verify", {}))[1]
            assert told["ok"] is False
            assert told["first_broken"]["kind"] == "record"
            status, said = await here.ask("GET", "/provenance/export")
            assert (status, said["code"]) == (409, "provenance.broken")
            assert said["where"]["id"] == told["first_broken"]["id"]

    asyncio.run(main())

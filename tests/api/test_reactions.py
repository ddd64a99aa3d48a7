"""Reactions, runs, decisions and triggers over HTTP: what a person asks for and is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.api.reacting import PAGER, reacting

# Fails for good, because it writes beside what it may write.
LOST = """\
reaction: lost
on: [{command: true}]
writes: {files: ["out/**"]}
actions: [{name: w, file.write: {path: "elsewhere.txt", content: "x"}}]
"""


@pytest.mark.clause("F-05")
def test_a_command_runs_what_takes_commands(tmp_path: Path) -> None:
    """08 section 13: 202 with the trigger and the page is there; no target, 409 with a hint."""

    async def main() -> None:
        quiet = PAGER.replace("pager", "quiet").replace(", {command: true}", "")
        async with reacting(tmp_path, pager=PAGER, quiet=quiet) as here:
            told = await here.done("/reactions/pager/run", {"key": "k"})
            assert (told["reaction"], len(told["triggers"])) == ("pager", 1)
            assert (here.folder / "out/page.md").read_text() == "of one"
            status, said = await here.ask("POST", "/reactions/quiet/run", {})
            assert (status, said["code"]) == (409, "reaction.no_command")
            assert "command: true" in said["hint"]
            assert await here.code("POST", "/reactions/nobody/run", {}) == (404, "reaction.unknown")

    asyncio.run(main())


@pytest.mark.clause("F-16")
def test_only_what_is_over_is_retried(tmp_path: Path) -> None:
    """F-16: a failed run is retried as a new attempt; one that is over takes no abort, 409."""

    async def main() -> None:
        async with reacting(tmp_path, lost=LOST) as here:
            await here.done("/reactions/lost/run", {"key": "k"})
            (first,) = (await here.get("/runs"))["items"]
            assert first["state"] == "failed"
            path = f"/runs/{first['run_id']}"
            assert await here.code("POST", f"{path}/abort", {}) == (409, "run.terminal")
            told = await here.done(f"{path}/retry", {"reason": "once more"})
            assert (told["run"], told["verb"]) == (first["run_id"], "retry")
            labels = {row["label"] for row in (await here.get("/runs"))["items"]}
            assert len(labels) == 2
            assert (await here.get("/runs?reaction=pager"))["items"] == []

    asyncio.run(main())


# tidy: one trigger, asked about in every way.
@pytest.mark.clause("F-06", "F-07")
def test_a_trigger_says_why(tmp_path: Path) -> None:
    """D13: why it fired and what became of it, by id and by path; then derived again, the same."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            here.write("in/a.txt", "two")
            await here.scan()
            (ended,) = (await here.get("/triggers?reaction=pager"))["items"]
            assert (await here.get("/triggers?reaction=other"))["items"] == []
            told = await here.get(f"/triggers/{ended['trigger_id']}/explain")
            assert told["reasons"][0]["code"] == "fired"
            assert told["status"] == "run.complete"
            assert all("conflict" not in reason["detail"] for reason in told["reasons"])
            again = await here.get(f"/triggers/{ended['trigger_id']}")
            assert again["same"] is True
            assert [row["outcome"] for row in again["outcomes"]] == ["accepted"]
            assert (await here.get("/decisions?reaction=other"))["items"] == []
            (decided,) = (await here.get("/decisions?reaction=pager"))["items"]
            assert decided["outcome"] == "allow"
            of = await here.get("/triggers/of?path=in/a.txt")
            assert of["reasons"][0]["text"].startswith("pager: ")
            assert (await here.get("/triggers/of?path=in/none"))["status"] == "unseen"
            nothing = await here.code("GET", "/triggers/of")
            assert nothing == (400, "request.bad_query")
            unknown = await here.code("GET", f"/triggers/sha256:{'0' * 64}")
            assert unknown == (404, "trigger.unknown")

    asyncio.run(main())


def test_a_conflict_is_shown_with_what_was_proposed(tmp_path: Path) -> None:
    """S34: somebody edits the page; the next run leaves it, and explains with both texts."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            here.write("in/a.txt", "two")
            await here.scan()
            here.write("out/page.md", "mine")
            await here.scan()
            here.write("in/a.txt", "three")
            await here.scan()
            assert (here.folder / "out/page.md").read_text() == "mine"
            newest = (await here.get("/triggers?reaction=pager"))["items"][0]
            told = await here.get(f"/triggers/{newest['trigger_id']}/explain")
            (shown,) = [
                reason["detail"]["conflict"]
                for reason in told["reasons"]
                if "conflict" in reason["detail"]
            ]
            assert shown["path"] == "out/page.md"
            assert {"-mine", "+of three"} <= set(shown["diff"])

    asyncio.run(main())


def test_every_list_of_reactions_goes_on_behind_its_page(tmp_path: Path) -> None:
    """04 section 10: newest first, each item once; what is behind a page is not lost."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            for word in ("two", "three", "four"):
                here.write("in/a.txt", word)
                await here.scan()
            for path in ("/runs", "/triggers", "/decisions", "/provenance"):
                whole = (await here.get(f"{path}?limit=1000"))["items"]
                assert len(whole) >= 3, path
                pages, after = [], ""
                while True:
                    page = await here.get(f"{path}?limit=2{after}")
                    assert len(page["items"]) <= 2
                    pages += page["items"]
                    if page["next"] is None:
                        break
                    after = f"&after={page['next']}"
                assert pages == whole, path
                assert page["as_of"]
                assert await here.code("GET", f"{path}?after=none") == (400, "list.bad_cursor")

    asyncio.run(main())

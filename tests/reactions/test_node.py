"""Workspaces on a real node: files in, runs out, and what survives a restart (08)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.kernel.inputs import Submit
from tallystick.node.inquiry import basis_of
from tallystick.node.simulated import simulate
from tallystick.reactions import ids
from tallystick.reactions.tree import shown
from tallystick.views import workspaces
from tests.reactions.noded import COPIER, Scene, noded, scene

Run = Callable[[Coroutine[Any, Any, Any]], Any]


# tidy: one story, told whole.
@pytest.mark.clause("F-01", "F-05", "F-11")
def test_an_edit_runs_once_and_a_restart_runs_nothing(tmp_path: Path, run: Run) -> None:
    """S01, W3: one run for one edit; offline edits are one batch at the start; else silence."""

    async def first() -> str:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", copier=COPIER)
            here.write("in/a.txt", "1")
            await here.add()
            assert await here.runs() == [], "the first scan fires nothing"
            here.write("in/b.txt", "2")
            await here.scan()
            assert (here.folder / "out/all.md").read_text() == "2 files\n"
            assert [row["state"] for row in await here.runs()] == ["complete"]
            said = node.metrics.text()
            for word in (
                'tally_reaction_outcomes_total{code="",outcome="accepted",reaction="copier"} 1',
                'tally_reaction_guard_total{guard="queue"} 1',
                "tally_watch_scan_seconds_count",
                "tally_reaction_queue_depth{",
                "tally_reaction_breaker_open{",
                "tally_watch_dirty_paths{",
            ):
                assert word in said
            return here.kept.workspace_id

    async def again(workspace_id: str, runs: int, text: str) -> None:
        async with noded(tmp_path / "data") as node:
            here = Scene(node, node.resolve("w0"), tmp_path / "ws")
            here.kept = node.watching.workspaces.rows[here.world, workspace_id]
            await here.scan()
            assert len(await here.runs()) == runs
            assert (here.folder / "out/all.md").read_text() == text

    workspace_id = run(first())
    run(again(workspace_id, 1, "2 files\n"))
    (tmp_path / "ws/in/c.txt").write_text("3")
    run(again(workspace_id, 2, "3 files\n"))


# tidy: one story, told whole.
@pytest.mark.clause("F-10", "F-21")
def test_rx08_only_the_file_executor_writes_into_a_workspace(tmp_path: Path, run: Run) -> None:
    """RX-08: an audit hook sees every open for writing below the workspace and who did it."""
    seen: list[tuple[str, str]] = []
    root = os.fsencode(str(tmp_path / "ws"))
    on = [True]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not on[0]:
            return
        path, _, flags = args
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        text = os.fsencode(path) if isinstance(path, str | bytes) else b""
        ours = text.startswith(root + b"/") and b"/.tally" not in text
        # The executor opens by directory handle, so its names are relative.
        if ours or text.endswith(b".stage"):
            seen.append((threading.current_thread().name, text.decode("utf-8", "replace")))

    async def act() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", copier=COPIER)
            await here.add()
            await asyncio.to_thread(here.write, "in/b.txt", "2")
            await here.scan()
            assert (here.folder / "out/all.md").exists()

    sys.addaudithook(hook)
    try:
        run(act())
    finally:
        on[0] = False
    writers = {name.rpartition("_")[0] for name, path in seen if "/in/" not in path}
    test_own = [path for _, path in seen if ".reactions" in path or "/in/" in path]
    ours = [(n, p) for n, p in seen if p not in test_own]
    assert ours, "the hook saw the output"
    assert {name.partition("_")[0] for name, _ in ours} == {"tally-file"}, (writers, ours)


# tidy: one story, told whole.
@pytest.mark.clause("F-14")
def test_s37_two_worlds_in_one_directory(tmp_path: Path, run: Run) -> None:
    """S37: unshared it is refused; shared, the other's bytes are foreign and denied cross_world."""
    reader = COPIER.replace("copier", "reader").replace('"in/*.txt"', '"out/*.md"')
    reader = reader.replace("out/**", "seen/**").replace("out/all.md", "seen/all.md")
    reader = reader.replace('[{files: ["out/*.md"]}]', '[{files: ["out/*.md"], generated: true}]')

    async def act() -> None:
        async with noded(tmp_path / "data") as node:
            one = await scene(node, tmp_path / "ws", copier=COPIER, reader=reader)
            two = await scene(node, tmp_path / "ws")
            await one.add(shared=True, trust=False)
            await node.watching.trust(one.kept, ("copier",), "me", follow=None)
            with pytest.raises(TallyError) as caught:
                await two.add()
            assert caught.value.code == "workspace.owned"

    async def shared() -> None:
        async with noded(tmp_path / "a") as a, noded(tmp_path / "b") as b:
            one = await scene(a, tmp_path / "ws2", copier=COPIER, reader=reader)
            two = await scene(b, tmp_path / "ws2")
            await one.add(shared=True, trust=False)
            await two.add(shared=True, trust=False)
            await a.watching.trust(one.kept, ("copier",), "me", follow=None)
            await b.watching.trust(two.kept, ("reader",), "me", follow=None)
            one.write("in/x.txt", "1")
            await one.scan()
            assert (one.folder / "out/all.md").exists()
            await two.scan()
            view = await b.watching.projected.now(two.world)
            causes = [n.value["cause"] for n in view.triggers.values() if n.value["depth"]]
            assert causes == [f"foreign:{one.world}"]
            assert ("reader", "denied", "cross_world") in await two.outcomes()
            assert not (one.folder / "seen/all.md").exists()

    run(act())
    run(shared())


# tidy: one story, told whole.
@pytest.mark.clause("F-23")
def test_rx16_a_head_survives_an_edit_and_turns_stale(tmp_path: Path, run: Run) -> None:
    """RX-16: a head stays when its place changes, is stale then; the same put adds nothing."""

    async def put(here: Scene, text: bytes) -> None:
        value = {
            "locator_id": ids.text(ids.locator_id(here.kept.workspace_id, b"src")),
            "workspace_id": here.kept.workspace_id,
            "path": "src",
            "type": "note",
            "content": text,
            "content_ref": None,
            "basis": await basis_of(here.node, here.kept, b"src"),
            "author": {"kind": "human", "id": "me"},
            "meta": {},
            "depth": 0,
            "lineage": [],
            "root_trigger_id": None,
            "writer": None,
        }
        sample = here.node.clock.sample()
        given = Submit(sample, "sys/FramePut@1", value, lens="native", origin="system")
        await here.node.one(here.world, given)
        await here.quiet()

    async def heads(here: Scene) -> list[tuple[str, int]]:
        rows = await here.node.look(
            here.world, lambda world: workspaces.frame_list(world, None, None)
        )
        return [(row["frame_id"], row["past"]) for row in rows]

    async def act() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws")
            here.write("src/a.py", "1")
            await here.add()
            await put(here, b"first")
            view = await node.watching.projected.now(here.world)
            moved = view.place(here.kept.workspace_id)
            before = await heads(here)
            await put(here, b"first")
            assert await heads(here) == before
            assert len(moved.heads) == 1
            fresh = (await basis_of(node, here.kept, b"src"))["bare_id"]
            here.write("src/a.py", "2")
            await here.scan()
            assert await heads(here) == before
            assert (await basis_of(node, here.kept, b"src"))["bare_id"] != fresh
            await put(here, b"second")
            ((other, past),) = await heads(here)
            assert (other != before[0][0], past) == (True, 2)

    run(act())


@pytest.mark.clause("F-01", "F-23")
def test_s14_s22_with_the_real_hints(tmp_path: Path, run: Run) -> None:
    """S14, S22: 200 nested leaves and a name that ends the library: all is found."""

    async def act() -> None:
        async with noded(tmp_path / "data", watch={"settle_ms": 50, "rescan_s": 2.0}) as node:
            here = await scene(node, tmp_path / "ws")
            await here.add()

            def make() -> None:
                for at in range(200):
                    here.write(f"n{at}/b/c/f", str(at))
                (here.folder / os.fsdecode(b"bad\xff.txt")).write_text("1")

            await asyncio.to_thread(make)
            await here.until(lambda: len(here.lookout.watcher.known) == 1 + 600 + 200 + 1)
            names = [shown(path) for path in here.lookout.watcher.known]
            assert "bad\\xff.txt" in names
            here.write("later.txt", "1")
            await here.until(lambda: b"later.txt" in here.lookout.watcher.known)
            assert here.lookout.fault is None

    run(act())


ACTIONS = """\
reaction: everything
on: [{command: true}]
params: {who: you}
reads: {files: ["in/*.txt"]}
writes: {files: ["out/**"], frames: [note]}
actions:
  - {name: read, file.read: {paths: ["in/a.txt"]}}
  - {name: ask, provider.call: {model: stand-in, prompt: say.md, input: "{{ actions.read.text }}"}}
  - {name: page, file.write: {path: out/page.md, content: "{{ actions.ask.text }}"}}
  - {name: spare, file.write: {path: out/spare.md, content: "{{ params.who }}"}}
  - {name: drop, file.delete: {path: out/spare.md}}
  - {name: note, frame.put: {type: note, content: "done", path: ""}}
  - {name: next, frame.queue: {reaction: other}}
  - {name: tell, telemetry.emit: {name: docs.page, value: 1, attrs: {who: "{{ params.who }}"}}}
  - {name: fetch, look.up: {db: shop, sql: "select 1 as one", args: []}}
"""
OTHER = """\
reaction: other
on: [{command: true}]
writes: {files: ["other/**"]}
actions: [{name: page, file.write: {path: other/page.md, content: "asked by a run"}}]
"""


# tidy: one story, told whole.
@pytest.mark.clause("F-05", "F-21")
def test_rx05_every_action_runs_offline_and_an_adapter_by_configuration(
    tmp_path: Path, run: Run
) -> None:
    """RX-05: read, model, write, delete, frame, queue, telemetry, and an action of the settings."""
    adapters = {"look.up": {"effect": "sys/sql.query@1", "slot": "sql"}}
    sections = {
        "reactions": {"actions": adapters},
        "executors": {"sql": {"dbs": {"shop": {"url": "sqlite:shop.db", "mode": "read"}}}},
    }

    async def act() -> None:
        import sqlite3

        (tmp_path / "data").mkdir()
        sqlite3.connect(tmp_path / "data" / "shop.db").close()
        async with noded(tmp_path / "data", **sections) as node:
            here = await scene(node, tmp_path / "ws", everything=ACTIONS, other=OTHER)
            here.write(".reactions/prompts/say.md", "Say it again:")
            here.write("in/a.txt", "a word")
            await here.add()
            assert here.lookout.loading.findings == ()
            from tallystick.reactions.observation import Request

            told = await here.lookout.command(Request("everything", b"", key="k1"))
            assert len(told) == 1
            await here.quiet()
            await here.scan()
            rows = {row["reaction"]: row for row in await here.runs()}
            shown_ = await node.look(
                here.world, lambda w: workspaces.run_show(w, rows["everything"]["run_id"])
            )
            states = {action["name"]: action["status"] for action in shown_["actions"]}
            assert rows["everything"]["state"] == "complete", (shown_["code"], states)
            assert set(states.values()) == {"ok"}
            assert "a word" in (here.folder / "out/page.md").read_text()
            assert not (here.folder / "out/spare.md").exists()
            assert rows["other"]["state"] == "complete"
            assert (here.folder / "other/page.md").read_text() == "asked by a run"
            staged = await simulate(node, here.kept, "everything", b"in/a.txt")
            assert staged["stages"][-1]["result"].startswith("no trigger")

    run(act())


@pytest.mark.clause("F-20", "F-22")
def test_a_burst_of_saves_is_few_runs_and_the_last_state_wins(tmp_path: Path, run: Run) -> None:
    """F-20: 40 saves in a row: few runs, none of them for its own output, the page is the last."""

    async def act() -> None:
        # A save that comes later than this is another one, also on a slow machine.
        async with noded(tmp_path / "data", watch={"settle_ms": 500, "rescan_s": 2.0}) as node:
            text = COPIER.replace(
                "{{ actions.read.files | length }} files", "{{ actions.read.text }}"
            )
            here = await scene(node, tmp_path / "ws", copier=text)
            here.write("in/a.txt", "0")
            await here.add()
            for at in range(1, 41):
                here.write("in/a.txt", str(at))
                await asyncio.sleep(0.005)
            await here.scan()
            await here.until(lambda: (here.folder / "out/all.md").read_text().strip() == "40")
            count = len(await here.runs())
            assert 1 <= count <= 10
            await here.scan()
            assert len(await here.runs()) == count

    run(act())

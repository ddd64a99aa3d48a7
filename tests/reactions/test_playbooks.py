"""Playbooks that a reaction runs: their tools, their files, and in whose name they write (F-05)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors import playbook as player
from tallystick.model.records import IntentDenied
from tallystick.playbooks.document import load as load_playbook
from tallystick.reactions.document import load
from tallystick.reactions.finding import BadReaction
from tests.reactions.desk import WS, Desk
from tests.reactions.noded import noded, scene
from tests.reactions.scenario import at_desk, planted

Run = Callable[[Coroutine[Any, Any, Any]], Any]

PAGE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: page, path: page}
workload: {who: nobody, out: out/page.md}
workflow:
  - step: read
    tool: {kind: file, action: read, path: a.txt}
    next: {arcs: [{step: write}]}
  - step: write
    tool:
      - name: page
        kind: file
        action: write
        path: "{{ workload.out }}"
        text: "{{ workload.who }} read {{ read.text }}"
"""
OUTER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: outer, path: outer}
workflow:
  - step: inner
    tool: {kind: playbook, hash: "%s", args: {who: the child, out: out/page.md}}
"""


def playing(more: str = "", extra: str = "") -> str:
    return f"""
reaction: player
on: [{{files: ["*.txt"]}}]
writes: {{files: ["out/**"]}}
overlap: managed
cooldown: 0ms
{extra}
actions:
  - {{name: play, playbook.run: {{playbook: page.yaml, workload: {{who: me}}{more}}}}}
"""


OTHER = """
reaction: other
on: [{files: ["out/**"]}]
actions: [{name: t, telemetry.emit: {name: n}}]
"""
PROMPTS = {"page.yaml": load_playbook(PAGE).bytes}


def edited(desk: Desk, text: str = "1") -> None:
    if desk.tree is None:
        desk.write("a.txt", "0")
        desk.begin()
    desk.write("a.txt", text)
    desk.settle_down()


# tidy: one story, told whole.
@pytest.mark.clause("F-05", "F-10", "F-11")
def test_a_playbook_writes_in_the_name_of_its_run(tmp_path: Path) -> None:
    """F-10: each write of a playbook is an intent with the run's stamp; it triggers nothing.

    Control: with a worker that writes by itself the file task is denied and nothing is written.
    """

    def tried(folder: Path) -> None:
        with at_desk(folder, playing(), OTHER, prompts=PROMPTS) as desk:
            edited(desk)
            (run,) = desk.runs("player")
            assert run["outcome"] == "complete", run
            assert desk.read("out/page.md") == "me read 1"
            assert run["outputs"] == [{"path": "out/page.md", "post_id": post_id(desk)}]
            (stamp,) = desk.stamps.by_path(WS, b"out/page.md")
            assert (stamp.run_id, stamp.reaction) == (run["run_id"], "player")
            assert (stamp.state, stamp.depth) == ("committed", 0)
            assert ("ignored", "generated_output") in desk.outcomes("other")
            edited(desk, "2")
            assert desk.read("out/page.md") == "me read 2", "its own bytes may be replaced"
            assert [row["outcome"] for row in desk.runs("player")] == ["complete"] * 2
            (told,) = [row for row in desk.told("Provenance") if row["run_id"] == run["run_id"]]
            assert told["object"]["actions"][0]["outputs"][0][0] == "out/page.md"

    def post_id(desk: Desk) -> str:
        (stamp,) = desk.stamps.by_path(WS, b"out/page.md")
        assert stamp.post_id is not None
        return stamp.post_id

    tried(tmp_path / "w")
    with planted(player, "_by_cell", lambda *_: False), pytest.raises(AssertionError):
        tried(tmp_path / "v")


@pytest.mark.clause("F-05", "F-12")
def test_a_playbook_writes_nowhere_else_than_its_reaction(tmp_path: Path) -> None:
    """F-12: a path outside of `writes` is denied at admission, and nothing is on disk."""
    text = playing().replace("{who: me}", "{who: me, out: elsewhere.md}")
    with at_desk(tmp_path / "w", text, prompts=PROMPTS) as desk:
        edited(desk)
        (run,) = desk.runs("player")
        assert (run["outcome"], run["code"]) == ("failed", "playbook.failed")
        (denied,) = desk.records(IntentDenied)
        assert (denied.effect, denied.code) == ("sys/file.write@1", "cap.exceeded")
        assert desk.read("elsewhere.md") is None


@pytest.mark.clause("F-11")
def test_a_playbook_leaves_a_users_edit_alone(tmp_path: Path) -> None:
    """F-11: bytes that no run wrote stay; the run fails, and the proposal is in the store."""
    with at_desk(tmp_path / "w", playing(), prompts=PROMPTS) as desk:
        edited(desk)
        desk.write("out/page.md", "mine")
        edited(desk, "2")
        assert desk.read("out/page.md") == "mine"
        assert desk.runs("player")[-1]["outcome"] == "failed"


@pytest.mark.clause("F-09")
def test_what_a_playbook_wrote_is_restored_without_playing(tmp_path: Path) -> None:
    """R8: content returns to an older state: the recorded bytes come from the store."""
    with at_desk(tmp_path / "w", playing(), prompts=PROMPTS) as desk:
        edited(desk)
        edited(desk, "2")
        played = len(desk.jobs.of("sys/playbook.step@1"))
        edited(desk, "1")
        assert desk.read("out/page.md") == "me read 1"
        assert desk.runs("player")[-1]["outcome"] == "replayed"
        assert len(desk.jobs.of("sys/playbook.step@1")) == played


@pytest.mark.clause("F-05", "F-10")
def test_a_child_of_a_playbook_has_the_same_stamp(tmp_path: Path) -> None:
    """F-10: a playbook that a playbook calls writes in the name of the same run."""
    inner = load_playbook(PAGE)
    prompts = {"page.yaml": load_playbook(OUTER % inner.hash).bytes, "inner.yaml": inner.bytes}
    first = "  - {name: first, playbook.run: {playbook: inner.yaml, workload: {out: out/x}}}\n"
    text = playing().replace("actions:\n", f"actions:\n{first}")
    with at_desk(tmp_path / "w", text, prompts=prompts) as desk:
        edited(desk)
        (run,) = desk.runs("player")
        assert run["outcome"] == "complete", run
        assert desk.read("out/page.md") == "the child read 1"
        (stamp,) = desk.stamps.by_path(WS, b"out/page.md")
        assert stamp.run_id == run["run_id"]


@pytest.mark.clause("F-05", "F-21")
def test_the_tools_of_a_playbook_are_those_the_file_allows(tmp_path: Path) -> None:
    """D6: `allow` is under the hash, and under the grants of the world: one may not widen them."""
    plain, allowing = playing(), playing(", allow: {python: {}, http: {hosts: [a.example]}}")
    hashes = {load(text, "p", PROMPTS).hash for text in (plain, allowing)}
    assert len(hashes) == 2
    with at_desk(tmp_path / "w", allowing, prompts=PROMPTS) as desk:
        edited(desk)
        (first, *_) = desk.jobs.of("sys/playbook.step@1")
        assert first.granted is not None
        assert first.granted["http"]["hosts"] == ["a.example"]
        assert first.granted["file"]["ops"] == []
        assert sorted(first.granted) == ["file", "http", "python"]
    for more in (", allow: {file: {}}", ", allow: [python]", ", allow: {telepathy: {}}"):
        with pytest.raises(BadReaction) as refused:
            load(playing(more), "p", PROMPTS)
        assert refused.value.findings[0].code == "reaction.bad_value"


TOOLED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: tooled, path: tooled}
workflow:
  - step: think
    tool: {kind: sql, database: app, command: "select 21 * 2 as twice"}
    next: {arcs: [{step: write}]}
  - step: write
    tool: {kind: file, action: write, path: out/n.txt, text: "{{ think.rows[0].twice }}"}
"""
REACTION = """
reaction: tooled
on: [{files: ["in/*"]}]
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - name: play
    playbook.run: {playbook: tooled.yaml, allow: {sql: {databases: [app]}}}
"""


@pytest.mark.clause("F-05")
def test_a_node_runs_a_playbook_with_a_tool(tmp_path: Path, run: Run) -> None:
    """F-05: a YAML playbook beside the reaction, a tool it allows, and a file, on a real node.

    Control: without `allow` the step is denied.
    """

    async def play(folder: Path, text: str) -> tuple[list[Any], Path]:
        databases = {"app": {"url": f"sqlite:{tmp_path / 'app.db'}"}}
        async with noded(folder / "data", executors={"sql": {"dbs": databases}}) as node:
            here = await scene(node, folder / "ws", tooled=text)
            here.write(".reactions/playbooks/tooled.yaml", TOOLED)
            await here.add()
            here.write("in/a", "1")
            await here.scan()
            return await here.runs(), here.folder / "out/n.txt"

    (tmp_path / "app.db").touch()
    rows, made = run(play(tmp_path / "a", REACTION))
    assert [row["state"] for row in rows] == ["complete"], rows
    assert made.read_text() == "42"
    rows, made = run(
        play(tmp_path / "b", REACTION.replace(", allow: {sql: {databases: [app]}}", ""))
    )
    assert [row["state"] for row in rows] == ["failed"]
    assert made.read_text() != "42"


@pytest.mark.clause("F-05")
def test_a_broken_playbook_is_a_finding_of_its_own_file(tmp_path: Path, run: Run) -> None:
    """08 section 2: the checker names file and line; the reaction that runs it is not loaded."""

    async def look() -> list[tuple[str, str]]:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", tooled=REACTION)
            here.write(".reactions/playbooks/tooled.yaml", TOOLED.replace("step: think", "stop: x"))
            await here.add()
            loading = here.lookout.loading
            assert loading.definitions == ()
            return [(name, found.code) for name, found in loading.findings]

    found = run(look())
    assert found[0][0] == ".reactions/playbooks/tooled.yaml"
    assert found[0][1].startswith("P1")
    assert (".reactions/tooled.yaml", "reaction.prompt") in found


KEEPER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: page, path: page}
workload: {who: nobody}
workflow:
  - step: write
    tool:
      - {name: one, kind: file, action: write, path: out/page.md, text: first}
      - {name: two, kind: file, action: write, path: out/page.md, text: "second {{ workload.who }}"}
      - {name: x, kind: file, action: write, path: out/gone.md, text: x}
      - {name: no, kind: file, action: delete, path: out/gone.md}
      - {name: y, kind: file, action: write, path: out/gone.md, text: back}
    next: {arcs: [{step: odd}]}
  - step: odd
    tool: {kind: file, action: append, path: out/page.md, text: x}
"""


@pytest.mark.clause("F-05", "F-11")
def test_a_playbook_replaces_and_deletes_what_it_wrote_itself(tmp_path: Path) -> None:
    """F-11: its own bytes may be replaced, deleted and written again; more than that it cannot."""
    prompts = {"page.yaml": load_playbook(KEEPER).bytes}
    with at_desk(tmp_path / "w", playing(), prompts=prompts) as desk:
        edited(desk)
        assert desk.read("out/page.md") == "second me"
        assert desk.read("out/gone.md") == "back"
        (run,) = desk.runs("player")
        assert (run["outcome"], run["code"]) == ("failed", "playbook.failed")

"""Corners of the cells: what is rare, late, full or refused still ends in a record."""

# tidy: many small corners, side by side.
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.kernel.reach import Marks
from tallystick.model.records import Ticked
from tallystick.node.worlds import marks_of
from tallystick.reactions import cell_workspace, guards, runs
from tallystick.reactions.cell_lane import lane
from tallystick.reactions.cell_run import run
from tallystick.reactions.document import load
from tallystick.reactions.heads import bare_id, head_of
from tallystick.reactions.keys import fingerprint
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import FILE, TreeNode, make
from tallystick.reactions.tree import load as load_tree
from tallystick.values import canon
from tests.reactions.desk import WS, Desk, look
from tests.reactions.scenario import at_desk, planted
from tests.rig import WORLD
from tests.sweeps import keep_only

PLAIN = """
reaction: plain
on: [{files: ["*.txt"]}]
writes: {files: ["out/**"]}
cooldown: 0ms
EXTRA
actions:
  - {name: w, file.write: {path: out/x, content: "{{ trigger.input_digest }}"}}
"""


def plain(extra: str = "") -> str:
    return PLAIN.replace("EXTRA", extra)


def edited(desk: Desk, words: str = "1") -> None:
    if desk.tree is None:
        desk.write("a.txt", "0")
        desk.begin()
    desk.write("a.txt", words)
    desk.observe()


def outcomes(turn: Any) -> list[tuple[str, Any]]:
    return [(s.value["outcome"], s.value["code"]) for s in turn.sent if "Outcome" in s.schema]


@pytest.mark.clause("F-22")
def test_full_queues_and_doors(tmp_path: Path) -> None:
    """Stage 8: a full queue, a disabled and a changed reaction are each told by their code."""
    with planted(cell_workspace, "QUEUE_MAX", 0), at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        assert desk.outcomes()[-1] == ("denied", "queue_full")
        desk.command("disable", "plain")
        edited(desk, "2")
        assert desk.outcomes()[-1] == ("denied", "disabled")
        desk.command("enable", "plain")
        desk.definitions = [load(plain("heal: true"), "p")]
        edited(desk, "3")
        assert desk.outcomes()[-1] == ("denied", "definition_changed")
        assert desk.runs() == []


@pytest.mark.clause("F-22")
def test_what_waited_in_a_lane_dies_with_its_reaction(tmp_path: Path) -> None:
    """S45: a trigger that a cooldown kept is refused after disable, also when enabled again."""
    with at_desk(tmp_path / "w", plain().replace("0ms", "2s")) as desk:
        edited(desk)
        desk.work()
        edited(desk, "2")
        desk.command("disable", "plain")
        desk.command("enable", "plain")
        desk.pass_ms(3_000)
        assert desk.outcomes()[-1] == ("denied", "disabled")
        assert len(desk.runs()) == 1


@pytest.mark.clause("F-22")
def test_a_lane_gives_up_all_that_waits(tmp_path: Path) -> None:
    """Kill switch: pending, deferred and waiting triggers each end with a record."""
    with at_desk(tmp_path / "w", plain("mode: {queue: 9}").replace("0ms", "2s")) as desk:
        edited(desk)
        edited(desk, "2")
        body = desk.lane_body("plain")
        body["waiting"] = [body["pending"]["trigger"]]
        turn = desk.turn()
        lane(turn, body, "Controlled", {"verb": "drop", "principal": "ana"})
        assert outcomes(turn) == [("aborted", "disabled")] * 2
        assert (body["waiting"], body["pending"]) == ([], None)


@pytest.mark.clause("F-22")
def test_a_half_open_breaker_lets_one_pass(tmp_path: Path) -> None:
    """G8: while its probe runs all others are denied; a failed probe opens it again."""
    with at_desk(
        tmp_path / "w", plain("breaker: {runs: 1, window: 1m}\nmode: {parallel: 4}")
    ) as desk:
        edited(desk)
        desk.work()
        edited(desk, "2")
        desk.pass_ms(61_000)
        edited(desk, "3")
        edited(desk, "4")
        denied = [each for each in desk.outcomes() if each == ("denied", "breaker_open")]
        assert len(denied) == 2
        (probe,) = desk.lane_body("plain")["active"]
        body = desk.lane_body("plain")
        told = {"run_key": probe, "outcome": "refused", "tokens": 0, "attempt": 0}
        lane(desk.turn(), body, "Settled", told)
        assert body["breaker"]["probe"] is None
        assert body["active"] == {}
        (tmp_path / "w/out/x").write_text("a person's")
        desk.work()
        assert desk.runs()[-1]["code"] == "conflict"
        assert desk.lane_body("plain")["breaker"]["state"] == "open"


def test_an_unreadable_look_is_no_answer(tmp_path: Path) -> None:
    """R8: if the cell cannot be read the trigger is judged as the first."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body = desk.lane_body("plain")
        row = next(iter(body["active"].values()))
        for tag, more in (("Rejected", {}), ("Receipt", {"status": {"$tag": "denied"}})):
            held = {**body, "active": {}, "looking": {"look:9": row["trigger"]}}
            payload = {"receipt_payload": canon.encode({})}
            turn = desk.turn()
            lane(turn, held, tag, {"issuer_ref": "look:9", **payload, **more})
            assert [sent.schema for sent in turn.sent] == ["sys/Decision@1", "sys/RunRequested@1"]


def test_an_unreadable_receipt_fails_its_action(tmp_path: Path) -> None:
    """K-16: a receipt that cannot be read ends the action, and so the run, with its code."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        (job,) = desk.waiting_jobs()
        run_key = desk.param(job)["stamp"]["run_key"]
        body, turn = desk.run_body(run_key), desk.turn()
        ref = next(iter(body["cursor"]["open"]))
        told = {
            "issuer_ref": ref,
            "error_code": "receipt.schema",
            "error_message": "no",
            "intent_hash": run_key,
        }
        run(turn, body, "Rejected", told)
        assert body["attempts"][0]["code"] == "receipt.schema"
        with pytest.raises(runs.TerminalRunError):
            runs.finish(
                body["attempts"][0], "complete", {"now_ns": 1, "code": None, "result": None}
            )
        run(turn, body, "Rejected", told)
        assert len(body["attempts"][0]["actions"]) == 1


def test_a_run_that_cannot_be_started(tmp_path: Path) -> None:
    """A denied spawn frees its place, and the lane hears of it."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body, turn = desk.workspace(), desk.turn()
        (run_key,) = body["active"]
        payload = canon.encode({"code": "policy.denied", "message": "no"})
        told = {"issuer_ref": run_key, "status": {"$tag": "denied"}, "receipt_payload": payload}
        cell_workspace.workspace(turn, body, "Receipt", told)
        (sent,) = turn.sent
        assert (sent.value["outcome"], sent.value["code"]) == ("failed", "policy.denied")
        cell_workspace.workspace(turn, body, "Rejected", {})
        cell_workspace.workspace(turn, body, "Settled", sent.value)
        assert body["active"] == {}


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("{name: r, file.read: {paths: [secret.md]}}", "scope_violation"),
        ('{name: r, file.read: {paths: ["*.txt"]}}', "fanout_cap"),
        ('{name: p, file.write: {path: out/x, content: "{{ params.big }}"}}', "fanout_cap"),
        ("{name: f, frame.put: {type: secret, content: x}}", "scope_violation"),
    ],
)
@pytest.mark.clause("F-12", "F-22")
def test_actions_beyond_what_is_declared(tmp_path: Path, action: str, code: str) -> None:
    """08 section 10: reads beyond inputs, too many files or bytes, frames of another type."""
    extra = "limits: {files: 1, bytes: 100}\nparams: {big: '" + "x" * 101 + "'}"
    text = plain(extra).rpartition("  - ")[0] + f"  - {action}\n"
    with at_desk(tmp_path / "w", text) as desk:
        desk.write("b.txt", "0")
        edited(desk)
        desk.work()
        assert desk.runs()[-1]["code"] == code


@pytest.mark.clause("F-09")
def test_a_run_without_outputs_is_reused_at_once(tmp_path: Path) -> None:
    """R8: a key that wrote nothing has nothing to look at."""
    text = (
        plain("reads: {files: [a.txt]}").rpartition("  - ")[0]
        + "  - {name: t, telemetry.emit: {name: n}}\n"
    )
    with at_desk(tmp_path / "w", text) as desk:
        edited(desk)
        desk.work()
        desk.write("other.txt", "not read")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("reused", None)
        assert len(desk.jobs.of("sys/telemetry.emit@1")) == 1


@pytest.mark.clause("F-08")
def test_several_lost_outputs_are_restored_together(tmp_path: Path) -> None:
    """R8: each recorded output is looked at, and those that moved are written again."""
    more = "  - {name: v, file.write: {path: out/y, content: second}}\n"
    with at_desk(tmp_path / "w", plain() + more) as desk:
        edited(desk)
        desk.work()
        for name in ("x", "y"):
            (tmp_path / "w/out" / name).unlink()
        desk.settle_down()
        desk.command("retry", "plain", run_key=desk.runs()[0]["run_key"])
        desk.work()
        assert desk.read("out/y") == "second"
        (first, second) = desk.run_body(desk.runs()[0]["run_key"])["attempts"]
        assert len(second["actions"]) == 2
        desk.command("retry", "plain", run_key=desk.runs()[0]["run_key"])
        desk.work()
        assert len(desk.runs()) == 2
        assert first["kind"] == "run"


@pytest.mark.clause("F-23")
def test_frames_with_too_much_meta_are_refused(tmp_path: Path) -> None:
    """08 section 5: 16 KiB per key; the head does not move."""
    with at_desk(tmp_path / "w", plain()) as desk:
        desk.begin()
        desk.put_frame("", "plan", b"x", meta={"big": "x" * 20_000})
        assert desk.outcomes()[-1] == ("denied", "frame_meta")
        assert desk.told("FrameHeadChanged") == []
        desk.put_frame("", "plan", b"x", meta=None)
        desk.put_frame("", "plan", b"x", meta=None)
        assert len(desk.told("FrameHeadChanged")) == 1


@pytest.mark.clause("F-11")
def test_a_reactions_own_frame_starts_it_not(tmp_path: Path) -> None:
    """G2 for frames: who put the frame does not react to it; places without a target neither."""
    text = """
reaction: own
target: {kind: directory, match: "src/*"}
on: [{frame: {type: note}}, {files: ["./a"]}]
writes: {frames: [note]}
actions: [{name: p, frame.put: {type: note, content: "{{ trigger.input_digest }}"}}]
"""
    with at_desk(tmp_path / "w", text) as desk:
        desk.write("src/x/a", "0")
        desk.begin()
        desk.write("src/x/a", "1")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("self_suppressed", None)
        ran = len(desk.runs())
        desk.put_frame("elsewhere", "note", b"x")
        desk.settle_down()
        assert len(desk.runs()) == ran == 1


def test_many_changes_are_one_blob(tmp_path: Path) -> None:
    """08 section 6: over 256 changes the envelope names a blob that holds them all."""
    with at_desk(tmp_path / "w", plain("fingerprint: delta")) as desk:
        desk.begin()
        for i in range(300):
            desk.write(f"{i}.txt", "x")
        desk.observe()
        (offered,) = desk.told("TriggerOffered")
        assert len(offered["changes"]) == 256
        held = canon.decode(desk.blob(offered["changes_ref"]) or b"")
        assert len(held["changes"]) == 300


def test_fingerprints_by_delta_and_command() -> None:
    """R6: a delta is its changes, a command its name, arguments and key, a state its inputs."""
    change = {"path": "a", "change": "modified", "before": None, "after": None}
    base: dict[str, Any] = {"kind": "fs.changed", "command": None, "changes_ref": None}
    base |= {"target": {"target_id": "t"}, "input_digest": "d"}
    asked = {**base, "kind": "command", "command": {"name": "run", "args": {}, "key": "k"}}
    again = {**asked, "command": {"name": "run", "args": {}, "key": "other"}}
    found = [
        fingerprint("state", base),
        fingerprint("state", asked),
        fingerprint("delta", base, [change]),
        fingerprint("delta", base, [{**change, "path": "b"}]),
        fingerprint("command", asked),
        fingerprint("command", again),
    ]
    assert len(set(found)) == len(found)
    assert fingerprint("command", base) == fingerprint("state", base)


def test_heads_of_odd_content() -> None:
    """P4: text is inline up to 64 KiB and only if it is text; a place that is gone has no id."""
    told = {"path": "x", "type": "t", "frame_id": "f", "content_id": "c", "meta": {}}
    told["basis"] = {"bare_id": None}
    for content in (None, b"\xff", b"x" * 70_000):
        assert head_of(told, content).facts("b")["content"] is None
    tree = make({b"x": TreeNode(FILE, bytes(32), 1)})
    assert bare_id(tree, b"gone", WS, Stamps()) is None
    assert bare_id(tree, b"x", WS, Stamps()) == canon.text_of(bytes(32))


def test_forgotten_stamps_explain_nothing(tmp_path: Path) -> None:
    """`stamp forget`: the path has no writer any more, in either index."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        desk.work()
        (stamp,) = desk.fold().entries()
        assert stamp.post_id is not None
        assert desk.stamps.by_content(stamp.post_id)
        desk.adopt("out/x", "forget")
        assert desk.fold().entries() == []
        assert desk.stamps.by_content(stamp.post_id) == ()
        assert not guards.is_self(desk.definitions[0], (WS, b"out/x"), stamp.post_id, desk.stamps)


# tidy: one history from the first look to the run after the sweep.
@pytest.mark.clause("F-23", "F-09")
def test_collecting_garbage_keeps_what_reactions_need(tmp_path: Path) -> None:
    """GC: after a snapshot and a sweep the tree is read back, and what waited still runs."""
    waiting = plain("policy: {profile: careful}\nreads: {files: ['**']}").replace(
        '"*.txt"', '"**/*.txt"'
    )
    with at_desk(tmp_path / "w", waiting, replays=False) as desk:
        desk.write("deep/down/b.txt", "0")
        edited(desk)
        desk.work()
        desk.write("deep/down/b.txt", "2")
        desk.observe(flags=("startup",))
        assert desk.outcomes()[-1] == ("deferred", "unsettled")
        for _ in range(3):
            desk.driver.snapshot()
            desk.driver.flush()
            desk.pass_ms(1)
        before = len(list(desk.journal.blobs(WORLD)))
        keep_only(desk.journal, WORLD, marks_of(desk.journal, desk.world))
        after = len(list(desk.journal.blobs(WORLD)))
        assert after <= before
        root = desk.workspace()["tree"]["blob"]
        tree = load_tree(canon.raw_of(root), desk.driver.blobs.get)
        assert tree[b"deep/down/b.txt"].id == look(tmp_path / "w")[b"deep/down/b.txt"].id
        # The state alone, without the tick that made the blobs, leads to every directory.
        last = [r for r in desk.records(Ticked) if r.workflow == "sys/workspace@1"][-1]
        marks = Marks(desk.driver.blobs, desk.world.catalogue)
        marks.manifest(desk.world.manifest)
        marks.record(last._replace(blobs=None))
        for path in (b"", b"deep", b"deep/down"):
            assert tree[path].id in marks.kept, path
        desk.pass_ms(31_000)
        desk.work()
        assert desk.runs()[-1]["outcome"] == "complete"

"""Rarer corners of reactions: what comes late, twice or broken, and what nothing is said about."""

# tidy: one corner after the other.
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BadDefinition, JournalCorrupt
from tallystick.model.records import IntentOpened, ReceiptSettled
from tallystick.reactions import actions, cell_workspace, ids, rows
from tallystick.reactions.bundle import reacting, reaction_bundle
from tallystick.reactions.cell_answers import outcome_of
from tallystick.reactions.cell_lane import MOVED_MAX, lane
from tallystick.reactions.cell_run import run
from tallystick.reactions.cell_workspace import workspace
from tallystick.reactions.check import check, edges
from tallystick.reactions.document import load
from tallystick.reactions.finding import BadReaction
from tallystick.reactions.grants import caps_of, child_caps
from tallystick.reactions.heads import bare_id
from tallystick.reactions.listed import Manifest
from tallystick.reactions.observation import Earlier
from tallystick.reactions.stamps import Stamp, Stamps
from tallystick.reactions.tree import DIRECTORY, FILE, TreeNode, entries_of, make, with_changes
from tallystick.values import canon
from tests.reactions.desk import WS, Desk, look
from tests.reactions.scenario import at_desk, planted
from tests.reactions.test_corners import edited, outcomes, plain
from tests.reactions.test_rows import pushed, turn_of


def settled(run_key: str, outcome: str, **more: Any) -> dict[str, Any]:
    """The word of a run's end, as a lane hears it."""
    return {"run_key": run_key, "outcome": outcome, "tokens": 0, "attempt": 1, "code": None, **more}


# ---- lanes ------------------------------------------------------------------------------------


def test_a_look_that_finds_a_running_attempt_joins_it(tmp_path: Path) -> None:
    """R8: the cell of the key is at work already: the trigger is attached to it."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body = desk.lane_body("plain")
        ((run_key, row),) = body["active"].items()
        state = canon.encode({"body": desk.run_body(run_key)})
        held = {**body, "active": {}, "looking": {"look:9": row["trigger"]}}
        turn = desk.turn()
        payload = canon.encode({"found": True, "state": state})
        told = {"issuer_ref": "look:9", "status": {"$tag": "ok"}, "receipt_payload": payload}
        lane(turn, held, "Receipt", told)
        assert outcomes(turn) == [("attached", None)]
        lane(turn, held, "Rejected", {"issuer_ref": "look:9"})
        assert outcomes(turn) == [("attached", None)], "an answer to nothing changes nothing"


def test_an_input_that_never_rests_is_given_up(tmp_path: Path) -> None:
    """I33: what moved is tried again, later and later, while others run, and not for ever."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body = desk.lane_body("plain")
        (run_key,) = body["active"]
        moved = settled(run_key, "aborted", code="input_moved")
        turn = desk.turn()
        lane(turn, body, "Settled", {**moved, "attempt": 2})
        held = body["moved"]
        body["active"][run_key] = {"trigger": held["trigger"], "decision_id": None, "counted": True}
        told = {"issuer_ref": held["ref"], "status": {"$tag": "ok"}, "receipt_payload": b""}
        lane(turn, body, "Receipt", told)
        assert body["moved"]["attempt"] == 3, "while another run is active it waits once more"
        lane(turn, body, "Settled", {**moved, "attempt": MOVED_MAX + 1})
        assert body["moved"]["attempt"] == 3, "no further try is set"


def test_a_refusal_of_a_run_that_the_lane_does_not_know(tmp_path: Path) -> None:
    """G8: what was never counted is not taken off the count."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body = desk.lane_body("plain")
        before = list(body["starts"])
        lane(desk.turn(), body, "Settled", settled("sha256:none", "refused"))
        assert body["starts"] == before != []


# ---- runs -------------------------------------------------------------------------------------


MANY = """
reaction: many
on: [{files: ["*.txt"]}]
reads: {files: ["*.txt"]}
cooldown: 0ms
actions:
  - {name: r, file.read: {paths: ["*.txt"]}}
"""


def reading(desk: Desk) -> tuple[dict[str, Any], list[str]]:
    """A run that waits for three files, and what it waits for."""
    for name in ("a.txt", "b.txt", "c.txt"):
        desk.write(name, "0")
    desk.begin()
    desk.write("a.txt", "1")
    desk.observe()
    (run_key,) = desk.workspace()["active"]
    body = desk.run_body(run_key)
    return body, list(body["cursor"]["open"])


def test_one_unreadable_answer_of_many_waits_for_the_rest(tmp_path: Path) -> None:
    """K-16: the action fails once all its answers are there, with the first that failed."""
    with at_desk(tmp_path / "w", MANY, replays=False) as desk:
        body, refs = reading(desk)
        bad = {"error_code": "receipt.schema", "error_message": "no", "intent_hash": "i"}
        turn = desk.turn()
        run(turn, body, "Rejected", {"issuer_ref": refs[0], **bad})
        assert body["attempts"][0]["state"] == "running"
        for ref in refs[1:]:
            run(turn, body, "Rejected", {"issuer_ref": ref, **bad})
        assert (body["attempts"][0]["state"], body["cursor"]) == ("failed", None)
        assert body["attempts"][0]["code"] == "receipt.schema"


def test_words_to_a_run_that_has_ended(tmp_path: Path) -> None:
    """G7: an abort, an end that nobody waits for and a retry of a running one change nothing."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        (run_key,) = desk.workspace()["active"]
        told = {"run_key": run_key, "reason": "complete", "principal": "act:1.0.0"}
        running = desk.run_body(run_key)
        turn = desk.turn()
        run(turn, running, "Controlled", {**told, "verb": "retry"})
        assert len(running["attempts"]) == 1
        desk.work()
        ended = desk.run_body(run_key)
        before = canon.encode(ended)
        for verb in ("abort", "ended"):
            run(turn, ended, "Controlled", {**told, "verb": verb})
        assert canon.encode(ended) == before
        assert turn.sent == []


def test_a_reaction_that_was_asked_and_failed_fails_who_asked(tmp_path: Path) -> None:
    """08 section 10: frame.generate ends with the outcome of what it asked for."""
    asking = plain().rpartition("  - ")[0] + "  - {name: g, frame.generate: {reaction: other}}\n"
    other = (
        "reaction: other\non: [{command: true}]\nwrites: {files: ['out/**']}\n"
        "actions: [{name: w, file.write: {path: elsewhere, content: x}}]\n"
    )
    with at_desk(tmp_path / "w", asking, other) as desk:
        edited(desk)
        desk.settle_down()
        ended = {row["reaction"]: (row["outcome"], row["code"]) for row in desk.runs()}
        assert ended == {
            "other": ("failed", "scope_violation"),
            "plain": ("failed", "frame.generate"),
        }


def test_long_bytes_of_an_answer_are_named_not_shown(tmp_path: Path) -> None:
    """R9: bytes over the bound, or that are no text, are kept by reference alone."""
    with at_desk(tmp_path / "w", plain()) as desk:
        given = {"status": {"$tag": "ok"}, "effect": "t/other@1", "intent_hash": "i"}
        for data in (b"x" * (actions.INLINE_MAX + 1), b"\xff"):
            payload = canon.encode({"rows": [{"body": data}]})
            made = outcome_of(desk.turn(), {**given, "receipt_payload": payload})
            (row,) = made["payload"]["rows"]
            assert (row["body"]["text"], row["body"]["size"]) == (None, len(data))


# ---- workspaces -------------------------------------------------------------------------------


def test_a_run_that_is_active_is_not_queued_again(tmp_path: Path) -> None:
    """R8: a second request for an active key is attached, not started."""
    with at_desk(tmp_path / "w", plain()) as desk:
        edited(desk)
        body, turn = desk.workspace(), desk.turn()
        ((run_key, row),) = body["active"].items()
        asked = {"run_key": run_key, "kind": "run", "decision_id": None}
        workspace(turn, body, "Requested", {**asked, "trigger": turn.read(row["trigger"])})
        assert outcomes(turn) == [("attached", None)]
        assert body["queued"] == 0


def test_counts_of_old_causes_are_forgotten(tmp_path: Path) -> None:
    """G5: the number of roots that are counted is bounded; the oldest goes first."""
    with planted(cell_workspace, "CAUSES_MAX", 2), at_desk(tmp_path / "w", plain()) as desk:
        body: dict[str, Any] = {"causes": {}}
        for root in ("a", "b", "c", "b"):
            cell_workspace._count_cause(body, root)
        assert body["causes"] == {"c": 2, "b": 3}
        assert desk.workspace()["causes"] == {}


def test_disabling_one_reaction_leaves_the_others_at_work(tmp_path: Path) -> None:
    """S45: only its own runs are told to stop; a queued run can be taken out by its key."""
    two = plain().replace("reaction: plain", "reaction: other").replace("out/", "else/")
    with (
        planted(cell_workspace, "ACTIVE_MAX", 1),
        at_desk(tmp_path / "w", plain(), two) as desk,
    ):
        edited(desk)
        body, turn = desk.workspace(), desk.turn()
        (active,) = body["active"].values()
        (waiting,) = body["turns"]
        assert {active["reaction"], waiting} == {"plain", "other"}
        told = {"run_key": None, "target_id": None, "principal": "ana"}
        (held,) = rows.every(turn, body["queue"][waiting])
        queued = turn.read(held)["run_key"]
        workspace(
            turn, body, "Commanded", {**told, "verb": "abort", "reaction": "", "run_key": queued}
        )
        assert (body["queue"], body["turns"], body["queued"]) == ({}, [], 0)
        assert outcomes(turn) == [("aborted", "aborted")]
        workspace(turn, body, "Commanded", {**told, "verb": "disable", "reaction": waiting})
        assert [sent.schema for sent in turn.sent if "Control" in sent.schema] == []


# ---- definitions ------------------------------------------------------------------------------


def reacts(name: str, reads: str, writes: str, more: str = "") -> str:
    return (
        f"reaction: {name}\non: [{{files: [{reads}], generated: true}}]\n"
        f"writes: {{files: [{writes}]}}\n{more}"
        "actions: [{name: w, telemetry.emit: {name: n}}]\n"
    )


def test_reactions_that_do_not_meet_start_nobody() -> None:
    """08 section 3: of several globs the one that meets is the witness; without one, no edge."""
    made = [
        load(reacts("a", "'x/**', 'in/**'", "'mid/**'"), "a"),
        load(reacts("b", "'y/**', 'mid/**'", "'end/**'"), "b"),
        load(reacts("c", "'z/**'", "'last/**'"), "c"),
    ]
    assert [(edge.writer, edge.reader) for edge in edges(made)] == [("a", "b")]
    assert [f for f in check(made) if f.code == "reaction.activation_cycle"] == []


def test_a_circle_beside_the_way_is_not_walked_twice() -> None:
    """08 section 3: a way back is looked for over reactions that lead to each other."""
    made = [
        load(reacts("start", "'s/**'", "'m/**'"), "start"),
        load(reacts("one", "'m/**', 't/**'", "'o/**'"), "one"),
        load(reacts("two", "'o/**'", "'t/**'"), "two"),
    ]
    found = [f for f in check(made) if f.code == "reaction.activation_cycle"]
    assert [f.path for f in found] == ["one"]


@pytest.mark.parametrize(
    ("written", "permille"),
    [("700", 700), ("5000", 1000), ("'high'", None), ("1 // 0", None)],
)
def test_how_sure_a_policy_is(tmp_path: Path, written: str, permille: int | None) -> None:
    """P1: a whole number from 0 to 1000; anything else, or a fault, says nothing."""
    extra = f'policy: {{confidence: "{{{{ {written} }}}}"}}'
    with at_desk(tmp_path / "w", plain(extra)) as desk:
        edited(desk)
        (made,) = desk.told("Decision")
        assert made["confidence_permille"] == permille


def test_playbooks_of_one_run_are_allowed_the_same() -> None:
    """08 section 10: a run holds one grant for each kind of tool."""
    allow = "playbook.run: {playbook: p.yaml, workload: {}, allow: {sql: {databases: [%s]}}}"
    text = plain().rpartition("  - ")[0]
    text += "".join(f"  - {{name: {n}, {allow % n}}}\n" for n in ("one", "two"))
    with pytest.raises(BadReaction) as raised:
        load(text, "r", {"p.yaml": b"x"})
    assert [f.code for f in raised.value.findings] == ["reaction.bad_value"]


def test_grants_are_no_wider_than_what_is_declared() -> None:
    """F-12: a playbook of a run without files gets none; a chosen model is the world's affair."""
    quiet = plain().rpartition("  - ")[0].replace('writes: {files: ["out/**"]}', "")
    quiet = quiet.replace('{files: ["*.txt"]}', "{command: true}")
    quiet += "  - {name: t, telemetry.emit: {name: n}}\n"
    nothing = load(quiet, "nothing")
    assert {"read", "write", "tool.file"}.isdisjoint(child_caps(nothing, {}))
    reads = load(quiet + "reads: {files: ['in/**']}\n", "reads")
    assert "read" in child_caps(reads, {})
    assert "write" not in child_caps(reads, {})
    call = "{name: m, provider.call: {model: '%s', prompt: p.md}}"
    models = []
    for model in ("small", "{{ params.model }}"):
        text = plain("params: {model: small}").rpartition("  - ")[0] + f"  - {call % model}\n"
        caps = caps_of(load(text, "m", {"p.md": b"hello"}), WS, b"")
        models.append([each for each in str(caps).split("'") if each == "small"])
    assert models == [["small"], []]


def test_a_world_reacts_once() -> None:
    """08 section 13: a bundle that reacts already cannot be made to react a second time."""
    with pytest.raises(BadDefinition):
        reacting(reaction_bundle())


# ---- trees, stamps, lists ---------------------------------------------------------------------


def stamp(path: bytes, post_id: str | None, workspace_id: str = WS) -> Stamp:
    return Stamp(workspace_id, path, post_id, "r", "run", "key", "def", 0, "root", ())


def test_a_directory_where_an_output_stood_is_not_it() -> None:
    """P4: the bare tree leaves out outputs, and a directory of the same name is none."""
    stamps = Stamps()
    stamps.add(stamp(b"out/x", ids.text(bytes(32))))
    stamps.add(stamp(b"out/y", ids.text(bytes(32)), "elsewhere"))
    tree = make({b"out/x/deep": TreeNode(FILE, bytes(32), 1)})
    assert bare_id(tree, b"out", WS, stamps) == ids.text(tree[b"out"].id or b"")
    assert list(stamps.paths(WS)) == [b"out/x"]


def opened(effect: str, params: bytes | None, intent: bytes = b"i" * 32) -> IntentOpened:
    blank: dict[str, Any] = dict.fromkeys(IntentOpened._fields)
    return IntentOpened(**{**blank, "effect": effect, "intent": intent, "params": params})


def receipt(intent: bytes, status: str) -> ReceiptSettled:
    blank: dict[str, Any] = dict.fromkeys(ReceiptSettled._fields)
    return ReceiptSettled(**{**blank, "intent": intent, "status": status})


def test_writes_that_stamp_nothing_and_answers_without_words() -> None:
    """I29: a write without a stamp leaves none; an error without words keeps it, a denial not."""
    stamps = Stamps()
    told: dict[str, Any] = {
        "path": "a", "post_id": ids.text(bytes(32)), "reaction": "r", "run_id": "run",
        "run_key": "key", "definition_hash": "d", "depth": 0, "root_trigger_id": "t", "lineage": [],
    }  # fmt: skip
    bare = canon.encode({"workspace": WS, "stamp": None})
    stamps.note(opened("sys/file.write@1", bare), lambda _: None)
    assert stamps.entries() == []
    params = canon.encode({"workspace": WS, "stamp": told})
    other = canon.encode({"workspace": WS, "stamp": {**told, "path": "b"}})
    blobs = {b"h": params}
    one, two = b"1" * 32, b"2" * 32
    by_hash = opened("sys/file.write@1", None, one)._replace(params_hash=b"h")
    stamps.note(by_hash, blobs.get)
    stamps.note(opened("sys/file.write@1", other, two), blobs.get)
    stamps.note(receipt(one, "error"), blobs.get)
    assert len(stamps.entries()) == 2
    stamps.moved({"workspace_id": WS, "path": "b", "verb": "forget"})
    assert stamps.by_content(told["post_id"]), "the other path has the same bytes"
    stamps.note(receipt(two, "denied"), blobs.get)
    assert [each.path for each in stamps.entries()] == [b"a"]


def test_odd_changes_of_a_tree() -> None:
    """R1: the root is what its entries say; a directory that fell with the one above it is gone."""
    before = make({b"a/b/x": TreeNode(FILE, bytes(32), 1), b"c": TreeNode(FILE, bytes(32), 1)})
    gone = {b"a/b/x": None, b"a/b": None, b"a": None}
    assert sorted(with_changes(before, gone)) == [b"", b"c"]
    assert with_changes(before, {b"": TreeNode(DIRECTORY, None)}) == before
    data = canon.encode({"$type": "other@1"})
    with pytest.raises(JournalCorrupt) as raised:
        entries_of(canon.digest_of(data), data)
    assert raised.value.code == "reaction.tree_damaged"


def test_a_manifest_is_a_mapping_of_its_fields() -> None:
    """R5: it has the names and the number of its fields, without reading a page."""
    body = {"$type": "manifest@1", "files": ["sha256:x"], "outputs": []}
    pages: dict[str, bytes] = {}
    made = Manifest(canon.encode(body), pages.__getitem__)
    assert (sorted(made), len(made)) == (sorted(body), 3)


def test_answers_of_earlier_looks_are_bounded() -> None:
    """P3: the oldest question goes when there are too many."""
    earlier = Earlier()
    known: Any = object()
    for n in range(Earlier.MAX + 1):
        earlier.keep(n, known)
    assert (earlier.of(0), earlier.of(1), earlier.of(Earlier.MAX)) == (None, known, known)


def test_rows_over_books() -> None:
    """F-22: a list that is longer than a book comes out in order, and is read from the middle."""
    turn = turn_of({})
    made = pushed(turn, range(2_500), upto=True)
    assert rows.since(turn, made, 1_000)[-1_500:] == list(range(1_000, 2_500))
    assert [rows.pop(turn, made) for _ in range(2_500)] == list(range(2_500))


# ---- observations -----------------------------------------------------------------------------


def test_what_is_switched_off_sees_nothing(tmp_path: Path) -> None:
    """08 section 2: `enabled: false` in the definition: no trigger, no outcome."""
    with at_desk(tmp_path / "w", plain("enabled: false")) as desk:
        edited(desk)
        assert desk.told("TriggerOffered") == []


def test_a_file_that_is_gone_is_still_a_target(tmp_path: Path) -> None:
    """P4: the deletion of a file-target is told with a node that has no kind."""
    text = """
reaction: each
target: {kind: file, match: "*.txt"}
on: [{files: ["*.txt"], changes: [removed]}]
cooldown: 0ms
actions: [{name: t, telemetry.emit: {name: n}}]
"""
    with at_desk(tmp_path / "w", text) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.observe()
        assert desk.told("TriggerOffered") == [], "only deletions are watched"
        (tmp_path / "w/a.txt").unlink()
        desk.observe()
        (offered,) = desk.told("TriggerOffered")
        manifest = canon.decode(desk.blob(offered["inputs"]) or b"")
        assert (manifest["node"]["kind"], manifest["node"]["path"]) == (None, "a.txt")


def test_healing_is_for_outputs_of_that_target(tmp_path: Path) -> None:
    """S42: a deleted file that the reaction did not write for this target heals nothing."""
    text = """
reaction: pages
target: {kind: directory, match: "src/*"}
on: [{files: ["./*.txt"]}]
writes: {files: ["./out.md"]}
heal: true
cooldown: 0ms
actions: [{name: w, file.write: {path: "{{ target.path }}/out.md", content: x}}]
"""
    with at_desk(tmp_path / "w", text) as desk:
        for name in ("a", "b"):
            desk.write(f"src/{name}/in.txt", "0")
        desk.write("other.md", "mine")
        desk.begin()
        for name in ("a", "b"):
            desk.write(f"src/{name}/in.txt", "1")
        desk.settle_down()
        ran = len(desk.runs())
        (tmp_path / "w/other.md").unlink()
        desk.settle_down()
        assert len(desk.runs()) == ran
        (tmp_path / "w/src/a/out.md").unlink()
        desk.settle_down()
        assert [run["outcome"] for run in desk.runs()[ran:]] == ["replayed"]
        assert look(tmp_path / "w")[b"src/a/out.md"].kind == FILE
